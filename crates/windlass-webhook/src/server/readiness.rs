//! Readiness of the webhook server.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use windlass_api::BoxError;

use super::tls;

/// The time limit of the handshake.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reports whether a [`Server`](super::Server) serves webhooks. Clones report on the same server.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    NotStarted,
    Disabled,
    Started(SocketAddr),
}

/// The reason why webhooks are not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotReady {
    /// The server has not been started, or has stopped.
    #[error("webhook server has not been started yet")]
    NotStarted,
    /// Connecting to the server failed.
    #[error("webhook server is not reachable")]
    Unreachable(#[source] BoxError),
}

/// The server runs as long as this guard exists.
pub(super) struct Started(Readiness);

impl Readiness {
    /// Connects to the server and performs a TLS handshake, as an API server would. Returns an error if that fails.
    pub async fn check(&self) -> Result<(), NotReady> {
        let state = *self.0.lock();
        match state {
            State::Disabled => Ok(()),
            State::NotStarted => Err(NotReady::NotStarted),
            State::Started(address) => match timeout(PATIENCE, dial(reachable(address))).await {
                Ok(dialed) => dialed.map_err(NotReady::Unreachable),
                Err(elapsed) => Err(NotReady::Unreachable(elapsed.into())),
            },
        }
    }

    /// Returns the address of the server while it listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match *self.0.lock() {
            State::Started(address) => Some(address),
            State::NotStarted | State::Disabled => None,
        }
    }

    pub(super) fn disabled(&self) {
        *self.0.lock() = State::Disabled;
    }

    pub(super) fn started(&self, address: SocketAddr) -> Started {
        *self.0.lock() = State::Started(address);
        Started(self.clone())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        *self.0.0.lock() = State::NotStarted;
    }
}

async fn dial(address: SocketAddr) -> Result<(), BoxError> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::IpAddress(address.ip().into());
    let mut stream = TlsConnector::from(Arc::new(tls::curious()?)).connect(name, stream).await?;
    stream.shutdown().await?;
    Ok(())
}

/// Replaces an unspecified address with the loopback address.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
