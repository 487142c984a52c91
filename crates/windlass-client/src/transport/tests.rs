//! Tests with a server on a local socket.

mod connections;
mod counted;
mod driver;
mod http2;
mod proxies;
mod rotation;
mod tls_options;

use std::{convert::Infallible, future::IntoFuture as _, net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::{
    ServerConfig, SupportedCipherSuite,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use windlass_api::k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::{
    Client, Config, Error, Kubeconfig,
    auth::Auth,
    connection_options::{Identity, Proxy, TlsOptions},
    kubeconfig,
    testing::Folder,
};

/// A server that describes each request in its response. `/hang` answers with a watch that stays open, `/size` with the
/// length of the body.
struct Server {
    address: SocketAddr,
    /// The number of open connections.
    open: watch::Receiver<usize>,
    /// The TLS settings. A change closes all connections.
    tls: watch::Sender<Option<TlsAcceptor>>,
    /// The accepted `Authorization` header; `None` for any.
    accepted: Accepted,
    task: JoinHandle<()>,
}

type Accepted = Arc<parking_lot::Mutex<Option<&'static str>>>;

impl Server {
    async fn start(tls: Option<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tls, mut acceptor) = watch::channel(tls.map(|config| TlsAcceptor::from(Arc::new(config))));
        let (count, open) = watch::channel(0);
        let accepted = Accepted::default();
        let accepts = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            // Dropped with the task, which closes all connections.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let socket = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap().0,
                    _ = acceptor.changed() => {
                        connections.shutdown().await;
                        count.send_replace(0);
                        continue;
                    }
                };
                let (acceptor, count, accepts) = (acceptor.borrow().clone(), count.clone(), Arc::clone(&accepts));
                connections.spawn(async move {
                    count.send_modify(|open| *open += 1);
                    match acceptor {
                        None => serve(socket, None, accepts).await,
                        Some(acceptor) => {
                            if let Ok(socket) = acceptor.accept(socket).await {
                                let certificate = socket.get_ref().1.peer_certificates().map(|chain| shown(&chain[0]));
                                serve(socket, certificate, accepts).await;
                            }
                        }
                    }
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { address, open, tls, accepted, task }
    }

    /// Closes all connections and continues with another certificate.
    fn replace(&self, tls: ServerConfig) {
        self.tls.send_replace(Some(TlsAcceptor::from(Arc::new(tls))));
    }

    /// Rejects all other tokens.
    fn accept_token(&self, header: &'static str) {
        *self.accepted.lock() = Some(header);
    }

    fn url(&self, scheme: &str) -> http::Uri {
        format!("{scheme}://{}", self.address).parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the description of a client certificate in responses.
fn shown(certificate: &CertificateDer<'_>) -> String {
    BASE64_STANDARD.encode(certificate)
}

async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    certificate: Option<String>,
    accepts: Accepted,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(&request, certificate.as_deref(), *accepts.lock());
        async move {
            if request.uri().path() == "/size" {
                let size = request.into_body().collect().await.map_or(0, |body| body.to_bytes().len());
                return Ok::<_, Infallible>(Response::new(BoxBody::new(http_body_util::Full::from(size.to_string()))));
            }
            Ok(answer.unwrap_or_else(|| echo(request)))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // As the real API server.
    builder.http2().max_concurrent_streams(100);
    let _ = builder.serve_connection_with_upgrades(TokioIo::new(socket), service).await;
}

/// `None` for a request that asks for an upgrade.
fn answer(
    request: &Request<Incoming>,
    certificate: Option<&str>,
    accepted: Option<&str>,
) -> Option<Response<BoxBody<Bytes, Infallible>>> {
    if request.uri().path().contains("hang") || request.uri().query().is_some_and(|query| query.contains("watch")) {
        let event = Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"p\"}}}\n");
        let event = futures::stream::once(async { Ok::<_, Infallible>(http_body::Frame::data(event)) });
        let body = StreamBody::new(event.chain(futures::stream::pending()));
        return Some(Response::new(BoxBody::new(body)));
    }
    if request.uri().path() == "/echo" {
        return None;
    }
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.is_some_and(|accepted| accepted != header("authorization")) {
        let refused = Response::builder().status(401).body(BoxBody::new(http_body_util::Empty::new()));
        return Some(refused.unwrap());
    }
    let seen = serde_json::json!({
        "version": format!("{:?}", request.version()),
        "path": request.uri().path(),
        "authorization": header("authorization"),
        "agent": header("user-agent"),
        "certificate": certificate,
    });
    Some(Response::new(BoxBody::new(http_body_util::Full::from(seen.to_string()))))
}

/// Switches to a protocol that echoes every byte.
fn echo(request: Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
    let protocol = request.headers()["upgrade"].clone();
    tokio::spawn(async move {
        let connection = hyper::upgrade::on(request).await.unwrap();
        let (mut read, mut write) = tokio::io::split(TokioIo::new(connection));
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    let answer = Response::builder().status(101).header("connection", "upgrade").header("upgrade", protocol);
    answer.body(BoxBody::new(http_body_util::Empty::new())).unwrap()
}

/// An authority and its certificates.
struct Pki {
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { authority: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    fn pem(&self) -> String {
        self.authority.pem()
    }

    fn issue(&self, name: &str, usage: ExtendedKeyUsagePurpose) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.authority).unwrap(), key)
    }

    /// Returns the configuration of a server named `name`. With `clients`, clients need certificates of this authority.
    fn server(&self, name: &str, alpn: &[&str], clients: Clients) -> ServerConfig {
        self.server_of(name, alpn, clients, rustls::crypto::ring::ALL_CIPHER_SUITES)
    }

    /// The same, limited to these cipher suites.
    fn server_of(&self, name: &str, alpn: &[&str], clients: Clients, suites: &[SupportedCipherSuite]) -> ServerConfig {
        let (certificate, key) = self.issue(name, ExtendedKeyUsagePurpose::ServerAuth);
        let mut provider = rustls::crypto::ring::default_provider();
        provider.cipher_suites = suites.to_vec();
        let provider = Arc::new(provider);
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            Clients::Any => builder.with_no_client_auth(),
            Clients::Certified => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(CertificateDer::from(self.authority.der().to_vec())).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    }

    fn identity(&self) -> Identity {
        let (certificate, key) = self.issue("somebody", ExtendedKeyUsagePurpose::ClientAuth);
        Identity::new(certificate.pem(), key.serialize_pem())
    }
}

#[derive(Clone, Copy)]
enum Clients {
    Any,
    Certified,
}

async fn ask(config: Config) -> crate::Result<Value> {
    Client::new(config)?.request_json(Request::get("/api/v1/x").body(()).unwrap()).await
}

#[tokio::test]
async fn http2_is_spoken_where_the_server_speaks_it() {
    let pki = Pki::new();
    for (alpn, version) in [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")] {
        let server = Server::start(Some(pki.server("127.0.0.1", alpn, Clients::Any))).await;
        let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
        let seen = ask(config.with_auth(Auth::Bearer("t".into()))).await.unwrap();
        assert_eq!((&seen["version"], &seen["authorization"]), (&version.into(), &"Bearer t".into()));
        assert!(seen["agent"].as_str().unwrap().contains(" windlass/"), "{seen}");
    }
}

#[tokio::test]
async fn server_of_unknown_ca_is_rejected_unless_insecure() {
    let server = Server::start(Some(Pki::new().server("127.0.0.1", &[], Clients::Any))).await;
    let other = TlsOptions::trusting(Pki::new().pem());
    let error = ask(Config::new(server.url("https")).with_tls(other)).await.unwrap_err();
    assert!(error.is_transport() && error.chain().contains("certificate"), "{}", error.chain());
    // A certificate of an unknown authority is also rejected.
    assert!(ask(Config::new(server.url("https"))).await.unwrap_err().is_transport());
    assert!(ask(Config::new(server.url("https")).with_tls(TlsOptions::unverified())).await.is_ok());
}

#[tokio::test]
async fn tls_server_name_can_be_overridden() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("kubernetes", &[], Clients::Any))).await;
    let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
    assert!(ask(config.clone()).await.unwrap_err().is_transport());
    assert!(ask(config.with_tls(TlsOptions::trusting(pki.pem()).with_server_name("kubernetes"))).await.is_ok());
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Certified))).await;
    let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
    assert!(ask(config.clone()).await.unwrap_err().is_transport());
    let tls = TlsOptions::trusting(pki.pem()).with_identity(pki.identity());
    assert!(ask(config.with_tls(tls)).await.unwrap()["certificate"].is_string());
}

#[tokio::test]
async fn written_kubeconfig_connects_to_the_server() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let folder = Folder::new("transport-kubeconfig");
    let path = folder.path().join("kubeconfig");
    let cluster = kubeconfig::Cluster::new(format!("https://{}/prefix", server.address)).trusting(pki.pem());
    Kubeconfig::single("windlass", cluster, kubeconfig::User::with_token("t0ken")).write(&path).unwrap();
    let seen = ask(Config::from_file(&path).unwrap()).await.unwrap();
    assert_eq!((&seen["path"], &seen["authorization"]), (&"/prefix/api/v1/x".into(), &"Bearer t0ken".into()));
}

#[tokio::test]
async fn unusable_tls_material_is_rejected_at_once() {
    let url: http::Uri = "https://127.0.0.1:1".parse().unwrap();
    let refused = |config: Config| match Client::new(config).unwrap_err() {
        Error::Config(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let tls = |tls: TlsOptions| refused(Config::new(url.clone()).with_tls(tls));
    assert_eq!(tls(TlsOptions::trusting("no pem")), "the certificate authority holds no PEM certificate");
    let identity = Identity::new(Pki::new().identity().certificate, "s3cret");
    let error = tls(TlsOptions::default().with_identity(identity));
    assert_eq!(error, "the client key cannot be used");
    assert!(tls(TlsOptions::default().with_server_name("not a name")).contains("not a name"));
    assert!(refused(Config::new(url.clone()).with_user_agent("new\nline")).contains("user agent"));
    // A key that does not match is also rejected.
    let (one, two) = (Pki::new().identity(), Pki::new().identity());
    assert_eq!(
        tls(TlsOptions::default().with_identity(Identity { key: two.key, ..one })),
        "the client certificate cannot be used"
    );
}

#[tokio::test]
async fn unreachable_server_error_names_operation_and_address() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = ask(Config::new(format!("http://{free}").parse().unwrap())).await.unwrap_err();
    assert!(error.is_transport(), "{}", error.chain());
    let chain = error.chain();
    assert!(chain.starts_with("request /api/v1/x: the connection to the server failed: "), "{chain}");
    assert!(chain.contains(&format!("no connection to {free}: ")) && chain.contains("refused"), "{chain}");
}

#[tokio::test]
async fn unanswered_tls_handshake_times_out() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(format!("https://{}", silent.local_addr().unwrap()).parse().unwrap());
    config.connect_timeout = Duration::from_millis(20);
    let error = ask(config).await.unwrap_err();
    assert!(error.chain().contains("no connection within 20ms"), "{}", error.chain());
}

#[tokio::test]
async fn plain_http_keeps_its_connection() {
    let server = Server::start(None).await;
    let client = Client::new(Config::new(server.url("http"))).unwrap();
    for _ in 0..3 {
        let seen: Value = client.request_json(Request::get("/x?y=z").body(()).unwrap()).await.unwrap();
        assert_eq!((&seen["version"], &seen["path"]), (&"HTTP/1.1".into(), &"/x".into()));
    }
    assert_eq!(*server.open.borrow(), 1);
}

#[tokio::test]
async fn connections_end_with_their_client() {
    let pki = Pki::new();
    for alpn in ["h2", "http/1.1"] {
        let mut server = Server::start(Some(pki.server("127.0.0.1", &[alpn], Clients::Any))).await;
        let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
        let client = Client::new(config).unwrap();
        let mut watch = client.watch::<Pod>().await.unwrap();
        assert!(watch.next().await.unwrap().is_ok());
        // A request that is cancelled while its response is read.
        let request = client.request(Request::get("/hang").body(()).unwrap()).await.unwrap();
        assert!(request.into_body().frame().await.is_some());
        assert!(*server.open.borrow() >= 1);
        drop((watch, client));
        let closed = server.open.wait_for(|open| *open == 0);
        tokio::time::timeout(Duration::from_secs(10), closed).await.expect("all connections end").unwrap();
    }
}

#[tokio::test]
async fn watches_over_the_stream_limit_open_a_connection() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
    let client = Client::new(config).unwrap();
    let mut watches = Vec::new();
    for _ in 0..150 {
        let watch = tokio::time::timeout(Duration::from_secs(10), client.watch::<Pod>().into_future());
        watches.push(watch.await.expect("no watch waits for another").unwrap());
    }
    assert_eq!(*server.open.borrow(), 2);
    // Streams that have ended make room.
    watches.truncate(50);
    for _ in 0..20 {
        let _: Value = client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap();
    }
    assert_eq!(*server.open.borrow(), 2);
}

#[tokio::test]
async fn cancelled_requests_leave_nothing_behind() {
    let mut server = Server::start(None).await;
    let client = Client::new(Config::new(server.url("http"))).unwrap();
    for _ in 0..50 {
        // Polled once, so that the request is sent, and then dropped.
        let call = client.request_json::<Value>(Request::get("/x").body(()).unwrap());
        let _ = futures::future::select(Box::pin(call), futures::future::ready(())).await;
    }
    let seen: Value = client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap();
    assert_eq!(seen["path"], "/x");
    drop(client);
    let closed = server.open.wait_for(|open| *open == 0);
    tokio::time::timeout(Duration::from_secs(10), closed).await.expect("all connections end").unwrap();
}

#[tokio::test]
async fn upgrade_works_beside_http2_connections() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2", "http/1.1"], Clients::Any))).await;
    let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
    let client = Client::new(config).unwrap();
    let asking =
        |path: &str| Request::get(path).header("connection", "upgrade").header("upgrade", "echo").body(()).unwrap();
    let (head, mut connection) = client.upgrade(asking("/echo")).await.unwrap();
    assert_eq!(head.headers()["upgrade"], "echo");
    connection.write_all(b"there and back").await.unwrap();
    let mut back = [0; 14];
    connection.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"there and back");
    // Other requests are not affected. A server that does not switch is an error.
    let seen: Value = client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap();
    assert_eq!(seen["version"], "HTTP/2.0");
    let error = client.upgrade(asking("/x")).await.unwrap_err();
    assert!(error.chain().contains("did not switch protocols"), "{}", error.chain());
}
