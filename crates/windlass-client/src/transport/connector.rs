//! Opens connections: TCP or what is dialled in its place, through a proxy where there is one, and TLS over that for https; ALPN decides between
//! HTTP/1.1 and HTTP/2.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderValue, Uri, uri::Scheme};
use hyper_util::{
    client::legacy::connect::{
        Connected, Connection, HttpConnector,
        proxy::{SocksV5, Tunnel},
    },
    rt::TokioIo,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::TcpStream,
    sync::{Notify, futures::OwnedNotified},
    time::Instant,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::{Service, ServiceExt, service_fn};
use windlass_api::BoxError;

use super::{resolver::Resolver, route::Route, tls};
use crate::{
    Config, ConfigError,
    auth::basic,
    config::{Dialer, ProxyProtocol, ProxyServer, Wire},
    metrics::{Audience, Opened, Outcome},
};

/// Watches may be silent for long; the kernel finds out a peer that is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// What is read at once of a socket that carries TLS, in bytes: two of its longest records.
const READ_AT_ONCE: usize = 32 * 1024;

/// Opens connections to one server, by one TLS configuration.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector<Resolver>,
    /// In place of TCP.
    dialer: Option<Dialer>,
    route: Route,
    /// `Some` if the server or the proxy is https.
    tls: Option<Arc<ClientConfig>>,
    /// `Some` iff the server is https.
    server_name: Option<ServerName<'static>>,
    /// For TCP, proxy and TLS together.
    timeout: Duration,
    /// Wakes the connections that are to end at once.
    cutter: Arc<Notify>,
    audience: Audience,
}

/// A connection, as HTTP sees it.
pub(crate) struct Socket {
    layer: Layer,
    peer: Peer,
    /// Ends when the connection is cut.
    cut: Pin<Box<OwnedNotified>>,
}

/// What a connection is made of.
enum Layer {
    Tcp(TcpStream),
    Dialled(Box<dyn Wire>),
    /// Records are small, and many come at once: one read of the socket serves them all.
    Tls(Box<TlsStream<BufReader<Self>>>),
}

/// Who reads the requests first.
#[derive(Clone, Copy)]
enum Peer {
    Server,
    /// A proxy, to which requests name the server.
    Proxy,
}

impl Connector {
    pub(super) fn new(config: &Config, route: Route) -> Result<Self, ConfigError> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(config.audience.clone()));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let https = config.server.scheme() == Some(&Scheme::HTTPS);
        let server_name = https.then(|| tls::server_name(config)).transpose()?;
        Ok(Self {
            tcp,
            dialer: config.dialer.clone(),
            route,
            tls: None,
            server_name,
            timeout: config.connect_timeout,
            cutter: Arc::default(),
            audience: config.audience.clone(),
        })
    }

    /// Ends all connections that were begun before.
    pub(super) fn cut(&self) {
        self.cutter.notify_waiters();
    }

    /// Whether there is TLS on the way.
    pub(super) fn needs_tls(&self) -> bool {
        self.server_name.is_some() || self.proxy().is_some_and(|proxy| proxy.protocol == ProxyProtocol::Https)
    }

    /// Whether the server, and nobody else, says over TLS what is spoken.
    pub(super) fn may_negotiate(&self) -> bool {
        self.server_name.is_some()
    }

    pub(super) fn with_tls(&self, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { tls, ..self.clone() }
    }

    /// The same, but for connections that leave HTTP, which HTTP/2 cannot.
    pub(super) fn http1_only(&self) -> Self {
        Self { tls: self.tls.as_deref().map(|config| Arc::new(tls::http1_only(config))), ..self.clone() }
    }

    /// What each request tells a proxy that reads it.
    pub(super) fn proxy_authorization(&self) -> Option<HeaderValue> {
        self.proxy().filter(|_| self.is_read_by_proxy()).and_then(authorization)
    }

    fn proxy(&self) -> Option<&ProxyServer> {
        match &self.route {
            Route::Direct => None,
            Route::Through(proxy) => Some(proxy),
        }
    }

    /// Whether a proxy reads the requests: without TLS it need not open a tunnel.
    fn is_read_by_proxy(&self) -> bool {
        let http = |proxy: &ProxyServer| proxy.protocol != ProxyProtocol::Socks5;
        self.server_name.is_none() && self.proxy().is_some_and(http)
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Socket>, BoxError> {
        let cut = Box::pin(Arc::clone(&self.cutter).notified_owned());
        let peer = if self.is_read_by_proxy() { Peer::Proxy } else { Peer::Server };
        let layer = match self.proxy() {
            None => self.tcp(uri).await?,
            Some(proxy) => self.reach(proxy.clone(), uri).await?,
        };
        let layer = match &self.server_name {
            None => layer,
            Some(name) => self.secure(layer, name.clone(), Clone::clone).await?,
        };
        Ok(TokioIo::new(Socket { layer, peer, cut }))
    }

    async fn tcp(&self, uri: Uri) -> Result<Layer, BoxError> {
        Ok(match &self.dialer {
            None => Layer::Tcp(self.tcp.clone().oneshot(uri).await?.into_inner()),
            Some(dialer) => {
                let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
                Layer::Dialled(dialer.dial(host.to_owned(), port(&uri)).await?)
            }
        })
    }

    /// A connection to the server through a proxy; to the proxy itself, where that reads the requests.
    async fn reach(&self, proxy: ProxyServer, uri: Uri) -> Result<Layer, BoxError> {
        if self.is_read_by_proxy() {
            return self.proxy_layer(&proxy).await;
        }
        let to_proxy = {
            let (this, proxy) = (self.clone(), proxy.clone());
            service_fn(move |_: Uri| {
                let (this, proxy) = (this.clone(), proxy.clone());
                async move { this.proxy_layer(&proxy).await.map(TokioIo::new).map_err(Unreachable) }
            })
        };
        let reached = if proxy.protocol == ProxyProtocol::Socks5 {
            let socks = SocksV5::new(proxy.address.clone(), to_proxy);
            let socks = match &proxy.credentials {
                Some(it) => socks.with_auth(it.username.clone(), it.password.expose().to_owned()),
                None => socks,
            };
            // Of an address without a port it would take 443 for meant.
            let server = Uri::builder().scheme(Scheme::HTTP).authority(with_port(&uri)).path_and_query("/").build()?;
            socks.oneshot(server).await.map_err(|error| via(&proxy, error))?
        } else {
            let tunnel = Tunnel::new(proxy.address.clone(), to_proxy);
            let tunnel = match authorization(&proxy) {
                Some(value) => tunnel.with_auth(value),
                None => tunnel,
            };
            tunnel.oneshot(uri).await.map_err(|error| via(&proxy, error))?
        };
        Ok(reached.into_inner())
    }

    async fn proxy_layer(&self, proxy: &ProxyServer) -> Result<Layer, BoxError> {
        let layer = self.tcp(proxy.address.clone()).await?;
        if proxy.protocol != ProxyProtocol::Https {
            return Ok(layer);
        }
        let name = tls::name_of(&proxy.address)?;
        // Requests are written to it in HTTP/1.1.
        self.secure(layer, name, |config| Arc::new(tls::http1_only(config))).await
    }

    async fn secure(
        &self,
        layer: Layer,
        name: ServerName<'static>,
        adapt: impl Fn(&Arc<ClientConfig>) -> Arc<ClientConfig>,
    ) -> Result<Layer, BoxError> {
        let config = self.tls.as_ref().map(adapt).ok_or("there is no TLS configuration")?;
        let layer = BufReader::with_capacity(READ_AT_ONCE, layer);
        Ok(Layer::Tls(Box::new(TlsConnector::from(config).connect(name, layer).await?)))
    }
}

/// A server that cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {server}")]
struct NotConnected {
    server: String,
    source: BoxError,
}

/// A proxy that cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Unreachable(BoxError);

/// A proxy that did not let the connection through.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy} gives no connection")]
struct NotThrough {
    proxy: String,
    source: BoxError,
}

fn via(proxy: &ProxyServer, error: impl Into<BoxError>) -> NotThrough {
    NotThrough { proxy: proxy.to_string(), source: error.into() }
}

/// The host and port of an address.
fn with_port(uri: &Uri) -> String {
    format!("{}:{}", uri.host().unwrap_or_default(), port(uri))
}

fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 })
}

fn authorization(proxy: &ProxyServer) -> Option<HeaderValue> {
    proxy.credentials.as_ref().and_then(|it| basic(&it.username, it.password.expose()))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let server = with_port(&uri);
        let (timeout, connect) = (self.timeout, self.clone().connect(uri));
        let (audience, began) = (self.audience.clone(), Instant::now());
        Box::pin(async move {
            let connected = tokio::time::timeout(timeout, connect).await.unwrap_or_else(|_| {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {timeout:?}")).into())
            });
            let (outcome, took) = (Outcome::of(&connected), began.elapsed());
            audience.tell(|metrics| metrics.connected(&Opened { server: &server, outcome, took }));
            connected.map_err(|source| NotConnected { server, source }.into())
        })
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        match (&self.layer, self.peer) {
            (_, Peer::Proxy) => Connected::new().proxy(true),
            (Layer::Tls(stream), Peer::Server) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                Connected::new().negotiated_h2()
            }
            (Layer::Tls(_) | Layer::Tcp(_) | Layer::Dialled(_), Peer::Server) => Connected::new(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "all connections are closed")));
        }
        Pin::new(&mut this.layer).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().layer).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().layer).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.layer.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().layer).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().layer).poll_shutdown(cx)
    }
}

impl AsyncRead for Layer {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Dialled(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Layer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Dialled(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Dialled(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Dialled(stream) => stream.is_write_vectored(),
            // To a stream that takes several pieces at once, HTTP/2 gives each frame by itself: a record and a system call
            // each. For one that does not, it gathers small frames first.
            Self::Tls(_) => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Dialled(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Dialled(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
