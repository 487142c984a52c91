//! One suite, two targets: the embedded server, and the real kube-apiserver.
//!
//! A behaviour is right when the real server does it. Every test here runs against the embedded server, over HTTPS as
//! any client would; with `WINDLASS_UPSTREAM_KUBECONFIG` set it runs against the server named there as well. `cargo
//! xtask conformance --upstream` builds and starts the real one and sets it.
//!
//! Most of it is data: `cases/` are requests, `recorded/` the real server's answers to them, normalised
//! (`cargo xtask conformance --record` writes them). [`hold`] compares a server's answers with those. What windlass-server
//! answers differently stands in `DIFFERENCES.md`, each case with its reason.
//!
//! The rest are tests of the client, which say what they need: [`on_each_target`], or [`on_each_target_with`] a
//! [`Capability`] that one of the two lacks.

mod capability;
mod case;
mod normal;
mod path;
mod play;
mod recording;
mod suite;

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};
use windlass_api::Entropy;
use windlass_client::{
    Auth, Client, Config, Impersonation, Secret,
    config::{Kubeconfig, Selection, TlsOptions},
    user_agent,
};
use windlass_server::{
    Server, TlsIdentity,
    storage::{MemoryStorage, Storage},
};

pub use capability::{Capability, on_each_target_with};
pub use suite::{RECORD, differences, files, hold, names};

/// The environment variable that names a kubeconfig of the real server.
pub const UPSTREAM: &str = "WINDLASS_UPSTREAM_KUBECONFIG";

/// The environment variable that names a kubectl of the real server's version.
pub const KUBECTL: &str = "WINDLASS_UPSTREAM_KUBECTL";

/// How long a condition may take to come true: far more than it needs, since this decides between slow and broken.
pub const PATIENCE: Duration = Duration::from_mins(1);

const TOKEN: &str = "conformance-admin";

/// A server under test, and how to reach it.
#[derive(Debug)]
pub struct Target {
    /// [`Self::EMBEDDED`] or [`Self::UPSTREAM`].
    pub name: &'static str,
    /// Where it is, as the administrator.
    pub config: Config,
    /// A client with that configuration.
    pub client: Client,
    embedded: Option<Embedded>,
}

/// The versions that a server remembers.
#[derive(Clone, Debug)]
pub struct History(Arc<dyn Storage>);

/// The embedded server; stops when told, and is dropped with its target.
#[derive(Debug)]
struct Embedded {
    storage: Arc<dyn Storage>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Target {
    /// The name of the embedded server.
    pub const EMBEDDED: &str = "windlass-server";
    /// The name of the real one.
    pub const UPSTREAM: &str = "kube-apiserver";

    /// Those that there are.
    pub(crate) async fn all() -> Vec<Self> {
        let mut targets = vec![Self::embedded().await];
        targets.extend(Self::upstream());
        targets
    }

    /// The embedded server, on a free port.
    pub async fn embedded() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let tls = TlsIdentity::generate(["localhost", "127.0.0.1"]).expect("a certificate can be made");
        let uri = format!("https://{address}").parse().expect("an address makes a URI");
        let config =
            Config::new(uri).with_auth(Auth::Bearer(TOKEN.into())).with_tls(TlsOptions::trusting(tls.ca_pem()));
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        let server = Server::builder().token(TOKEN).storage(Arc::clone(&storage)).build();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            // Dropped or told: both mean stop.
            let stopped = async { drop(stopped.await) };
            server.serve(listener, tls, stopped).await.expect("the server serves until it is stopped");
        });
        Self::new(Self::EMBEDDED, config, Some(Embedded { storage, stop, serving }))
    }

    /// The real server, if the environment names one.
    #[must_use]
    pub fn upstream() -> Option<Self> {
        let path = std::env::var_os(UPSTREAM)?;
        let kubeconfig = Kubeconfig::read(&path).expect("the kubeconfig of the real server can be read");
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).expect("it names a server");
        Some(Self::new(Self::UPSTREAM, config, None))
    }

    fn new(name: &'static str, config: Config, embedded: Option<Embedded>) -> Self {
        let client = client_for(config.clone());
        Self { name, config, client, embedded }
    }

    /// The same server for somebody with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Client {
        let token: Secret = token.into();
        self.with_auth(Auth::Bearer(token))
    }

    /// The same server for somebody with other credentials.
    #[must_use]
    pub fn with_auth(&self, auth: Auth) -> Client {
        client_for(self.config.clone().with_auth(auth))
    }

    /// The same server for the administrator who acts as somebody else.
    #[must_use]
    pub fn acting_as(&self, somebody: Impersonation) -> Client {
        client_for(self.config.clone().with_impersonation(somebody))
    }

    /// What the server remembers. Needs [`Capability::ForgetsWhenTold`].
    ///
    /// # Panics
    /// When the server does not forget when told.
    #[must_use]
    pub fn history(&self) -> History {
        History(Arc::clone(&self.embedded.as_ref().expect("a server that forgets when told").storage))
    }

    /// Stops the embedded server and waits until it has stopped; the real one is its owner's to stop.
    pub async fn stop(self) {
        if let Some(Embedded { stop, serving, .. }) = self.embedded {
            drop(stop);
            serving.await.expect("the server does not panic");
        }
    }
}

impl History {
    /// Leaves no version but the present one.
    pub async fn forget(&self) {
        let present = self.0.revision().await.expect("memory does not fail");
        self.0.compact(present).await.expect("memory does not fail");
    }
}

/// A client for tests, which wait for nothing that they do not test. Its name is that of the recordings.
pub(crate) fn client_for(config: Config) -> Client {
    let config = config.with_user_agent(user_agent("windlass", env!("CARGO_PKG_VERSION")));
    Client::new(config).expect("the configuration of a target is sound").without_rate_limit()
}

/// Runs a test against each target in turn.
pub async fn on_each_target<F: Future<Output = Target>>(test: impl Fn(Target) -> F) {
    on_each_target_with(&[], test).await;
}

/// A name that no other test uses: the real server outlives its tests.
#[must_use]
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", Entropy::os().name_suffix(8))
}

/// Waits for a condition, looking again whenever `poll` resolves.
///
/// # Panics
/// When it does not come true within [`PATIENCE`].
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut poll: impl FnMut() -> F) -> T {
    let found = async {
        loop {
            if let Some(found) = poll().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("not within {} s: {what}", PATIENCE.as_secs()))
}
