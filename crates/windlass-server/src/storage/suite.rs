//! The test suite for [`Storage`] backends:
//!
//! ```ignore
//! windlass_server::storage_suite!(|| async { Arc::new(MyStorage::empty().await) as Arc<dyn Storage> });
//! ```
//!
//! expands to one `#[tokio::test]` per case. The factory creates an empty store for each case. The cases wait only for
//! the backend: a missing event causes a timeout after [`PATIENCE`].
//!
//! For a store that other clients can write to, the word `shared` comes before the closure. Then its watches may deliver
//! progress apart from events. The cases are still its only writers. Attributes of the tests come first:
//!
//! ```ignore
//! windlass_server::storage_suite! {
//!     #[ignore = "needs a server"]
//!     shared || async { Arc::new(MyStorage::empty().await) as Arc<dyn Storage> }
//! }
//! ```

#![allow(clippy::missing_panics_doc, clippy::unwrap_used)] // a test suite asserts

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, future::join_all};
use tokio::time;

use super::{
    Change, CommitError, Committed, Delivery, EventStream, Expect, Range, RangeQuery, Revision, Storage, StorageError,
    StorageEvent, StoredValue, next_event,
};

pub use self::forward::Forward;

mod forward;

/// The time that a case waits for an event before it fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

type Store = Arc<dyn Storage>;

/// Declares the tests of [`storage::suite`](crate::storage::suite) for a backend. The argument is a closure that
/// returns a future of an empty `Arc<dyn Storage>`. The crate that uses it needs tokio with `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! storage_suite {
    (@case [$(#[$attribute:meta])*] $factory:expr; $case:ident) => {
        $(#[$attribute])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let factory = $factory;
            $crate::storage::suite::$case(factory().await).await;
        }
    };
    (@cases $attributes:tt $factory:expr; $($case:ident)*) => {
        $( $crate::storage_suite! { @case $attributes $factory; $case } )*
    };
    (@common $attributes:tt $factory:expr; $($case:ident)*) => {
        $crate::storage_suite! { @cases $attributes $factory; $($case)*
            empty_store_is_at_revision_one
            creating_an_existing_key_is_a_conflict
            put_requires_the_last_modified_revision
            deletion_consumes_a_revision
            failed_commit_consumes_no_revision
            concurrent_updates_of_one_key_are_not_lost
            ranges_are_in_byte_order_within_their_prefix
            limited_range_reports_the_remaining_count
            remaining_count_belongs_to_the_revision
            remaining_count_is_exact_under_random_changes
            pages_of_one_revision_are_one_snapshot
            old_revisions_remain_readable
            future_revisions_are_rejected
            compaction_removes_older_revisions
            compaction_does_not_affect_running_watches
            watch_replays_history_and_continues_live
            watch_sees_only_its_prefix
            watch_from_a_future_revision_waits_for_it
            events_contain_previous_and_new_values
            list_and_watch_are_gapless_under_concurrent_writes
            unread_watch_does_not_block_writers_or_skip_events
            values_are_deleted_after_their_lifetime
            watch_reports_progress_up_to_its_start
            prefix_of_a_value_is_not_known_to_be_empty
        }
    };
    ($(#[$attribute:meta])* shared $factory:expr) => {
        $crate::storage_suite! { @common [$(#[$attribute])*] $factory; progress_is_delivered_on_request }
    };
    ($(#[$attribute:meta])* $factory:expr) => {
        $crate::storage_suite! { @common [$(#[$attribute])*] $factory; every_event_completes_its_revision }
    };
}

/// An empty store is at revision 1, and supports reads at and watches after that revision.
pub async fn empty_store_is_at_revision_one(store: Store) {
    assert_eq!(store.revision().await.unwrap(), Revision(1));
    assert_eq!(store.get("/a", None).await.unwrap(), (Revision(1), None));
    let everything = store.range(RangeQuery::default()).await.unwrap();
    assert_eq!(everything, Range { revision: Revision(1), values: vec![], remaining: 0 });
    let mut events = watch(&store, "", Revision(1)).await;
    let first = create(&store, "/a", "1").await;
    assert_eq!(first.revision, Revision(2));
    assert_eq!(next(&mut events).await.revision, Revision(2));
}

/// `Expect::Absent` succeeds once. The conflict returns the current value.
pub async fn creating_an_existing_key_is_a_conflict(store: Store) {
    let created = create(&store, "/a", "1").await;
    let value = created.value.clone().unwrap();
    assert_eq!((&*value.key, &*value.body), ("/a", &b"1"[..]));
    assert_eq!((value.created, value.modified), (created.revision, created.revision));
    assert_eq!(created.previous, None);
    assert_eq!(conflict(store.commit("/a", Expect::Absent, put("2")).await), Some(value.clone()));
    assert_eq!(store.get("/a", None).await.unwrap(), (created.revision, Some(value)));
}

/// `Expect::Unchanged` compares with the revision of the last put.
pub async fn put_requires_the_last_modified_revision(store: Store) {
    let created = create(&store, "/a", "1").await.revision;
    create(&store, "/b", "1").await;
    let updated = store.commit("/a", Expect::Unchanged(created), put("2")).await.unwrap();
    let value = updated.value.clone().unwrap();
    assert_eq!((value.created, value.modified, &*value.body), (created, updated.revision, &b"2"[..]));
    assert_eq!(updated.previous.unwrap().modified, created);
    assert_eq!(conflict(store.commit("/a", Expect::Unchanged(created), put("3")).await), Some(value.clone()));
    assert_eq!(conflict(store.commit("/a", Expect::Unchanged(created), Change::Delete).await), Some(value));
    assert_eq!(conflict(store.commit("/c", Expect::Unchanged(created), put("3")).await), None);
}

/// A deletion consumes a revision, and a recreated key is new.
pub async fn deletion_consumes_a_revision(store: Store) {
    let created = create(&store, "/a", "1").await;
    let deleted = delete(&store, "/a", created.revision).await;
    assert_eq!(deleted.revision, created.revision.next());
    assert_eq!((deleted.value, deleted.previous), (None, created.value));
    assert_eq!(store.get("/a", None).await.unwrap(), (deleted.revision, None));
    assert_eq!(conflict(store.commit("/a", Expect::Unchanged(created.revision), Change::Delete).await), None);
    assert_eq!(conflict(store.commit("/a", Expect::Absent, Change::Delete).await), None);
    let again = create(&store, "/a", "2").await;
    assert_eq!(again.revision, deleted.revision.next());
    assert_eq!((again.value.unwrap().created, again.previous), (again.revision, None));
}

/// Conflicts and failed reads don't change the revision.
pub async fn failed_commit_consumes_no_revision(store: Store) {
    let created = create(&store, "/a", "1").await.revision;
    conflict(store.commit("/a", Expect::Absent, put("2")).await);
    conflict(store.commit("/b", Expect::Unchanged(created), Change::Delete).await);
    assert_eq!(store.revision().await.unwrap(), created);
    assert_eq!(create(&store, "/b", "1").await.revision, created.next());
}

/// Many tasks read, add one, and put if unchanged. No addition is lost, and every commit has its own revision.
pub async fn concurrent_updates_of_one_key_are_not_lost(store: Store) {
    let first = create(&store, "/counter", "0").await.revision;
    let tasks = (0..8).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for _ in 0..25 {
                loop {
                    let value = store.get("/counter", None).await.unwrap().1.unwrap();
                    let count: u64 = text(&value).parse().unwrap();
                    let change = put(&(count + 1).to_string());
                    match store.commit("/counter", Expect::Unchanged(value.modified), change).await {
                        Ok(_) => break,
                        Err(CommitError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        })
    });
    for ended in join_all(tasks).await {
        ended.unwrap();
    }
    let (revision, value) = store.get("/counter", None).await.unwrap();
    assert_eq!(text(&value.unwrap()), "200");
    assert_eq!(revision, Revision(first.0 + 200));
}

/// Keys are compared byte by byte. Keys next to the prefix are not included.
pub async fn ranges_are_in_byte_order_within_their_prefix(store: Store) {
    for key in ["/b/z", "/b/a", "/b/a/x", "/b/a-x", "/b/ä", "/a/a", "/b", "/b0", "/c/a", "/b/A"] {
        create(&store, key, key).await;
    }
    let under_b = store.range(RangeQuery::prefix("/b/")).await.unwrap();
    assert_eq!(keys(&under_b), ["/b/A", "/b/a", "/b/a-x", "/b/a/x", "/b/z", "/b/ä"]);
    assert_eq!(under_b.revision, store.revision().await.unwrap());
    let from = |start: &str| store.range(RangeQuery::prefix("/b/").start(start));
    assert_eq!(keys(&from("/b/a-x").await.unwrap()), ["/b/a-x", "/b/a/x", "/b/z", "/b/ä"]);
    assert_eq!(keys(&from("/b/a-x\0").await.unwrap()), ["/b/a/x", "/b/z", "/b/ä"]);
    assert_eq!(keys(&from("/a").await.unwrap()).len(), 6);
    assert_eq!(keys(&from("/c").await.unwrap()).len(), 0);
    assert_eq!(keys(&store.range(RangeQuery::default()).await.unwrap()).len(), 10);
}

/// `remaining` is exact, with and without a start key.
pub async fn limited_range_reports_the_remaining_count(store: Store) {
    for n in 0..10 {
        create(&store, &format!("/a/{n}"), "").await;
    }
    create(&store, "/b/0", "").await;
    let read = async |query: RangeQuery| {
        let range = store.range(query).await.unwrap();
        (keys(&range).join(" "), range.remaining)
    };
    let query = RangeQuery::prefix("/a/");
    assert_eq!(read(query.clone().limit(3)).await, ("/a/0 /a/1 /a/2".into(), 7));
    assert_eq!(read(query.clone().limit(3).start("/a/5")).await, ("/a/5 /a/6 /a/7".into(), 2));
    assert_eq!(read(query.clone().limit(3).start("/a/7")).await, ("/a/7 /a/8 /a/9".into(), 0));
    assert_eq!(read(query.clone().limit(3).start("/a/8")).await, ("/a/8 /a/9".into(), 0));
    assert_eq!(read(query.limit(0)).await, (String::new(), 10));
}

/// `remaining` counts the values of the revision that is read, on each page of a continued list and after compaction.
pub async fn remaining_count_belongs_to_the_revision(store: Store) {
    let mut created = Vec::new();
    for n in 0..20 {
        created.push(create(&store, &format!("/a/{n:02}"), "").await.revision);
    }
    create(&store, "/b/0", "").await;
    let first = store.range(RangeQuery::prefix("/a/").limit(5)).await.unwrap();
    assert_eq!((keys(&first).last().copied(), first.remaining), (Some("/a/04"), 15));
    for (n, created) in created.iter().enumerate().take(18).skip(2) {
        delete(&store, &format!("/a/{n:02}"), *created).await;
    }
    for n in 0..7 {
        create(&store, &format!("/a/05-{n}"), "").await;
    }
    create(&store, "/a/06", "").await;
    let now = store.revision().await.unwrap();
    let read = async |start: &str, limit: usize, at: Revision| {
        let query = RangeQuery::prefix("/a/").start(start).limit(limit).at(at);
        let range = store.range(query).await.unwrap();
        (range.values.len(), range.remaining)
    };
    for _ in 0..2 {
        // In the order of the pages, and then in any order.
        assert_eq!(read("/a/04\0", 5, first.revision).await, (5, 10));
        assert_eq!(read("/a/09\0", 9, first.revision).await, (9, 1));
        assert_eq!(read("/a/18\0", 9, first.revision).await, (1, 0));
        assert_eq!(read("/a/18\0", 0, first.revision).await, (0, 1));
        assert_eq!(read("/a/", 0, first.revision).await, (0, 20));
        assert_eq!(read("/a/04\0", 3, first.revision).await, (3, 12));
        assert_eq!(read("/a/07", 1, created[9]).await, (1, 2));
        assert_eq!(read("/a/", 1, now).await, (1, 11));
        assert_eq!(read("/a/05-3", 2, now).await, (2, 5));
        store.compact(created[9]).await.unwrap();
    }
    store.compact(now).await.unwrap();
    assert_eq!(read("/a/", 3, now).await, (3, 9));
    let current = store.range(RangeQuery::prefix("/a/").limit(0)).await.unwrap();
    assert_eq!((current.revision, current.remaining), (now, 12));
}

/// `remaining` is exact at every readable revision, while keys are created, updated, deleted and compacted.
pub async fn remaining_count_is_exact_under_random_changes(store: Store) {
    let entropy = windlass_api::Entropy::seeded(24);
    let below = |most: usize| usize::try_from(entropy.below(most as u64)).unwrap();
    let key_of = |number: usize| format!("/{}/{number:03}", ["a", "b", "ab"][number % 3]);
    let mut live: BTreeMap<String, Revision> = BTreeMap::new();
    let mut states: Vec<(Revision, Vec<String>)> = Vec::new();
    for step in 0..1_200 {
        let key = key_of(below(150));
        let committed = match live.get(&key) {
            None => create(&store, &key, "1").await,
            Some(at) if below(2) == 0 => delete(&store, &key, *at).await,
            Some(at) => store.commit(&key, Expect::Unchanged(*at), put("2")).await.unwrap(),
        };
        match committed.value {
            Some(value) => live.insert(key, value.modified),
            None => live.remove(&key),
        };
        states.push((committed.revision, live.keys().cloned().collect()));
        if step % 400 == 399 {
            let oldest = states.len() - 1 - below(100);
            store.compact(states[oldest].0).await.unwrap();
            states.drain(..oldest);
        }
        if step % 3 != 0 {
            continue;
        }
        let (at, state) = &states[below(states.len())];
        let (prefix, limit) = (["", "/a", "/a/", "/b/", "/ab/"][below(5)], below(20));
        let start = if below(2) == 0 { key_after(&state[below(state.len())]) } else { prefix.to_owned() };
        let expected: Vec<_> = state.iter().filter(|key| key.starts_with(prefix) && **key >= start).collect();
        let range = store.range(RangeQuery::prefix(prefix).start(&start).limit(limit).at(*at)).await.unwrap();
        let shown = expected.iter().take(limit).map(|key| key.as_str()).collect::<Vec<_>>();
        let remaining = (expected.len() - shown.len()) as u64;
        assert_eq!((keys(&range), range.remaining), (shown, remaining), "{prefix:?} from {start:?} at {at}");
    }
}

/// Returns the start of the page after a key.
fn key_after(key: &str) -> String {
    format!("{key}\0")
}

/// Pages at the revision of the first page don't contain later writes.
pub async fn pages_of_one_revision_are_one_snapshot(store: Store) {
    let mut revisions = Vec::new();
    for n in 0..6 {
        revisions.push(create(&store, &format!("/a/{n}"), "old").await.revision);
    }
    let mut page = store.range(RangeQuery::prefix("/a/").limit(2)).await.unwrap();
    let snapshot = page.revision;
    let mut seen = Vec::new();
    for round in 0.. {
        seen.extend(page.values.iter().map(|value| (value.key.to_string(), text(value))));
        if page.remaining == 0 {
            break;
        }
        let start = format!("{}\0", page.values.last().unwrap().key);
        create(&store, &format!("/a/{round}-new"), "new").await;
        if round == 0 {
            delete(&store, "/a/3", revisions[3]).await;
            store.commit("/a/4", Expect::Unchanged(revisions[4]), put("new")).await.unwrap();
        }
        page = store.range(RangeQuery::prefix("/a/").start(start).limit(2).at(snapshot)).await.unwrap();
        assert_eq!(page.revision, snapshot);
    }
    let expected: Vec<_> = (0..6).map(|n| (format!("/a/{n}"), "old".to_owned())).collect();
    assert_eq!(seen, expected);
}

/// A value with a lifetime is deleted by a commit. The last put decides the lifetime.
pub async fn values_are_deleted_after_their_lifetime(store: Store) {
    let put_for = |text: &'static str, lifetime| Change::PutFor(Bytes::from_static(text.as_bytes()), lifetime);
    let mut events = watch(&store, "/brief/", Revision(1)).await;
    let kept = store.commit("/brief/kept", Expect::Absent, put_for("1", Duration::from_hours(1))).await.unwrap();
    store.commit("/brief/kept", Expect::Unchanged(kept.revision), put("2")).await.unwrap();
    let gone = create(&store, "/brief/gone", "1").await;
    let brief = put_for("2", Duration::from_millis(50));
    let gone = store.commit("/brief/gone", Expect::Unchanged(gone.revision), brief).await.unwrap();
    assert_eq!(revisions(&mut events, 4).await.len(), 4);
    let expired = async {
        for n in 0.. {
            // Some backends delete expired values together with the next commit.
            create(&store, &format!("/other/{n}"), "").await;
            if let Ok(event) = time::timeout(Duration::from_millis(20), next_event(&mut events)).await {
                return event.unwrap().unwrap();
            }
        }
        unreachable!("the loop has no end")
    };
    let expired = time::timeout(PATIENCE, expired).await.unwrap();
    assert_eq!((&*expired.key, expired.current, expired.previous), ("/brief/gone", None, gone.value));
    assert_eq!(store.get("/brief/gone", None).await.unwrap().1, None);
    assert_eq!(text(&store.get("/brief/kept", None).await.unwrap().1.unwrap()), "2");
}

/// Every earlier state can be read until compaction.
pub async fn old_revisions_remain_readable(store: Store) {
    let one = create(&store, "/a/x", "1").await.revision;
    let two = store.commit("/a/x", Expect::Unchanged(one), put("2")).await.unwrap().revision;
    let other = create(&store, "/a/y", "1").await.revision;
    let gone = delete(&store, "/a/x", two).await.revision;
    let back = create(&store, "/a/x", "3").await.revision;
    let states = [
        (Revision(1), ""),
        (one, "/a/x=1"),
        (two, "/a/x=2"),
        (other, "/a/x=2 /a/y=1"),
        (gone, "/a/y=1"),
        (back, "/a/x=3 /a/y=1"),
    ];
    for (at, state) in states {
        let range = store.range(RangeQuery::prefix("/a/").at(at)).await.unwrap();
        assert_eq!(range.revision, at);
        let shown: Vec<_> = range.values.iter().map(|value| format!("{}={}", value.key, text(value))).collect();
        assert_eq!(shown.join(" "), state, "at revision {at}");
        let (read_at, value) = store.get("/a/x", Some(at)).await.unwrap();
        assert_eq!(read_at, at);
        assert_eq!(value.as_ref(), range.values.iter().find(|value| &*value.key == "/a/x"), "at revision {at}");
    }
}

/// Reads of a future revision fail immediately and return both revisions.
pub async fn future_revisions_are_rejected(store: Store) {
    let now = create(&store, "/a", "1").await.revision;
    let future = Revision(now.0 + 5);
    let is_future = |error: StorageError| {
        assert!(
            matches!(error, StorageError::Future { requested, current } if requested == future && current == now),
            "{error}"
        );
    };
    is_future(store.get("/a", Some(future)).await.unwrap_err());
    is_future(store.range(RangeQuery::prefix("/").at(future)).await.unwrap_err());
    is_future(store.compact(future).await.unwrap_err());
}

/// The compacted revision is the oldest that can be read and watched from.
pub async fn compaction_removes_older_revisions(store: Store) {
    let one = create(&store, "/a/x", "1").await.revision;
    let two = store.commit("/a/x", Expect::Unchanged(one), put("2")).await.unwrap().revision;
    let dead = create(&store, "/a/dead", "").await.revision;
    let floor = delete(&store, "/a/dead", dead).await.revision;
    let three = store.commit("/a/x", Expect::Unchanged(two), put("3")).await.unwrap().revision;
    store.compact(floor).await.unwrap();

    let is_compacted = |error: StorageError| {
        assert!(matches!(error, StorageError::Compacted { oldest } if oldest == floor), "{error}");
    };
    is_compacted(store.get("/a/x", Some(two)).await.unwrap_err());
    is_compacted(store.range(RangeQuery::prefix("/a/").at(dead)).await.unwrap_err());
    is_compacted(store.watch("/a/", dead).await.err().unwrap());
    assert_eq!(text(&store.get("/a/x", Some(floor)).await.unwrap().1.unwrap()), "2");
    assert_eq!(keys(&store.range(RangeQuery::prefix("/a/").at(floor)).await.unwrap()), ["/a/x"]);
    assert_eq!(text(&store.get("/a/x", None).await.unwrap().1.unwrap()), "3");
    let event = next(&mut watch(&store, "/a/", floor).await).await;
    assert_eq!((event.revision, text(&event.previous.unwrap())), (three, "2".into()));

    store.compact(floor).await.unwrap();
    store.compact(one).await.unwrap();
    store.compact(three).await.unwrap();
    assert!(store.get("/a/x", Some(floor)).await.is_err());
    assert_eq!(create(&store, "/a/y", "1").await.revision, three.next());
}

/// A running watch still gets the events that it has not read yet.
pub async fn compaction_does_not_affect_running_watches(store: Store) {
    let first = create(&store, "/a/0", "").await.revision;
    let mut events = watch(&store, "/a/", Revision(1)).await;
    for n in 1..20 {
        create(&store, &format!("/a/{n}"), "").await;
    }
    let now = store.revision().await.unwrap();
    store.compact(now).await.unwrap();
    let last = create(&store, "/a/last", "").await.revision;
    for revision in first.0..=last.0 {
        assert_eq!(next(&mut events).await.revision, Revision(revision));
    }
}

/// A watch delivers history first and then live events, without a gap.
pub async fn watch_replays_history_and_continues_live(store: Store) {
    let one = create(&store, "/a", "1").await.revision;
    let two = store.commit("/a", Expect::Unchanged(one), put("2")).await.unwrap().revision;
    let mut all = watch(&store, "", Revision(1)).await;
    let mut later = watch(&store, "", one).await;
    let three = delete(&store, "/a", two).await.revision;
    let mut live = watch(&store, "", three).await;
    let four = create(&store, "/a", "4").await.revision;
    assert_eq!([one, two, three, four].map(|revision| revision.0), [2, 3, 4, 5]);
    assert_eq!(revisions(&mut all, 4).await, [one, two, three, four]);
    assert_eq!(revisions(&mut later, 3).await, [two, three, four]);
    assert_eq!(revisions(&mut live, 1).await, [four]);
}

/// A watch gets only events under its prefix, in replay and live.
pub async fn watch_sees_only_its_prefix(store: Store) {
    let write = async || {
        for key in ["/a", "/a/1", "/a0", "/b/a/1", "/a/1/2"] {
            match store.get(key, None).await.unwrap().1 {
                None => create(&store, key, "").await,
                Some(value) => store.commit(key, Expect::Unchanged(value.modified), put("new")).await.unwrap(),
            };
        }
    };
    write().await;
    let mut events = watch(&store, "/a/", Revision(1)).await;
    write().await;
    for key in ["/a/1", "/a/1/2", "/a/1", "/a/1/2"] {
        assert_eq!(&*next(&mut events).await.key, key);
    }
}

/// A watch after a future revision starts with the first event after it.
pub async fn watch_from_a_future_revision_waits_for_it(store: Store) {
    let now = store.revision().await.unwrap();
    let mut events = watch(&store, "", Revision(now.0 + 2)).await;
    for n in 0..4 {
        create(&store, &format!("/{n}"), "").await;
    }
    assert_eq!(revisions(&mut events, 2).await, [Revision(now.0 + 3), Revision(now.0 + 4)]);
}

/// Events distinguish creation, update and deletion, and selectors can be evaluated on both values.
pub async fn events_contain_previous_and_new_values(store: Store) {
    let mut live = watch(&store, "/", Revision(1)).await;
    let created = create(&store, "/a", "1").await;
    let updated = store.commit("/a", Expect::Unchanged(created.revision), put("2")).await.unwrap();
    let deleted = delete(&store, "/a", updated.revision).await;
    let mut replayed = watch(&store, "/", Revision(1)).await;
    for commit in [created, updated, deleted] {
        let event = StorageEvent {
            revision: commit.revision,
            key: "/a".into(),
            current: commit.value,
            previous: commit.previous,
        };
        assert_eq!(next(&mut live).await, event);
        assert_eq!(next(&mut replayed).await, event);
    }
}

/// Readers that repeatedly list and then watch during concurrent writes always reach the correct state.
pub async fn list_and_watch_are_gapless_under_concurrent_writes(store: Store) {
    const WRITERS: u64 = 4;
    const COMMITS: u64 = 100;
    let first = store.revision().await.unwrap();
    let last = Revision(first.0 + WRITERS * COMMITS);
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write_some(Arc::clone(&store), writer, COMMITS)));
    let writers: Vec<_> = writers.collect();
    let mut readers = Vec::new();
    for _ in 0..20 {
        let range = store.range(RangeQuery::prefix("/w/")).await.unwrap();
        readers.push(tokio::spawn(follow(Arc::clone(&store), range, last)));
        tokio::task::yield_now().await;
    }
    for ended in join_all(writers).await {
        ended.unwrap();
    }
    let truth = state(&store.range(RangeQuery::prefix("/w/")).await.unwrap());
    assert_eq!(store.revision().await.unwrap(), last);
    for reader in join_all(readers).await {
        assert_eq!(reader.unwrap(), truth);
    }
}

/// Creates, updates and deletes the writer's own three keys in turn.
async fn write_some(store: Store, writer: u64, commits: u64) {
    let mut modified: [Option<Revision>; 3] = [None; 3];
    for n in 0..commits {
        let slot = usize::try_from(n % 3).unwrap();
        let key = format!("/w/{writer}/{slot}");
        let (expect, change) = match modified[slot] {
            None => (Expect::Absent, put(&n.to_string())),
            Some(at) if n % 7 == 0 => (Expect::Unchanged(at), Change::Delete),
            Some(at) => (Expect::Unchanged(at), put(&n.to_string())),
        };
        modified[slot] = store.commit(&key, expect, change).await.unwrap().value.map(|value| value.modified);
    }
}

/// Applies the events after `range` up to `last`. Returns the resulting state.
async fn follow(store: Store, range: Range, last: Revision) -> BTreeMap<String, String> {
    let mut state = state(&range);
    let mut events = watch(&store, "/w/", range.revision).await;
    for revision in range.revision.0 + 1..=last.0 {
        let event = next(&mut events).await;
        assert_eq!(event.revision, Revision(revision), "no gap, no repetition");
        let key = event.key.to_string();
        let before = match event.current {
            Some(value) => state.insert(key, text(&value)),
            None => state.remove(&key),
        };
        assert_eq!(before, event.previous.as_ref().map(text), "the previous value of the event");
    }
    state
}

/// In an exclusive store, each delivery is an event that completes its revision, also the one of an expired value.
pub async fn every_event_completes_its_revision(store: Store) {
    let brief = Change::PutFor(Bytes::from_static(b""), Duration::from_millis(1));
    store.commit("/brief", Expect::Absent, brief).await.unwrap();
    let mut replayed = watch(&store, "", Revision(1)).await;
    time::sleep(Duration::from_millis(5)).await;
    let created = create(&store, "/a", "1").await.revision;
    let mut live = watch(&store, "", created).await;
    let last = delete(&store, "/a", created).await.revision;
    for (events, first) in [(&mut replayed, Revision(2)), (&mut live, created.next())] {
        for revision in first.0..=last.0 {
            let delivery = time::timeout(PATIENCE, events.next()).await.expect("an event").unwrap().unwrap();
            assert!(matches!(delivery, Delivery::Event { completes: true, .. }), "{delivery:?}");
            assert_eq!(delivery.progress(), Revision(revision));
        }
    }
}

/// A watch whose prefix has no events reports later revisions on request.
pub async fn progress_is_delivered_on_request(store: Store) {
    let mut events = watch(&store, "/quiet/", Revision(1)).await;
    let revision = create(&store, "/a", "1").await.revision;
    let progress = async {
        loop {
            store.request_progress();
            if let Ok(delivery) = time::timeout(Duration::from_millis(100), events.next()).await {
                match delivery.unwrap().unwrap() {
                    Delivery::Progress(now) if now >= revision => return now,
                    Delivery::Progress(_) => {}
                    other => panic!("unexpected {other:?}"),
                }
            }
        }
    };
    assert_eq!(time::timeout(PATIENCE, progress).await.expect("progress"), revision);
}

/// A watch of all keys reports progress up to the revision at which it was started, without a request.
pub async fn watch_reports_progress_up_to_its_start(store: Store) {
    for n in 0..20 {
        create(&store, &format!("/{n}"), "").await;
    }
    let now = store.revision().await.unwrap();
    let mut events = watch(&store, "", Revision(1)).await;
    let mut progress = Revision(1);
    while progress < now {
        let delivery = time::timeout(PATIENCE, events.next()).await.expect("progress").unwrap().unwrap();
        assert!(delivery.progress() >= progress, "{delivery:?} after {progress}");
        progress = delivery.progress();
    }
}

/// Writers finish while a watch is not read. When it is read, it has every event up to the end or up to an error.
pub async fn unread_watch_does_not_block_writers_or_skip_events(store: Store) {
    let mut events = watch(&store, "", Revision(1)).await;
    let mut modified = create(&store, "/a", "").await.revision;
    for n in 0..2000 {
        modified = store.commit("/a", Expect::Unchanged(modified), put(&n.to_string())).await.unwrap().revision;
    }
    for revision in 2..=modified.0 {
        match time::timeout(PATIENCE, next_event(&mut events)).await.expect("an event or an error") {
            Some(Ok(event)) => assert_eq!(event.revision, Revision(revision)),
            Some(Err(StorageError::Lagged { after })) => {
                assert_eq!(after, Revision(revision - 1));
                break;
            }
            other => panic!("expected an event or `Lagged`, got {other:?}"),
        }
    }
}

fn put(body: &str) -> Change {
    Change::Put(Bytes::copy_from_slice(body.as_bytes()))
}

/// No value is overlooked because its prefix was empty before.
pub async fn prefix_of_a_value_is_not_known_to_be_empty(store: Store) {
    let created = create(&store, "/a/1", "x").await;
    for prefix in ["/a/1", "/a/", "/a", "/", ""] {
        assert!(!store.is_known_to_be_empty(prefix), "{prefix}");
        assert_eq!(store.range_recent(prefix).await.unwrap().values.len(), 1, "{prefix}");
    }
    delete(&store, "/a/1", created.revision).await;
    create(&store, "/a/1", "y").await;
    assert!(!store.is_known_to_be_empty("/a/"));
}

async fn create(store: &Store, key: &str, body: &str) -> Committed {
    store.commit(key, Expect::Absent, put(body)).await.unwrap()
}

async fn delete(store: &Store, key: &str, modified: Revision) -> Committed {
    store.commit(key, Expect::Unchanged(modified), Change::Delete).await.unwrap()
}

fn conflict(outcome: Result<Committed, CommitError>) -> Option<StoredValue> {
    match outcome {
        Err(CommitError::Conflict { current }) => current,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

async fn watch(store: &Store, prefix: &str, after: Revision) -> EventStream {
    store.watch(prefix, after).await.unwrap()
}

async fn next(events: &mut EventStream) -> StorageEvent {
    time::timeout(PATIENCE, next_event(events)).await.expect("an event").expect("the watch continues").unwrap()
}

async fn revisions(events: &mut EventStream, count: usize) -> Vec<Revision> {
    let mut revisions = Vec::new();
    while revisions.len() < count {
        revisions.push(next(events).await.revision);
    }
    revisions
}

fn keys(range: &Range) -> Vec<&str> {
    range.values.iter().map(|value| &*value.key).collect()
}

fn state(range: &Range) -> BTreeMap<String, String> {
    range.values.iter().map(|value| (value.key.to_string(), text(value))).collect()
}

fn text(value: &StoredValue) -> String {
    String::from_utf8(value.body.to_vec()).unwrap()
}
