//! The HTTP endpoint of metrics.

use std::{
    fmt::{self, Debug},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use tokio::{net::TcpListener, time::sleep};
use tokio_rustls::rustls::ServerConfig;
use windlass_api::{BoxError, Clock, ErrorChain};
use windlass_client::{
    certificates::{CertificateError, ServingCertificate, Validity, self_signed},
    config::{Identity, LiveIdentity, Pem},
};
use windlass_serve::RequestBody;

use super::{Registry, access::Authorizer};
use crate::{
    Error, Group, Result, Runnable, RunnableContext,
    serving::{Answer, Listen, not_found, serve, text},
};

/// The version of the text format.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// The validity of a generated certificate, and the time until the next one is generated.
const LIFETIME: Duration = Duration::from_hours(365 * 24);
const RENEWAL: Duration = Duration::from_hours(180 * 24);
/// The interval at which certificate files are checked.
const RELOAD: Duration = Duration::from_secs(10);

/// Serves a [`Registry`] at `/metrics`. Add it to a [`Manager`](crate::Manager).
///
/// ```
/// # use windlass_runtime::{Manager, metrics::{MetricsServer, Registry}};
/// # fn main_(client: windlass_client::Client) {
/// let registry = Registry::new();
/// let mut manager = Manager::builder(client).registry(&registry).build();
/// manager.add(MetricsServer::bind(":8443", &registry).secure().for_authorized());
/// # }
/// ```
#[must_use = "metrics are not served until the server is added to a `Manager`"]
pub struct MetricsServer {
    listen: Listen,
    registry: Registry,
    transport: Transport,
    audience: Audience,
}

/// The transport of the server.
enum Transport {
    Plain,
    /// TLS with a generated certificate.
    SelfSigned,
    /// TLS with a certificate that the program manages.
    Certified(LiveIdentity),
    /// TLS with a certificate in files.
    Files(CertificateFiles),
}

/// The paths of a PEM certificate and its key, which may be replaced.
#[derive(Debug)]
struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

/// A certificate file cannot be read or used.
#[derive(Debug, thiserror::Error)]
#[error("reading {}", path.display())]
struct UnreadableCertificate {
    path: PathBuf,
    source: io::Error,
}

/// The renewal of the certificate while the server runs.
enum CertificateRenewal {
    /// The program renews the certificate.
    None,
    /// The server generates a new one in time.
    Renew,
    /// The server reloads the files.
    Follow(CertificateFiles),
}

/// The clients that may read metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Audience {
    Everybody,
    /// Clients with a valid token and the permission to `get` the path.
    Authorized,
}

impl MetricsServer {
    /// Serves at an address: `host:port`, or `:port` for every address of the machine. An empty address or `0` disables
    /// the server.
    pub fn bind(address: impl Into<String>, registry: &Registry) -> Self {
        Self::new(Listen::at(address), registry)
    }

    /// Serves connections of a listener.
    pub fn on(listener: TcpListener, registry: &Registry) -> Self {
        Self::new(Listen::Bound(listener), registry)
    }

    fn new(listen: Listen, registry: &Registry) -> Self {
        let registry = registry.clone();
        Self { listen, registry, transport: Transport::Plain, audience: Audience::Everybody }
    }

    /// Enables TLS with a self-signed certificate for `localhost`. The certificate is replaced long before it expires.
    pub fn secure(mut self) -> Self {
        self.transport = Transport::SelfSigned;
        self
    }

    /// Enables TLS with the current certificate of `identity` for each new connection.
    pub fn secure_with(mut self, identity: LiveIdentity) -> Self {
        self.transport = Transport::Certified(identity);
        self
    }

    /// Enables TLS with a PEM certificate and key from files. The files are reloaded every 10 s. If they are invalid,
    /// the previous certificate stays in use.
    pub fn secure_with_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.transport = Transport::Files(CertificateFiles { certificate: certificate.into(), key: key.into() });
        self
    }

    /// Requires a bearer token that the cluster accepts (TokenReview) and the permission to `get` the path
    /// (SubjectAccessReview). The manager must be allowed to create both reviews. Their results are cached for one
    /// minute.
    ///
    /// Use TLS, because requests contain tokens.
    pub fn for_authorized(mut self) -> Self {
        self.audience = Audience::Authorized;
        self
    }
}

impl Runnable for MetricsServer {
    fn name(&self) -> String {
        "metrics".to_owned()
    }

    fn group(&self) -> Group {
        Group::Servers
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        async move {
            let Self { listen, registry, transport, audience } = *self;
            let Some(listener) = listen.bind().await.map_err(|source| Error::Listen { source })? else { return Ok(()) };
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, ?audience, "showing metrics");
            }
            let clock = context.cluster().clock();
            let identity = LiveIdentity::new();
            let (tls, renewal) = match transport {
                Transport::Plain => (None, CertificateRenewal::None),
                Transport::Certified(identity) => (Some(tls_config(identity)), CertificateRenewal::None),
                Transport::SelfSigned => {
                    renew(&identity, clock).map_err(Error::other)?;
                    (Some(tls_config(identity.clone())), CertificateRenewal::Renew)
                }
                Transport::Files(files) => {
                    files.read(&identity).map_err(Error::other)?;
                    (Some(tls_config(identity.clone())), CertificateRenewal::Follow(files))
                }
            };
            let authorizer =
                (audience == Audience::Authorized).then(|| Authorizer::new(context.cluster().client().clone()));
            let authorizer = Arc::new(authorizer);
            let serving = serve(listener, tls, context.stop(), move |request: Request<RequestBody>| {
                let (authorizer, registry) = (Arc::clone(&authorizer), registry.clone());
                async move {
                    if let Some(authorizer) = &*authorizer
                        && let Some(refusal) = authorizer.refusal(&request).await
                    {
                        return refusal;
                    }
                    show(&registry, request.method(), request.uri().path())
                }
            });
            tokio::select! {
                () = serving => {}
                () = renewal.run(&identity, clock) => {}
            }
            Ok(())
        }
        .boxed()
    }
}

impl Debug for MetricsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsServer")
            .field("listen", &self.listen)
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}

fn show(registry: &Registry, method: &Method, path: &str) -> Answer {
    if path != "/metrics" {
        return not_found();
    }
    if method != Method::GET && method != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "metrics are read-only\n");
    }
    let mut answer = Answer::new(Full::new(Bytes::from(registry.text())));
    answer.headers_mut().insert(header::CONTENT_TYPE, TEXT);
    answer
}

fn tls_config(identity: LiveIdentity) -> Arc<ServerConfig> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring supports the default TLS versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ServingCertificate::new(identity)));
    Arc::new(config)
}

/// Generates a certificate and puts it into use.
fn renew(identity: &LiveIdentity, clock: &Clock) -> Result<(), CertificateError> {
    let keyed = self_signed(["localhost", "127.0.0.1", "::1"], Validity::starting(clock.now(), LIFETIME))?;
    identity.set(keyed.identity());
    Ok(())
}

impl CertificateRenewal {
    /// Renews the certificate forever.
    async fn run(self, identity: &LiveIdentity, clock: &Clock) {
        let pause = match &self {
            Self::None => return std::future::pending().await,
            Self::Renew => RENEWAL,
            Self::Follow(_) => RELOAD,
        };
        loop {
            sleep(pause).await;
            let result = match &self {
                Self::None => Ok(()),
                Self::Renew => renew(identity, clock).map_err(BoxError::from),
                Self::Follow(files) => files.read(identity).map_err(BoxError::from),
            };
            if let Err(error) = result {
                tracing::error!(error = %ErrorChain(&*error), "cannot renew the metrics certificate, the previous one stays in use");
            }
        }
    }
}

impl CertificateFiles {
    /// Loads the files if they have changed. Blocks on the file system for two small files.
    fn read(&self, identity: &LiveIdentity) -> Result<(), UnreadableCertificate> {
        let file = |path: &Path| {
            fs::read(path).map_err(|source| UnreadableCertificate { path: path.to_owned(), source }).map(Pem::Data)
        };
        let found = Identity::new(file(&self.certificate)?, file(&self.key)?);
        if identity.current().is_none_or(|current| *current != found) {
            identity.set(found);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_certificate_files_are_reloaded_if_valid() {
        let directory = std::env::temp_dir().join(format!("windlass-files-{}", std::process::id()));
        let files = CertificateFiles { certificate: directory.join("a.crt"), key: directory.join("a.key") };
        let identity = LiveIdentity::new();
        let in_use = || identity.current().map(|current| current.certificate.clone());
        fs::create_dir_all(&directory).unwrap();
        fs::write(&files.key, "key").unwrap();
        let error = files.read(&identity).unwrap_err().to_string();
        assert_eq!((error, in_use()), (format!("reading {}", files.certificate.display()), None));
        for text in ["first", "second"] {
            fs::write(&files.certificate, text).unwrap();
            files.read(&identity).unwrap();
            assert_eq!(in_use(), Some(Pem::Data(text.into())));
        }
        fs::remove_dir_all(&directory).unwrap();
        files.read(&identity).unwrap_err();
        assert_eq!(in_use(), Some(Pem::Data("second".into())));
    }
}
