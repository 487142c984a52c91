//! Local ports that are forwarded to a pod.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncWriteExt, copy, split},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use windlass_api::ErrorChain;

use super::PortForward;

/// The pause after a failed accept: without free file descriptors, the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on local ports and forwards each connection to its port of the pod, until dropped.
///
/// If a connection to the pod fails, for example because the pod is gone, the error is logged and the local connection
/// is closed. Other connections continue.
#[derive(Debug)]
pub struct PortForwarder {
    ports: Vec<ForwardedPort>,
    /// One task per port, aborted on drop.
    listeners: JoinSet<()>,
}

/// A local port and the pod's port that it forwards to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedPort {
    /// The local address to connect to.
    pub local: SocketAddr,
    /// The pod's port.
    pub remote: u16,
}

impl PortForwarder {
    pub(super) async fn start(forward: PortForward) -> io::Result<Self> {
        let mut bound = Vec::new();
        for pair in &forward.ports {
            for address in &forward.addresses {
                bound.push((bind(*address, pair.local).await?, pair.remote));
            }
        }
        let room = Arc::new(Semaphore::new(forward.limit));
        let mut ports = Vec::with_capacity(bound.len());
        let mut listeners = JoinSet::new();
        for (listener, remote) in bound {
            ports.push(ForwardedPort { local: listener.local_addr()?, remote });
            listeners.spawn(listen(listener, remote, forward.clone(), Arc::clone(&room)));
        }
        Ok(Self { ports, listeners })
    }

    /// Returns the local ports, including those that were chosen automatically.
    #[must_use]
    pub fn ports(&self) -> &[ForwardedPort] {
        &self.ports
    }

    /// Waits until all listeners have ended. Normally, this never returns.
    pub async fn wait(mut self) {
        while self.listeners.join_next().await.is_some() {}
    }
}

async fn bind(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("listen on {address}: {error}")))
}

/// Accepts connections of one port and owns their tasks, which end when this future is dropped.
async fn listen(listener: TcpListener, remote: u16, forward: PortForward, room: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let accepted = loop {
            tokio::select! {
                accepted = listener.accept() => break accepted,
                // Reap tasks that have ended.
                Some(_) = connections.join_next() => {}
            }
        };
        match accepted {
            Ok((local, _)) => {
                let forward = forward.clone();
                connections.spawn(async move {
                    carry(local, remote, &forward).await;
                    drop(permit);
                });
            }
            // The peer has disconnected again, or there are temporarily no free file descriptors.
            Err(error) => {
                tracing::warn!(port = remote, %error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Carries one local connection. Ends with the pod's side, after which local data has no receiver.
async fn carry(mut local: TcpStream, remote: u16, forward: &PortForward) {
    let pod = match forward.connect(remote).await {
        Ok(pod) => pod,
        Err(error) => {
            tracing::warn!(port = remote, error = %ErrorChain(&error), "no connection to the pod");
            return;
        }
    };
    let (mut from_local, mut to_local) = local.split();
    let (mut from_pod, mut to_pod) = split(pod);
    let up = async {
        // In any case, the pod's side is closed, and its remaining data is read.
        let _ = copy(&mut from_local, &mut to_pod).await;
        let _ = to_pod.shutdown().await;
        std::future::pending().await
    };
    let carried = tokio::select! {
        carried = copy(&mut from_pod, &mut to_local) => carried,
        never = up => never,
    };
    if let Err(error) = carried {
        tracing::warn!(port = remote, %error, "the connection to the pod broke");
    }
}
