//! Opens connections: TCP, and TLS over it for https; ALPN decides between HTTP/1.1 and HTTP/2.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Uri, uri::Scheme};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::{Service, ServiceExt};
use windlass_api::BoxError;

use super::tls;
use crate::{Config, ConfigError};

/// Watches may be silent for long; the kernel finds out a peer that is gone.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    /// `Some` iff the server is https.
    tls: Option<Tls>,
    /// For TCP and TLS together.
    timeout: Duration,
}

#[derive(Clone)]
struct Tls {
    connector: TlsConnector,
    server_name: ServerName<'static>,
}

/// A connection, with or without TLS.
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connector {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let tls = if config.server.scheme() == Some(&Scheme::HTTPS) {
            let connector = TlsConnector::from(Arc::new(tls::client_config(&config.tls)?));
            Some(Tls { connector, server_name: tls::server_name(config)? })
        } else {
            None
        };
        Ok(Self { tcp, tls, timeout: config.connect_timeout })
    }

    /// The same, but for connections that leave HTTP, which HTTP/2 cannot.
    pub(super) fn http1_only(&self) -> Self {
        let tls = self.tls.as_ref().map(|tls| {
            let mut config = tls.connector.config().as_ref().clone();
            config.alpn_protocols = vec![b"http/1.1".to_vec()];
            Tls { connector: TlsConnector::from(Arc::new(config)), server_name: tls.server_name.clone() }
        });
        Self { tls, ..self.clone() }
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Socket>, BoxError> {
        let tcp = self.tcp.oneshot(uri).await?.into_inner();
        let socket = match self.tls {
            None => Socket::Plain(tcp),
            Some(tls) => Socket::Tls(Box::new(tls.connector.connect(tls.server_name, tcp).await?)),
        };
        Ok(TokioIo::new(socket))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (timeout, connect) = (self.timeout, self.clone().connect(uri));
        Box::pin(async move {
            match tokio::time::timeout(timeout, connect).await {
                Ok(connected) => connected,
                Err(_) => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {timeout:?}")).into())
                }
            }
        })
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        match self {
            Self::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => Connected::new().negotiated_h2(),
            Self::Tls(_) | Self::Plain(_) => Connected::new(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
