//! One conformance suite for two targets: the embedded server and the real kube-apiserver.
//!
//! The real server defines the correct behavior. Every test uses the embedded server over HTTPS. If
//! `WINDLASS_UPSTREAM_KUBECONFIG` is set, the test also uses the server in that kubeconfig. `cargo xtask conformance
//! --upstream` builds and starts the real server and sets the variable. With `--without-embedded` it also sets
//! `WINDLASS_ONLY_UPSTREAM`, and the test uses only that server.
//!
//! Most tests are data: `cases/` contains requests, and `matrix/` templates of requests for every kind. `recorded/` has
//! the normalized responses of the real server (written by `cargo xtask conformance --record`). [`assert_recorded`] compares a
//! server's responses with them. `DIFFERENCES.md` lists the different responses of windlass-server with their reasons.
//!
//! The other tests exercise the client and declare their requirements. They use [`on_each_target`], or
//! [`on_each_target_with`] and a [`Capability`] that one target lacks. Tests that stop a server and start it again,
//! with all or less of its data, start their own: [`restartable`].

mod any_certificate;
mod capability;
mod case;
mod seeded_random;
mod differential;
mod embedded;
mod extension;
mod known;
mod matrix;
mod minors;
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
use windlass_server::{KubernetesVersion, storage::Storage};

use crate::embedded::Embedded;

pub use any_certificate::{any_certificate_verifier, trusting_any_certificate};
pub use capability::{Capability, on_each_target_with};
pub use differential::{Decisions, Findings, decisions, differential};
pub use embedded::like_upstream;
pub use matrix::{Example, example_objects};
pub use minors::{Comparison, compare_minor};
pub use operators::{CRDS, Compared, Established, Imports, Operators, established, imported, operators};
pub use suite::{RECORD, assert_recorded, differences, files, names};

/// The environment variable with the real server's kubeconfig.
pub const UPSTREAM: &str = "WINDLASS_UPSTREAM_KUBECONFIG";

/// The environment variable that limits the tests to the real server, if there is one. It saves time where the embedded
/// server is tested anyway.
const ONLY_UPSTREAM: &str = "WINDLASS_ONLY_UPSTREAM";

/// The environment variable with the minor version of the real server, such as `1.35`; the default version if it is not
/// set.
const UPSTREAM_VERSION: &str = "WINDLASS_UPSTREAM_VERSION";

/// The environment variable with the path of a kubectl of the real server's version.
pub const KUBECTL: &str = "WINDLASS_UPSTREAM_KUBECTL";

/// The timeout for conditions. It is long, because it only distinguishes slow servers from broken ones.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// A server under test, and its client.
#[derive(Debug)]
pub struct Target {
    /// [`Self::EMBEDDED`] or [`Self::UPSTREAM`].
    pub name: &'static str,
    /// The Kubernetes version that it serves.
    pub kubernetes: KubernetesVersion,
    /// The administrator's client configuration.
    pub config: Config,
    /// A client with that configuration.
    pub client: Client,
    embedded: Option<Embedded>,
}

/// The history of a server.
#[derive(Clone, Debug)]
pub struct History(Arc<dyn Storage>);

impl Target {
    /// The name of the embedded server.
    pub const EMBEDDED: &str = "windlass-server";
    /// The name of the real one.
    pub const UPSTREAM: &str = "kube-apiserver";

    /// Returns the available targets.
    pub(crate) async fn all() -> Vec<Self> {
        let mut targets = Vec::new();
        if tests_embedded() {
            targets.push(Self::embedded().await);
        }
        targets.extend(Self::upstream());
        targets
    }

    /// Starts an embedded server on a free port.
    pub async fn embedded() -> Self {
        Self::embedded_of(KubernetesVersion::default()).await
    }

    /// Starts an embedded server of a Kubernetes version on a free port.
    pub async fn embedded_of(kubernetes: KubernetesVersion) -> Self {
        let embedded = Embedded::start_new(kubernetes).await;
        Self::new(Self::EMBEDDED, kubernetes, embedded.config(), Some(embedded))
    }

    /// Returns the real server, if the environment names one.
    #[must_use]
    pub fn upstream() -> Option<Self> {
        let path = std::env::var_os(UPSTREAM)?;
        let kubeconfig = Kubeconfig::read(&path).expect("the kubeconfig of the real server can be read");
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).expect("it names a server");
        let version = std::env::var(UPSTREAM_VERSION).ok();
        let version = version.map_or_else(|| Ok(KubernetesVersion::default()), |version| version.parse());
        Some(Self::new(Self::UPSTREAM, version.expect("a Kubernetes version"), config, None))
    }

    fn new(name: &'static str, kubernetes: KubernetesVersion, config: Config, embedded: Option<Embedded>) -> Self {
        let client = client_for(config.clone());
        Self { name, kubernetes, config, client, embedded }
    }

    /// Returns the same server with a different token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Client {
        let token: Secret = token.into();
        self.with_auth(Auth::Bearer(token))
    }

    /// Returns the same server with different credentials.
    #[must_use]
    pub fn with_auth(&self, auth: Auth) -> Client {
        client_for(self.config.clone().with_auth(auth))
    }

    /// Returns the same server with impersonation of a user.
    #[must_use]
    pub fn acting_as(&self, somebody: Impersonation) -> Client {
        client_for(self.config.clone().with_impersonation(somebody))
    }

    /// Returns the server's history. Needs [`Capability::CompactsOnRequest`].
    ///
    /// # Panics
    ///
    /// If the server does not support compaction on request.
    #[must_use]
    pub fn history(&self) -> History {
        History(Arc::clone(&self.embedded.as_ref().expect("a server that forgets when told").stored.storage))
    }

    /// Stops the embedded server and waits for its end. Does nothing for the real server.
    pub async fn stop(self) {
        if let Some(mut embedded) = self.embedded {
            embedded.stop().await;
        }
    }
}

impl History {
    /// Compacts all versions but the current one.
    pub async fn compact(&self) {
        embedded::compact(&*self.0).await;
    }
}

/// Returns a client for tests, without rate limits. Its user agent is that of the recordings.
pub(crate) fn client_for(config: Config) -> Client {
    let config = config.with_user_agent(user_agent("windlass", env!("CARGO_PKG_VERSION")));
    Client::new(config).expect("the configuration of a target is sound").without_rate_limit()
}

/// Runs a test with each target in turn.
pub async fn on_each_target<F: Future<Output = Target>>(test: impl Fn(Target) -> F) {
    on_each_target_with(&[], test).await;
}

/// Reports whether tests use the embedded server.
pub(crate) fn tests_embedded() -> bool {
    std::env::var_os(UPSTREAM).is_none() || std::env::var_os(ONLY_UPSTREAM).is_none()
}

/// Returns a name that no other test uses. The real server's objects outlive the tests.
#[must_use]
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", Entropy::os().name_suffix(8))
}

/// Waits for a condition. Calls `poll` again each time it resolves.
///
/// # Panics
///
/// If the condition is not true within [`PATIENCE`].
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
