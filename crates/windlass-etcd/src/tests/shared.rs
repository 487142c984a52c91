//! A store that other clients write to: several events in one revision, foreign keys, leases, and compaction.

use super::*;
use crate::{
    Compactor,
    cluster::TXN,
    messages::{DeleteRangeRequest, PutRequest, Request, RequestOp, TxnRequest, TxnResponse, revision_of},
};

/// Executes a transaction as another client would, with keys of etcd. Returns its revision.
async fn transaction(storage: &EtcdStorage, operations: impl IntoIterator<Item = Request>) -> Revision {
    let success = operations.into_iter().map(|request| RequestOp { request: Some(request) }).collect();
    let request = TxnRequest { success, ..TxnRequest::default() };
    let cluster = &storage.shared.reader.cluster;
    let response: TxnResponse = cluster.call(|| "test".to_owned(), TXN, &request).await.unwrap();
    Revision(revision_of(response.header.as_ref()))
}

fn foreign_put(key: &str, body: impl Into<Bytes>) -> Request {
    Request::Put(PutRequest { key: key.into(), value: body.into(), ..PutRequest::default() })
}

fn foreign_delete(key: &str) -> Request {
    Request::DeleteRange(DeleteRangeRequest { key: key.into(), prev_kv: false })
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn events_of_one_revision_complete_it_together() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let mut live = storage.watch("", Revision(1)).await.unwrap();
    let puts = ["/registry/a", "/registry/b", "/elsewhere", "/registry/c"].map(|key| foreign_put(key, "1"));
    let first = transaction(&storage, puts).await;
    let second = transaction(&storage, [foreign_delete("/registry/a"), foreign_put("/registry/b", "2")]).await;
    let mut replayed = storage.watch("", Revision(1)).await.unwrap();
    let mut of_b = storage.watch("/registry/b", Revision(1)).await.unwrap();
    for events in [&mut live, &mut replayed] {
        let mut keys = Vec::new();
        for (revision, is_last) in [(first, false), (first, false), (first, true), (second, false), (second, true)] {
            let delivery = delivery(events).await;
            assert_eq!(delivery.progress(), if is_last { revision } else { revision.previous() }, "{delivery:?}");
            let event = delivery.into_event().unwrap();
            assert_eq!(event.revision, revision);
            keys.push(event.key.to_string());
        }
        assert_eq!(keys, ["/registry/a", "/registry/b", "/registry/c", "/registry/a", "/registry/b"]);
    }
    for revision in [first, second] {
        assert_eq!(delivery(&mut of_b).await.progress(), revision);
    }
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn fragments_of_a_large_revision_complete_it_once() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let keys: Vec<_> = (0..7).map(|n| format!("/registry/{n}")).collect();
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    // With the previous values, an update is twice as large as the largest response.
    for text in ["a", "b", "c"] {
        let revision = transaction(&storage, keys.iter().map(|key| foreign_put(key, text.repeat(200 << 10)))).await;
        for number in 0..keys.len() {
            let delivery = delivery(&mut events).await;
            let expected = if number == 6 { revision } else { revision.previous() };
            assert_eq!(delivery.progress(), expected);
            let event = delivery.into_event().unwrap();
            assert!(event.current.unwrap().body.starts_with(text.as_bytes()));
            assert_eq!(event.previous.is_some(), text != "a");
        }
    }
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn foreign_keys_are_invisible_and_only_cause_progress() {
    let etcd = Etcd::start();
    let options = Options { prefix: "/clusters/one".into(), ..Options::new([etcd.endpoint()]) };
    let storage = etcd::connect(options).await;
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    let last = create(&storage, "/registry/pods/a", "1").await;
    for key in ["/registry/pods/a", "/clusters/one", "/clusters/one0", "/clusters/onex/a", "compact_rev_key"] {
        transaction(&storage, [foreign_put(key, "foreign")]).await;
    }
    let other = transaction(&storage, [foreign_put("/clusters/one/pods/b", "2")]).await;
    let now = transaction(&storage, [foreign_put("/other", "foreign")]).await;
    let range = storage.range(RangeQuery::default()).await.unwrap();
    let keys: Vec<_> = range.values.iter().map(|value| &*value.key).collect();
    assert_eq!((range.revision, range.remaining, keys), (now, 0, vec!["/registry/pods/a", "/registry/pods/b"]));
    let seen = [event(&mut events).await, event(&mut events).await];
    assert_eq!(
        seen.map(|event| (event.revision, event.key.to_string())),
        [(last, "/registry/pods/a".to_owned()), (other, "/registry/pods/b".to_owned()),]
    );
    storage.request_progress();
    assert_eq!(delivery(&mut events).await, Delivery::Progress(now));
    let outside = storage.commit("/other", Expect::Absent, put("1")).await.unwrap_err();
    assert!(matches!(outside, CommitError::Storage(StorageError::Unavailable(_))), "{outside}");
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn watch_reports_its_start_also_if_it_is_a_foreign_revision() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let first = create(&storage, "/registry/a", "1").await;
    let now = transaction(&storage, [foreign_put("/other", "foreign")]).await;
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    assert_eq!(delivery(&mut events).await.progress(), first);
    assert_eq!(delivery(&mut events).await, Delivery::Progress(now));
    let mut later = storage.watch("", first).await.unwrap();
    assert_eq!(delivery(&mut later).await, Delivery::Progress(now));
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn large_ranges_are_read_in_pages_of_one_revision() {
    const KEYS: usize = 2500;
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    for first in (0..KEYS).step_by(100) {
        let body = "x".repeat(1 << 10);
        let puts = (first..first + 100).map(|n| foreign_put(&format!("/registry/pods/{n:05}"), body.clone()));
        transaction(&storage, puts).await;
    }
    let revision = storage.revision().await.unwrap();
    let range = storage.range(RangeQuery::prefix("/registry/pods/")).await.unwrap();
    assert_eq!((range.revision, range.values.len(), range.remaining), (revision, KEYS, 0));
    assert!(range.values.iter().enumerate().all(|(n, value)| *value.key == format!("/registry/pods/{n:05}")));
    let some = storage.range(RangeQuery::prefix("/registry/pods/").start("/registry/pods/00100").limit(1700)).await;
    let some = some.unwrap();
    assert_eq!((some.values.len(), some.remaining), (1700, 700));
    assert_eq!(&*some.values[1699].key, "/registry/pods/01799");
    transaction(&storage, [foreign_delete("/registry/pods/00000"), foreign_put("/registry/pods/9", "")]).await;
    let old = storage.range(RangeQuery::prefix("/registry/pods/").at(revision)).await.unwrap();
    assert_eq!((old.revision, old.values), (revision, range.values));
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn too_large_request_has_etcds_message() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let error = storage.commit("/registry/a", Expect::Absent, put(&"x".repeat(1600 << 10))).await.unwrap_err();
    assert_eq!(error.to_string(), "etcdserver: request is too large");
    let size = 1500 << 10;
    storage.commit("/registry/a", Expect::Absent, put(&"x".repeat(size))).await.unwrap();
    assert_eq!(storage.get("/registry/a", None).await.unwrap().1.unwrap().body.len(), size);
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn values_with_equal_lifetimes_share_a_lease_and_expire_together() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let put_for = |seconds| Change::PutFor(Bytes::from_static(b"1"), Duration::from_secs(seconds));
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    for key in ["/registry/a", "/registry/b"] {
        storage.commit(key, Expect::Absent, put_for(3600)).await.unwrap();
    }
    let lease = storage.shared.leases.get(&storage.shared.reader.cluster, Duration::from_hours(1)).await.unwrap();
    let revoke = crate::messages::LeaseGrantRequest { ttl: lease };
    // `LeaseRevokeRequest` has the lease in the field of the duration.
    let connection = storage.shared.reader.cluster.connection().await.unwrap();
    connection.unary("/etcdserverpb.Lease/LeaseRevoke", windlass_grpc::frame(&revoke)).await.unwrap();
    event(&mut events).await;
    let last = event(&mut events).await.revision;
    let expired = [delivery(&mut events).await, delivery(&mut events).await];
    assert_eq!(expired.each_ref().map(Delivery::progress), [last, last.next()], "one revision deletes both");
    let gone = expired.map(|delivery| delivery.into_event().unwrap());
    assert!(gone.iter().all(|event| event.current.is_none() && event.previous.is_some()));
    // The revoked lease is replaced.
    storage.commit("/registry/c", Expect::Absent, put_for(3600)).await.unwrap();
    assert!(storage.get("/registry/c", None).await.unwrap().1.is_some());
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn one_of_several_compactors_compacts() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let mut compactors = [(); 2].map(|()| storage.compactor(Compactor::INTERVAL));
    let created = create(&storage, "/registry/a", "1").await;
    let mut winners = Vec::new();
    for round in 0..4 {
        let before = storage.revision().await.unwrap();
        let modified = storage.get("/registry/a", None).await.unwrap().1.unwrap().modified;
        update(&storage, "/registry/a", modified, &round.to_string()).await.unwrap();
        for (number, compactor) in compactors.iter_mut().enumerate() {
            if let Some(upto) = compactor.compact_once().await.unwrap() {
                assert!(upto <= before.next(), "the history of the last interval is kept");
                winners.push((round, number));
            }
        }
    }
    // The first round of the first one initializes the key, and the second one only follows.
    assert_eq!(winners, [(1, 0), (2, 0), (3, 0)]);
    let error = storage.get("/registry/a", Some(created)).await.unwrap_err();
    assert!(matches!(error, StorageError::Compacted { .. }), "{error}");
    // A failed server is replaced.
    let [_, other] = &mut compactors;
    assert!(other.compact_once().await.unwrap().is_some());
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn compaction_after_the_start_does_not_end_a_watch() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let mut last = create(&storage, "/registry/a", "").await;
    for round in 0..10 {
        let before = last;
        for _ in 0..3 {
            last = update(&storage, "/registry/a", last, "").await.unwrap().revision;
        }
        // etcd looks for watches with history every 100 ms.
        let mut events = storage.watch("", before).await.unwrap();
        storage.compact(last).await.unwrap();
        for revision in before.0 + 1..=last.0 {
            assert_eq!(event(&mut events).await.revision, Revision(revision), "in round {round}");
        }
    }
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn dropping_the_storage_ends_its_watches() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let mut events = storage.watch("", Revision(1)).await.unwrap();
    let another = storage.clone();
    drop(storage);
    let revision = create(&another, "/registry/a", "1").await;
    assert_eq!(event(&mut events).await.revision, revision);
    drop(another);
    assert!(within(next_event(&mut events)).await.is_none());
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask long etcd"]
async fn dropped_watch_is_canceled_in_etcd() {
    let etcd = Etcd::start();
    let storage = etcd::connect_to(&[&etcd]).await;
    let watchers = async || {
        let metrics = etcd::metrics(&etcd).await?;
        let line = metrics.lines().find(|line| line.starts_with("etcd_debugging_mvcc_watcher_total "))?.to_owned();
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let events =
        [storage.watch("", Revision(1)).await.unwrap(), storage.watch("/registry/a", Revision(1)).await.unwrap()];
    assert_eq!(watchers().await, Some(2.0));
    drop(events);
    until(async || watchers().await.filter(|count| *count == 0.0)).await;
}
