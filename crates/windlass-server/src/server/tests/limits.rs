//! Tests with clients that do not read, do not finish requests or do not disconnect.

use futures::FutureExt;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::{
    sockets::{Running, head, rest, tls_connect, until},
    *,
};
use crate::{
    Limits,
    storage::{MemoryStorage, Storage, suite},
    turns::Class,
};

const MEBIBYTE: usize = 1 << 20;

type Http2 = hyper::client::conn::http2::SendRequest<http_body_util::Full<Bytes>>;

async fn running(limits: Limits) -> (Running, TlsIdentity) {
    let server = Server::builder().entropy(Entropy::seeded(1)).token("TOKEN").limits(limits).build();
    let identity = TlsIdentity::generate::<String>([]).unwrap();
    (Running::of(server, Some(identity.clone())).await, identity)
}

/// Connects a client with this window for each stream.
async fn http2(running: &Running, identity: &TlsIdentity, window: u32) -> Http2 {
    let stream = tls_connect(running, identity, b"h2").await;
    let builder = &mut hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) =
        builder.initial_stream_window_size(window).handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    sender
}

fn ask(path: &str) -> Request<http_body_util::Full<Bytes>> {
    let request = Request::get(format!("https://localhost{path}")).header(header::AUTHORIZATION, "Bearer TOKEN");
    request.body(http_body_util::Full::default()).unwrap()
}

async fn large_config_map(server: &Server) {
    let mut object = config_map("large");
    object["data"] = json!({"text": "x".repeat(MEBIBYTE)});
    assert_eq!(post(&server.service(), CONFIG_MAPS, object).await.code, 201);
}

/// Waits until a condition is true.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn unread_responses_are_limited() {
    let stall = Duration::from_secs(1);
    let (running, identity) = running(Limits { connection_bytes: MEBIBYTE, stall, ..Limits::default() }).await;
    large_config_map(&running.server).await;
    let budget = Arc::clone(running.server.inner().budget());
    let client = http2(&running, &identity, 0).await;
    let asked: Vec<_> = (0..60)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.send_request(ask(&format!("{CONFIG_MAPS}/large"))).await })
        })
        .collect();
    eventually("the first response waits", || budget.held() > MEBIBYTE).await;
    // Other clients are not affected.
    let mut other = http2(&running, &identity, 1 << 20).await;
    for _ in 0..20 {
        let answer = other.send_request(ask("/api/v1/namespaces/default")).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.into_body().collect().await.unwrap().to_bytes().starts_with(b"{\"kind\":\"Namespace\""));
        assert!(budget.held() < 3 * MEBIBYTE, "{} bytes", budget.held());
    }
    // Stalled streams are reset, so the next ones can proceed. The last ones are rejected.
    let (mut refused, mut unread) = (0, Vec::new());
    for asked in asked {
        let answer = time::timeout(DEADLINE, asked).await.unwrap().unwrap();
        refused += usize::from(answer.as_ref().is_ok_and(|answer| answer.status() == 429));
        unread.push(answer);
        assert!(budget.held() < 4 * MEBIBYTE, "{} bytes", budget.held());
    }
    assert!(refused > 0);
    eventually("all is given back, read or not", || budget.held() == 0).await;
    drop((client, unread));
    running.stop().await;
}

#[tokio::test]
async fn unread_responses_occupy_no_turns() {
    let (running, identity) = running(Limits::default()).await;
    large_config_map(&running.server).await;
    let budget = Arc::clone(running.server.inner().budget());
    let free = || {
        let account = budget.open();
        std::iter::from_fn(|| FutureExt::now_or_never(Arc::clone(account.turns()).take(Class::Other)))
            .collect::<Vec<_>>()
            .len()
    };
    let all = free();
    let mut unread = Vec::new();
    for _ in 0..2 * all {
        // The window closes within the first slice.
        let mut client = http2(&running, &identity, 160 << 10).await;
        let answer = client.send_request(ask(&format!("{CONFIG_MAPS}/large"))).await.unwrap();
        eventually("the response waits for its client", || budget.held() > 0).await;
        unread.push((client, answer));
    }
    eventually("no response occupies a turn", || free() == all).await;
    assert!(budget.held() > all * MEBIBYTE, "{} bytes", budget.held());
    let (_client, answer) = unread.pop().unwrap();
    let read = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(read.len() > MEBIBYTE, "the rest is sent when the client reads");
    drop(unread);
    running.stop().await;
}

#[tokio::test]
async fn unfinished_requests_are_limited() {
    let (running, identity) = running(Limits { connection_bytes: MEBIBYTE / 2, ..Limits::default() }).await;
    let budget = Arc::clone(running.server.inner().budget());
    let stream = tls_connect(&running, &identity, b"h2").await;
    let (client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake::<_, http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>>(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let mut answers = Vec::new();
    for _ in 0..20 {
        // An incomplete body.
        let piece = Bytes::from(vec![b' '; MEBIBYTE / 8]);
        let begun = futures::StreamExt::chain(
            futures::stream::iter([Ok(http_body::Frame::data(piece))]),
            futures::stream::pending(),
        );
        let request = Request::post(format!("https://localhost{CONFIG_MAPS}"))
            .header(header::AUTHORIZATION, "Bearer TOKEN")
            .header(header::CONTENT_TYPE, "application/json")
            .body(BodyExt::boxed(http_body_util::StreamBody::new(futures::stream::StreamExt::map(begun, |frame| {
                frame
            }))))
            .unwrap();
        let mut client = client.clone();
        answers.push(tokio::spawn(async move { client.send_request(request).await.map(|answer| answer.status()) }));
    }
    let refused = || answers.iter().filter(|answer| answer.is_finished()).count();
    eventually("those that are too much are refused", || refused() > 0).await;
    assert!(budget.held() <= 2 * MEBIBYTE, "{} bytes", budget.held());
    for answer in answers.extract_if(.., |answer| answer.is_finished()) {
        assert_eq!(answer.await.unwrap().unwrap(), 429);
    }
    answers.iter().for_each(JoinHandle::abort);
    drop(client);
    eventually("all is given back", || budget.held() == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn incomplete_head_is_closed_and_its_bytes_are_released() {
    let head_limit = Duration::from_millis(300);
    let server = Server::builder().limits(Limits { head: head_limit, ..Limits::default() }).build();
    let running = Running::of(server, None).await;
    let budget = Arc::clone(running.server.inner().budget());
    let mut stream = running.connect().await;
    stream.write_all(b"GET /version HTTP/1.1\r\nX: ").await.unwrap();
    eventually("the head is charged", || budget.held() > 20).await;
    assert_eq!(rest(&mut stream).await, "");
    eventually("all is given back", || budget.held() == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn idle_connections_are_closed_at_the_limit() {
    let server = Server::builder().token("TOKEN").limits(Limits { connections: 3, ..Limits::default() }).build();
    let running = Running::of(server, None).await;
    let mut watching = running.connect().await;
    watching.write_all(head("GET", "/api/v1/namespaces?watch=1", "").as_bytes()).await.unwrap();
    until(&mut watching, "kube-system").await;
    let mut idle = [running.connect().await, running.connect().await];
    for _ in 0..3 {
        let answer = running.raw(head("GET", "/version", "Connection: close\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let [first, second] = &mut idle;
    tokio::select! {
        left = rest(first) => assert_eq!(left, ""),
        left = rest(second) => assert_eq!(left, ""),
    }
    // A watch does not count as idle.
    let mut namespace = config_map("new");
    namespace["kind"] = "Namespace".into();
    post(&running.server.service(), "/api/v1/namespaces", namespace).await;
    until(&mut watching, r#""name":"new""#).await;
    running.stop().await;
}

/// A storage that keeps no values in memory.
#[derive(Debug)]
struct Loading(MemoryStorage);

impl suite::Forward for Loading {
    fn below(&self) -> &dyn Storage {
        &self.0
    }

    fn shares_values(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn lists_that_the_storage_reads_are_charged() {
    for is_in_memory in [true, false] {
        let storage = MemoryStorage::new();
        let storage: Arc<dyn Storage> = if is_in_memory { Arc::new(storage) } else { Arc::new(Loading(storage)) };
        let server = Server::builder().storage(storage).build();
        large_config_map(&server).await;
        for encoding in ["application/json", "application/yaml"] {
            let list = request("GET", CONFIG_MAPS).header(header::ACCEPT, encoding).body(String::new()).unwrap();
            let held = server.service().oneshot(list).await.unwrap().body().held_bytes();
            assert_eq!(held > MEBIBYTE, !is_in_memory, "{encoding}: {held}");
        }
    }
}

#[tokio::test]
async fn initial_state_of_a_watch_is_charged_until_it_is_sent() {
    for is_in_memory in [true, false] {
        let storage = MemoryStorage::new();
        let storage: Arc<dyn Storage> = if is_in_memory { Arc::new(storage) } else { Arc::new(Loading(storage)) };
        let server = Server::builder().storage(storage).build();
        large_config_map(&server).await;
        for (selector, selected) in [("", true), ("&labelSelector=a%3Db", false)] {
            let watch = request("GET", &format!("{CONFIG_MAPS}?watch=1{selector}")).body(String::new()).unwrap();
            let mut body = server.service().oneshot(watch).await.unwrap().into_body();
            let initial = body.initial().unwrap().clone();
            assert!(initial.get() > 50);
            assert_eq!(initial.get() > MEBIBYTE, !is_in_memory, "{}", initial.get());
            if selected {
                let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
                assert!(frame.len() > MEBIBYTE);
            } else {
                // Nothing is selected, so the watch waits for its first event.
                let waiting = eventually("all values are read", || initial.get() == 0);
                tokio::select! {
                    _ = body.frame() => panic!("nothing is selected"),
                    () = waiting => {}
                }
            }
            assert_eq!(initial.get(), 0);
        }
        let since = request("GET", &format!("{CONFIG_MAPS}?watch=1&resourceVersion=1")).body(String::new()).unwrap();
        assert!(server.service().oneshot(since).await.unwrap().body().initial().is_none());
    }
}
