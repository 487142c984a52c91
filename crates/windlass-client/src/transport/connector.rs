//! Opens connections: TCP or a custom dialer, an optional proxy, and TLS for https. ALPN selects HTTP/1.1 or HTTP/2.

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
    sync::Notify,
    time::Instant,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::{Service, ServiceExt, service_fn};
use windlass_api::BoxError;

use super::{
    ConnectionKey,
    driver::{Cut, DriverSlot},
    resolver::Resolver,
    route::Route,
    tls,
};
use crate::{
    auth::basic,
    config_error::ConfigError,
    connection_options::{Dialer, ProxyProtocol, ProxyServer, Wire},
    metrics::{MetricsRecorder, Opened, Outcome},
};

/// The interval of TCP keep-alive, which detects dead peers, because watches may be silent for long.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

/// The read buffer of a socket with TLS, in bytes: two records of maximum length.
const READ_AT_ONCE: usize = 32 * 1024;

/// Opens connections to one server with one TLS configuration.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector<Resolver>,
    /// Replaces TCP.
    dialer: Option<Dialer>,
    route: Route,
    /// `Some` if the server or the proxy uses https.
    tls: Option<Arc<ClientConfig>>,
    /// `Some` only if the server uses https.
    server_name: Option<ServerName<'static>>,
    /// The time limit for TCP, proxy and TLS together.
    timeout: Duration,
    /// Notifies the connections that must end immediately.
    cutter: Arc<Notify>,
    recorder: MetricsRecorder,
}

/// A connection as used by HTTP.
pub(crate) struct Socket {
    layer: Layer,
    peer: Peer,
    cut: Cut,
    /// The same for the driver, which takes it with the first read.
    driver_cut: Option<Cut>,
    driver: DriverSlot,
}

/// The layers of a connection.
enum Layer {
    Tcp(TcpStream),
    Dialed(Box<dyn Wire>),
    /// Records are small, and many arrive at once. The buffer reads them with a single system call.
    Tls(Box<TlsStream<BufReader<Self>>>),
}

/// The peer that reads the requests first.
#[derive(Clone, Copy)]
enum Peer {
    Server,
    /// An HTTP proxy. Requests to it contain the server's address.
    Proxy,
}

impl Connector {
    pub(super) fn new(key: &ConnectionKey, route: Route, recorder: MetricsRecorder) -> Result<Self, ConfigError> {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new(recorder.clone()));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let https = key.server.scheme() == Some(&Scheme::HTTPS);
        let server_name = https.then(|| tls::server_name(&key.server, &key.tls)).transpose()?;
        Ok(Self {
            tcp,
            dialer: key.dialer.clone(),
            route,
            tls: None,
            server_name,
            timeout: key.timeout,
            cutter: Arc::default(),
            recorder,
        })
    }

    /// Closes all connections that were opened before this call.
    pub(super) fn cut(&self) {
        self.cutter.notify_waiters();
    }

    /// Reports whether the connection uses TLS, to the server or the proxy.
    pub(super) fn needs_tls(&self) -> bool {
        self.server_name.is_some() || self.proxy().is_some_and(|proxy| proxy.protocol == ProxyProtocol::Https)
    }

    /// Reports whether ALPN negotiates the HTTP version with the server itself.
    pub(super) fn may_negotiate(&self) -> bool {
        cfg!(feature = "http2") && self.server_name.is_some()
    }

    pub(super) fn with_tls(&self, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { tls, ..self.clone() }
    }

    /// Returns this connector restricted to HTTP/1.1, for upgrades, which HTTP/2 does not support.
    pub(super) fn http1_only(&self) -> Self {
        Self { tls: self.tls.as_deref().map(|config| Arc::new(tls::http1_only(config))), ..self.clone() }
    }

    /// Returns the `Proxy-Authorization` header for a proxy that reads the requests.
    pub(super) fn proxy_authorization(&self) -> Option<HeaderValue> {
        self.proxy().filter(|_| self.is_read_by_proxy()).and_then(authorization)
    }

    fn proxy(&self) -> Option<&ProxyServer> {
        match &self.route {
            Route::Direct => None,
            Route::Through(proxy) => Some(proxy),
        }
    }

    /// Reports whether a proxy reads the requests. This is the case without TLS, which needs no tunnel.
    fn is_read_by_proxy(&self) -> bool {
        let http = |proxy: &ProxyServer| proxy.protocol != ProxyProtocol::Socks5;
        self.server_name.is_none() && self.proxy().is_some_and(http)
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Socket>, BoxError> {
        let cut = || Box::pin(Arc::clone(&self.cutter).notified_owned());
        let (cut, driver_cut) = (cut(), Some(cut()));
        let peer = if self.is_read_by_proxy() { Peer::Proxy } else { Peer::Server };
        let layer = match self.proxy() {
            None => self.tcp(uri).await?,
            Some(proxy) => self.reach(proxy.clone(), uri).await?,
        };
        let layer = match &self.server_name {
            None => layer,
            Some(name) => self.secure(layer, name.clone(), Clone::clone).await?,
        };
        Ok(TokioIo::new(Socket { layer, peer, cut, driver_cut, driver: DriverSlot::default() }))
    }

    async fn tcp(&self, uri: Uri) -> Result<Layer, BoxError> {
        Ok(match &self.dialer {
            None => Layer::Tcp(self.tcp.clone().oneshot(uri).await?.into_inner()),
            Some(dialer) => {
                let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
                Layer::Dialed(dialer.dial(host.to_owned(), port(&uri)).await?)
            }
        })
    }

    /// Opens a connection to the server through a proxy, or to the proxy itself if that reads the requests.
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
            // Without a port, the tunnel would use 443.
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
        // Requests to the proxy use HTTP/1.1.
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

/// The error of an unreachable server.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {server}")]
struct NotConnected {
    server: String,
    source: BoxError,
}

/// The error of an unreachable proxy.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Unreachable(BoxError);

/// The error of a connection through a proxy.
#[derive(Debug, thiserror::Error)]
#[error("the connection through the proxy {proxy} failed")]
struct NotThrough {
    proxy: String,
    source: BoxError,
}

fn via(proxy: &ProxyServer, error: impl Into<BoxError>) -> NotThrough {
    NotThrough { proxy: proxy.to_string(), source: error.into() }
}

/// Returns the host and port of an address.
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
        let (recorder, began) = (self.recorder.clone(), Instant::now());
        Box::pin(async move {
            let connected = tokio::time::timeout(timeout, connect).await.unwrap_or_else(|_| {
                Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {timeout:?}")).into())
            });
            let (outcome, took) = (Outcome::of(&connected), began.elapsed());
            recorder.record(|metrics| metrics.connected(&Opened { server: &server, outcome, took }));
            connected.map_err(|source| NotConnected { server, source }.into())
        })
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        let connected = Connected::new().extra(self.driver.clone());
        match (&self.layer, self.peer) {
            (_, Peer::Proxy) => connected.proxy(true),
            (Layer::Tls(stream), Peer::Server) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                connected.negotiated_h2()
            }
            (Layer::Tls(_) | Layer::Tcp(_) | Layer::Dialed(_), Peer::Server) => connected,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.driver.fill(&mut this.driver_cut);
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
            Self::Dialed(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Layer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Dialed(stream) => Pin::new(stream).poll_write(cx, bytes),
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
            Self::Dialed(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Dialed(stream) => stream.is_write_vectored(),
            // With vectored writes, HTTP/2 passes each frame separately, which costs a record and a system call each.
            // Without them, it first collects small frames.
            Self::Tls(_) => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Dialed(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Dialed(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
