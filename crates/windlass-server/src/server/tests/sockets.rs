//! Tests that need a socket.

use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;

/// A server on a socket. It runs until it is stopped.
pub(super) struct Running {
    pub(super) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<std::io::Result<()>>,
    pub(super) server: Server,
}

impl Running {
    async fn plain() -> Self {
        Self::start(None).await
    }

    pub(super) async fn tls() -> (Self, TlsIdentity) {
        let identity = TlsIdentity::generate::<String>([]).unwrap();
        (Self::start(Some(identity.clone())).await, identity)
    }

    async fn start(identity: Option<TlsIdentity>) -> Self {
        Self::of(server(), identity).await
    }

    pub(super) async fn of(server: Server, identity: Option<TlsIdentity>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async { drop(stopped.await) };
        let serving = server.clone();
        let task = tokio::spawn(async move {
            match identity {
                Some(identity) => serving.serve(listener, identity, shutdown).await,
                None => serving.serve_plain(listener, shutdown).await,
            }
        });
        Self { address, stop: Some(stop), task, server }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends raw bytes and reads until the server closes the connection.
    pub(super) async fn raw(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_ref()).await.unwrap();
        rest(&mut stream).await
    }

    pub(super) async fn stop(mut self) -> Duration {
        let started = Instant::now();
        self.stop.take().unwrap().send(()).unwrap();
        time::timeout(DEADLINE, self.task).await.unwrap().unwrap().unwrap();
        started.elapsed()
    }

    /// Waits until a server that was stopped in another way has ended.
    pub(super) async fn ended(self) {
        time::timeout(DEADLINE, self.task).await.unwrap().unwrap().unwrap();
    }
}

pub(super) async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut answer = Vec::new();
    time::timeout(DEADLINE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

/// Reads until `text` has been received.
pub(super) async fn until(stream: &mut (impl AsyncReadExt + Unpin), text: &str) -> String {
    let mut answer = String::new();
    let reading = async {
        while !answer.contains(text) {
            let mut piece = [0; 4096];
            let length = stream.read(&mut piece).await.unwrap();
            assert!(length > 0, "the connection ended after {answer:?}");
            answer.push_str(&String::from_utf8_lossy(&piece[..length]));
        }
    };
    time::timeout(DEADLINE, reading).await.unwrap_or_else(|_| panic!("no {text:?} came"));
    answer
}

pub(super) fn head(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: test\r\nAuthorization: Bearer TOKEN\r\n{more}\r\n")
}

pub(super) async fn tls_connect(running: &Running, identity: &TlsIdentity, protocol: &[u8]) -> TlsStream<TcpStream> {
    tls_over(running.connect().await, identity, protocol).await
}

pub(super) async fn tls_over(stream: TcpStream, identity: &TlsIdentity, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(identity.ca_pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn credentials_decide_access() {
    let running = Running::plain().await;
    let ask = async |path: &str, credentials: &str| {
        running.raw(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{credentials}Connection: close\r\n\r\n")).await
    };
    let wrong = ask("/api/v1/pods", "Authorization: Bearer WRONG\r\n").await;
    assert!(wrong.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{wrong}");
    assert!(wrong.ends_with("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n"), "{wrong}");
    let nobody = ask("/api/v1/namespaces/default/pods", "").await;
    assert!(nobody.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{nobody}");
    assert!(nobody.contains(r#""message":"pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"""#), "{nobody}");
    assert!(ask("/readyz", "").await.ends_with("\r\n\r\nok"));
    assert!(ask("/healthz", "Authorization: Bearer WRONG\r\n").await.starts_with("HTTP/1.1 401"));
    assert!(
        ask("/api/v1/namespaces/default", "Authorization: Bearer TOKEN\r\n").await.starts_with("HTTP/1.1 200 OK\r\n")
    );
    running.stop().await;
}

#[tokio::test]
async fn http_1_and_2_work_over_tls() {
    let (running, identity) = Running::tls().await;
    let mut old = tls_connect(&running, &identity, b"http/1.1").await;
    old.write_all(head("GET", "/api/v1/namespaces/default", "Connection: close\r\n").as_bytes()).await.unwrap();
    assert!(rest(&mut old).await.starts_with("HTTP/1.1 200 OK\r\n"));

    let stream = tls_connect(&running, &identity, b"h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake::<_, http_body_util::Full<Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let ask = |path: &str| {
        Request::get(format!("https://localhost{path}"))
            .header(header::AUTHORIZATION, "Bearer TOKEN")
            .body(http_body_util::Full::default())
            .unwrap()
    };
    let response = sender.send_request(ask("/api/v1/namespaces/default")).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(response.into_body().collect().await.unwrap());
    // A watch stays open during other requests on the same connection. It ends with the server.
    let mut watch = sender.send_request(ask("/api/v1/namespaces?watch=1")).await.unwrap().into_body();
    let first = time::timeout(DEADLINE, watch.frame()).await.unwrap().unwrap().unwrap();
    assert!(first.into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    assert_eq!(sender.send_request(ask("/version")).await.unwrap().status(), 200);
    let reading = tokio::spawn(async move { while let Some(Ok(_)) = watch.frame().await {} });
    assert!(running.stop().await < Duration::from_secs(1));
    time::timeout(DEADLINE, reading).await.unwrap().unwrap();
    drop(sender);
    drop(time::timeout(DEADLINE, connection).await.unwrap().unwrap());
}

#[tokio::test]
async fn too_large_body_is_rejected_without_being_read() {
    let running = Running::plain().await;
    let announced = head("POST", CONFIG_MAPS, "Content-Type: application/json\r\nContent-Length: 10485760\r\n");
    let refused = running.raw(&announced).await;
    assert!(refused.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{refused}");
    assert!(refused.ends_with("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"Request entity too large: limit is 3145728\",\"reason\":\"RequestEntityTooLarge\",\"code\":413}\n"), "{refused}");
    // A client that sends the whole request before it reads gets the response, too.
    for framing in ["Content-Length: 10485760\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut request =
            head("POST", CONFIG_MAPS, &format!("Content-Type: application/json\r\n{framing}")).into_bytes();
        if framing.starts_with("Transfer") {
            request.extend_from_slice(b"A00000\r\n");
        }
        request.resize(request.len() + (10 << 20), b'a');
        assert!(running.raw(&request).await.starts_with("HTTP/1.1 413 "), "{framing}");
        let wrong = String::from_utf8(request).unwrap().replace("Bearer TOKEN", "Bearer WRONG");
        assert!(running.raw(&wrong).await.starts_with("HTTP/1.1 401 "), "{framing}");
    }
    running.stop().await;
}

#[tokio::test]
async fn incomplete_request_is_answered_or_closed() {
    let running = Running::plain().await;
    // An incomplete body.
    let mut stream = running.connect().await;
    let begun = head("POST", CONFIG_MAPS, "Content-Type: application/json\r\nContent-Length: 100\r\n");
    stream.write_all(format!("{begun}{{\"metadata\"").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answer = rest(&mut stream).await;
    if !answer.is_empty() {
        assert!(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{answer}");
        assert!(answer.ends_with("\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n"), "{answer}");
    }
    // A malformed body.
    let chunked = head("POST", CONFIG_MAPS, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n");
    let answer = running.raw(format!("{chunked}zz\r\n{{\"metadata\"")).await;
    assert!(answer.starts_with("HTTP/1.1 500 Internal Server Error\r\n"), "{answer}");
    assert!(answer.contains(r#""message":"invalid byte in chunk length","code":500}"#), "{answer}");
    // An incomplete or invalid head.
    for bytes in [&b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuth"[..], b"\x00\x01garbage\r\n\r\n"] {
        let mut stream = running.connect().await;
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    }
    assert!(running.raw(head("GET", "/version", "Connection: close\r\n")).await.starts_with("HTTP/1.1 200"));
    assert!(running.stop().await < Duration::from_secs(1));
}

#[tokio::test]
async fn client_killed_during_a_watch_leaks_nothing() {
    let running = Running::plain().await;
    let mut stream = running.connect().await;
    stream.write_all(head("GET", &format!("{CONFIG_MAPS}?watch=1"), "").as_bytes()).await.unwrap();
    // Headers arrive before the first event.
    let started = until(&mut stream, "\r\n\r\n").await;
    assert!(started.starts_with("HTTP/1.1 200 OK\r\n"), "{started}");
    assert!(started.contains("transfer-encoding: chunked\r\n"), "{started}");
    assert!(!started.contains("content-length"), "{started}");
    post(&running.server.service(), CONFIG_MAPS, config_map("a")).await;
    assert!(until(&mut stream, "}\n").await.contains(r#"{"type":"ADDED""#));
    // A socket closed with unread data sends a reset, like a socket of a killed process.
    drop(stream);
    let references = || Arc::strong_count(running.server.inner());
    let deadline = Instant::now() + DEADLINE;
    // This handle, the serving one, and the one for new connections. Each connection would hold another one.
    while references() > 3 {
        assert!(Instant::now() < deadline, "{} references to the server", references());
        time::sleep(Duration::from_millis(5)).await;
    }
    assert!(running.stop().await < Duration::from_secs(1));
}

#[tokio::test]
async fn shutdown_ends_watches_and_idle_connections_within_a_second() {
    let running = Running::plain().await;
    let mut watching = running.connect().await;
    watching.write_all(head("GET", "/api/v1/namespaces?watch=1", "").as_bytes()).await.unwrap();
    until(&mut watching, "kube-system").await;
    let mut idle = running.connect().await;
    idle.write_all(head("GET", "/version", "").as_bytes()).await.unwrap();
    until(&mut idle, "v1.36").await;
    let _silent = running.connect().await;
    let _half = {
        let mut half = running.connect().await;
        half.write_all(b"GET /version HTT").await.unwrap();
        half
    };
    let server = running.server.clone();
    assert!(running.stop().await < Duration::from_secs(1));
    // The watch ends as a complete chunked body, not with an aborted connection.
    assert!(rest(&mut watching).await.ends_with("0\r\n\r\n"));
    rest(&mut idle).await;
    assert_eq!(Arc::strong_count(server.inner()), 1);
}

#[tokio::test]
async fn stopped_server_leaves_no_tasks() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(alive(), 0);
    let (running, identity) = Running::tls().await;
    let mut watching = tls_connect(&running, &identity, b"http/1.1").await;
    watching.write_all(head("GET", "/api/v1/namespaces?watch=1", "").as_bytes()).await.unwrap();
    until(&mut watching, "kube-system").await;
    let mut body = watch(&running.server.service(), "/api/v1/namespaces?watch=1").await.into_body();
    assert!(frame(&mut body).await.is_some());
    assert!(alive() > 0);
    // Stopping drops the last handles, so the in-process watch ends, too.
    running.stop().await;
    while frame(&mut body).await.is_some() {}
    let deadline = Instant::now() + DEADLINE;
    while alive() > 0 {
        assert!(Instant::now() < deadline, "{} tasks are left", alive());
        tokio::task::yield_now().await;
    }
}
