//! An environment with choices.

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
use windlass_server::{Server, ServerBuilder, Service, TlsIdentity};

use crate::{
    Environment, Error,
    clock::{fixed, following_tokio},
    environment::{Place, Socket},
    expectations::PATIENCE,
};

/// How an [`Environment`] is to be.
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
#[must_use = "nothing is started before `start`"]
pub struct EnvironmentBuilder {
    clock: Option<Clock>,
    seed: Option<u64>,
    listening: Listening,
    existing: Option<Config>,
    paths: Vec<PathBuf>,
    patience: Option<Duration>,
    adjust: Option<Box<dyn FnOnce(ServerBuilder) -> ServerBuilder + Send>>,
}

/// Whether the server is on a socket, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listening {
    #[default]
    No,
    /// On a free port of loopback.
    Loopback,
}

impl EnvironmentBuilder {
    /// The wall clock of the server and of managers; tokio's by default, from now on.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Makes runs alike: uids, generated names, jitter, and the time at which the run begins. Keys and tokens differ.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Puts the server on a free port of loopback too, over HTTPS, for programs that need a kubeconfig. Not for a paused
    /// clock.
    pub const fn listen(mut self) -> Self {
        self.listening = Listening::Loopback;
        self
    }

    /// Installs the definitions of custom resources in a file, or in the files of a folder. Said several times, all.
    pub fn crds(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// How long what is to happen eventually may take; half a minute by default, in tokio's time.
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Has the last word about the server.
    pub fn server(mut self, adjust: impl FnOnce(ServerBuilder) -> ServerBuilder + Send + 'static) -> Self {
        self.adjust = Some(Box::new(adjust));
        self
    }

    /// Uses a cluster that is there, in place of a server of its own; what is installed stays in it. What is said of the
    /// server is not heeded.
    pub fn existing(mut self, cluster: Config) -> Self {
        self.existing = Some(cluster);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// When there is no port or certificate, or something cannot be installed.
    pub async fn start(self) -> Result<Environment, Error> {
        let Self { clock, seed, listening, existing, paths, patience, adjust } = self;
        let entropy = seed.map_or_else(Entropy::os, Entropy::seeded);
        let clock =
            clock.unwrap_or_else(|| following_tokio(if seed.is_some() { fixed() } else { Clock::system().now() }));
        let (place, transport) = if let Some(config) = existing {
            let transport = config.connect().map_err(Error::serve("connecting to the existing cluster"))?;
            (Place::Existing(Box::new(config)), transport)
        } else {
            let builder = Server::builder().clock(clock.clone()).entropy(entropy.clone());
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
            .field("existing", &self.existing.as_ref().map(|config| &config.server))
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

/// Carries requests to a server in this process.
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
                tracing::error!(%error, "the server of a test environment cannot serve");
            }
        })
    };
    Ok(Socket::new(address, ca, serve))
}
