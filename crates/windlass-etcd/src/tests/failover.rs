//! Requests when members fail, with simulated members.

use tokio::{net::TcpListener, time::Instant};
use windlass_grpc::frame;

use super::{
    fake::{Answer, Fake, WITHOUT_LEADER},
    *,
};
use crate::messages::{DELETE, Event, KeyValue, RangeResponse, ResponseHeader, TxnResponse, WatchResponse};

fn range(revision: i64) -> Answer {
    Answer::message(&RangeResponse { header: Some(ResponseHeader { revision }), ..RangeResponse::default() })
}

fn committed(revision: i64) -> Answer {
    let header = Some(ResponseHeader { revision });
    Answer::message(&TxnResponse { header, succeeded: true, responses: Vec::new() })
}

async fn storage(members: &[&Fake]) -> EtcdStorage {
    EtcdStorage::connect(Options::new(members.iter().map(|member| member.endpoint()))).await.unwrap()
}

#[tokio::test]
async fn commit_with_an_unknown_fate_is_not_repeated() {
    for lost in [Answer::Disconnect, Answer::Error(14, "etcdserver: request timed out")] {
        let first = Fake::start(move |method, _| if method == "Txn" { lost.clone() } else { Answer::Nothing }).await;
        let second = Fake::start(|method, _| if method == "Txn" { committed(7) } else { Answer::Nothing }).await;
        let storage = storage(&[&first, &second]).await;
        let error = storage.commit("/registry/a", Expect::Absent, put("1")).await.unwrap_err();
        let CommitError::Storage(error) = error else { panic!("{error}") };
        let chain = windlass_grpc::chain(&error);
        assert!(chain.contains(&format!("cannot commit /registry/a in etcd at {}", first.endpoint())), "{chain}");
        assert_eq!((first.count("Txn"), second.count("Txn")), (1, 0));
        // The next one goes to the other member.
        assert_eq!(create(&storage, "/registry/a", "1").await, Revision(7));
        assert_eq!((first.count("Txn"), second.count("Txn")), (1, 1));
    }
}

#[tokio::test]
async fn commit_without_a_leader_is_sent_to_the_next_member() {
    let first = Fake::start(|method, _| match method {
        "Txn" => Answer::Error(14, "etcdserver: no leader"),
        _ => Answer::Nothing,
    });
    let first = first.await;
    let second = Fake::start(|method, _| if method == "Txn" { committed(7) } else { Answer::Nothing }).await;
    let storage = storage(&[&first, &second]).await;
    assert_eq!(create(&storage, "/registry/a", "1").await, Revision(7));
    assert_eq!((first.count("Txn"), second.count("Txn")), (1, 1));
}

#[tokio::test]
async fn read_is_repeated_on_the_next_member() {
    for lost in [Answer::Disconnect, Answer::Error(14, "etcdserver: leader changed")] {
        let first = Fake::start(move |method, _| if method == "Range" { lost.clone() } else { Answer::Nothing }).await;
        let second = Fake::start(|method, _| if method == "Range" { range(9) } else { Answer::Nothing }).await;
        let storage = storage(&[&first, &second]).await;
        assert_eq!(storage.revision().await.unwrap(), Revision(9));
        assert_eq!((first.count("Range"), second.count("Range")), (1, 1));
    }
}

#[tokio::test]
async fn read_of_a_single_member_is_repeated_after_an_election() {
    let member = Fake::start(|method, earlier| match (method, earlier) {
        ("Range", 0..2) => Answer::Error(14, "etcdserver: no leader"),
        ("Range", _) => range(9),
        _ => Answer::Nothing,
    });
    let member = member.await;
    assert_eq!(storage(&[&member]).await.revision().await.unwrap(), Revision(9));
    assert_eq!(member.count("Range"), 3);
}

#[tokio::test]
async fn rejected_requests_are_final() {
    let member = Fake::start(|method, _| match method {
        "Txn" => Answer::Error(3, "etcdserver: request is too large"),
        _ => Answer::Nothing,
    });
    let member = member.await;
    let error = storage(&[&member]).await.commit("/registry/a", Expect::Absent, put("1")).await.unwrap_err();
    assert_eq!(error.to_string(), "etcdserver: request is too large");
    assert_eq!(member.count("Txn"), 1);
}

#[tokio::test]
async fn silent_and_absent_members_do_not_delay_the_connection() {
    // Accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let absent = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = |address: std::net::SocketAddr| format!("http://{address}").parse().unwrap();
    let member = Fake::start(|method, _| if method == "Range" { range(9) } else { Answer::Nothing }).await;
    let endpoints = [endpoint(absent), endpoint(silent.local_addr().unwrap()), member.endpoint()];
    let start = Instant::now();
    let storage = EtcdStorage::connect(Options::new(endpoints)).await.unwrap();
    assert_eq!(storage.revision().await.unwrap(), Revision(9));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn members_that_cannot_serve_requests_are_not_used() {
    use crate::messages::StatusResponse;
    let status = |version: &str, leader, is_learner| {
        Answer::message(&StatusResponse { version: version.into(), leader, is_learner })
    };
    for (answer, why) in [
        (status("3.5.12", 1, false), "etcd 3.5.12 is not supported, because its watches can report progress too early"),
        (status("3.6.0", 0, false), "the member has no leader"),
        (status("3.6.0", 1, true), "the member is a learner, which serves no requests"),
    ] {
        let member = Fake::start(move |_, _| answer.clone()).await;
        let options = Options { connect_timeout: Duration::from_millis(300), ..Options::new([member.endpoint()]) };
        let error = EtcdStorage::connect(options).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot connect to etcd: {}: {why}", member.endpoint())), "{error}");
    }
}

#[tokio::test]
async fn first_connection_waits_for_a_leader() {
    use crate::messages::StatusResponse;
    let member = Fake::start(|method, number| match method {
        "Status" => {
            let leader = u64::from(number > 1);
            Answer::message(&StatusResponse { version: "3.6.0".into(), leader, is_learner: false })
        }
        _ => range(9),
    });
    let member = member.await;
    let storage = EtcdStorage::connect(Options::new([member.endpoint()])).await.unwrap();
    assert_eq!(storage.revision().await.unwrap(), Revision(9));
    assert_eq!(member.count("Status"), 3);
}

#[test]
fn connection_is_renewed_on_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The member has a runtime of its own.
    let (members, first) = (runtime(), runtime());
    let member = members.block_on(Fake::start(|method, _| if method == "Range" { range(9) } else { Answer::Nothing }));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || members.block_on(stopped));
        let storage = first.block_on(storage(&[&member]));
        assert_eq!(first.block_on(storage.revision()).unwrap(), Revision(9));
        drop(first);
        assert_eq!(runtime().block_on(storage.revision()).unwrap(), Revision(9));
        drop(stop);
    });
    assert_eq!(member.count("Status"), 2);
}

#[tokio::test]
async fn requests_are_rejected_by_a_member_without_a_leader() {
    let member = Fake::start(|method, _| match method {
        "Txn" => committed(7),
        "Range" => range(9),
        "Watch" => created([]),
        _ => Answer::Nothing,
    });
    let member = member.await;
    let storage = storage(&[&member]).await;
    create(&storage, "/registry/a", "1").await;
    let events = storage.watch("", Revision(9)).await.unwrap();
    assert_eq!((member.count("Txn"), member.count("Watch"), member.count(WITHOUT_LEADER)), (1, 1, 0));
    drop(events);
}

/// Answers a watch with its confirmation and these responses.
fn created(responses: impl IntoIterator<Item = WatchResponse>) -> Answer {
    let confirmation = WatchResponse { created: true, ..WatchResponse::default() };
    Answer::Stream(std::iter::once(confirmation).chain(responses).map(|response| frame(&response)).collect(), None)
}

fn key_value(key: &str, created: i64, modified: i64, value: &str) -> KeyValue {
    let key = format!("/registry/{key}").into_bytes();
    KeyValue { key, create_revision: created, mod_revision: modified, version: 1, value: value.into() }
}

fn response<const N: usize>(fragment: bool, events: [(i32, KeyValue); N]) -> WatchResponse {
    let events = events.map(|(kind, kv)| Event { kind, kv: Some(kv), prev_kv: None }).into();
    WatchResponse { fragment, events, ..WatchResponse::default() }
}

#[tokio::test]
async fn watch_resumes_after_the_last_complete_revision() {
    let put = |key: &str, revision| (0, key_value(key, revision, revision, "1"));
    let member = Fake::start(move |method, earlier| match (method, earlier) {
        ("Range", _) => range(3),
        ("Watch", 0) => {
            let created = created([response(false, [put("a", 4)]), response(true, [put("b", 5)])]);
            let Answer::Stream(messages, _) = created else { unreachable!("it is a stream") };
            Answer::Stream(messages, Some((14, "etcdserver: no leader")))
        }
        ("Watch", _) => created([response(true, [put("b", 5)]), response(false, [put("c", 5)])]),
        _ => Answer::Nothing,
    });
    let member = member.await;
    let storage = storage(&[&member]).await;
    let mut events = storage.watch("", Revision(3)).await.unwrap();
    for (key, progress) in [("/registry/a", 4), ("/registry/b", 4), ("/registry/c", 5)] {
        let delivery = delivery(&mut events).await;
        assert_eq!(delivery.progress(), Revision(progress));
        assert_eq!(&*delivery.into_event().unwrap().key, key);
    }
    assert_eq!(member.count("Watch"), 2);
}

#[tokio::test]
async fn missing_previous_value_is_read() {
    let previous = || RangeResponse { kvs: vec![key_value("a", 2, 3, "old")], ..RangeResponse::default() };
    let member = Fake::start(move |method, earlier| match (method, earlier) {
        ("Range", 0) => range(3),
        ("Range", 1) => Answer::message(&previous()),
        ("Range", _) => Answer::Error(11, "etcdserver: mvcc: required revision has been compacted"),
        ("Watch", 0) => {
            let update = (0, key_value("a", 2, 4, "new"));
            created([response(false, [update]), response(false, [(DELETE, key_value("a", 0, 5, ""))])])
        }
        ("Watch", _) => created([WatchResponse { canceled: true, compact_revision: 6, ..WatchResponse::default() }]),
        _ => Answer::Nothing,
    });
    let member = member.await;
    let storage = storage(&[&member]).await;
    let mut events = storage.watch("", Revision(3)).await.unwrap();
    let update = event(&mut events).await;
    assert_eq!(&*update.previous.unwrap().body, b"old");
    let error = within(next_event(&mut events)).await.unwrap().unwrap_err();
    assert!(matches!(error, StorageError::Compacted { oldest: Revision(6) }), "{error}");
}

#[tokio::test]
async fn failed_check_of_the_history_does_not_end_a_resumed_watch() {
    let member = Fake::start(|method, earlier| match (method, earlier) {
        ("Range", 1) => Answer::Error(2, "etcdserver: the member is starting"),
        ("Range", _) => range(3),
        ("Watch", 0) => {
            let Answer::Stream(messages, _) = created([]) else { unreachable!("it is a stream") };
            Answer::Stream(messages, Some((14, "etcdserver: server stopped")))
        }
        ("Watch", _) => created([response(false, [(0, key_value("a", 4, 4, "1"))])]),
        _ => Answer::Nothing,
    });
    let member = member.await;
    let storage = storage(&[&member]).await;
    let mut events = storage.watch("", Revision(3)).await.unwrap();
    assert_eq!(event(&mut events).await.revision, Revision(4));
    assert_eq!(member.count("Watch"), 3);
}
