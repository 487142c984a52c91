//! Limits on the resources that clients can occupy.

use std::time::Duration;

/// Limits on the resources that clients of a [`Server`](crate::Server) on a socket can occupy.
///
/// ```
/// use windlass_server::{Limits, Server};
///
/// let server = Server::builder().limits(Limits { connections: 100, ..Limits::default() }).build();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of connections. At the limit, the connections that have been idle longest are closed.
    /// Defaults to 16,384.
    pub connections: usize,
    /// The maximum number of concurrent streams of an HTTP/2 connection. Defaults to 1,000: a client has a watch for
    /// each kind, and many clients can share a connection.
    pub streams: u32,
    /// The bytes of unread responses, unsent initial states of watches and unfinished requests that one connection may
    /// hold. Above the limit, further requests of the connection wait until the client has read, and get 429 after five
    /// seconds. A single response may always be larger. Defaults to 32 MiB.
    pub connection_bytes: usize,
    /// The same limit for all connections together. Above it, connections that have read nothing for one second are
    /// closed, the largest first. Defaults to 256 MiB.
    pub server_bytes: usize,
    /// The time after which a stream or connection is closed if its client does not read a pending response. Defaults
    /// to 60 seconds, the request timeout of kube-apiserver.
    pub stall: Duration,
    /// The time limit for receiving a request head, from its first byte. Defaults to 32 seconds, as in kube-apiserver.
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
