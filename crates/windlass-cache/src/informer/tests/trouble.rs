//! What goes wrong, is told clearly, and does not stop the informer.

use windlass_api::{BoxError, EventType};

use super::*;
use crate::Transform;

type Errors = Arc<Mutex<Vec<String>>>;

fn troubled(fake: &FakeListWatch, options: InformerOptions) -> (Maps, Errors) {
    let errors = Errors::default();
    let log = Arc::clone(&errors);
    let hook = move |error: &InformerError| log.lock().push(format!("{error}: {}", crate::causes(error)));
    let options = options.entropy(Entropy::seeded(1)).on_error(hook);
    (Maps::new(Arc::new(fake.clone()), options), errors)
}

/// Fails on objects with `data.bad`.
fn picky() -> Transform {
    Transform::on_json(|object| match object.pointer("/data/bad") {
        Some(why) => Err(BoxError::from(format!("bad: {why}"))),
        None => Ok(()),
    })
}

#[tokio::test(start_paused = true)]
async fn a_transform_changes_what_handlers_and_readers_see() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let (informer, errors) = troubled(&fake, InformerOptions::default().transform(Transform::without(["/data"])));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let _registration = informer.add_handler(move |news: Notification<ConfigMap>| {
        log.lock().push(news.object().get().unwrap().data.clone());
    });
    let run = Run::synced(&informer).await;
    fake.apply(&map("a"));
    fake.delete(&key("a"));
    settle().await;
    assert_eq!((&*seen.lock(), errors.lock().len()), (&vec![None; 3], 0));
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_transform_that_fails_leaves_the_object_out_and_never_hides_its_deletion() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let (informer, errors) = troubled(&fake, InformerOptions::default().transform(picky()));
    let diary = Diary::default();
    let _registration = informer.add_handler(diary.clone());
    let run = Run::synced(&informer).await;
    let mut bad = map("a");
    bad["data"] = json!({"bad": 7});
    fake.apply(&bad);
    fake.apply(&map("b"));
    settle().await;
    assert_eq!(*errors.lock(), ["reading one of configmaps: transforming n/a: bad: 7"]);
    assert_eq!(diary.take(), ["initial n/a@2", "added n/b@4"]);
    assert_eq!(informer.store().len(), 2, "a as it was before");
    fake.delete(&key("a"));
    settle().await;
    assert_eq!(diary.take(), ["deleted n/a@5"]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_transform_may_not_make_another_object_of_one() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let rename = Transform::on_json(|object| {
        object["metadata"]["name"] = json!("b");
        Ok(())
    });
    let (informer, errors) = troubled(&fake, InformerOptions::default().transform(rename));
    let run = Run::synced(&informer).await;
    assert!(informer.store().is_empty());
    let why = "it changed the object's name, namespace, uid or resourceVersion";
    assert_eq!(*errors.lock(), [format!("reading one of configmaps: transforming n/a: {why}")]);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_index_function_that_fails_leaves_the_object_out_of_its_index_alone() {
    let fake = FakeListWatch::new();
    fake.apply(&map("a"));
    let (informer, errors) = troubled(&fake, InformerOptions::default());
    let index = Index::on_meta("bad", |meta| {
        assert_ne!(&**meta.name(), "b", "as the test wants it");
        [Arc::clone(meta.name())]
    });
    soon(informer.add_index(index)).await.unwrap();
    let run = Run::synced(&informer).await;
    fake.apply(&map("b"));
    fake.apply(&map("c"));
    settle().await;
    let store = informer.store();
    assert_eq!((store.len(), store.index_values("bad").unwrap().len()), (3, 2));
    assert_eq!(errors.lock().len(), 1);
    let error = errors.lock()[0].clone();
    assert!(error.starts_with("computing the values of n/b in the index \"bad\" of configmaps: "), "{error}");
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn garbage_and_an_object_without_a_name_are_told_and_passed_over() {
    let fake = FakeListWatch::new();
    let (informer, errors) = troubled(&fake, InformerOptions::default());
    let run = Run::synced(&informer).await;
    for garbage in ["", "{", "\u{0}\u{0}", "[1,2]", r#"{"metadata":{"namespace":"n"}}"#, r#"{"metadata":7}"#] {
        fake.send(EventType::Modified, garbage);
    }
    fake.send(EventType::Deleted, "garbage");
    fake.apply(&map("a"));
    settle().await;
    assert_eq!((informer.store().len(), errors.lock().len(), fake.open_streams()), (1, 7, 1));
    assert!(errors.lock().iter().all(|error| error.starts_with("reading one of configmaps: ")), "{:?}", errors.lock());
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_hook_that_panics_harms_nobody() {
    let fake = FakeListWatch::new();
    let options = InformerOptions::default().on_error(|_| panic!("as the test wants it"));
    let informer = Maps::new(Arc::new(fake.clone()), options);
    let run = Run::synced(&informer).await;
    fake.send(EventType::Added, "garbage");
    fake.apply(&map("a"));
    settle().await;
    assert_eq!(informer.store().len(), 1);
    run.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_hundred_megabytes_is_an_object() {
    let fake = FakeListWatch::new();
    let (informer, errors) = troubled(&fake, InformerOptions::default());
    let run = Run::synced(&informer).await;
    let data = "x".repeat(100 << 20);
    let head = r#"{"metadata":{"name":"big","namespace":"n","uid":"u","resourceVersion":"2"},"data":{"k":""#;
    fake.send(EventType::Added, [head, &data, "\"}}"].concat());
    fake.apply(&map("a"));
    settle().await;
    let big = informer.store().get(&ObjectRef::new("big").within("n")).unwrap();
    assert_eq!(big.get().unwrap().data.as_ref().unwrap()["k"].len(), data.len());
    assert_eq!((informer.store().len(), errors.lock().len()), (2, 0));
    run.stop().await;
}
