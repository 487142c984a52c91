//! Port forwarding: connections to ports of a pod, and local ports that forward to them.
//!
//! Each connection is a separate WebSocket with version 4 of the channel protocol, which API servers pass on to the
//! kubelet. kubectl's preferred protocol tunnels SPDY, which this crate does not implement.
//!
//! # Guarantees
//! - A [`PortForwarder`] carries at most [`CONNECTION_LIMIT`] connections at once, or the number set with
//!   [`PortForward::limit`]. Further connections wait to be accepted.
//! - Both directions have bounded buffers; a slow reader slows down the writer.
//! - Dropping a [`PortStream`] or a [`PortForwarder`] ends its connections and tasks.
//!
//! # Not guaranteed
//! The protocol has no half-close: it cannot signal that one side has finished sending and still reads. After the local
//! side has finished, the connection stays open for the pod's remaining data. It is dropped when the pod sends nothing
//! for [`LINGER`].

mod driver;
mod listener;
mod ports;

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    task::JoinHandle,
};
use windlass_api::{ObjectRef, k8s_openapi::api::core::v1::Pod};

use crate::{
    Client, Result,
    connect::ConnectRequest,
    websocket::{self, Protocol},
};

pub use listener::{ForwardedPort, PortForwarder};
pub use ports::{PortPair, PortPairError};

/// The default number of concurrent connections of a [`PortForwarder`].
pub const CONNECTION_LIMIT: usize = 256;
/// The time without data from the pod after which a connection is dropped whose local side has finished.
pub const LINGER: Duration = Duration::from_secs(30);
/// The size of the buffer for a slow side, in bytes.
const STREAM_BUFFER: usize = 64 << 10;

/// Forwards ports of a pod: one connection with [`connect`](Self::connect), or local ports with
/// [`listen`](Self::listen).
#[derive(Clone)]
#[must_use = "nothing happens before `connect` or `listen`"]
pub struct PortForward {
    connect: ConnectRequest,
    addresses: Vec<IpAddr>,
    ports: Vec<PortPair>,
    /// The maximum number of concurrent connections over all ports.
    limit: usize,
}

/// A connection to a port of a pod.
///
/// It ends when the pod closes it. If it fails, for example because no process listens on the port, the final read
/// returns the error.
#[derive(Debug)]
pub struct PortStream {
    local: DuplexStream,
    failure: Failure,
    driver: JoinHandle<()>,
}

/// The error that ended a connection early.
type Failure = Arc<Mutex<Option<String>>>;

impl Client {
    /// Forwards ports of a pod.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// // One connection, in this program:
    /// let stream = client.port_forward("web-0").within("shop").connect(8080).await?;
    ///
    /// // A local port for other programs, like `kubectl port-forward pod/web-0 :8080`:
    /// let forwarder = client.port_forward("web-0").within("shop").port(":8080".parse()?).listen().await?;
    /// println!("http://{}", forwarder.ports()[0].local);
    /// # drop(stream);
    /// # Ok(())
    /// # }
    /// ```
    pub fn port_forward(&self, pod: impl Into<ObjectRef<Pod>>) -> PortForward {
        PortForward {
            connect: ConnectRequest::new(self, pod.into(), "portforward"),
            addresses: Vec::new(),
            ports: Vec::new(),
            limit: CONNECTION_LIMIT,
        }
    }
}

impl PortForward {
    /// Sets the namespace. Overrides any namespace set before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.connect.within(namespace);
        self
    }

    /// Adds a local address to listen on. Defaults to 127.0.0.1 only.
    pub fn address(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Adds a local port and the pod's port that it forwards to.
    pub fn port(mut self, pair: PortPair) -> Self {
        self.ports.push(pair);
        self
    }

    /// Sets the maximum number of concurrent connections; at least one.
    pub fn limit(mut self, connections: usize) -> Self {
        self.limit = connections.max(1);
        self
    }

    /// Connects to a port of the pod.
    ///
    /// Succeeds even if no process listens on the port; in this case, reading returns the error.
    pub async fn connect(&self, port: u16) -> Result<PortStream> {
        let query = vec![("ports", port.to_string())];
        let (sender, receiver) = websocket::open(&self.connect, query, &[Protocol::V4]).await?;
        let (local, remote) = tokio::io::duplex(STREAM_BUFFER);
        let failure = Failure::default();
        let driver = tokio::spawn(driver::drive(sender, receiver, remote, Arc::clone(&failure)));
        Ok(PortStream { local, failure, driver })
    }

    /// Listens on the local ports and forwards each connection to the pod.
    pub async fn listen(mut self) -> io::Result<PortForwarder> {
        if self.addresses.is_empty() {
            self.addresses.push(Ipv4Addr::LOCALHOST.into());
        }
        PortForwarder::start(self).await
    }
}

impl AsyncRead for PortStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, room) = (buffer.filled().len(), buffer.remaining());
        ready!(Pin::new(&mut self.local).poll_read(cx, buffer))?;
        let at_end = room > 0 && buffer.filled().len() == before;
        match at_end.then(|| self.failure.lock().take()).flatten() {
            Some(failure) => Poll::Ready(Err(io::Error::other(failure))),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.local).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.local).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.local).poll_shutdown(cx)
    }
}

impl Drop for PortStream {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl fmt::Debug for PortForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortForward({}, {:?})", self.connect.operation(), self.ports)
    }
}

#[cfg(test)]
mod tests;
