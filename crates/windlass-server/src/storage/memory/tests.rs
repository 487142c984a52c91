//! Tests of retention, memory and slow watches, which the suite does not cover.

use futures::StreamExt;
use tokio::time;

use super::*;

#[cfg(feature = "compression")]
mod packed;
mod pages;

crate::storage_suite!(|| async { Arc::new(MemoryStorage::new()) as Arc<dyn Storage> });

fn put(body: &[u8]) -> Change {
    Change::Put(bytes::Bytes::copy_from_slice(body))
}

/// Creates `key` and updates it until it has been written `times` times.
async fn write(storage: &MemoryStorage, key: &str, body: &[u8], times: usize) -> Revision {
    let mut expect = Expect::Absent;
    let mut last = Revision(0);
    for _ in 0..times {
        last = storage.commit(key, expect, put(body)).await.unwrap().revision;
        expect = Expect::Unchanged(last);
    }
    last
}

fn versions(storage: &MemoryStorage) -> usize {
    storage.store.index.read().versions()
}

fn retained(storage: &MemoryStorage) -> usize {
    storage.store.log.lock().len()
}

#[tokio::test]
async fn prefix_without_keys_is_known_to_be_empty() {
    let storage = MemoryStorage::new();
    write(&storage, "/a/1", b"x", 1).await;
    write(&storage, "/c/1", b"x", 1).await;
    for prefix in ["/b/", "/a/2", "/a0", "/d"] {
        assert!(storage.is_known_to_be_empty(prefix), "{prefix}");
    }
}

#[tokio::test]
async fn retention_limits_events_and_versions() {
    let storage = MemoryStorage::with_retention(Retention { events: 10, bytes: usize::MAX, ..Retention::default() });
    let last = write(&storage, "/a", b"1", 100).await;
    assert_eq!(retained(&storage), 10);
    assert_eq!(versions(&storage), 11);
    let oldest = Revision(last.0 - 10);
    assert!(storage.get("/a", Some(oldest)).await.is_ok());
    let error = storage.get("/a", Some(oldest.previous())).await.unwrap_err();
    assert!(matches!(error, StorageError::Compacted { oldest: named } if named == oldest), "{error}");
    assert!(storage.watch("", oldest).await.is_ok());
    assert!(storage.watch("", oldest.previous()).await.is_err());
}

#[tokio::test]
async fn retention_limits_the_bytes_of_history() {
    let storage =
        MemoryStorage::with_retention(Retention { events: usize::MAX, bytes: 100_000, ..Retention::default() });
    write(&storage, "/a", &[0; 10_000], 100).await;
    assert_eq!(retained(&storage), 100_000 / 10_320);
}

#[tokio::test]
async fn history_is_limited_relative_to_live_data() {
    for (percent_of_live, remembers) in [(100, true), (10, false)] {
        let retention = Retention { events: usize::MAX, bytes: 0, percent_of_live, ..Retention::default() };
        let storage = MemoryStorage::with_retention(retention);
        write(&storage, "/large", &vec![0; 1_000_000], 1).await;
        let first = write(&storage, "/a", b"1", 1).await;
        write(&storage, "/b", b"1", 1000).await;
        assert_eq!(storage.watch("", first).await.is_ok(), remembers, "{percent_of_live} %");
    }
}

#[tokio::test(start_paused = true)]
async fn history_is_removed_after_its_maximum_age() {
    let storage = MemoryStorage::with_retention(Retention { age: Duration::from_mins(5), ..Retention::default() });
    let first = write(&storage, "/a", b"1", 10).await;
    time::advance(Duration::from_mins(4)).await;
    let later = write(&storage, "/b", b"1", 10).await;
    assert!(storage.watch("", first).await.is_ok());
    time::advance(Duration::from_secs(90)).await;
    write(&storage, "/c", b"1", 1).await;
    assert_eq!((retained(&storage), versions(&storage)), (11, 12));
    assert!(storage.watch("", first.previous()).await.is_err());
    assert!(storage.watch("", first).await.is_ok());
    time::advance(Duration::from_mins(5)).await;
    write(&storage, "/c2", b"1", 1).await;
    assert!(storage.watch("", later.previous()).await.is_err());
    assert!(retained(&storage) <= 2);
}

#[tokio::test]
async fn compaction_removes_deleted_keys_completely() {
    let storage = MemoryStorage::new();
    // More keys than a compaction visits at once.
    for n in 0..KEYS_PER_LOCK + 10 {
        let key = format!("/a/{n}");
        let modified = write(&storage, &key, b"1", 2).await;
        storage.commit(&key, Expect::Unchanged(modified), Change::Delete).await.unwrap();
    }
    let last = write(&storage, "/b", b"1", 3).await;
    storage.compact(last).await.unwrap();
    assert_eq!((retained(&storage), versions(&storage)), (0, 1));
    assert_eq!(storage.store.log.lock().watchers(), 0);
}

#[tokio::test]
async fn ranges_longer_than_a_chunk_are_complete() {
    let storage = MemoryStorage::new();
    let keys: Vec<_> = (0..KEYS_PER_LOCK * 2 + 10).map(|n| format!("/a/{n:06}")).collect();
    for key in &keys {
        write(&storage, key, b"1", 1).await;
    }
    write(&storage, "/b/1", b"1", 1).await;
    let range = storage.range(RangeQuery::prefix("/a/")).await.unwrap();
    assert!(range.values.iter().map(|value| &*value.key).eq(keys.iter().map(String::as_str)));
    let range = storage.range(RangeQuery::prefix("/a/").limit(5).start("/a/000010")).await.unwrap();
    assert_eq!((range.values.len(), range.remaining), (5, (KEYS_PER_LOCK * 2 - 5) as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn current_range_survives_compactions_between_chunks() {
    let storage = MemoryStorage::with_retention(Retention { events: 1, bytes: 0, ..Retention::default() });
    for n in 0..KEYS_PER_LOCK * 3 {
        write(&storage, &format!("/a/{n:06}"), b"1", 1).await;
    }
    let writer = tokio::spawn({
        let storage = storage.clone();
        async move { write(&storage, "/b", b"1", 20_000).await }
    });
    while !writer.is_finished() {
        let range = storage.range(RangeQuery::prefix("/a/")).await.unwrap();
        assert_eq!(range.values.len(), KEYS_PER_LOCK * 3);
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn slow_watch_ends_with_an_error_and_can_be_resumed() {
    let storage = MemoryStorage::build(Retention::default(), Capacity { items: 5, bytes: usize::MAX });
    let mut events = storage.watch("/a", Revision(1)).await.unwrap();
    write(&storage, "/a", b"1", 2).await;
    assert_eq!(events.next().await.unwrap().unwrap().progress(), Revision(2));
    write(&storage, "/a2", b"1", 5).await;
    let error = events.next().await.unwrap().unwrap_err();
    assert!(matches!(error, StorageError::Lagged { after: Revision(2) }), "{error}");
    assert!(events.next().await.is_none());
    // The unread events can exceed the buffer, because they are replayed.
    let mut again = storage.watch("/a", Revision(2)).await.unwrap();
    for revision in 3..=8 {
        assert_eq!(again.next().await.unwrap().unwrap().progress(), Revision(revision));
    }
    assert_eq!(storage.store.log.lock().watchers(), 1);
}

#[tokio::test]
async fn dropped_watch_is_unregistered() {
    let storage = MemoryStorage::new();
    let events = storage.watch("/a", Revision(1)).await.unwrap();
    assert_eq!(storage.store.log.lock().watchers(), 1);
    drop(events);
    assert_eq!(storage.store.log.lock().watchers(), 0);
}

#[tokio::test]
async fn watches_end_when_the_storage_is_dropped() {
    let storage = MemoryStorage::new();
    let mut events = storage.watch("/a", Revision(1)).await.unwrap();
    let reader = tokio::spawn(async move { events.next().await.is_none() });
    tokio::task::yield_now().await;
    drop(storage);
    assert!(reader.await.unwrap());
}

#[tokio::test]
async fn busy_writer_does_not_starve_watches_on_its_thread() {
    let storage = MemoryStorage::build(Retention::default(), Capacity { items: 1000, bytes: usize::MAX });
    let mut events = storage.watch("/a", Revision(1)).await.unwrap();
    let reader = tokio::spawn(async move {
        for revision in 2..=10_001 {
            assert_eq!(events.next().await.unwrap().unwrap().progress(), Revision(revision));
        }
    });
    write(&storage, "/a", b"1", 10_000).await;
    reader.await.unwrap();
}
