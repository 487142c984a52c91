//! Tests of compressed values.

use super::*;
use crate::storage::next_event;

/// Retains ten events, and compresses everything older.
fn small() -> MemoryStorage {
    let retention = Retention { events: 10, bytes: usize::MAX, ..Retention::default() };
    let mut storage = MemoryStorage::with_retention(retention);
    Arc::get_mut(&mut storage.store).unwrap().plain_budget = 0;
    storage
}

fn body(number: usize) -> Vec<u8> {
    let own = (number * 0x9e37_79b9 % 99_991).to_string().repeat(3);
    format!(r#"{{"metadata":{{"name":"map-{number}","uid":"{own}","managedFields":[{{"manager":"test","operation":"Update"}}]}},"data":{{"own":"{own}"}}}}"#)
        .into_bytes()
}

fn key(number: usize) -> String {
    format!("/registry/configmaps/test/map-{number:05}")
}

/// Creates objects with these numbers. Returns the revision of the last one.
async fn fill(storage: &MemoryStorage, numbers: std::ops::Range<usize>) -> Revision {
    let mut last = Revision(0);
    for number in numbers {
        last = write(storage, &key(number), &body(number), 1).await;
    }
    last
}

fn is_packed(storage: &MemoryStorage, key: &str) -> bool {
    storage.store.index.read().latest(key).unwrap().plain().is_none()
}

fn live_bytes(storage: &MemoryStorage) -> (usize, usize) {
    let index = storage.store.index.read();
    (index.live_bytes(), index.plain_bytes())
}

#[tokio::test]
async fn cold_values_are_compressed_and_read_as_before() {
    let storage = small();
    fill(&storage, 0..1_000).await;
    assert!(is_packed(&storage, &key(0)) && is_packed(&storage, &key(900)) && !is_packed(&storage, &key(995)));
    let all: usize = (0..1_000).map(|number| body(number).len()).sum();
    let (live, plain) = live_bytes(&storage);
    assert!(live < all / 2 && plain < 60 * body(0).len(), "{live} and {plain} of {all}");
    let range = storage.range(RangeQuery::prefix("/registry/configmaps/")).await.unwrap();
    for (number, value) in range.values.iter().enumerate() {
        assert_eq!((&*value.key, &*value.body), (&*key(number), &*body(number)));
        assert_eq!((value.created, value.modified), (Revision(number as u64 + 2), Revision(number as u64 + 2)));
        let (_, again) = storage.get(&key(number), None).await.unwrap();
        assert_eq!(again.as_ref(), Some(value));
    }
}

#[tokio::test]
async fn compact_range_has_the_compressed_values() {
    let storage = small();
    fill(&storage, 0..1_000).await;
    let query = RangeQuery::prefix("/registry/configmaps/").start(key(1)).limit(997);
    let CompactRange { revision, values, remaining } = storage.range_compact(query.clone()).await.unwrap();
    let range = storage.range(query).await.unwrap();
    assert_eq!((revision, remaining), (range.revision, range.remaining));
    assert!(values[0].is_compressed() && !values[996].is_compressed());
    for (value, expected) in values.into_iter().zip(range.values) {
        assert_eq!(value.body.size(), expected.body.len());
        assert_eq!(value.into_stored(), expected);
    }
}

#[tokio::test]
async fn commits_and_events_contain_the_original_bodies() {
    let storage = small();
    let last = fill(&storage, 0..500).await;
    let mut events = storage.watch("", last).await.unwrap();
    let Err(CommitError::Conflict { current: Some(current) }) =
        storage.commit(&key(7), Expect::Absent, put(b"other")).await
    else {
        panic!("expected a conflict");
    };
    assert_eq!(&*current.body, &*body(7));
    let updated = storage.commit(&key(7), Expect::Unchanged(current.modified), put(b"other")).await.unwrap();
    assert_eq!(updated.previous.as_ref(), Some(&current));
    let event = next_event(&mut events).await.unwrap().unwrap();
    assert_eq!((event.previous, event.current), (updated.previous, updated.value));
    let (_, before) = storage.get(&key(7), Some(last)).await.unwrap();
    assert_eq!(before, Some(current));
    assert_eq!(&*storage.get(&key(7), None).await.unwrap().1.unwrap().body, b"other");
    let deleted = storage.commit(&key(8), Expect::Unchanged(Revision(10)), Change::Delete).await.unwrap();
    assert_eq!(&*deleted.previous.unwrap().body, &*body(8));
    let sizes: usize = (0..500).map(|number| body(number).len()).sum();
    assert!(live_bytes(&storage).0 < sizes);
}

#[tokio::test]
async fn sizes_stay_exact_when_everything_is_deleted() {
    let storage = small();
    fill(&storage, 0..700).await;
    for value in storage.range(RangeQuery::default()).await.unwrap().values {
        storage.commit(&value.key, Expect::Unchanged(value.modified), Change::Delete).await.unwrap();
    }
    assert_eq!(live_bytes(&storage), (0, 0));
}

#[tokio::test]
async fn values_within_the_budget_stay_uncompressed() {
    let mut storage = small();
    Arc::get_mut(&mut storage.store).unwrap().plain_budget = 100_000;
    fill(&storage, 0..2_000).await;
    let (_, plain) = live_bytes(&storage);
    assert!((100_000 - 64 * 300..100_000 + 300 * 300).contains(&plain), "{plain}");
    assert!(!is_packed(&storage, &key(0)));
}

#[tokio::test]
async fn changed_value_is_not_replaced_by_its_earlier_body() {
    let storage = small();
    let last = fill(&storage, 0..400).await;
    assert!(is_packed(&storage, &key(3)));
    let mut modified = storage.get(&key(3), Some(last)).await.unwrap().1.unwrap().modified;
    for round in 0..200 {
        let body = format!("changed {round}");
        let value = storage.commit(&key(3), Expect::Unchanged(modified), put(body.as_bytes())).await.unwrap();
        modified = value.revision;
        assert_eq!(&*storage.get(&key(3), None).await.unwrap().1.unwrap().body, body.as_bytes());
        fill(&storage, 400 + round..401 + round).await;
    }
    assert!(!is_packed(&storage, &key(3)));
}

#[tokio::test]
async fn incompressible_values_stay_as_they_are() {
    let storage = small();
    let entropy = windlass_api::Entropy::seeded(1);
    let mut bodies = Vec::new();
    for number in 0..300 {
        bodies.push((0..200).map(|_| u8::try_from(entropy.below(256)).unwrap()).collect::<Vec<_>>());
        write(&storage, &key(number), &bodies[number], 1).await;
    }
    // The dictionary contains some of its samples.
    assert!((130..280).all(|number| !is_packed(&storage, &key(number))));
    for (value, body) in storage.range(RangeQuery::default()).await.unwrap().values.iter().zip(&bodies) {
        assert_eq!(&*value.body, &**body);
    }
}
