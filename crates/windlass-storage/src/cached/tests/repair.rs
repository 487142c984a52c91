//! Values that could not be decoded, and can be later.

use super::{
    super::repair::{FAILURES, FAILURES_OF_REASON, PAUSE_LAST},
    *,
};
use crate::TransformedStorage;

/// Stores bodies as they are. Those that begin with `?` can only be decoded while it is open, and those that begin with
/// `!` never. Clones share its state.
#[derive(Clone, Debug, Default)]
struct Lock {
    is_closed: Arc<AtomicBool>,
    attempts: Arc<AtomicUsize>,
}

impl Lock {
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    fn open(&self) {
        self.is_closed.store(false, Ordering::Relaxed);
    }

    fn attempts(&self) -> usize {
        self.attempts.load(Ordering::Relaxed)
    }
}

impl Transform for Lock {
    fn encode(&self, _key: &str, body: Bytes) -> Result<Bytes, Failure> {
        Ok(body)
    }

    fn decode(&self, value: StoredValue) -> Decoding {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        Decoding::Done(match &value.body[..] {
            [b'?', ..] if self.is_closed.load(Ordering::Relaxed) => Err("it is locked".into()),
            [b'!', reason @ ..] => Err(format!("it is damaged {}", String::from_utf8_lossy(reason)).into()),
            _ => Ok(value),
        })
    }
}

/// The layer that has the lock: the copy, or the storage below it, which reports unreadable values without their bodies.
const LAYERS: [&str; 2] = ["copy", "below"];

async fn start(layer: &str, below: &Arc<Below>, lock: &Lock) -> CachedStorage<Lock> {
    let (below, lock): (Arc<dyn Storage>, _) = match layer {
        "copy" => (Arc::clone(below) as _, lock.clone()),
        _ => (Arc::new(TransformedStorage::over(Arc::clone(below) as _, lock.clone())), Lock::default()),
    };
    CachedStorage::start(below, lock, Retention::default()).await.unwrap()
}

/// Waits until the copy has all values, for the longest pause.
async fn repaired(storage: &CachedStorage<Lock>) {
    let deadline = time::Instant::now() + PAUSE_LAST;
    while !storage.shared.replica.unreadable_after("", 1).is_empty() {
        assert!(time::Instant::now() <= deadline, "a value is missing in the copy");
        time::sleep(Duration::from_secs(1)).await;
    }
}

async fn get(storage: &CachedStorage<Lock>, key: &str) -> String {
    storage.get(key, None).await.map_or_else(|error| error.to_string(), |(_, value)| text(value))
}

fn reads(below: &Below) -> usize {
    below.gets.load(Ordering::Relaxed) + below.ranges.load(Ordering::Relaxed)
}

/// Checks the value of `/a/1`, which must be in the copy. `None` if it is deleted.
async fn check_copy(storage: &CachedStorage<Lock>, below: &Below, expected: Option<&str>) {
    let before = reads(below);
    assert_eq!(get(storage, "/a/1").await, expected.unwrap_or("missing"));
    let range = storage.range(RangeQuery::prefix("/a/")).await.unwrap();
    let found: Vec<_> = range.values.into_iter().map(|value| text(Some(value))).collect();
    assert_eq!(found, expected.into_iter().chain(["two"]).collect::<Vec<_>>());
    assert_eq!(reads(below), before, "the values are in the copy");
}

const LOCKED: &str = "unable to transform key \"/a/1\": it is locked";

#[tokio::test(start_paused = true)]
async fn value_that_can_be_decoded_again_is_read_from_memory() {
    for layer in LAYERS {
        for arrival in ["start", "feed", "reload"] {
            let (below, lock) = (Below::new(), Lock::default());
            lock.close();
            below.put("/a/2", "two").await;
            let storage = if arrival == "start" {
                below.put("/a/1", "?one").await;
                start(layer, &below, &lock).await
            } else {
                let storage = start(layer, &below, &lock).await;
                // All tasks run, and wait.
                time::sleep(Duration::from_secs(1)).await;
                if arrival == "reload" {
                    *below.failure.lock() = Some(StorageError::Compacted { oldest: Revision(1) });
                }
                below.put("/a/1", "?one").await;
                storage
            };
            assert_eq!([get(&storage, "/a/1").await, get(&storage, "/a/2").await], [LOCKED, "two"]);
            assert_eq!(storage.range(RangeQuery::prefix("/a/")).await.unwrap_err().to_string(), LOCKED);
            // Several attempts fail.
            time::sleep(Duration::from_mins(5)).await;
            assert_eq!(get(&storage, "/a/1").await, LOCKED, "{layer}, {arrival}");
            lock.open();
            repaired(&storage).await;
            check_copy(&storage, &below, Some("?one")).await;
            // Later writes are seen as ever.
            below.put("/a/1", "new").await;
            check_copy(&storage, &below, Some("new")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watch_from_before_a_value_that_can_be_decoded_again_has_its_event() {
    for layer in LAYERS {
        let (below, lock) = (Below::new(), Lock::default());
        let first = below.put("/a/1", "one").await;
        let storage = start(layer, &below, &lock).await;
        lock.close();
        let mut live = storage.watch("/a/", first).await.unwrap();
        let second = below.put("/a/1", "?two").await;
        let third = below.put("/a/3", "three").await;
        assert_eq!(next(&mut live).await.unwrap_err().to_string(), LOCKED);
        assert_eq!(next(&mut live).await.unwrap().revision, third, "{layer}");
        lock.open();
        repaired(&storage).await;
        let before = reads(&below);
        let mut later = storage.watch("/a/", first).await.unwrap();
        let event = next(&mut later).await.unwrap();
        assert_eq!((event.revision, text(event.previous), text(event.current)), (second, "one".into(), "?two".into()));
        let event = next(&mut later).await.unwrap();
        assert_eq!((event.revision, event.previous, text(event.current)), (third, None, "three".into()));
        assert_eq!(text(storage.get("/a/1", Some(first)).await.unwrap().1), "one");
        below.put("/a/1", "four").await;
        for events in [&mut live, &mut later] {
            let event = next(events).await.unwrap();
            assert_eq!([text(event.previous), text(event.current)], ["?two", "four"]);
        }
        assert_eq!(reads(&below), before);
    }
}

#[tokio::test(start_paused = true)]
async fn value_that_changes_during_its_repair_is_not_resurrected() {
    for layer in LAYERS {
        for change in [Some("new"), Some("!"), None] {
            let (below, lock) = (Below::new(), Lock::default());
            lock.close();
            below.put("/a/2", "two").await;
            let old = below.put("/a/1", "?one").await;
            let storage = start(layer, &below, &lock).await;
            below.is_get_held.send_replace(true);
            lock.open();
            let (before, deadline) = (reads(&below), time::Instant::now() + PAUSE_LAST);
            while reads(&below) == before {
                assert!(time::Instant::now() <= deadline, "the value is not read again");
                time::sleep(Duration::from_secs(1)).await;
            }
            // The old value has been read.
            let change = match change {
                Some(body) => Change::Put(body.into()),
                None => Change::Delete,
            };
            below.store.commit("/a/1", Expect::Unchanged(old), change.clone()).await.unwrap();
            assert_eq!(get(&storage, "/a/2").await, "two", "the copy has the change");
            below.is_get_held.send_replace(false);
            for _ in 0..10 {
                time::sleep(Duration::from_secs(1)).await;
                let found = get(&storage, "/a/1").await;
                match &change {
                    Change::Put(body) if body == "!" => assert!(found.contains("damaged"), "{layer}: {found}"),
                    Change::Put(_) => check_copy(&storage, &below, Some("new")).await,
                    _ => check_copy(&storage, &below, None).await,
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_of_an_unreadable_value_is_known() {
    for layer in LAYERS {
        let (below, lock) = (Below::new(), Lock::default());
        lock.close();
        below.put("/a/2", "two").await;
        let storage = start(layer, &below, &lock).await;
        let written = below.put("/a/1", "?one").await;
        below.store.commit("/a/1", Expect::Unchanged(written), Change::Delete).await.unwrap();
        // The lock remains closed, but there is nothing to decode.
        assert_eq!(get(&storage, "/a/1").await, "missing");
        repaired(&storage).await;
        check_copy(&storage, &below, None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn own_write_over_an_unreadable_value_is_read_from_memory() {
    for layer in LAYERS {
        let (below, lock) = (Below::new(), Lock::default());
        lock.close();
        below.put("/a/2", "two").await;
        let old = below.put("/a/1", "?one").await;
        let storage = start(layer, &below, &lock).await;
        let change = Change::Put("new".into());
        let written = storage.commit("/a/1", Expect::Unchanged(old), change).await.unwrap();
        assert_eq!(written.previous, None);
        assert_eq!(get(&storage, "/a/2").await, "two", "the copy has the write");
        repaired(&storage).await;
        check_copy(&storage, &below, Some("new")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn many_unreadable_values_cause_few_attempts() {
    const VALUES: usize = 3000;
    let (below, lock) = (Below::new(), Lock::default());
    lock.close();
    for n in 0..VALUES {
        below.put(&format!("/a/{n:04}"), "?").await;
    }
    let storage = start("copy", &below, &lock).await;
    let before = lock.attempts();
    time::sleep(Duration::from_hours(1)).await;
    let (attempts, passes) = (lock.attempts() - before, 60 * 60 / 30 + 6);
    assert!(attempts >= passes / 2, "{attempts} attempts");
    assert!(attempts <= passes * FAILURES_OF_REASON, "{attempts} attempts");
    lock.open();
    let before = lock.attempts();
    repaired(&storage).await;
    assert_eq!(lock.attempts() - before, VALUES, "each value is decoded once");
    assert_eq!(storage.range(RangeQuery::prefix("/a/")).await.unwrap().values.len(), VALUES);
}

#[tokio::test(start_paused = true)]
async fn values_that_stay_unreadable_hold_up_no_other() {
    let (below, lock) = (Below::new(), Lock::default());
    lock.close();
    // Each has a different reason.
    for n in 0..FAILURES * 3 {
        let damaged = Change::Put(format!("!{n}").into());
        below.store.commit(&format!("/a/{n:04}"), Expect::Absent, damaged).await.unwrap();
    }
    // For all the same reason.
    for n in 0..FAILURES_OF_REASON * 3 {
        below.put(&format!("/b/{n:04}"), "!").await;
    }
    below.put("/c/1", "?one").await;
    let storage = start("copy", &below, &lock).await;
    let is_missing = || storage.shared.replica.get("/c/1", None).is_err();
    time::sleep(PAUSE_LAST).await;
    assert!(is_missing());
    lock.open();
    time::sleep(PAUSE_LAST * 5).await;
    assert!(!is_missing());
}
