//! Servers that are reached through a proxy on a local socket.

use tokio::net::TcpStream;

use super::*;
use crate::connection_options::{Proxy, ProxyServer};

/// The protocol of the proxy.
#[derive(Clone, Copy)]
enum Spoken {
    Http,
    Socks5,
}

/// A proxy that admits the user `me` with the password `s3cret`.
struct Relay {
    address: SocketAddr,
    /// The requested target of each connection.
    asked: Arc<parking_lot::Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Relay {
    async fn start(spoken: Spoken, tls: Option<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<parking_lot::Mutex<Vec<String>>>::default();
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let log = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
                connections.spawn(async move {
                    // A client that disconnects early is not a failure of the proxy.
                    let _ = match acceptor {
                        None => relay(socket, spoken, &log).await,
                        Some(acceptor) => relay(acceptor.accept(socket).await.unwrap(), spoken, &log).await,
                    };
                });
            }
        });
        Self { address, asked, task }
    }

    fn server(&self, scheme: &str, user: &str) -> ProxyServer {
        format!("{scheme}://{user}{}", self.address).parse().unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(
    mut caller: impl AsyncRead + AsyncWrite + Unpin,
    spoken: Spoken,
    log: &parking_lot::Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let target = match spoken {
        Spoken::Http => ask_http(&mut caller, log).await?,
        Spoken::Socks5 => ask_socks(&mut caller).await?,
    };
    let Some(target) = target else { return Ok(()) };
    log.lock().push(target.clone());
    let mut server = TcpStream::connect(&target).await?;
    tokio::io::copy_bidirectional(&mut caller, &mut server).await.map(drop)
}

/// Reads the target of a `CONNECT` request. Other requests are answered here.
async fn ask_http(
    caller: &mut (impl AsyncRead + AsyncWrite + Unpin),
    log: &parking_lot::Mutex<Vec<String>>,
) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(caller.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let line: Vec<_> = head.lines().next().unwrap().split(' ').collect();
    let known = head.to_lowercase().contains("proxy-authorization: basic bwu6czncmv0=\r\n")
        || head.contains("Basic bWU6czNjcmV0\r\n");
    if !known {
        caller.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n").await?;
        return Ok(None);
    }
    if line[0] == "CONNECT" {
        caller.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        return Ok(Some(line[1].to_owned()));
    }
    log.lock().push(line[1].to_owned());
    let answer = "{\"by\":\"proxy\"}";
    let length = answer.len();
    caller.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}").as_bytes()).await?;
    Ok(None)
}

/// Reads the target of a SOCKS request with the right password.
async fn ask_socks(caller: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<Option<String>> {
    let mut greeting = [0; 2];
    caller.read_exact(&mut greeting).await?;
    let mut methods = vec![0; usize::from(greeting[1])];
    caller.read_exact(&mut methods).await?;
    if !methods.contains(&2) {
        caller.write_all(&[5, 0xff]).await?;
        return Ok(None);
    }
    caller.write_all(&[5, 2]).await?;
    let mut login = [0; 11];
    caller.read_exact(&mut login).await?;
    let known = &login == b"\x01\x02me\x06s3cret";
    caller.write_all(&[1, u8::from(!known)]).await?;
    let mut request = [0; 10];
    caller.read_exact(&mut request).await?;
    assert_eq!(request[..4], [5, 1, 0, 1], "a connection to an IPv4 address");
    let port = u16::from_be_bytes([request[8], request[9]]);
    caller.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok(Some(format!("{}.{}.{}.{}:{port}", request[4], request[5], request[6], request[7])))
}

#[tokio::test]
async fn a_server_with_tls_is_reached_through_each_kind_of_proxy() {
    let pki = Pki::new();
    let server = Server::start(Some(pki.server("127.0.0.1", &["h2"], Clients::Any))).await;
    for (scheme, spoken, tls) in [
        ("http", Spoken::Http, None),
        ("https", Spoken::Http, Some(pki.server("127.0.0.1", &["h2", "http/1.1"], Clients::Any))),
        ("socks5", Spoken::Socks5, None),
    ] {
        let relay = Relay::start(spoken, tls).await;
        let config = Config::new(server.url("https")).with_tls(TlsOptions::trusting(pki.pem()));
        let config = config.with_auth(Auth::Bearer("t".into()));
        let through = |user| config.clone().with_proxy(Proxy::Server(relay.server(scheme, user)));
        let seen = ask(through("me:s3cret@")).await.unwrap_or_else(|error| panic!("{scheme}: {}", error.chain()));
        assert_eq!((&seen["version"], &seen["authorization"]), (&"HTTP/2.0".into(), &"Bearer t".into()), "{scheme}");
        assert_eq!(*relay.asked.lock(), [server.address.to_string()], "{scheme}");
        // Wrong credentials are rejected, and the error names the proxy.
        let error = ask(through("")).await.unwrap_err();
        let named = format!("the connection through the proxy {scheme}://{} failed", relay.address);
        assert!(error.chain().contains(&named), "{}", error.chain());
    }
}

#[tokio::test]
async fn a_proxy_reads_requests_to_a_server_without_tls() {
    let relay = Relay::start(Spoken::Http, None).await;
    let config = Config::new("http://k.example:8080/base".parse().unwrap());
    let seen = ask(config.with_proxy(Proxy::Server(relay.server("http", "me:s3cret@")))).await.unwrap();
    assert_eq!(seen["by"], "proxy");
    assert_eq!(*relay.asked.lock(), ["http://k.example:8080/base/api/v1/x"]);
}

#[tokio::test]
async fn a_server_without_tls_is_reached_through_socks_at_its_port() {
    let server = Server::start(None).await;
    let relay = Relay::start(Spoken::Socks5, None).await;
    let through =
        |server: http::Uri| Config::new(server).with_proxy(Proxy::Server(relay.server("socks5", "me:s3cret@")));
    assert_eq!(ask(through(server.url("http"))).await.unwrap()["path"], "/api/v1/x");
    // The server may not exist; only the requested target matters.
    let _ = ask(through("http://127.0.0.1".parse().unwrap())).await;
    assert_eq!(relay.asked.lock()[..2], [server.address.to_string(), "127.0.0.1:80".to_owned()]);
}

#[tokio::test]
async fn unreachable_proxy_error_hides_its_password() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = Proxy::Server(format!("socks5://me:s3cret@{free}").parse().unwrap());
    let config = Config::new("https://k.example".parse().unwrap()).with_proxy(proxy);
    assert!(!format!("{config:?}").contains("s3cret"));
    let error = ask(config).await.unwrap_err();
    assert!(error.is_transport() && !format!("{} {error:?}", error.chain()).contains("s3cret"), "{}", error.chain());
}
