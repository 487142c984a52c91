//! The HTTP endpoint of metrics.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use tokio::net::TcpListener;
use windlass_serve::RequestBody;

#[cfg(feature = "certificates")]
use super::tls::Tls;
use super::{Registry, access::Authorizer};
use crate::{
    Error, Group, Result, Runnable, RunnableContext,
    serving::{Answer, Listen, not_found, serve, text},
};

/// The version of the text format.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

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
    /// `None`: no TLS.
    #[cfg(feature = "certificates")]
    tls: Option<Tls>,
    audience: Audience,
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
        Self {
            listen,
            registry,
            #[cfg(feature = "certificates")]
            tls: None,
            audience: Audience::Everybody,
        }
    }

    /// Enables TLS with a self-signed certificate for `localhost`. The certificate is replaced long before it expires.
    #[cfg(feature = "certificates")]
    pub fn secure(mut self) -> Self {
        self.tls = Some(Tls::SelfSigned);
        self
    }

    /// Enables TLS with the current certificate of `identity` for each new connection.
    #[cfg(feature = "certificates")]
    pub fn secure_with(mut self, identity: windlass_client::config::LiveIdentity) -> Self {
        self.tls = Some(Tls::Certified(identity));
        self
    }

    /// Enables TLS with a PEM certificate and key from files. The files are reloaded every 10 s. If they are invalid,
    /// the previous certificate stays in use.
    #[cfg(feature = "certificates")]
    pub fn secure_with_files(
        mut self,
        certificate: impl Into<std::path::PathBuf>,
        key: impl Into<std::path::PathBuf>,
    ) -> Self {
        self.tls = Some(Tls::files(certificate.into(), key.into()));
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
            let Self {
                listen,
                registry,
                audience,
                #[cfg(feature = "certificates")]
                tls,
            } = *self;
            let Some(listener) = listen.bind().await.map_err(|source| Error::Listen { source })? else { return Ok(()) };
            if let Ok(address) = listener.local_addr() {
                tracing::info!(%address, ?audience, "showing metrics");
            }
            let (config, renewal) = (None, std::future::pending().boxed());
            #[cfg(feature = "certificates")]
            let (config, renewal) = match tls {
                None => (config, renewal),
                Some(tls) => tls.start(context.cluster().clock().clone())?,
            };
            let authorizer =
                (audience == Audience::Authorized).then(|| Authorizer::new(context.cluster().client().clone()));
            let authorizer = Arc::new(authorizer);
            let serving = serve(listener, config, context.stop(), move |request: Request<RequestBody>| {
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
                () = renewal => {}
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
