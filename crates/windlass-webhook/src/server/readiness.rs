//! Whether webhooks are served.

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

/// How long the server may take to shake hands.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tells whether a [`Server`](super::Server) serves. Clones tell of the same.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    NotStarted,
    Disabled,
    Started(SocketAddr),
}

/// Why webhooks are not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotReady {
    /// The server does not run, yet or any more.
    #[error("webhook server has not been started yet")]
    NotStarted,
    /// Nobody can connect to it.
    #[error("webhook server is not reachable")]
    Unreachable(#[source] BoxError),
}

/// While it lives, the server runs.
pub(super) struct Started(Readiness);

impl Readiness {
    /// Connects to the server and shakes hands, as an API server would.
    pub async fn check(&self) -> Result<(), NotReady> {
        let state = *self.0.lock();
        match state {
            State::Disabled => Ok(()),
            State::NotStarted => Err(NotReady::NotStarted),
            State::Started(address) => match timeout(PATIENCE, dial(reachable(address))).await {
                Ok(dialled) => dialled.map_err(NotReady::Unreachable),
                Err(elapsed) => Err(NotReady::Unreachable(elapsed.into())),
            },
        }
    }

    /// Where the server listens, while it does.
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

/// All addresses are reached by that of this host.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}
