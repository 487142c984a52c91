//! Bounds on what clients can make a server hold.

use std::time::Duration;

/// Bounds on what the clients of a [`Server`](crate::Server) that listens on a socket can make it hold.
///
/// ```
/// use windlass_server::{Limits, Server};
///
/// let server = Server::builder().limits(Limits { connections: 100, ..Limits::default() }).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time. At the limit the connections that have been idle longest are closed. Defaults to 16,384.
    pub connections: usize,
    /// Streams of one HTTP/2 connection at a time. Defaults to 1,000: a client has a watch for each kind, and many clients
    /// share one connection.
    pub streams: u32,
    /// Bytes of unread responses and of unfinished requests that one connection may hold. Above it, the connection's
    /// further requests wait until it has read, and get 429 after five seconds. One response may always be larger.
    /// Defaults to 32 MiB.
    pub connection_bytes: usize,
    /// The same for all connections together. Above it, connections that have read nothing for one second are closed, the
    /// largest first. Defaults to 256 MiB.
    pub server_bytes: usize,
    /// A stream or connection whose client reads nothing for so long, while a response waits for it, is closed. Defaults to
    /// 60 seconds, the request timeout of kube-apiserver.
    pub stall: Duration,
    /// The time in which a client has to send the head of a request, from its first byte on. Defaults to 32 seconds, as in
    /// kube-apiserver.
    pub head: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_384,
            streams: 1_000,
            connection_bytes: 32 << 20,
            server_bytes: 256 << 20,
            stall: Duration::from_mins(1),
            head: Duration::from_secs(32),
        }
    }
}
