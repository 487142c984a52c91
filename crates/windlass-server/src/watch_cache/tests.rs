mod indexed;
mod progress;

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, future::join_all, stream};
use tokio::runtime::{Builder, Handle};

use super::*;
use crate::storage::{Change, Expect, MemoryStorage, RangeQuery, suite};

/// A stand-in for the registry's derived data.
#[derive(Debug, Default)]
struct Frame(OnceLock<Bytes>);

type Cache = WatchCache<Frame>;

const PODS: &str = "/registry/pods/";
const PATIENCE: Duration = Duration::from_secs(30);

fn cache(storage: &MemoryStorage) -> Cache {
    WatchCache::new(Arc::new(storage.clone()))
}

/// Creates or updates `key`.
async fn write(storage: &MemoryStorage, key: &str) -> Revision {
    let expect = match storage.get(key, None).await.unwrap().1 {
        Some(value) => Expect::Unchanged(value.modified),
        None => Expect::Absent,
    };
    storage.commit(key, expect, Change::Put(Bytes::from_static(b"{}"))).await.unwrap().revision
}

async fn next(subscription: &mut Subscription<Frame>) -> Arc<SharedEvent<Frame>> {
    time::timeout(PATIENCE, subscription.next()).await.expect("an event").expect("the subscription is open")
}

async fn ended(subscription: &mut Subscription<Frame>) {
    assert!(time::timeout(PATIENCE, subscription.next()).await.expect("the end").is_none());
}

#[test]
fn topics_of_a_key_are_its_prefixes_and_itself() {
    let topics: Vec<_> = topics_of("/registry/pods/ns/a").collect();
    assert_eq!(topics, ["", "/", "/registry/", "/registry/pods/", "/registry/pods/ns/", "/registry/pods/ns/a"]);
    assert!(topics.iter().all(|topic| is_under("/registry/pods/ns/a", topic)));
    assert!(!is_under("/registry/pods/ns/ab", "/registry/pods/ns/a"));
}

#[tokio::test]
async fn subscribers_share_one_event_and_its_derived_data() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let mut first = cache.subscribe(PODS, Revision(1)).await.unwrap();
    let mut second = cache.subscribe("/registry/pods/ns/", Revision(1)).await.unwrap();
    write(&storage, "/registry/pods/ns/a").await;
    let (one, other) = (next(&mut first).await, next(&mut second).await);
    assert!(Arc::ptr_eq(&one, &other));
    one.derived.0.set(Bytes::from_static(b"frame")).unwrap();
    assert_eq!(other.derived.0.get().unwrap(), "frame");
}

#[tokio::test]
async fn topic_is_a_resource_a_namespace_or_one_object() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let mut resource = cache.subscribe(PODS, Revision(1)).await.unwrap();
    let mut namespace = cache.subscribe("/registry/pods/b/", Revision(1)).await.unwrap();
    let mut object = cache.subscribe("/registry/pods/b/x", Revision(1)).await.unwrap();
    for key in ["/registry/pods/a/x", "/registry/pods/b/xx", "/registry/podsb/x", "/registry/pods/b/x"] {
        write(&storage, key).await;
    }
    for revision in [2, 3, 5] {
        assert_eq!(next(&mut resource).await.event.revision, Revision(revision));
    }
    for revision in [3, 5] {
        assert_eq!(next(&mut namespace).await.event.revision, Revision(revision));
    }
    assert_eq!(next(&mut object).await.event.revision, Revision(5));
}

#[tokio::test]
async fn events_before_the_subscription_are_replayed() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let start = write(&storage, "/registry/pods/ns/a").await;
    for key in ["/registry/nodes/n", "/registry/pods/ns/b", "/registry/nodes/n"] {
        write(&storage, key).await;
    }
    cache.wait_for_revision(Revision(5)).await.unwrap();
    let mut subscription = cache.subscribe(PODS, start).await.unwrap();
    assert_eq!(subscription.progress(), start);
    write(&storage, "/registry/pods/ns/c").await;
    assert_eq!(next(&mut subscription).await.event.revision, Revision(4));
    assert!(subscription.progress() < Revision(6));
    assert_eq!(next(&mut subscription).await.event.revision, Revision(6));
    assert_eq!(subscription.progress(), Revision(6));
}

#[tokio::test]
async fn subscription_from_compacted_history_is_rejected() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    write(&storage, "/registry/pods/ns/a").await;
    let now = write(&storage, "/registry/pods/ns/a").await;
    storage.compact(now).await.unwrap();
    let error = cache.subscribe(PODS, now.previous()).await.unwrap_err();
    assert!(matches!(error, StorageError::Compacted { oldest } if oldest == now), "{error}");
    assert!(cache.shared.fan_out.lock().topics.is_empty());
    assert!(cache.subscribe(PODS, now).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_exact_under_concurrent_writes() {
    const COMMITS: u64 = 2000;
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let writers: Vec<_> = (0..4u64)
        .map(|writer| {
            let storage = storage.clone();
            tokio::spawn(async move {
                for n in 0..COMMITS / 4 {
                    let resource = if (n + writer).is_multiple_of(3) { "nodes" } else { "pods" };
                    write(&storage, &format!("/registry/{resource}/{writer}/{}", n % 5)).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut readers = Vec::new();
    for n in 0..50 {
        let range = storage.range(RangeQuery::prefix(PODS)).await.unwrap();
        // Some subscribe late, when the pump is already ahead.
        if n % 2 == 0 {
            cache.wait_for_revision(range.revision).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut subscription = cache.subscribe(PODS, range.revision).await.unwrap();
        readers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            let mut progress = subscription.progress();
            assert!(progress >= range.revision);
            while progress < Revision(COMMITS + 1) {
                // Bookmarks can be requested at any time.
                match time::timeout(Duration::from_millis(1), subscription.next()).await {
                    Ok(event) => {
                        let revision = event.expect("the subscription is open").event.revision;
                        assert!(revision > progress, "{revision} came after a progress of {progress}");
                        seen.push(revision);
                    }
                    Err(_) => tokio::task::yield_now().await,
                }
                let now = subscription.progress();
                assert!(now >= progress, "progress decreased");
                assert!(seen.last().is_none_or(|last| now >= *last));
                progress = now;
            }
            (range.revision, seen)
        }));
    }
    for ended in join_all(writers).await {
        ended.unwrap();
    }
    let end = write(&storage, "/registry/pods/ns/end").await;
    assert_eq!(end, Revision(COMMITS + 2));
    let events = storage.watch(PODS, Revision(1)).await.unwrap().map(|event| event.unwrap().progress());
    let all: Vec<_> = events.take_while(|revision| std::future::ready(*revision < end)).collect().await;
    for reader in join_all(readers).await {
        let (after, seen) = reader.unwrap();
        let expected: Vec<_> = all.iter().copied().filter(|revision| *revision > after).collect();
        assert!(seen.starts_with(&expected), "after {after}");
    }
}

#[tokio::test]
async fn progress_does_not_pass_pending_events() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    let node = write(&storage, "/registry/nodes/n").await;
    cache.wait_for_revision(node).await.unwrap();
    assert_eq!(subscription.progress(), node);
    let pod = write(&storage, "/registry/pods/ns/a").await;
    let node = write(&storage, "/registry/nodes/n").await;
    cache.wait_for_revision(node).await.unwrap();
    assert_eq!(subscription.progress(), pod.previous());
    next(&mut subscription).await;
    assert_eq!(subscription.progress(), node);
}

#[tokio::test]
async fn slow_subscriber_is_closed_without_affecting_others() {
    let storage = MemoryStorage::new();
    let cache = Cache::with_capacity(Arc::new(storage.clone()), Capacity { items: 3, bytes: usize::MAX });
    let mut slow = cache.subscribe(PODS, Revision(1)).await.unwrap();
    let mut quick = cache.subscribe(PODS, Revision(1)).await.unwrap();
    for revision in 2..=6 {
        write(&storage, "/registry/pods/ns/a").await;
        assert_eq!(next(&mut quick).await.event.revision, Revision(revision));
    }
    assert_eq!(slow.progress(), Revision(1), "discarded events were not delivered");
    ended(&mut slow).await;
    let mut again = cache.subscribe(PODS, slow.progress()).await.unwrap();
    assert_eq!(next(&mut again).await.event.revision, Revision(2));
}

#[tokio::test]
async fn drop_all_ends_subscriptions_that_can_be_resumed() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    write(&storage, "/registry/pods/ns/a").await;
    cache.wait_for_revision(Revision(2)).await.unwrap();
    cache.drop_all();
    ended(&mut subscription).await;
    let mut again = cache.subscribe(PODS, subscription.progress()).await.unwrap();
    assert_eq!(next(&mut again).await.event.revision, Revision(2));
}

#[tokio::test]
async fn dropping_the_cache_ends_its_task_and_subscriptions() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    drop(cache);
    ended(&mut subscription).await;
    time::timeout(PATIENCE, async {
        while Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the pump ends");
}

#[tokio::test]
async fn dropped_subscription_is_unregistered() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    drop(cache.subscribe(PODS, Revision(1)).await.unwrap());
    assert!(cache.shared.fan_out.lock().topics.is_empty());
}

#[test]
fn pump_is_restarted_on_another_runtime() {
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let mut lost = first.block_on(cache.subscribe(PODS, Revision(1))).unwrap();
    drop(first);
    runtime().block_on(async {
        ended(&mut lost).await;
        write(&storage, "/registry/pods/ns/a").await;
        let mut subscription = cache.subscribe(PODS, lost.progress()).await.unwrap();
        assert_eq!(next(&mut subscription).await.event.revision, Revision(2));
        write(&storage, "/registry/pods/ns/a").await;
        assert_eq!(next(&mut subscription).await.event.revision, Revision(3));
    });
}

/// A storage whose watches fail after each event, and cannot be renewed while it is `down`.
#[derive(Debug)]
struct Flaky {
    inner: MemoryStorage,
    down: Arc<AtomicBool>,
    error: fn() -> StorageError,
}

fn unavailable() -> StorageError {
    StorageError::Unavailable("connection lost".into())
}

impl suite::Forward for Flaky {
    fn below(&self) -> &dyn Storage {
        &self.inner
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            if self.down.load(Ordering::SeqCst) {
                return Err(unavailable());
            }
            let events = self.inner.watch(prefix, after).await?;
            let error = self.error;
            Ok(events.take(1).chain(stream::once(async move { Err(error()) })).boxed())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn storage_failures_lose_no_events() {
    let inner = MemoryStorage::new();
    let down = Arc::new(AtomicBool::new(false));
    let cache = Cache::new(Arc::new(Flaky { inner: inner.clone(), down: Arc::clone(&down), error: unavailable }));
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    write(&inner, "/registry/pods/ns/a").await;
    next(&mut subscription).await;
    down.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        write(&inner, "/registry/pods/ns/a").await;
    }
    let nothing = time::timeout(Duration::from_secs(20), subscription.next()).await;
    assert!(nothing.is_err(), "no events while the storage is down");
    down.store(false, Ordering::SeqCst);
    for revision in 3..=7 {
        assert_eq!(next(&mut subscription).await.event.revision, Revision(revision));
    }
}

#[tokio::test(start_paused = true)]
async fn failure_during_writes_loses_no_events() {
    let inner = MemoryStorage::new();
    let down = Arc::new(AtomicBool::new(false));
    let cache = Cache::new(Arc::new(Flaky { inner: inner.clone(), down: Arc::clone(&down), error: unavailable }));
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    // The pump waits for events at this point.
    tokio::task::yield_now().await;
    for round in 0..20 {
        // The first write of a round succeeds, the second meets the failure, and the third comes while there is no
        // stream.
        for _ in 0..3 {
            let revision = write(&inner, "/registry/pods/ns/a").await;
            down.store(true, Ordering::SeqCst);
            cache.wait_for_delivery("/registry/pods/ns/a", revision).await;
        }
        down.store(false, Ordering::SeqCst);
        for revision in 2..=4 {
            assert_eq!(next(&mut subscription).await.event.revision, Revision(round * 3 + revision));
        }
    }
}

#[tokio::test]
async fn compaction_past_the_pump_closes_subscribers() {
    let inner = MemoryStorage::new();
    let error = || StorageError::Compacted { oldest: Revision(9) };
    let cache = Cache::new(Arc::new(Flaky { inner: inner.clone(), down: Arc::default(), error }));
    let mut subscription = cache.subscribe(PODS, Revision(1)).await.unwrap();
    write(&inner, "/registry/nodes/n").await;
    ended(&mut subscription).await;
    assert!(cache.subscribe(PODS, Revision(2)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn many_subscribers_are_notified_in_batches_in_order() {
    const SUBSCRIBERS: usize = 200;
    let storage = MemoryStorage::new();
    let cache = cache(&storage);
    let start = time::Instant::now();
    let mut subscriptions = Vec::new();
    for _ in 0..SUBSCRIBERS {
        subscriptions.push(cache.subscribe(PODS, Revision(1)).await.unwrap());
    }
    write(&storage, "/registry/pods/ns/a").await;
    let first = join_all(subscriptions.iter_mut().map(next)).await;
    assert!(first.iter().all(|event| event.event.revision == Revision(2)));
    assert_eq!(start.elapsed(), Duration::ZERO, "an event after a pause is not delayed");
    // All are waiting before the next writes.
    let followed = join_all(subscriptions.iter_mut().map(|subscription| async {
        let one = next(subscription).await.event.revision;
        let waited = start.elapsed();
        assert_eq!((one, next(subscription).await.event.revision), (Revision(3), Revision(4)));
        assert_eq!(start.elapsed(), waited, "both events are delivered together");
        waited
    }));
    let writes = async {
        write(&storage, "/registry/pods/ns/a").await;
        tokio::task::yield_now().await;
        write(&storage, "/registry/pods/ns/b").await;
    };
    let (waited, ()) = futures::join!(followed, writes);
    assert!(waited.iter().all(|waited| *waited > Duration::ZERO && *waited <= Duration::from_millis(11)), "{waited:?}");
}
