//! Watches over WebSockets, with an independent implementation of the protocol as the client.

use futures::{SinkExt as _, StreamExt as _};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

use super::{
    sockets::{Running, head, rest, until},
    *,
};
use crate::{
    Limits,
    storage::{MemoryStorage, Retention, Storage},
};

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0";

/// The headers of a handshake without those that each test sets itself. The key is that of RFC 6455.
const UPGRADE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
const HANDSHAKE: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
const ORIGIN: &str = "Origin: https://127.0.0.1\r\n";

type Socket = WebSocketStream<TcpStream>;

async fn running() -> Running {
    Running::of(server(), None).await
}

/// Opens a WebSocket, and returns it with the head of the response.
async fn open(running: &Running, path: &str, more: &str) -> (Socket, String) {
    let mut stream = running.connect().await;
    let request = head("GET", path, &format!("{UPGRADE}{HANDSHAKE}{ORIGIN}{more}"));
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(time::timeout(DEADLINE, stream.read_u8()).await.unwrap().unwrap());
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    (WebSocketStream::from_raw_socket(stream, Role::Client, None).await, answer)
}

async fn next(socket: &mut Socket) -> Message {
    time::timeout(DEADLINE, socket.next()).await.unwrap().unwrap().unwrap()
}

/// Returns the type and the name of the next event.
async fn event(socket: &mut Socket) -> (String, String) {
    let Message::Text(text) = next(socket).await else { panic!("an event in JSON is a text") };
    let event: Value = serde_json::from_str(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
}

/// Returns the code of the close frame, after which the server closes the connection.
async fn close_code(socket: &mut Socket) -> u16 {
    loop {
        if let Message::Close(close) = next(socket).await {
            return close.unwrap().code.into();
        }
    }
}

/// Returns the number of current watches by clients.
async fn watches(running: &Running) -> String {
    let metrics = get(&running.server.service(), "/metrics").await.body;
    let gauge = metrics.lines().find(|line| line.starts_with("apiserver_longrunning_requests{")).unwrap();
    gauge.rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn events_are_text_messages_in_order() {
    let running = running().await;
    let service = running.server.service();
    let (mut socket, answer) = open(&running, WATCH, "").await;
    assert!(answer.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
    assert!(!answer.contains("sec-websocket-protocol") && !answer.contains("transfer-encoding"), "{answer}");
    for name in ["a", "b"] {
        assert_eq!(post(&service, CONFIG_MAPS, config_map(name)).await.code, 201);
    }
    let mut large = config_map("large");
    large["data"] = json!({"text": "x".repeat(300 << 10)});
    assert_eq!(post(&service, CONFIG_MAPS, large).await.code, 201);
    assert_eq!(with_body(&service, "DELETE", &format!("{CONFIG_MAPS}/a"), "application/json", "").await.code, 200);
    for (kind, name) in [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "large"), ("DELETED", "a")] {
        assert_eq!(event(&mut socket).await, (kind.to_owned(), name.to_owned()));
    }
    running.stop().await;
}

#[tokio::test]
async fn protobuf_events_are_binary_messages_without_length() {
    let running = running().await;
    let service = running.server.service();
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    let accept = "application/vnd.kubernetes.protobuf;stream=watch";
    let plain = request("GET", WATCH).header(header::ACCEPT, accept).body(String::new()).unwrap();
    let mut plain = service.oneshot(plain).await.unwrap().into_body();
    let frame = plain.frame().await.unwrap().unwrap().into_data().unwrap();
    let (mut socket, _) = open(&running, WATCH, &format!("Accept: {accept}\r\n")).await;
    assert_eq!(next(&mut socket).await, Message::Binary(frame.slice(4..)));
    running.stop().await;
}

#[tokio::test]
async fn client_that_closes_frees_its_watch() {
    let running = running().await;
    let (mut socket, _) = open(&running, WATCH, "").await;
    assert_eq!(watches(&running).await, "1");
    socket.send(Message::text("ignored")).await.unwrap();
    socket.send(Message::Ping("hello".into())).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::Pong("hello".into()));
    socket.send(Message::Close(None)).await.unwrap();
    assert_eq!(close_code(&mut socket).await, 1000);
    assert_eq!(watches(&running).await, "0");
    assert_eq!(rest(socket.get_mut()).await, "", "the server closes the connection");
    // A client that only disconnects frees its watch, too.
    let (socket, _) = open(&running, WATCH, "").await;
    drop(socket);
    let deadline = Instant::now() + DEADLINE;
    while watches(&running).await != "0" {
        assert!(Instant::now() < deadline, "the watch is still open");
        tokio::task::yield_now().await;
    }
    running.stop().await;
}

#[tokio::test]
async fn unmasked_frame_is_a_protocol_error() {
    let running = running().await;
    let (mut socket, _) = open(&running, WATCH, "").await;
    socket.get_mut().write_all(b"\x81\x01x").await.unwrap();
    assert_eq!(close_code(&mut socket).await, 1002);
    running.stop().await;
}

#[tokio::test]
async fn end_of_a_watch_closes_the_socket() {
    let running = running().await;
    let (mut socket, _) = open(&running, WATCH, "").await;
    running.server.drop_watches().await.unwrap();
    assert_eq!(close_code(&mut socket).await, 1000);
    let (mut socket, _) = open(&running, WATCH, "").await;
    let closed = tokio::spawn(async move { close_code(&mut socket).await });
    assert!(running.stop().await < Duration::from_secs(1));
    assert_eq!(closed.await.unwrap(), 1000);
}

#[tokio::test]
async fn expired_version_is_an_error_message() {
    let storage: Arc<dyn Storage> =
        Arc::new(MemoryStorage::with_retention(Retention { events: 1, bytes: 0, ..Retention::default() }));
    let running = Running::of(Server::builder().storage(storage).token("TOKEN").build(), None).await;
    let service = running.server.service();
    let first = post(&service, CONFIG_MAPS, config_map("a")).await.json()["metadata"]["resourceVersion"].clone();
    for name in ["b", "c"] {
        assert_eq!(post(&service, CONFIG_MAPS, config_map(name)).await.code, 201);
    }
    let path = WATCH.replace("resourceVersion=0", &format!("resourceVersion={}", first.as_str().unwrap()));
    let (mut socket, _) = open(&running, &path, "").await;
    let Message::Text(text) = next(&mut socket).await else { panic!("an event in JSON is a text") };
    let event: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(close_code(&mut socket).await, 1000);
    running.stop().await;
}

#[tokio::test]
async fn errors_before_the_watch_are_plain_responses() {
    let running = running().await;
    let full = format!("{UPGRADE}{HANDSHAKE}{ORIGIN}");
    let ask = async |path: &str, headers: &str| {
        running.raw(head("GET", path, &format!("{headers}Connection: close\r\n"))).await
    };
    for (path, code) in [
        ("/api/v1/namespaces/default/nothings?watch=1", "404 Not Found"),
        ("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=x", "500 Internal Server Error"),
    ] {
        let answer = ask(path, &full).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}\r\n")), "{path}: {answer}");
        assert!(answer.contains("content-type: application/json\r\n") && answer.ends_with("}\n"), "{path}: {answer}");
    }
    let wrong = head("GET", WATCH, &format!("{full}Connection: close\r\n")).replace("TOKEN", "WRONG");
    assert!(running.raw(wrong).await.starts_with("HTTP/1.1 401 Unauthorized\r\n"));
    for (headers, code, text) in [
        (format!("{UPGRADE}{ORIGIN}"), 400, "mismatch challenge/response"),
        (format!("{UPGRADE}{HANDSHAKE}{ORIGIN}").replace("13", "8"), 400, "missing or bad WebSocket Version"),
        (format!("{UPGRADE}{HANDSHAKE}"), 403, ""),
        (format!("{UPGRADE}{HANDSHAKE}Origin: null\r\n"), 403, ""),
        (format!("{full}Sec-WebSocket-Protocol: a, b\r\n"), 400, ""),
    ] {
        let answer = running.raw(head("GET", WATCH, &headers)).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{headers}: {answer}");
        assert!(answer.ends_with(&format!("\r\n\r\n{text}")), "{headers}: {answer}");
    }
    running.stop().await;
}

#[tokio::test]
async fn response_names_the_subprotocol_beside_the_token() {
    let running = running().await;
    let token = "base64url.bearer.authorization.k8s.io.VE9LRU4";
    let headers = format!("{UPGRADE}{HANDSHAKE}{ORIGIN}Sec-WebSocket-Protocol: {token}, watch.example.com\r\n");
    let mut stream = running.connect().await;
    let request = head("GET", WATCH, &headers).replace("Authorization: Bearer TOKEN\r\n", "");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = until(&mut stream, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(answer.contains("sec-websocket-protocol: watch.example.com\r\n"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn handshake_that_cannot_switch_gets_a_plain_watch() {
    let running = running().await;
    let service = running.server.service();
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    let in_process = request("GET", WATCH).header(header::UPGRADE, "websocket").header(header::CONNECTION, "Upgrade");
    let mut plain = service.oneshot(in_process.body(String::new()).unwrap()).await.unwrap();
    assert_eq!(plain.status(), 200);
    assert!(frame(plain.body_mut()).await.unwrap().starts_with(r#"{"type":"ADDED""#));
    // HTTP/1.0 and requests without one of the headers.
    for request in [
        head("GET", WATCH, &format!("{UPGRADE}{HANDSHAKE}{ORIGIN}")).replace("HTTP/1.1", "HTTP/1.0"),
        head("GET", WATCH, &format!("Connection: Upgrade\r\n{HANDSHAKE}{ORIGIN}")),
        head("GET", WATCH, &format!("Upgrade: websocket\r\n{HANDSHAKE}{ORIGIN}")),
    ] {
        let mut stream = running.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = until(&mut stream, "}\n").await;
        assert!(answer.contains(" 200 OK\r\n") && answer.contains(r#"{"type":"ADDED""#), "{answer}");
    }
    running.stop().await;
}

#[tokio::test]
async fn client_that_does_not_read_is_disconnected() {
    let limits = Limits { stall: Duration::from_millis(300), ..Limits::default() };
    let running = Running::of(Server::builder().token("TOKEN").limits(limits).build(), None).await;
    let service = running.server.service();
    let (socket, _) = open(&running, WATCH, "").await;
    let budget = Arc::clone(running.server.inner().budget());
    // More than the buffers of the sockets have room for.
    let deadline = Instant::now() + DEADLINE;
    let mut number = 0;
    while budget.held() == 0 {
        assert!(Instant::now() < deadline, "the client takes everything");
        let mut object = config_map(&format!("large-{number}"));
        object["data"] = json!({"text": "x".repeat(1 << 20)});
        assert_eq!(post(&service, CONFIG_MAPS, object).await.code, 201);
        number += 1;
    }
    while watches(&running).await != "0" {
        assert!(Instant::now() < deadline, "the watch is still open");
        assert!(budget.held() <= 4 << 20, "{} bytes", budget.held());
        tokio::task::yield_now().await;
    }
    assert_eq!(budget.held(), 0);
    drop(socket);
    running.stop().await;
}
