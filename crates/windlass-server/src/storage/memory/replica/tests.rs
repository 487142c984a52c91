//! Tests of values that cannot be decoded.

use bytes::Bytes;
use futures::FutureExt as _;

use super::*;

fn value(key: &str, body: &'static str, revisions: (u64, u64)) -> StoredValue {
    let (created, modified) = (Revision(revisions.0), Revision(revisions.1));
    StoredValue { key: key.into(), body: Bytes::from_static(body.as_bytes()), created, modified, is_stale: false }
}

fn event(key: &str, revision: u64, current: Option<StoredValue>) -> Delivery {
    Delivery::complete(StorageEvent { revision: Revision(revision), key: key.into(), current, previous: None })
}

fn put(key: &str, body: &'static str, created: u64, modified: u64) -> Delivery {
    event(key, modified, Some(value(key, body, (created, modified))))
}

fn unreadable(key: &str, revision: u64) -> Delivery {
    let reason = "it is damaged".to_owned();
    Delivery::Unreadable { key: key.into(), revision: Revision(revision), completes: true, reason }
}

/// A copy at revision 10, with values of other keys.
fn replica(unreadable: &[&str]) -> Replica {
    let values = vec![value("/a/0", "zero", (1, 2)), value("/b/0", "zero", (3, 3))];
    let values = Range { revision: Revision(10), values, remaining: 0 };
    let unreadable = unreadable.iter().map(|key| (Arc::from(*key), "it is damaged".to_owned())).collect();
    Replica::new(Retention::default(), values, unreadable)
}

fn events(replica: &Replica, after: u64) -> Vec<Delivery> {
    let mut events = replica.watch("", Revision(after)).unwrap();
    std::iter::from_fn(|| events.next().now_or_never()?.map(Result::unwrap)).collect()
}

/// Checks that two copies have the same values at all revisions, the same events, and the same size.
fn assert_equal(one: &Replica, other: &Replica) {
    assert_eq!(one.revision(), other.revision());
    for at in one.oldest().0..=one.revision().0 {
        let query = RangeQuery::default().at(Revision(at));
        assert_eq!(one.range(&query).unwrap(), other.range(&query).unwrap(), "at {at}");
    }
    assert_eq!(events(one, one.oldest().0), events(other, other.oldest().0));
    assert_eq!(size(one), size(other));
}

fn size(replica: &Replica) -> (usize, usize, usize) {
    let index = replica.store.index.read();
    (index.live_bytes(), index.versions(), replica.store.log.lock().bytes())
}

fn body(replica: &Replica, key: &str, at: u64) -> Option<Bytes> {
    replica.get(key, Some(Revision(at))).unwrap().1.map(|value| value.body)
}

#[test]
fn repaired_copy_equals_one_that_read_everything() {
    let (repaired, other) = (replica(&[]), replica(&[]));
    repaired.apply([
        put("/a/1", "one", 11, 11),
        unreadable("/a/1", 12),
        unreadable("/a/2", 13),
        put("/b/1", "b", 14, 14),
    ]);
    assert!(repaired.repair("/a/1", Revision(12), Some(value("/a/1", "two two", (11, 12)))));
    // It was read later.
    assert!(repaired.repair("/a/2", Revision(14), Some(value("/a/2", "three", (13, 13)))));
    let items = [put("/a/1", "one", 11, 11), put("/a/1", "two two", 11, 12), put("/a/2", "three", 13, 13)];
    other.apply(items.into_iter().chain([put("/b/1", "b", 14, 14)]));
    assert_equal(&repaired, &other);
    for replica in [&repaired, &other] {
        replica.apply([put("/a/1", "four", 11, 15), event("/a/2", 16, None)]);
    }
    assert_equal(&repaired, &other);
    for replica in [&repaired, &other] {
        replica.compact(Revision(13));
    }
    assert_equal(&repaired, &other);
    for replica in [&repaired, &other] {
        replica.compact(Revision(16));
    }
    assert_equal(&repaired, &other);
    assert_eq!(size(&repaired).2, 0);
}

#[test]
fn value_of_the_start_is_repaired() {
    let repaired = replica(&["/a/1"]);
    let started = value("/a/1", "one", (5, 9));
    assert!(repaired.get("/a/1", None).is_err());
    assert!(repaired.repair("/a/1", Revision(12), Some(started.clone())));
    assert!(!repaired.repair("/a/1", Revision(12), Some(started.clone())), "it is readable already");
    assert_eq!(repaired.get("/a/1", None).unwrap(), (Revision(10), Some(started)));
    assert_eq!(size(&repaired).0, "zerozeroone".len());
    repaired.apply([event("/a/1", 13, None)]);
    let deletion = events(&repaired, 10).remove(0).into_event().unwrap();
    assert_eq!(deletion.previous.unwrap().body, "one");
    assert_eq!(size(&repaired).0, "zerozero".len());
}

#[test]
fn value_is_repaired_after_its_event_was_removed() {
    let repaired = replica(&[]);
    repaired.apply([unreadable("/a/1", 11), put("/b/1", "b", 12, 12)]);
    repaired.compact(Revision(12));
    assert!(repaired.repair("/a/1", Revision(12), Some(value("/a/1", "one", (11, 11)))));
    let other = replica(&[]);
    other.apply([put("/a/1", "one", 11, 11), put("/b/1", "b", 12, 12)]);
    other.compact(Revision(12));
    assert_equal(&repaired, &other);
}

#[test]
fn another_value_is_no_repair() {
    let replica = replica(&["/a/1"]);
    replica.apply([unreadable("/a/2", 11), unreadable("/a/3", 12), unreadable("/a/4", 13), event("/a/3", 14, None)]);
    let one = |key, modified| Some(value(key, "one", (4, modified)));
    // It was written after the unreadable one, so its event follows.
    assert!(!replica.repair("/a/1", Revision(15), one("/a/1", 15)));
    // It was read before the unreadable one was written.
    assert!(!replica.repair("/a/2", Revision(10), one("/a/2", 5)));
    // It was deleted.
    assert!(!replica.repair("/a/3", Revision(13), one("/a/3", 12)));
    // It was deleted later, so the event of the deletion follows.
    assert!(!replica.repair("/a/4", Revision(15), None));
    // It was readable.
    assert!(!replica.repair("/a/0", Revision(15), one("/a/0", 2)));
    assert_eq!(body(&replica, "/a/3", 14), None);
    for key in ["/a/1", "/a/2", "/a/4"] {
        assert!(replica.get(key, None).is_err(), "{key}");
    }
    assert_eq!(size(&replica).0, "zerozero".len());
}

#[test]
fn unreadable_event_of_a_deletion_is_repaired() {
    let (repaired, other) = (replica(&[]), replica(&[]));
    repaired.apply([put("/a/1", "one", 11, 11), unreadable("/a/1", 12)]);
    assert!(repaired.repair("/a/1", Revision(12), None));
    other.apply([put("/a/1", "one", 11, 11), event("/a/1", 12, None)]);
    assert_equal(&repaired, &other);
}

#[test]
fn replaced_value_stays_unreadable_until_its_history_is_removed() {
    let replica = replica(&[]);
    replica.apply([
        put("/a/1", "one", 11, 11),
        unreadable("/a/1", 12),
        unreadable("/a/1", 13),
        put("/a/2", "b", 14, 14),
    ]);
    assert!(replica.repair("/a/1", Revision(14), Some(value("/a/1", "three", (11, 13)))));
    assert_eq!([11, 13, 14].map(|at| body(&replica, "/a/1", at).unwrap()), ["one", "three", "three"]);
    assert!(replica.get("/a/1", Some(Revision(12))).is_err());
    let range = |at| replica.range(&RangeQuery::prefix("/a/").at(Revision(at)));
    assert_eq!([11, 13, 14].map(|at| range(at).unwrap().values.len()), [2, 2, 3]);
    assert!(range(12).is_err());
    let of_previous = "the previous value is unreadable: it is damaged";
    let reasons = events(&replica, 10).into_iter().filter_map(|item| match item {
        Delivery::Unreadable { revision, reason, .. } => Some((revision.0, reason)),
        _ => None,
    });
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(reasons, [(12, "it is damaged".to_owned()), (13, of_previous.to_owned())]);
    assert!(events(&replica, 13).iter().all(|item| !matches!(item, Delivery::Unreadable { .. })));
    replica.compact(Revision(13));
    assert!(replica.shared.unreadable.lock().is_empty());
    assert_eq!(body(&replica, "/a/1", 13).unwrap(), "three");
}

#[test]
fn current_values_are_readable_beside_an_unreadable_history() {
    let replica = replica(&[]);
    replica.apply([unreadable("/a/1", 11)]);
    assert!(replica.range(&RangeQuery::prefix("/a/")).is_err());
    assert!(replica.range(&RangeQuery::prefix("/a/").at(Revision(10))).is_ok(), "there is no such key yet");
    assert!(replica.range(&RangeQuery::prefix("/b/")).is_ok());
    replica.apply([put("/a/1", "two", 11, 12)]);
    assert_eq!(replica.range(&RangeQuery::prefix("/a/")).unwrap().values.len(), 2);
    assert_eq!(replica.get("/a/1", None).unwrap().1.unwrap().body, "two");
    assert!(replica.range(&RangeQuery::prefix("/a/").at(Revision(11))).is_err());
}
