//! One suite, two targets: the embedded server, and the real kube-apiserver.
//!
//! A behaviour is right when the real server does it. Every test here runs against the embedded server, over HTTPS as
//! any client would; with `WINDLASS_UPSTREAM_KUBECONFIG` set it runs against the server named there as well. `cargo
//! xtask conformance --upstream` builds and starts the real one and sets it.
//!
//! Most of it is data: `cases/` are requests, `matrix/` templates of requests for every kind, `recorded/` the real server's
//! answers to them, normalised
//! (`cargo xtask conformance --record` writes them). [`hold`] compares a server's answers with those. What windlass-server
//! answers differently stands in `DIFFERENCES.md`, each case with its reason.
//!
//! The rest are tests of the client, which say what they need: [`on_each_target`], or [`on_each_target_with`] a
//! [`Capability`] that one of the two lacks. Those that stop a server, and start it again over what it had or less, get one of
//! their own: [`restartable`].

mod any_certificate;
mod capability;
mod case;
mod dice;
mod differential;
mod embedded;
mod known;
mod matrix;
mod normal;
mod operators;
mod path;
mod play;
mod recording;
pub mod restartable;
mod suite;
mod words;
pub mod workloads;

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::timeout;
use windlass_api::Entropy;
use windlass_client::{
    Auth, Client, Config, Impersonation, Secret,
    config::{Kubeconfig, Selection},
    user_agent,
};
use windlass_server::storage::Storage;

use crate::embedded::Embedded;

pub use any_certificate::trusting_any_certificate;
pub use capability::{Capability, on_each_target_with};
pub use differential::{Findings, differential};
pub use operators::{CRDS, Compared, Established, Imports, Operators, established, imported, operators};
pub use suite::{RECORD, differences, files, hold, names};

/// The environment variable that names a kubeconfig of the real server.
pub const UPSTREAM: &str = "WINDLASS_UPSTREAM_KUBECONFIG";

/// The environment variable that names a kubectl of the real server's version.
pub const KUBECTL: &str = "WINDLASS_UPSTREAM_KUBECTL";

/// How long a condition may take to come true: far more than it needs, since this decides between slow and broken.
pub const PATIENCE: Duration = Duration::from_mins(1);

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
        let embedded = Embedded::start_new().await;
        Self::new(Self::EMBEDDED, embedded.config(), Some(embedded))
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
        if let Some(mut embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}

impl History {
    /// Leaves no version but the present one.
    pub async fn forget(&self) {
        embedded::forget(&*self.0).await;
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
