//! Tests of the ends of connections, upgrades, and the state of connections.

use http::header;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig, ServerConnection,
        crypto::ring,
        pki_types::{PrivateKeyDer, ServerName},
    },
};

use super::*;

#[tokio::test(start_paused = true)]
async fn response_before_the_whole_request_arrives() {
    let running = Running::start(HttpServer::new(), echo);
    let mut stream = running.connect();
    stream.write_all(b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n").await.unwrap();
    until(&mut stream, "\r\n\r\n/early").await;
    // The server still reads what the client sends.
    let body = vec![b'x'; 1 << 20];
    stream.write_all(&body).await.unwrap();
    let started = Instant::now();
    assert_eq!(rest(&mut stream).await, "");
    assert!(started.elapsed() <= SECOND, "{:?}", started.elapsed());
    running.stop().await;
}

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

/// Echoes the bytes of an upgraded connection, and answers other requests with their version of HTTP.
async fn upgrade(mut request: Request<RequestBody>) -> Response<String> {
    let Some(upgrade) = request.extensions_mut().remove::<Upgrade>() else {
        return Response::new(format!("{:?}", request.version()));
    };
    upgrade.run(|stream| async move {
        let (mut from, mut to) = tokio::io::split(stream);
        drop(tokio::io::copy(&mut from, &mut to).await);
        to.shutdown().await.unwrap();
    });
    let status = if request.uri() == "/refused" { StatusCode::FORBIDDEN } else { StatusCode::SWITCHING_PROTOCOLS };
    Response::builder().status(status).header(header::UPGRADE, "echo").body(String::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn work_on_an_upgraded_connection_is_cut_off_by_the_shutdown() {
    let running = Running::start(HttpServer::new().grace_period(SECOND), upgrade);
    let open = async || {
        let mut stream = running.connect();
        stream.write_all(UPGRADE).await.unwrap();
        until(&mut stream, "101 Switching Protocols\r\n").await;
        until(&mut stream, "\r\n\r\n").await;
        time::sleep(300 * SECOND).await;
        stream.write_all(b"echo").await.unwrap();
        until(&mut stream, "echo").await;
        stream
    };
    let (mut ended, mut open) = (open().await, open().await);
    ended.shutdown().await.unwrap();
    assert_eq!(rest(&mut ended).await, "");
    assert_eq!(running.stop().await, (1, SECOND));
    assert_eq!(rest(&mut open).await, "");
}

#[tokio::test(start_paused = true)]
async fn work_of_a_request_that_is_not_upgraded_is_dropped() {
    let running = Running::start(HttpServer::new(), upgrade);
    let mut stream = running.connect();
    let refused = String::from_utf8_lossy(UPGRADE).replace("/ ", "/refused ");
    stream.write_all(refused.as_bytes()).await.unwrap();
    until(&mut stream, "403 Forbidden").await;
    stream.write_all(GET).await.unwrap();
    until(&mut stream, "\r\n\r\nHTTP/1.1").await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn upgraded_connection_has_no_timeout_and_keeps_its_place() {
    let application = |mut request: Request<RequestBody>| async move {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            // Echoes the bytes.
            while let Ok(byte) = stream.read_u8().await {
                stream.write_u8(byte).await.unwrap();
            }
        });
        let head = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header(header::UPGRADE, "echo");
        head.body(String::new()).unwrap()
    };
    let running = Running::start(HttpServer::new().connections(1), application);
    let mut stream = running.connect();
    stream.write_all(UPGRADE).await.unwrap();
    until(&mut stream, "\r\n\r\n").await;
    let mut second = running.connect();
    second.write_all(UPGRADE).await.unwrap();
    for byte in [b'a', b'b'] {
        stream.write_u8(byte).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), byte);
        time::sleep(300 * SECOND).await;
    }
    let waits = time::timeout(SECOND, second.read_u8()).await;
    assert!(waits.is_err(), "the upgraded connection counts");
    drop(stream);
    until(&mut second, "\r\n\r\n").await;
    running.stop().await;
}

/// Reports the peer and the TLS session of its connection.
struct Introspection;

struct IntrospectedConnection {
    peer: SocketAddr,
    server_name: Option<String>,
    close: Arc<Semaphore>,
}

impl Application for Introspection {
    type Connection = IntrospectedConnection;

    fn connect(&self, peer: SocketAddr) -> IntrospectedConnection {
        IntrospectedConnection { peer, server_name: None, close: Arc::new(Semaphore::new(0)) }
    }
}

impl Connection for IntrospectedConnection {
    type Body = String;

    fn secured(&mut self, session: &ServerConnection) {
        self.server_name = session.server_name().map(str::to_owned);
    }

    fn answer(&self, request: Request<RequestBody>) -> impl Future<Output = Response<String>> + Send + use<> {
        if request.uri().path() == "/close" {
            self.close.add_permits(1);
        }
        let text = format!("{} {:?} {:?}", self.peer, self.server_name, request.version());
        async move { Response::new(text) }
    }

    async fn closed(&self) {
        self.close.acquire().await.unwrap().forget();
    }
}

async fn tls(stream: DuplexStream, trusted: &RootCertStore, protocols: &[&[u8]]) -> TlsStream<DuplexStream> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(trusted.clone()).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn connection_state_has_peer_and_session() {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(signed.cert.der().clone()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let config = Arc::new(config.with_single_cert(vec![signed.cert.der().clone()], key).unwrap());
    for (offered, protocols, version) in [
        (Protocols::Http1And2, &[&b"h2"[..], b"http/1.1"][..], "HTTP/2.0"),
        (Protocols::Http1And2, &[&b"http/1.1"[..]], "HTTP/1.1"),
        (Protocols::Http1And2, &[], "HTTP/1.1"),
        (Protocols::Http1, &[&b"h2"[..], b"http/1.1"], "HTTP/1.1"),
    ] {
        let running = Running::start(HttpServer::new().protocols(offered).tls(Arc::clone(&config)), Introspection);
        let mut stream = tls(running.connect(), &trusted, protocols).await;
        let text = if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            let (mut sender, connection) = http2(stream, &mut builder()).await;
            let response = sender.send_request(get("/")).await.unwrap();
            let text = response.into_body().collect().await.unwrap().to_bytes();
            // The application closes the connection.
            drop(sender.send_request(get("/close")).await);
            drop(connection.await.unwrap());
            text.to_vec()
        } else {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
            let mut text = Vec::new();
            stream.read_to_end(&mut text).await.unwrap();
            text
        };
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with(&format!("192.0.2.1:1234 Some(\"localhost\") {version}")), "{text}");
        running.stop().await;
    }
}
