//! Serving webhooks over HTTPS.

mod connections;
mod readiness;
mod tls;

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use rustls::server::ResolvesServerCert;
use thiserror::Error;
use tokio::net::TcpListener;

pub use self::readiness::{NotReady, Readiness};
use crate::{CertificateError, CertificateFiles, Webhooks};

/// Where webhooks are expected.
const PORT: u16 = 9443;

/// How long calls that are under way may take once the server is to stop.
const GRACE: Duration = Duration::from_mins(1);

/// Serves [`Webhooks`] over HTTPS, HTTP/1.1 and HTTP/2, until it is told to stop.
///
/// The certificate comes from `tls.crt` and `tls.key` in `k8s-webhook-server/serving-certs` below the directory for temporary
/// files, unless told otherwise.
///
/// ```no_run
/// # async fn example(webhooks: windlass_webhook::Webhooks) -> Result<(), windlass_webhook::ServeError> {
/// use windlass_webhook::{CertificateFiles, Server};
///
/// let server = Server::new(webhooks).certificate_files(CertificateFiles::in_directory("/certs"));
/// let ready = server.readiness(); // for a probe
/// server.serve(std::future::pending()).await
/// # }
/// ```
#[must_use = "a server does nothing until `serve` is called"]
pub struct Server {
    webhooks: Webhooks,
    place: Place,
    certificate: Certificate,
    client_ca: Option<PathBuf>,
    protocols: Protocols,
    grace: Duration,
    readiness: Readiness,
}

/// Where a server listens.
enum Place {
    Nowhere,
    Address(SocketAddr),
    Bound(TcpListener),
}

enum Certificate {
    Files(CertificateFiles),
    Resolver(Arc<dyn ResolvesServerCert>),
}

/// What is spoken over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocols {
    Http2,
    Http1Only,
}

/// Why webhooks cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The port cannot be had.
    #[error("listening on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// There is no certificate to begin with.
    #[error("loading the serving certificate")]
    Certificate(#[from] CertificateError),
    /// The authorities of clients cannot be used.
    #[error("loading the authorities of clients from {}", path.display())]
    ClientCa {
        /// Where they are.
        path: PathBuf,
        /// Why not.
        source: windlass_api::BoxError,
    },
    /// TLS cannot be set up.
    #[error("setting up TLS")]
    Tls(#[from] rustls::Error),
}

impl Server {
    /// On port 9443 of all addresses.
    pub fn new(webhooks: Webhooks) -> Self {
        let directory = std::env::temp_dir().join("k8s-webhook-server").join("serving-certs");
        Self {
            webhooks,
            place: Place::Address(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT)),
            certificate: Certificate::Files(CertificateFiles::in_directory(directory)),
            client_ca: None,
            protocols: Protocols::Http2,
            grace: GRACE,
            readiness: Readiness::default(),
        }
    }

    /// On this address; port 0 is any that is free.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.place = Place::Address(address);
        self
    }

    /// On a socket that is there already.
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.place = Place::Bound(listener);
        self
    }

    /// Nowhere: [`Self::serve`] returns at once, and the server counts as ready. For programs whose webhooks can be turned
    /// off.
    pub fn disabled(mut self) -> Self {
        self.place = Place::Nowhere;
        self
    }

    /// With the certificate in these files.
    pub fn certificate_files(mut self, files: CertificateFiles) -> Self {
        self.certificate = Certificate::Files(files);
        self
    }

    /// With whatever certificate this shows to each who connects.
    pub fn certificate(mut self, resolver: Arc<dyn ResolvesServerCert>) -> Self {
        self.certificate = Certificate::Resolver(resolver);
        self
    }

    /// Only clients with a certificate of one of the authorities in this PEM file may connect. It is read once.
    pub fn client_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(path.into());
        self
    }

    /// Speaks no HTTP/2.
    pub const fn http1_only(mut self) -> Self {
        self.protocols = Protocols::Http1Only;
        self
    }

    /// How long calls that are under way may take once the server is to stop; a minute by default.
    pub const fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Tells whether webhooks are served: for a readiness probe.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Serves until `shutdown` is ready; calls that are under way then are answered, within the grace period.
    ///
    /// Dropped, it ends all connections.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self { webhooks, place, certificate, client_ca, protocols, grace, readiness } = self;
        if matches!(place, Place::Nowhere) {
            tracing::info!("webhooks are disabled");
            readiness.disabled();
            return Ok(());
        }
        let (resolver, files): (Arc<dyn ResolvesServerCert>, _) = match certificate {
            Certificate::Files(files) => {
                let loaded = Arc::new(files.load(Arc::clone(webhooks.metrics()))?);
                (loaded.clone(), Some(loaded))
            }
            Certificate::Resolver(resolver) => (resolver, None),
        };
        let tls = tls::config(resolver, client_ca.as_deref(), protocols)?;
        let listener = match place {
            Place::Bound(listener) => listener,
            Place::Address(address) => bind(address).await.map_err(|source| ServeError::Listen { address, source })?,
            Place::Nowhere => return Ok(()),
        };
        let address = listener.local_addr().map_err(|source| ServeError::Listen {
            address: SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
            source,
        })?;
        tracing::info!(%address, "serving webhooks");
        let _started = readiness.started(address);
        let following = async {
            match files {
                Some(files) => files.follow().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = connections::serve(listener, tls, &webhooks, grace, shutdown) => {}
            () = following => {}
        }
        Ok(())
    }
}

/// Where there is no IPv6, all addresses are those of IPv4.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], address.port()))).await
        }
        bound => bound,
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Server");
        debug.field("webhooks", &self.webhooks).field("protocols", &self.protocols);
        debug.field("grace", &self.grace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
