//! One suite, two targets: the embedded server, and the real kube-apiserver.
//!
//! A behaviour is right when the real server does it. Every test here runs against the embedded server, over HTTPS as
//! any client would; with `WINDLASS_UPSTREAM_KUBECONFIG` set it runs against the server named there as well. `cargo
//! xtask conformance --upstream` builds and starts the real one and sets it.

//!
//! Most of it is data: `cases/` are requests, `recorded/` the real server's answers to them, normalised
//! (`cargo xtask conformance --record` writes them). [`hold`] compares a server's answers with those. What windlass-server
//! answers differently stands in `DIFFERENCES.md`, each case with its reason.

mod case;
mod normal;
mod path;
mod play;
mod recording;
mod suite;

use std::{future::Future, time::Duration};

use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time::timeout};
use windlass_api::Entropy;
use windlass_client::{
    Auth, Client, Config, Secret,
    config::{Kubeconfig, Selection, TlsOptions},
    user_agent,
};
use windlass_server::{Server, TlsIdentity};

pub use suite::{RECORD, differences, files, hold, names};

/// The environment variable that names a kubeconfig of the real server.
pub const UPSTREAM: &str = "WINDLASS_UPSTREAM_KUBECONFIG";

/// How long a condition may take to come true: far more than it needs, since this decides between slow and broken.
pub const PATIENCE: Duration = Duration::from_mins(1);

const TOKEN: &str = "conformance-admin";

/// A server under test, and how to reach it.
#[derive(Debug)]
pub struct Target {
    /// `windlass-server` or `kube-apiserver`.
    pub name: &'static str,
    /// Where it is, as the administrator.
    pub config: Config,
    /// A client with that configuration.
    pub client: Client,
    embedded: Option<Embedded>,
}

/// The embedded server; stops when told, and is dropped with its target.
#[derive(Debug)]
struct Embedded {
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Target {
    /// The embedded server, on a free port.
    pub async fn embedded() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let tls = TlsIdentity::generate(["localhost", "127.0.0.1"]).expect("a certificate can be made");
        let uri = format!("https://{address}").parse().expect("an address makes a URI");
        let config =
            Config::new(uri).with_auth(Auth::Bearer(TOKEN.into())).with_tls(TlsOptions::trusting(tls.ca_pem()));
        let server = Server::builder().token(TOKEN).build();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            // Dropped or told: both mean stop.
            let stopped = async { drop(stopped.await) };
            server.serve(listener, tls, stopped).await.expect("the server serves until it is stopped");
        });
        Self::new("windlass-server", config, Some(Embedded { stop, serving }))
    }

    /// The real server, if the environment names one.
    #[must_use]
    pub fn upstream() -> Option<Self> {
        let path = std::env::var_os(UPSTREAM)?;
        let kubeconfig = Kubeconfig::read(&path).expect("the kubeconfig of the real server can be read");
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).expect("it names a server");
        Some(Self::new("kube-apiserver", config, None))
    }

    fn new(name: &'static str, config: Config, embedded: Option<Embedded>) -> Self {
        let client = client_for(config.clone());
        Self { name, config, client, embedded }
    }

    /// The same server for somebody with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Client {
        let token: Secret = token.into();
        client_for(self.config.clone().with_auth(Auth::Bearer(token)))
    }

    /// Stops the embedded server and waits until it has stopped; the real one is its owner's to stop.
    pub async fn stop(self) {
        if let Some(Embedded { stop, serving }) = self.embedded {
            drop(stop);
            serving.await.expect("the server does not panic");
        }
    }
}

/// A client for tests, which wait for nothing that they do not test. Its name is that of the recordings.
pub(crate) fn client_for(config: Config) -> Client {
    let config = config.with_user_agent(user_agent("windlass", env!("CARGO_PKG_VERSION")));
    Client::new(config).expect("the configuration of a target is sound").without_rate_limit()
}

/// Runs a test against each target in turn.
pub async fn on_each_target<F: Future<Output = Target>>(test: impl Fn(Target) -> F) {
    let mut targets = vec![Target::embedded().await];
    targets.extend(Target::upstream());
    for target in targets {
        // Shown when the test fails: which of the two it was.
        println!("target: {}", target.name);
        test(target).await.stop().await;
    }
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
