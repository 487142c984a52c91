//! An HTTPS server for webhooks.

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
use windlass_serve::{HttpServer, Protocols, RequestBody};

pub use self::readiness::{NotReady, Readiness};
use crate::{CertificateError, CertificateFiles, Webhooks};

/// The default port of webhooks.
const PORT: u16 = 9443;

/// The default time limit for running calls after the stop.
const GRACE: Duration = Duration::from_mins(1);

/// The maximum number of connections. API servers open many, because each may have at most 250 concurrent calls.
const CONNECTIONS: usize = 4096;

/// Serves [`Webhooks`] over HTTPS, with HTTP/1.1 and HTTP/2, until shutdown.
///
/// The certificate defaults to `tls.crt` and `tls.key` in `k8s-webhook-server/serving-certs` below the temporary
/// directory.
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

/// The address or socket of a server.
enum Place {
    Nowhere,
    Address(SocketAddr),
    Bound(TcpListener),
}

enum Certificate {
    Files(CertificateFiles),
    Resolver(Arc<dyn ResolvesServerCert>),
}

/// The reason why webhooks cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server cannot listen on its address.
    #[error("listening on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The first certificate cannot be loaded.
    #[error("loading the serving certificate")]
    Certificate(#[from] CertificateError),
    /// The authorities of client certificates cannot be loaded.
    #[error("loading the client CA from {}", path.display())]
    ClientCa {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: windlass_api::BoxError,
    },
    /// The program has no TLS cryptography.
    #[error("setting up TLS")]
    NoTlsProvider(#[from] windlass_tls::NoProvider),
    /// TLS cannot be configured.
    #[error("setting up TLS")]
    Tls(#[from] rustls::Error),
}

impl Server {
    /// Creates a server on port 9443 of all addresses.
    pub fn new(webhooks: Webhooks) -> Self {
        let directory = std::env::temp_dir().join("k8s-webhook-server").join("serving-certs");
        Self {
            webhooks,
            place: Place::Address(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT)),
            certificate: Certificate::Files(CertificateFiles::in_directory(directory)),
            client_ca: None,
            protocols: Protocols::Http1And2,
            grace: GRACE,
            readiness: Readiness::default(),
        }
    }

    /// Sets the address. Port 0 selects a free port.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.place = Place::Address(address);
        self
    }

    /// Uses an existing socket.
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.place = Place::Bound(listener);
        self
    }

    /// Disables the server: [`Self::serve`] returns at once, and the server counts as ready. For programs with optional
    /// webhooks.
    pub fn disabled(mut self) -> Self {
        self.place = Place::Nowhere;
        self
    }

    /// Serves with the certificate in these files.
    pub fn certificate_files(mut self, files: CertificateFiles) -> Self {
        self.certificate = Certificate::Files(files);
        self
    }

    /// Serves with the certificate that `resolver` selects for each connection.
    pub fn certificate(mut self, resolver: Arc<dyn ResolvesServerCert>) -> Self {
        self.certificate = Certificate::Resolver(resolver);
        self
    }

    /// Requires client certificates signed by an authority in this PEM file. The file is read once.
    pub fn client_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(path.into());
        self
    }

    /// Disables HTTP/2.
    pub const fn http1_only(mut self) -> Self {
        self.protocols = Protocols::Http1;
        self
    }

    /// Sets the time limit for running calls after the stop. Defaults to 1 minute.
    pub const fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the function that finds the parent of a call's span, see [`Webhooks::with_trace_parent`].
    pub fn trace_parent(mut self, extract: impl Fn(&tracing::Span, &http::HeaderMap) + Send + Sync + 'static) -> Self {
        self.webhooks = self.webhooks.with_trace_parent(extract);
        self
    }

    /// Returns a handle that reports whether webhooks are served, for a readiness probe.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    /// Serves until `shutdown` resolves, then finishes running calls within the grace period. Returns an error if the
    /// server cannot listen or has no valid certificate.
    ///
    /// Dropping the future closes all connections.
    pub async fn serve(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
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
        let tls = tls::config(resolver, client_ca.as_deref())?;
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
        let http = HttpServer::new().connections(CONNECTIONS).protocols(protocols).tls(tls).grace_period(grace);
        let answer = move |request: http::Request<RequestBody>| {
            let webhooks = webhooks.clone();
            async move { webhooks.answer(request).await }
        };
        tokio::select! {
            cut_off = http.serve(listener, answer, shutdown) => if cut_off > 0 {
                tracing::warn!(connections = cut_off, ?grace, "closed connections with running calls");
            },
            () = following => {}
        }
        Ok(())
    }
}

/// Listens on all IPv4 addresses if the host has no IPv6.
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
