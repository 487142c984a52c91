use serde_json::json;

use super::*;
use crate::encoded::{Encoded, Style};

const NODE: IndexedField = IndexedField { path: "spec.nodeName" };

fn on(node: &str) -> FieldValue {
    FieldValue { field: NODE, value: node.into() }
}

async fn put(storage: &MemoryStorage, key: &str, body: Bytes) -> Revision {
    let key = format!("{PODS}ns/{key}");
    let expect = match storage.get(&key, None).await.unwrap().1 {
        Some(value) => Expect::Unchanged(value.modified),
        None => Expect::Absent,
    };
    storage.commit(&key, expect, Change::Put(body)).await.unwrap().revision
}

fn pod(node: &str) -> Bytes {
    Encoded::new(&json!({"metadata": {"name": "a"}, "spec": {"nodeName": node}}), Style::BuiltIn).storage_bytes()
}

async fn keys(cache: &Cache, node: &str) -> Option<Vec<String>> {
    let found = cache.keys_with(PODS, PODS, &on(node), 10).await.unwrap()?;
    Some(found.keys.iter().map(|key| key.strip_prefix("/registry/pods/ns/").unwrap().to_owned()).collect())
}

#[tokio::test]
async fn keys_are_found_by_value_namespace_and_number() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    for (key, node) in [("b", "n1"), ("a", "n1"), ("c", "n2"), ("d", "")] {
        put(&storage, key, pod(node)).await;
    }
    assert_eq!(keys(&cache, "n1").await.unwrap(), ["a", "b"]);
    put(&storage, "d", pod("n1")).await;
    put(&storage, "a", pod("n2")).await;
    assert_eq!(keys(&cache, "n1").await.unwrap(), ["b", "d"]);
    assert_eq!(keys(&cache, "n2").await.unwrap(), ["a", "c"]);
    let below = async |topic: &str, limit| cache.keys_with(PODS, topic, &on("n1"), limit).await.unwrap();
    assert_eq!(below("/registry/pods/other/", 10).await.unwrap().keys, []);
    assert_eq!(below("/registry/pods/ns/", 2).await.unwrap().revision, storage.revision().await.unwrap());
    assert_eq!(below("/registry/pods/ns/", 1).await, None, "more than the limit");
}

#[tokio::test]
async fn changes_during_the_build_are_applied_after_it() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    put(&storage, "a", pod("n1")).await;
    put(&storage, "b", pod("n1")).await;
    let _subscription = cache.subscribe("", Revision(1)).await.unwrap();
    let unfinished = cache.shared.begin_index(PODS, NODE).unwrap();
    let old = storage.range(RangeQuery::prefix(PODS)).await.unwrap();
    put(&storage, "b", pod("n2")).await;
    cache.wait_for_revision(put(&storage, "c", pod("n1")).await).await.unwrap();
    let keys_then = old.values.iter().map(|value| (Arc::clone(&value.key), NODE.read(&value.body).unwrap()));
    assert!(unfinished.finish(keys_then.collect(), old.revision));
    assert_eq!(
        (keys(&cache, "n1").await.unwrap(), keys(&cache, "n2").await.unwrap()),
        (vec!["a".into(), "c".into()], vec!["b".into()])
    );
}

#[tokio::test]
async fn abandoned_build_leaves_no_index() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let _subscription = cache.subscribe("", Revision(1)).await.unwrap();
    drop(cache.shared.begin_index(PODS, NODE));
    assert!(cache.shared.fan_out.lock().indexes.is_empty(), "it would record changes forever");
}

#[tokio::test]
async fn damaged_object_reaches_every_watch_and_removes_the_index() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    put(&storage, "a", pod("n1")).await;
    assert_eq!(keys(&cache, "n1").await.unwrap(), ["a"]);
    let now = storage.revision().await.unwrap();
    let mut subscription = cache.subscribe_to(PODS, Some(on("n2")), now).await.unwrap();
    let damaged = put(&storage, "b", Bytes::from_static(b"{}")).await;
    assert_eq!(next(&mut subscription).await.event.revision, damaged);
    assert_eq!(keys(&cache, "n1").await, None);
    cache.wait_for_revision(put(&storage, "b", pod("n1")).await).await.unwrap();
    assert_eq!(keys(&cache, "n1").await.unwrap(), ["a", "b"], "the index is built again");
}

#[tokio::test]
async fn subscriptions_by_value_are_exact_and_unregistered() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let before = put(&storage, "a", pod("")).await;
    let mut first = cache.subscribe_to(PODS, Some(on("n1")), before).await.unwrap();
    let mut second = cache.subscribe_to(PODS, Some(on("n2")), before).await.unwrap();
    let bound = put(&storage, "a", pod("n1")).await;
    let moved = put(&storage, "a", pod("n2")).await;
    cache.wait_for_revision(moved).await.unwrap();
    assert_eq!((next(&mut first).await.event.revision, next(&mut first).await.event.revision), (bound, moved));
    assert_eq!(next(&mut second).await.event.revision, moved);
    assert!(first.take().is_none() && second.take().is_none());
    let other = put(&storage, "b", pod("n3")).await;
    cache.wait_for_revision(other).await.unwrap();
    assert_eq!((first.progress(), second.progress()), (other, other), "bookmarks advance without events");
    let mut replayed = cache.subscribe_to(PODS, Some(on("n1")), before).await.unwrap();
    assert_eq!((next(&mut replayed).await.event.revision, next(&mut replayed).await.event.revision), (bound, moved));
    drop((first, second, replayed));
    assert!(cache.shared.fan_out.lock().topics.is_empty());
}
