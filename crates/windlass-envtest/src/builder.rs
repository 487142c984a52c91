//! Configuration of an environment.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http::Request;
use tokio::net::TcpListener;
use tower::{ServiceExt, util::BoxCloneSyncService};
use windlass_api::{BoxError, Clock, Entropy};
use windlass_client::{Body, Config, Transport};
use windlass_server::{KubernetesVersion, Server, ServerBuilder, Service, TlsIdentity};

use crate::{
    Environment, Error,
    clock::{fixed, following_tokio},
    environment::{Place, Socket},
    expectations::PATIENCE,
};

/// Configures and starts an [`Environment`].
///
/// ```no_run
/// # async fn example() -> Result<(), windlass_envtest::Error> {
/// use windlass_envtest::Environment;
///
/// let env = Environment::builder().crds("config/crd").listen().seed(7).start().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use = "call `start` to start the environment"]
pub struct EnvironmentBuilder {
    clock: Option<Clock>,
    seed: Option<u64>,
    listening: Listening,
    kubernetes: KubernetesVersion,
    existing: Option<Config>,
    paths: Vec<PathBuf>,
    patience: Option<Duration>,
    adjust: Option<Box<dyn FnOnce(ServerBuilder) -> ServerBuilder + Send>>,
}

impl Environment {
    /// Starts an in-memory server in this process, with a client. This takes far less than a millisecond: a server has
    /// no background work.
    pub async fn start() -> Self {
        Self::builder().start().await.expect("without a socket or files nothing can fail")
    }

    /// Returns a builder with all options.
    pub fn builder() -> EnvironmentBuilder {
        EnvironmentBuilder::default()
    }
}

/// The socket on which the server listens in addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listening {
    #[default]
    No,
    /// A free port of the loopback interface.
    Loopback,
}

impl EnvironmentBuilder {
    /// Sets the wall clock of the server and of managers. Defaults to tokio's clock, starting at the current time.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Makes runs reproducible: UIDs, generated names, jitter, and the time at which the run begins. Keys and tokens
    /// still differ.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Also serves HTTPS on a free loopback port, for programs that need a kubeconfig. Does not work with a paused
    /// clock.
    pub const fn listen(mut self) -> Self {
        self.listening = Listening::Loopback;
        self
    }

    /// Installs the CustomResourceDefinitions in a file, or in the files of a folder. Can be called several times.
    pub fn crds(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// Sets the timeout of waits such as [`Environment::eventually`], in tokio's time. Defaults to 30 s.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Sets the Kubernetes version that the server serves. Defaults to 1.36. The types of `k8s-openapi` are those of the
    /// program's feature in any case.
    pub const fn kubernetes(mut self, version: KubernetesVersion) -> Self {
        self.kubernetes = version;
        self
    }

    /// Adjusts the server's configuration after all other options.
    pub fn server(mut self, adjust: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static) -> Self {
        self.adjust = Some(Box::new(adjust));
        self
    }

    /// Uses an existing cluster instead of an embedded server. Installed objects stay in it. Options of the server are
    /// ignored.
    pub fn existing(mut self, cluster: Config) -> Self {
        self.existing = Some(cluster);
        self
    }

    /// Starts the environment.
    ///
    /// # Errors
    /// Returns an error if no port or certificate is available, or if something cannot be installed.
    pub async fn start(self) -> Result<Environment, Error> {
        let Self { clock, seed, listening, kubernetes, existing, paths, patience, adjust } = self;
        let entropy = seed.map_or_else(Entropy::os, Entropy::seeded);
        let clock =
            clock.unwrap_or_else(|| following_tokio(if seed.is_some() { fixed() } else { Clock::system().now() }));
        let (place, transport) = if let Some(config) = existing {
            let transport = config.connect().map_err(Error::serve("connecting to the existing cluster"))?;
            (Place::Existing(Box::new(config)), transport)
        } else {
            let builder = Server::builder().kubernetes(kubernetes).clock(clock.clone()).entropy(entropy.clone());
            let server = match adjust {
                Some(adjust) => adjust(builder),
                None => builder,
            };
            let server = server.build();
            let socket = match listening {
                Listening::No => None,
                Listening::Loopback => Some(socket(&server).await?),
            };
            let transport = in_process(server.service());
            (Place::Own { server, socket }, transport)
        };
        let environment = Environment::new(place, transport, clock, entropy, patience.unwrap_or(PATIENCE));
        for path in paths {
            environment.install_from(path).await?;
        }
        Ok(environment)
    }
}

impl fmt::Debug for EnvironmentBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvironmentBuilder")
            .field("seed", &self.seed)
            .field("listening", &self.listening)
            .field("kubernetes", &self.kubernetes)
            .field("existing", &self.existing.as_ref().map(|config| &config.server))
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

/// Returns a transport to a server in this process.
pub(crate) fn in_process(service: Service) -> Transport {
    let service = service.map_request(|request: Request<Body>| request);
    let service = service.map_response(|response| response.map(Body::wrap));
    BoxCloneSyncService::new(service.map_err(|never| -> BoxError { match never {} }))
}

async fn socket(server: &Server) -> Result<Socket, Error> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
    let listener = listener.map_err(Error::serve("listening on loopback"))?;
    let address = listener.local_addr().map_err(Error::serve("listening on loopback"))?;
    let tls = TlsIdentity::generate::<String>([]).map_err(Error::serve("making a certificate"))?;
    let ca: Arc<str> = tls.ca_pem().into();
    let server = server.clone();
    let serve = move |stop| -> futures::future::BoxFuture<'static, ()> {
        Box::pin(async move {
            if let Err(error) = server.serve(listener, tls, stop).await {
                tracing::error!(%error, "the test environment's server failed");
            }
        })
    };
    Ok(Socket::new(address, ca, serve))
}
