//! The limits of a server.

use std::{sync::Arc, time::Duration};

use tokio_rustls::rustls::ServerConfig;

/// The time limit for a TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time limit for a connection without requests. With HTTP/2, for the first bytes only.
pub(crate) const IDLE: Duration = Duration::from_secs(90);

/// The maximum size of an HTTP/1 request head in bytes: hyper's read buffer.
pub(crate) const HEAD_BYTES: usize = 408 << 10;

/// The maximum size of an HTTP/2 request head, decoded, and of a frame, in bytes.
pub(crate) const HEADER_LIST: u32 = 16 << 10;
pub(crate) const FRAME: u32 = 16 << 10;

/// The HTTP/2 flow-control windows of a stream (as in kube-apiserver) and of a connection, in bytes.
pub(crate) const STREAM_WINDOW: u32 = 256 << 10;
pub(crate) const CONNECTION_WINDOW: u32 = 1 << 20;

/// The maximum number of bytes that an HTTP/2 stream buffers for sending.
pub(crate) const SEND_BUFFER: usize = 400 << 10;

/// The maximum number of streams that a client may open and reset before they are served, and that the server may
/// reset because of errors of the client. Beyond them, the connection is closed.
pub(crate) const PENDING_RESETS: usize = 20;
pub(crate) const ERROR_RESETS: usize = 1024;

/// The interval after which a quiet HTTP/2 connection is pinged, and the time limit for the response.
pub(crate) const PING: Duration = Duration::from_secs(30);
pub(crate) const PONG: Duration = Duration::from_secs(15);

/// An HTTP server and its limits.
///
/// The methods set limits that differ between servers. The others are fixed:
///
/// | limit | value |
/// |---|---|
/// | TLS handshake | 10 s |
/// | connection without requests | 90 s, as in kube-apiserver and controller-runtime; HTTP/2 is pinged instead, every 30 s, and closed without a response within 15 s |
/// | request head | 408 KiB over HTTP/1; 16 KiB over HTTP/2 |
/// | HTTP/2 windows | 256 KiB for each stream, 1 MiB for the connection |
/// | HTTP/2 frames | 16 KiB |
/// | HTTP/2 send buffer | 400 KiB for each stream |
/// | HTTP/2 resets | 20 streams that are reset before they are served, 1,024 that the server resets because of errors |
#[derive(Clone, Debug)]
#[must_use = "a server does nothing until `serve` is called"]
pub struct HttpServer {
    pub(crate) connections: usize,
    pub(crate) protocols: Protocols,
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) head: Duration,
    pub(crate) write: Duration,
    pub(crate) streams: u32,
    pub(crate) grace: Duration,
}

/// The versions of HTTP that a server offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/1.1 and HTTP/2. Clients select the version during the TLS handshake or, without TLS, with their first bytes.
    #[default]
    Http1And2,
}

impl HttpServer {
    /// Creates a server with the default limits, without TLS.
    pub const fn new() -> Self {
        Self {
            connections: 1_024,
            protocols: Protocols::Http1And2,
            tls: None,
            head: Duration::from_secs(32),
            write: Duration::from_mins(1),
            streams: 250,
            grace: Duration::from_secs(1),
        }
    }

    /// Sets the maximum number of connections. At the limit, new connections wait, and the connections that have been
    /// idle longest are closed. Defaults to 1,024.
    pub const fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the versions of HTTP. Defaults to HTTP/1.1 and HTTP/2.
    pub const fn protocols(mut self, protocols: Protocols) -> Self {
        self.protocols = protocols;
        self
    }

    /// Enables TLS. The certificate resolver of `config` is called for each connection, so it can replace the
    /// certificate. The protocols in `config` (ALPN) are replaced by [`Self::protocols`].
    pub fn tls(mut self, config: Arc<ServerConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Sets the time limit for an HTTP/1 request head, from its first byte. Defaults to 32 s, as in kube-apiserver and
    /// controller-runtime.
    pub const fn head_timeout(mut self, limit: Duration) -> Self {
        self.head = limit;
        self
    }

    /// Sets the time after which a connection or an HTTP/2 stream is closed if the client reads nothing of a pending
    /// response. Defaults to 1 minute.
    pub const fn write_timeout(mut self, limit: Duration) -> Self {
        self.write = limit;
        self
    }

    /// Sets the maximum number of concurrent requests of an HTTP/2 connection. Defaults to 250, as in Go.
    pub const fn streams(mut self, streams: u32) -> Self {
        self.streams = streams;
        self
    }

    /// Sets the time for requests in progress after shutdown begins. Defaults to 1 s.
    pub const fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

impl Default for HttpServer {
    fn default() -> Self {
        Self::new()
    }
}

impl Protocols {
    /// Returns the names in a TLS handshake, preferred first.
    pub(crate) fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http1 => vec![HTTP1.to_vec()],
            Self::Http1And2 => vec![HTTP2.to_vec(), HTTP1.to_vec()],
        }
    }
}

/// The names of the protocols in a TLS handshake.
pub(crate) const HTTP1: &[u8] = b"http/1.1";
pub(crate) const HTTP2: &[u8] = b"h2";
