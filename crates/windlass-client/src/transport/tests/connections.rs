//! Sharing of connections and detection of dead ones.

use std::{
    io,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};

use tokio::{io::ReadBuf, net::TcpStream};

use super::{
    super::http2::{PING_INTERVAL, PING_TIMEOUT},
    *,
};
use crate::{
    auth::{ExecConfig, ExecVersion},
    connection_options::Dialer,
};

#[tokio::test]
async fn clients_of_one_configuration_share_connections() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
    let path = || Request::get("/x").body(()).unwrap();
    let clients: Vec<_> =
        ["jane", "joe"].map(|token| Client::new(config.clone().with_auth(Auth::Bearer(token.into()))).unwrap()).into();
    for (client, token) in clients.iter().zip(["Bearer jane", "Bearer joe"]) {
        let seen: Value = client.request_json(path()).await.unwrap();
        assert_eq!(seen["authorization"], token);
    }
    assert_eq!(*server.open.borrow(), 1);
    // Clients with other TLS options do not share them.
    let other = Client::new(config.clone().with_tls(TlsOptions::unverified())).unwrap();
    let _: Value = other.request_json(path()).await.unwrap();
    assert_eq!(*server.open.borrow(), 2);
}

#[tokio::test]
async fn connections_can_be_closed_when_idle_or_all_at_once() {
    let pki = Pki::new();
    for alpn in ["h2", "http/1.1"] {
        let mut server = Server::start(Some(pki.server("127.0.0.1", &[alpn], Clients::Any))).await;
        let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
        let client = Client::new(config.clone()).unwrap();
        let get = async || -> Value { client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap() };
        get().await;
        config.close_connections(Closing::Idle);
        rotation::until_open(&mut server, 0).await;

        let mut watch = client.watch::<Pod>().await.unwrap();
        assert!(watch.next().await.unwrap().is_ok());
        config.close_connections(Closing::Idle);
        get().await;
        // The watch retains its connection, and the new request uses another.
        rotation::until_open(&mut server, 2).await;
        config.close_connections(Closing::All);
        rotation::until_open(&mut server, 0).await;
        let end = tokio::time::timeout(Duration::from_secs(10), watch.next()).await.expect("the watch ends");
        let error = end.unwrap().unwrap_err();
        assert!(error.is_transport(), "{}", error.chain());
        get().await;
        assert_eq!(*server.open.borrow(), 1);
    }
}

/// Counts the writes to it.
struct Counting(TcpStream, Arc<AtomicUsize>);

impl AsyncRead for Counting {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn requests_that_are_sent_together_are_written_together() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let (address, writes) = (server.address, Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&writes);
    let dialer = Dialer::new(move |_, _| {
        let counted = Arc::clone(&counted);
        async move { Ok(Counting(TcpStream::connect(address).await?, counted)) }
    });
    let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem())).with_dialer(dialer);
    let client = Client::new(config).unwrap().without_rate_limit();
    let post = || async { client.request_json(Request::post("/x").body("x".repeat(600)).unwrap()).await.unwrap() };
    let _: Value = post().await;
    writes.store(0, Ordering::Relaxed);
    let _: Vec<Value> = futures::future::join_all((0..16).map(|_| post())).await;
    let writes = writes.load(Ordering::Relaxed);
    assert!(writes < 16, "{writes} writes of 16 requests");
}

#[tokio::test]
async fn connections_can_be_opened_by_a_custom_dialer() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("cluster.example", &["h2"], Clients::Any))).await;
    let (asked, address) = (Arc::new(parking_lot::Mutex::new(Vec::new())), server.address);
    let dialer = Dialer::new({
        let asked = Arc::clone(&asked);
        move |host, port| {
            asked.lock().push((host, port));
            TcpStream::connect(address)
        }
    });
    let tls = TlsOptions::trusting(pki.pem());
    let config = Config::new("https://cluster.example".parse().unwrap()).with_tls(tls).with_dialer(dialer);
    assert_eq!(ask(config).await.unwrap()["version"], "HTTP/2.0");
    assert_eq!(*asked.lock(), [("cluster.example".to_owned(), 443)]);

    let nobody = Dialer::new(|_, _| async { Err::<TcpStream, _>(std::io::Error::other("the tunnel is down")) });
    let config = Config::new("http://[::1]:8080".parse().unwrap()).with_dialer(nobody);
    let chain = ask(config).await.unwrap_err().chain();
    assert!(chain.ends_with("no connection to [::1]:8080: the tunnel is down"), "{chain}");
}

#[tokio::test]
async fn plugin_credentials_share_connections() {
    let folder = Folder::new("shared-plugin");
    let count = folder.path().join("count");
    let answer = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}"#;
    let script = format!("printf x >> '{}'; echo '{answer}'", count.display());
    let plugin = ExecConfig::new("sh", ExecVersion::V1).with_args(["-c", &script]);
    let server = Server::start(None).await;
    let config = Config::new(server.url("http")).with_auth(Auth::Exec(Box::new(plugin)));
    let (one, two) = (Client::new(config.clone()).unwrap(), Client::new(config).unwrap());
    for client in [one, two] {
        let seen: Value = client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap();
        assert_eq!(seen["authorization"], "Bearer t");
    }
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x");
}

#[tokio::test]
async fn other_layers_can_be_put_around_the_transport() {
    let server = Server::start(None).await;
    let transport = Config::new(server.url("http")).with_auth(Auth::Bearer("t".into())).connect().unwrap();
    let layered = transport.map_request(|mut request: Request<Body>| {
        *request.uri_mut() = "/elsewhere".parse().unwrap();
        request
    });
    let client = Client::from_service(layered, "default");
    let seen: Value = client.request_json(Request::get("/x").body(()).unwrap()).await.unwrap();
    assert_eq!((&seen["path"], &seen["authorization"]), (&"/elsewhere".into(), &"Bearer t".into()));
}

/// The captured log.
#[derive(Clone, Default)]
struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_request_is_logged_as_a_command_as_it_is_sent() {
    let (server, log) = (Server::start(None).await, Log::default());
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("windlass_client::curl=debug")
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    // With a single dispatcher, a thread without a subscriber that logs first would disable the statement.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let client = Client::new(Config::new(server.url("http")).with_auth(Auth::Bearer("s3cret".into()))).unwrap();
    let _: Value = client.request_json(Request::get("/x?y=z").body(()).unwrap()).await.unwrap();
    let told = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(told.contains("curl -v -XGET -H 'user-agent: ") && !told.contains("s3cret"), "{told}");
    let end = format!("-H 'authorization: Bearer <masked>' 'http://{}/x?y=z'\n", server.address);
    assert!(told.ends_with(&end), "{told}");
}

/// A relay between client and server that can be silenced.
async fn wire(server: SocketAddr) -> (SocketAddr, watch::Sender<bool>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (cut, is_cut) = watch::channel(false);
    let task = tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
        let mut is_cut_too = is_cut.clone();
        let there = async {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                if !*is_cut.borrow() {
                    to_server.write_all(&bytes[..count]).await.unwrap();
                }
            }
        };
        let back = async {
            let mut bytes = [0; 4096];
            loop {
                tokio::select! {
                    read = from_server.read(&mut bytes) => match read {
                        Ok(count @ 1..) => to_client.write_all(&bytes[..count]).await.unwrap(),
                        _ => break,
                    },
                    // Not closed, but no data arrives any more.
                    () = async { drop(is_cut_too.wait_for(|cut| *cut).await) } => futures::future::pending().await,
                }
            }
        };
        tokio::join!(there, back);
    });
    (address, cut, task)
}

#[tokio::test]
async fn silent_server_is_detected_by_pings() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    let (address, cut, task) = wire(server.address).await;
    let config = Config::new(format!("https://{address}").parse().unwrap()).with_tls(TlsOptions::trusting(pki.pem()));
    let client = Client::new(config).unwrap();
    let mut watch = client.watch::<Pod>().await.unwrap();
    assert!(watch.next().await.unwrap().is_ok());

    // A watch may be silent for minutes.
    assert!(within(Duration::from_mins(3), watch.next()).await.is_none());
    cut.send(true).unwrap();
    let end = within(PING_INTERVAL + PING_TIMEOUT + Duration::from_secs(10), watch.next()).await;
    assert!(end.expect("the watch ends").is_none_or(|event| event.is_err()));
    task.abort();
}

/// Waits for a result within a time of timers, while sockets have enough real time to deliver.
async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    const STEP: Duration = Duration::from_secs(1);
    let mut future = std::pin::pin!(future);
    for _ in 0..time.as_secs() {
        rotation::elapse(STEP).await;
        // In real time, so that data arrives through the loopback interface.
        if let Ok(outcome) = tokio::time::timeout(Duration::from_millis(5), &mut future).await {
            return Some(outcome);
        }
    }
    None
}
