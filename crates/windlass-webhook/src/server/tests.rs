use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::Notify, sync::oneshot, task::JoinHandle};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::{
    admission::{Handler, Request, Response},
    testing::{Folder, review},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running server, and the means to stop it.
struct Running {
    readiness: Readiness,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    async fn start(server: Server) -> Self {
        let server = server.listen(SocketAddr::from(([127, 0, 0, 1], 0)));
        let readiness = server.readiness();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.serve(async { drop(stopped.await) }));
        let started = async {
            while readiness.address().is_none() {
                tokio::task::yield_now().await;
            }
        };
        timeout(started).await;
        Self { readiness, stop, serving }
    }

    async fn connect(&self, client: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.readiness.address().unwrap()).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(client)).connect(name, stream).await
    }

    async fn stop(self) {
        drop(self.stop);
        timeout(self.serving).await.unwrap().unwrap();
    }
}

async fn timeout<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("in time")
}

fn webhooks(handler: impl Handler) -> Webhooks {
    Webhooks::builder().handler(crate::WebhookPath::custom("/h").unwrap(), handler).build().unwrap()
}

fn allow(_: &Request) -> Response {
    Response::allowed()
}

fn files(folder: &Folder) -> CertificateFiles {
    CertificateFiles::in_directory(&folder.0).interval(Duration::from_millis(5))
}

/// Returns a client configuration that trusts these certificates.
fn trusting(certificates: &[&[u8]]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(CertificateDer::from(certificate.to_vec())).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // A resumed session presents no certificate.
    config.resumption = rustls::client::Resumption::disabled();
    config
}

async fn call(stream: TlsStream<TcpStream>) -> Result<Value, hyper::Error> {
    use http_body_util::BodyExt as _;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let asked = review("CREATE", &Value::Null, &Value::Null).to_string();
    let request = http::Request::post("/h").header("content-type", "application/json").header("host", "localhost");
    let answer = sender.send_request(request.body(asked).unwrap()).await?.into_body().collect().await?.to_bytes();
    drop(sender);
    connection.await.unwrap()?;
    Ok(serde_json::from_slice::<Value>(&answer).unwrap()["response"].take())
}

#[tokio::test]
async fn webhooks_are_served_by_another_http_server() {
    use http_body_util::{BodyExt as _, Full};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The program's own server: plain HTTP/1.1, with another route beside the webhooks.
    let webhooks = webhooks(allow);
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let webhooks = webhooks.clone();
            async move {
                Ok::<_, std::convert::Infallible>(match request.uri().path() {
                    "/version" => http::Response::new(Full::from("1.2.3")),
                    _ => webhooks.answer(request).await,
                })
            }
        });
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.unwrap();
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answered = async |request: http::request::Builder, body: String| {
        let answer = sender.send_request(request.header("host", "localhost").body(body).unwrap()).await.unwrap();
        (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes())
    };
    assert_eq!(answered(http::Request::get("/version"), String::new()).await, (200, "1.2.3".into()));
    let asked = review("CREATE", &Value::Null, &Value::Null).to_string();
    let call = || http::Request::post("/h").header("content-type", "application/json");
    let (code, answer) = answered(call(), asked).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((code, &answer["response"]["allowed"], &answer["response"]["uid"]), (200, &json!(true), &json!("u-1")));
    assert_eq!(answered(http::Request::get("/h"), String::new()).await.0, 405);
    assert_eq!(answered(http::Request::post("/elsewhere"), String::new()).await.0, 404);
    drop(sender);
    connection.await.unwrap().unwrap();
    timeout(serving).await.unwrap();
}

#[tokio::test]
async fn http2_is_spoken_unless_it_is_disabled() {
    let folder = Folder::new();
    let certificate = folder.certify();
    let server = || Server::new(webhooks(allow)).certificate_files(files(&folder));
    for (server, expected) in [(server(), &b"h2"[..]), (server().http1_only(), b"http/1.1")] {
        let running = Running::start(server).await;
        let mut client = trusting(&[&certificate]);
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = running.connect(client).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(expected));
        if expected == b"h2" {
            let executor = hyper_util::rt::TokioExecutor::new();
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
            let connection = tokio::spawn(connection);
            let asked = review("CREATE", &Value::Null, &Value::Null).to_string();
            let call = http::Request::post("https://localhost/h").header("content-type", "application/json");
            let answer = sender.send_request(call.body(asked).unwrap()).await.unwrap();
            assert_eq!((answer.status(), answer.version()), (http::StatusCode::OK, http::Version::HTTP_2));
            drop((answer, sender));
            connection.await.unwrap().unwrap();
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn server_without_port_is_ready_and_serves_nothing() {
    let server = Server::new(webhooks(allow)).disabled();
    let readiness = server.readiness();
    assert!(matches!(readiness.check().await, Err(NotReady::NotStarted)));
    server.serve(std::future::pending()).await.unwrap();
    readiness.check().await.unwrap();
}

#[test]
fn default_port_and_certificate_folder() {
    let server = Server::new(webhooks(allow));
    let Place::Address(address) = server.place else { panic!("an address") };
    assert_eq!((address.port(), address.ip().is_unspecified()), (9443, true));
    let files = format!(
        "{:?}",
        match server.certificate {
            Certificate::Files(files) => files,
            Certificate::Resolver(_) => panic!("files"),
        }
    );
    assert!(files.contains("k8s-webhook-server/serving-certs/tls.crt") && files.contains("tls.key"), "{files}");
    assert_eq!(server.grace, Duration::from_mins(1));
}

#[tokio::test]
async fn readiness_handshakes_until_the_server_stops() {
    let folder = Folder::new();
    let certificate = folder.certify();
    let running = Running::start(Server::new(webhooks(allow)).certificate_files(files(&folder))).await;
    running.readiness.check().await.unwrap();
    let response = call(running.connect(trusting(&[&certificate])).await.unwrap()).await.unwrap();
    assert_eq!((&response["allowed"], &response["uid"]), (&json!(true), &json!("u-1")));
    let readiness = running.readiness.clone();
    running.stop().await;
    assert!(matches!(readiness.check().await, Err(NotReady::NotStarted)));
}

#[tokio::test]
async fn readiness_fails_without_a_certificate() {
    #[derive(Debug)]
    struct None;
    impl ResolvesServerCert for None {
        fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
            Option::None
        }
    }
    let running = Running::start(Server::new(webhooks(allow)).certificate(Arc::new(None))).await;
    assert!(matches!(timeout(running.readiness.check()).await, Err(NotReady::Unreachable(_))));
    running.stop().await;
}

#[tokio::test]
async fn client_certificate_is_required_with_client_ca() {
    let folder = Folder::new();
    let serving = folder.certify();
    let (ca_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_path = folder.0.join("clients.crt");
    fs::write(&ca_path, ca.self_signed(&ca_key).unwrap().pem()).unwrap();
    let client = CertificateParams::default().signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();

    let server = Server::new(webhooks(allow)).certificate_files(files(&folder)).client_ca(&ca_path);
    let running = Running::start(server).await;
    let stranger = match running.connect(trusting(&[&serving])).await {
        Ok(stream) => call(stream).await.is_err(), // In TLS 1.3 the client learns it with its first bytes.
        Err(_) => true,
    };
    assert!(stranger);
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(serving)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_client_auth_cert(vec![client.der().clone()], key).unwrap();
    assert_eq!(call(running.connect(config).await.unwrap()).await.unwrap()["allowed"], json!(true));
    running.stop().await;

    fs::write(&ca_path, "nothing").unwrap();
    let error = Server::new(webhooks(allow)).certificate_files(files(&folder)).client_ca(&ca_path);
    let error = error.listen(SocketAddr::from(([127, 0, 0, 1], 0))).serve(std::future::pending()).await.unwrap_err();
    assert!(matches!(error, ServeError::ClientCa { .. }));
}

#[test]
fn two_webhooks_on_one_path_are_rejected() {
    let path = || crate::WebhookPath::custom("/h").unwrap();
    let twice = Webhooks::builder().handler(path(), allow).handler(path(), allow).build();
    assert_eq!(twice.unwrap_err(), crate::RegisterError::DuplicatePath(path()));
}

#[tokio::test]
async fn started_request_is_answered_during_shutdown() {
    struct Slow(Arc<(Notify, Notify)>);
    impl Handler for Slow {
        async fn handle(&self, _: &Request) -> Response {
            self.0.0.notify_one();
            self.0.1.notified().await;
            Response::denied("at last")
        }
    }
    let (folder, steps) = (Folder::new(), Arc::new((Notify::new(), Notify::new())));
    let certificate = folder.certify();
    let server = Server::new(webhooks(Slow(steps.clone()))).certificate_files(files(&folder));
    let running = Running::start(server).await;
    let (address, stream) = (running.readiness.address().unwrap(), running.connect(trusting(&[&certificate])).await);
    let calling = tokio::spawn(call(stream.unwrap()));
    timeout(steps.0.notified()).await;
    drop(running.stop);
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    timeout(refused).await;
    assert!(!running.serving.is_finished());
    steps.1.notify_one();
    assert_eq!(timeout(calling).await.unwrap().unwrap()["status"]["message"], "at last");
    timeout(running.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn certificate_rotation_under_load_fails_no_call() {
    let folder = Folder::new();
    let mut certificates = vec![folder.certify()];
    let running = Arc::new(Running::start(Server::new(webhooks(allow)).certificate_files(files(&folder))).await);
    let calls = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        certificates.push(folder.certify());
        let trusted: Vec<_> = certificates.iter().map(|certificate| &**certificate).collect();
        let client = trusting(&trusted);
        let newest = certificates.last().unwrap().clone();
        // Calls continue on new connections until one was served with the newest certificate, and a few more.
        let load = (0..4).map(|_| {
            let (running, client, newest) = (running.clone(), client.clone(), newest.clone());
            let calls = calls.clone();
            tokio::spawn(async move {
                let mut after = 0;
                while after < 5 {
                    let stream = running.connect(client.clone()).await.unwrap();
                    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
                    after += usize::from(shown == newest);
                    assert_eq!(call(stream).await.unwrap()["allowed"], json!(true));
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        for task in load.collect::<Vec<_>>() {
            timeout(task).await.unwrap();
        }
    }
    assert!(calls.load(Ordering::Relaxed) >= 80);
    Arc::into_inner(running).unwrap().stop().await;
}
