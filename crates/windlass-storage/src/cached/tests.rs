use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_server::storage::{MemoryStorage, next_event, suite, suite::PATIENCE as TEST_PATIENCE};

use super::*;
use crate::transform::{Decoding, Failure};

mod repair;

/// Stores bodies in upper case. Those that begin with `!` cannot be decoded.
#[derive(Debug, Default)]
struct UpperCase {
    decoded: AtomicUsize,
}

impl Transform for UpperCase {
    fn encode(&self, _key: &str, body: Bytes) -> Result<Bytes, Failure> {
        Ok(body.to_ascii_uppercase().into())
    }

    fn decode(&self, value: StoredValue) -> Decoding {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        if value.body.starts_with(b"!") {
            return Decoding::Done(Err("it is damaged".into()));
        }
        let body = value.body.to_ascii_lowercase().into();
        Decoding::Done(Ok(StoredValue { body, ..value }))
    }
}

/// A store whose gets and watches can be held, and whose watches can be failed.
#[derive(Debug)]
struct Below {
    store: MemoryStorage,
    is_held: watch::Sender<bool>,
    is_get_held: watch::Sender<bool>,
    failure: Arc<Mutex<Option<StorageError>>>,
    probes: AtomicUsize,
    gets: AtomicUsize,
    ranges: AtomicUsize,
    /// `true` if its values should be written again.
    is_stale: AtomicBool,
}

impl Below {
    fn new() -> Arc<Self> {
        let [is_held, is_get_held] = [false; 2].map(|is_held| watch::channel(is_held).0);
        let [probes, gets, ranges] = [0; 3].map(AtomicUsize::new);
        let (store, failure, is_stale) = (MemoryStorage::new(), Arc::default(), AtomicBool::new(false));
        Arc::new(Self { store, is_held, is_get_held, failure, probes, gets, ranges, is_stale })
    }

    async fn put(&self, key: &str, body: &'static str) -> Revision {
        let (_, current) = self.store.get(key, None).await.unwrap();
        let expect = current.map_or(Expect::Absent, |current| Expect::Unchanged(current.modified));
        self.store.commit(key, expect, Change::Put(body.into())).await.unwrap().revision
    }
}

impl suite::Forward for Below {
    fn below(&self) -> &dyn Storage {
        &self.store
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.probes.fetch_add(1, Ordering::Relaxed);
        async {
            tokio::task::yield_now().await;
            self.store.revision().await
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        async move {
            self.gets.fetch_add(1, Ordering::Relaxed);
            let (revision, value) = self.store.get(key, at).await?;
            let _ = self.is_get_held.subscribe().wait_for(|is_held| !is_held).await;
            let is_stale = self.is_stale.load(Ordering::Relaxed);
            Ok((revision, value.map(|value| StoredValue { is_stale, ..value })))
        }
        .boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        self.ranges.fetch_add(1, Ordering::Relaxed);
        self.store.range(query)
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let events = self.store.watch(prefix, after).await?;
            let (is_held, failure) = (self.is_held.subscribe(), Arc::clone(&self.failure));
            let held = move |item| {
                let (mut is_held, failure) = (is_held.clone(), Arc::clone(&failure));
                async move {
                    let _ = is_held.wait_for(|is_held| !is_held).await;
                    failure.lock().take().map_or(item, Err)
                }
            };
            Ok(events.then(held).boxed())
        }
        .boxed()
    }

    fn is_shared(&self) -> bool {
        true
    }
}

type Cached = CachedStorage<UpperCase>;

async fn start(below: &Arc<Below>) -> Cached {
    CachedStorage::start(Arc::clone(below) as _, UpperCase::default(), Retention::default()).await.unwrap()
}

async fn create(storage: &Cached, key: &str, body: &'static str) -> Revision {
    storage.commit(key, Expect::Absent, Change::Put(body.into())).await.unwrap().revision
}

fn text(value: Option<StoredValue>) -> String {
    value.map_or_else(|| "missing".into(), |value| String::from_utf8(value.body.to_vec()).unwrap())
}

async fn get(storage: &Cached, key: &str) -> String {
    text(storage.get(key, None).await.unwrap().1)
}

fn decoded(storage: &Cached) -> usize {
    storage.shared.transform.decoded.load(Ordering::Relaxed)
}

windlass_server::storage_suite! {
    shared || async { Arc::new(start(&Below::new()).await) as Arc<dyn Storage> }
}

#[tokio::test]
async fn values_are_read_from_memory() {
    let below = Below::new();
    below.put("/a/1", "ONE").await;
    let storage = start(&below).await;
    let ranges = below.ranges.load(Ordering::Relaxed);
    below.put("/a/2", "TWO").await;
    assert_eq!([get(&storage, "/a/1").await, get(&storage, "/a/2").await], ["one", "two"]);
    let range = storage.range(RangeQuery::prefix("/a/")).await.unwrap();
    assert_eq!(range.values.into_iter().map(|value| text(Some(value))).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!((decoded(&storage), below.ranges.load(Ordering::Relaxed)), (2, ranges));
}

#[tokio::test]
async fn own_writes_are_not_decoded() {
    let below = Below::new();
    let storage = start(&below).await;
    let created = create(&storage, "/a", "one").await;
    let update = storage.commit("/a", Expect::Unchanged(created), Change::Put("two".into())).await.unwrap();
    assert_eq!((text(update.value), text(update.previous)), ("two".into(), "one".into()));
    assert_eq!(get(&storage, "/a").await, "two");
    assert_eq!((text(below.store.get("/a", None).await.unwrap().1), decoded(&storage)), ("TWO".into(), 0));
}

#[tokio::test(start_paused = true)]
async fn late_copy_is_not_read() {
    let below = Below::new();
    let storage = start(&below).await;
    below.is_held.send_replace(true);
    below.put("/a", "ONE").await;
    let begun = time::Instant::now();
    assert_eq!(get(&storage, "/a").await, "one");
    assert_eq!(begun.elapsed(), PATIENCE, "the read waits for the copy first");
    let reading = get(&storage, "/a");
    below.is_held.send_replace(false);
    let begun = time::Instant::now();
    assert_eq!(reading.await, "one");
    assert!(begun.elapsed() < PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn recent_reads_include_own_writes() {
    let below = Below::new();
    let storage = start(&below).await;
    let created = create(&storage, "/a/1", "one").await;
    assert_eq!(get(&storage, "/a/1").await, "one");
    below.is_held.send_replace(true);
    storage.commit("/a/1", Expect::Unchanged(created), Change::Put("two".into())).await.unwrap();
    let deleted = create(&storage, "/a/2", "three").await;
    storage.commit("/a/2", Expect::Unchanged(deleted), Change::Delete).await.unwrap();
    below.put("/b/1", "OTHER").await;
    let probes = below.probes.load(Ordering::Relaxed);
    let recent = async |key| text(storage.get_recent(key).await.unwrap());
    assert_eq!([recent("/a/1").await, recent("/a/2").await, recent("/b/1").await], ["two", "missing", "missing"]);
    // Without own writes, the copy suffices.
    assert_eq!(storage.range_recent("/b/").await.unwrap().values, []);
    assert_eq!(below.probes.load(Ordering::Relaxed), probes);
    let found = storage.range_recent("/a/").await.unwrap();
    assert_eq!(found.values.into_iter().map(|value| text(Some(value))).collect::<Vec<_>>(), ["two"]);
    below.is_held.send_replace(false);
    assert_eq!(get(&storage, "/b/1").await, "other");
    assert_eq!(storage.shared.writes.last_below(""), Revision(0), "the writes are forgotten with their events");
}

#[tokio::test(start_paused = true)]
async fn prefix_is_known_to_be_empty_if_the_copy_has_all_own_writes() {
    let below = Below::new();
    below.put("/b/1", "!").await;
    let storage = start(&below).await;
    assert!(storage.is_known_to_be_empty("/a/"));
    assert!(!storage.is_known_to_be_empty("/b/"), "it has a value that cannot be decoded");
    below.is_held.send_replace(true);
    create(&storage, "/a/1", "one").await;
    assert!(!storage.is_known_to_be_empty("/a/"));
    assert!(storage.is_known_to_be_empty("/c/"));
}

#[tokio::test]
async fn values_are_those_of_the_copy() {
    let below = Below::new();
    let storage = start(&below).await;
    create(&storage, "/a/1", "one").await;
    let read = async || storage.range(RangeQuery::prefix("/a/")).await.unwrap().values.remove(0).body;
    assert!(storage.shares_values());
    assert_eq!(read().await.as_ptr(), read().await.as_ptr());
}

#[tokio::test]
async fn staleness_is_that_of_the_storage() {
    let below = Below::new();
    let storage = start(&below).await;
    create(&storage, "/a", "one").await;
    assert!(!storage.get_stored("/a").await.unwrap().unwrap().is_stale);
    // As after a change of the encryption key.
    below.is_stale.store(true, Ordering::Relaxed);
    assert!(storage.get_stored("/a").await.unwrap().unwrap().is_stale);
}

#[tokio::test]
async fn watches_of_older_history_are_limited() {
    let below = Below::new();
    let first = below.put("/a", "ONE").await;
    below.put("/a", "TWO").await;
    // Its copy begins with the second version.
    let storage = start(&below).await;
    let mut watches = Vec::new();
    for _ in 0..OLDER_WATCHES {
        watches.push(storage.watch("/a", first).await.unwrap());
    }
    let error = storage.watch("/a", first).await.err().unwrap();
    assert!(matches!(error, StorageError::Compacted { .. }), "{error}");
    assert_eq!(text(next(&mut watches[0]).await.unwrap().current), "two");
    watches.pop();
    drop(storage.watch("/a", first).await.unwrap());
}

#[tokio::test]
async fn reader_that_is_not_polled_delays_no_other() {
    let below = Below::new();
    let storage = start(&below).await;
    create(&storage, "/a", "one").await;
    let mut paused = std::pin::pin!(get(&storage, "/a"));
    assert!(futures::poll!(&mut paused).is_pending());
    let other = time::timeout(TEST_PATIENCE, get(&storage, "/a")).await;
    assert_eq!(other.expect("an answer in time"), "one");
    assert_eq!(paused.await, "one");
}

#[test]
fn readers_of_a_runtime_that_ends_get_an_error() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let probe = Probe::new(Below::new());
    let mut reading = Box::pin(probe.revision());
    assert!(first.block_on(async { futures::poll!(&mut reading) }).is_pending());
    let mut waiting = Box::pin(probe.revision());
    assert!(second.block_on(async { futures::poll!(&mut waiting) }).is_pending());
    drop(first);
    let ended = second.block_on(async { time::timeout(TEST_PATIENCE, waiting).await });
    assert!(matches!(ended.expect("an answer in time"), Err(StorageError::Unavailable(_))));
    assert_eq!(second.block_on(probe.revision()).unwrap(), Revision(1));
}

/// Reads the revision when it is dropped, and sends the answer.
struct LastReader(Arc<Probe>, std::sync::mpsc::Sender<Option<Result<Revision, StorageError>>>);

impl Drop for LastReader {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.revision().now_or_never());
    }
}

#[test]
fn reader_in_a_runtime_that_ends_gets_an_error() {
    let (sender, answers) = std::sync::mpsc::channel();
    let probe = Arc::new(Probe::new(Below::new()));
    // In a thread, because the failure is a deadlock.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reader = LastReader(probe, sender);
        runtime.spawn(async move {
            let _reader = reader;
            std::future::pending::<()>().await;
        });
        runtime.block_on(tokio::task::yield_now());
    });
    let answer = answers.recv_timeout(TEST_PATIENCE).expect("an answer in time");
    assert!(matches!(answer, Some(Err(StorageError::Unavailable(_)))), "{answer:?}");
}

#[tokio::test]
async fn concurrent_readers_share_a_probe() {
    let below = Below::new();
    let storage = start(&below).await;
    create(&storage, "/a", "one").await;
    let probes = below.probes.load(Ordering::Relaxed);
    let found = futures::future::join_all((0..100).map(|_| get(&storage, "/a"))).await;
    assert!(found.iter().all(|found| found == "one"), "{found:?}");
    // All of them came before it began.
    assert_eq!(below.probes.load(Ordering::Relaxed) - probes, 1);
}

#[tokio::test]
async fn missed_history_is_replaced_by_all_values() {
    let below = Below::new();
    let storage = start(&below).await;
    let created = create(&storage, "/a", "one").await;
    let mut events = storage.watch("/a", Revision(1)).await.unwrap();
    assert_eq!(next(&mut events).await.unwrap().revision, created);
    *below.failure.lock() = Some(StorageError::Compacted { oldest: created });
    below.put("/a", "TWO").await;
    assert_eq!(get(&storage, "/a").await, "two");
    let error = next(&mut events).await.unwrap_err();
    assert!(matches!(error, StorageError::Lagged { after } if after == created), "{error}");
    // The copy has no history of its own any more, but the store below has.
    let mut events = storage.watch("/a", created).await.unwrap();
    assert_eq!(text(next(&mut events).await.unwrap().current), "two");
}

#[tokio::test]
async fn failed_watch_is_resumed() {
    let below = Below::new();
    let storage = start(&below).await;
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    *below.failure.lock() = Some(StorageError::Unavailable("no majority".into()));
    let first = below.put("/a", "ONE").await;
    let second = below.put("/a", "TWO").await;
    assert_eq!([next(&mut events).await.unwrap().revision, next(&mut events).await.unwrap().revision], [first, second]);
}

#[tokio::test]
async fn value_that_cannot_be_decoded_affects_no_other() {
    let below = Below::new();
    for (key, body) in [("/a/1", "!"), ("/a/2", "TWO"), ("/b/1", "THREE")] {
        below.put(key, body).await;
    }
    let storage = start(&below).await;
    let mut events = storage.watch("", storage.revision().await.unwrap()).await.unwrap();
    assert_eq!([get(&storage, "/a/2").await, get(&storage, "/b/1").await], ["two", "three"]);
    let error = storage.get("/a/1", None).await.unwrap_err().to_string();
    assert_eq!(error, "unable to transform key \"/a/1\": it is damaged");
    assert_eq!(storage.range(RangeQuery::prefix("/a/")).await.unwrap_err().to_string(), error);
    assert_eq!(storage.range(RangeQuery::prefix("/b/")).await.unwrap().values.len(), 1);
    below.put("/a/2", "!").await;
    below.put("/a/1", "ONE").await;
    below.put("/b/1", "FOUR").await;
    let unreadable = [next(&mut events).await.unwrap_err(), next(&mut events).await.unwrap_err()];
    assert_eq!(
        unreadable.map(|error| error.to_string()),
        [
            "unable to transform key \"/a/2\": it is damaged",
            "unable to transform key \"/a/1\": the previous value is unreadable: it is damaged",
        ]
    );
    let event = next(&mut events).await.unwrap();
    assert_eq!([text(event.previous), text(event.current)], ["three", "four"]);
    assert_eq!(get(&storage, "/a/1").await, "one");
}

async fn next(events: &mut EventStream) -> Result<windlass_server::storage::StorageEvent, StorageError> {
    time::timeout(TEST_PATIENCE, next_event(events)).await.expect("an item in time").expect("the watch continues")
}
