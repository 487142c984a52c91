//! Connections to ports of a pod, and local ports that lead there.
//!
//! Each connection is a WebSocket of its own, in the fourth version of the channel protocol, which API servers hand on
//! to the kubelet. (The tunnel that kubectl prefers has SPDY inside, which this crate does not speak.)
//!
//! # Guarantees
//! - At most [`CONNECTION_LIMIT`] connections go through a [`PortForwarder`] at once, or as many as it is
//!   [told](PortForward::limit); more wait to be accepted.
//! - Both directions are bounded: who reads slowly is not overrun.
//! - Dropping a [`PortStream`] or a [`PortForwarder`] ends its connections and tasks.
//!
//! # Not guaranteed
//! The protocol cannot tell the pod that one side is done and still listens. A connection whose local side is done is kept
//! for what the pod still sends, and dropped when the pod sends nothing for [`LINGER`].

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
    behind::Behind,
    websocket::{self, Protocol},
};

pub use listener::{ForwardedPort, PortForwarder};
pub use ports::{PortPair, PortPairError};

/// How many connections go through a [`PortForwarder`] at once, unless it is told otherwise.
pub const CONNECTION_LIMIT: usize = 256;
/// How long a pod may be silent once the local side is done.
pub const LINGER: Duration = Duration::from_secs(30);
/// How much is held for a side that is slower than the other.
const STREAM_BUFFER: usize = 64 << 10;

/// Leads to ports of a pod: to one by [`connect`](Self::connect), or from local ports by [`listen`](Self::listen).
#[derive(Clone)]
#[must_use = "nothing happens before `connect` or `listen`"]
pub struct PortForward {
    behind: Behind,
    addresses: Vec<IpAddr>,
    ports: Vec<PortPair>,
    /// Of connections at once, over all ports.
    limit: usize,
}

/// A connection to a port of a pod.
///
/// It ends when the pod closes it. What goes wrong on the way, such as a port that nobody listens on, is an error of the
/// read that would have been the end.
#[derive(Debug)]
pub struct PortStream {
    local: DuplexStream,
    failure: Failure,
    driver: JoinHandle<()>,
}

/// What ended a connection before its time.
type Failure = Arc<Mutex<Option<String>>>;

impl Client {
    /// Leads to ports of a pod.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// // One connection, in this program:
    /// let stream = client.port_forward("web-0").within("shop").connect(8080).await?;
    ///
    /// // A local port for other programs, as `kubectl port-forward pod/web-0 :8080` gives one:
    /// let forwarder = client.port_forward("web-0").within("shop").port(":8080".parse()?).listen().await?;
    /// println!("http://{}", forwarder.ports()[0].local);
    /// # drop(stream);
    /// # Ok(())
    /// # }
    /// ```
    pub fn port_forward(&self, pod: impl Into<ObjectRef<Pod>>) -> PortForward {
        PortForward {
            behind: Behind::new(self, pod.into(), "portforward"),
            addresses: Vec::new(),
            ports: Vec::new(),
            limit: CONNECTION_LIMIT,
        }
    }
}

impl PortForward {
    /// In this namespace, whatever was named before.
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.behind.within(namespace);
        self
    }

    /// Listens here too; only on 127.0.0.1 unless said otherwise.
    pub fn address(mut self, address: IpAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// Leads from this local port to that of the pod, too.
    pub fn port(mut self, pair: PortPair) -> Self {
        self.ports.push(pair);
        self
    }

    /// Carries so many connections at once; at least one.
    pub fn limit(mut self, connections: usize) -> Self {
        self.limit = connections.max(1);
        self
    }

    /// Connects to a port of the pod.
    ///
    /// That nobody listens there is not known yet when this returns: reading tells.
    pub async fn connect(&self, port: u16) -> Result<PortStream> {
        let query = vec![("ports", port.to_string())];
        let (sender, receiver) = websocket::open(&self.behind, query, &[Protocol::V4]).await?;
        let (local, remote) = tokio::io::duplex(STREAM_BUFFER);
        let failure = Failure::default();
        let driver = tokio::spawn(driver::drive(sender, receiver, remote, Arc::clone(&failure)));
        Ok(PortStream { local, failure, driver })
    }

    /// Listens on the local ports, and leads each connection to the pod from then on.
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
        write!(f, "PortForward({}, {:?})", self.behind.operation(), self.ports)
    }
}

#[cfg(test)]
mod tests;
