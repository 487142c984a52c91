//! Local ports that lead to a pod.

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

/// The pause after a connection could not be accepted: without file descriptors the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on local ports, and leads each connection to its port of the pod, until dropped.
///
/// A connection that cannot be made, because the pod is gone, say, is logged and closes the local one; the others go on.
#[derive(Debug)]
pub struct PortForwarder {
    ports: Vec<ForwardedPort>,
    /// One for each port; they end with this.
    listeners: JoinSet<()>,
}

/// A local port and where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedPort {
    /// Where to connect to.
    pub local: SocketAddr,
    /// The port of the pod.
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

    /// The local ports, those included that were chosen because they were free.
    #[must_use]
    pub fn ports(&self) -> &[ForwardedPort] {
        &self.ports
    }

    /// Goes on until none of the ports can be listened on any more, which does not happen by itself.
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

/// Owns the connections of one port: they end when this is dropped.
async fn listen(listener: TcpListener, remote: u16, forward: PortForward, room: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let accepted = loop {
            tokio::select! {
                accepted = listener.accept() => break accepted,
                // Those that have ended are let go of.
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
            // A peer that has gone again, or no file descriptors for the moment.
            Err(error) => {
                tracing::warn!(port = remote, %error, "a connection to be forwarded was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Ends with the pod's side: what the local one still says would reach nobody.
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
        // However it ends, the pod's side is told, and has the last word.
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
