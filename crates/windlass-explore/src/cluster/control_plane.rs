//! The server and the built-in controllers of a cluster.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{self, Duration},
};
use windlass_cache::InformerOptions;
use windlass_client::{Client, warnings::IgnoreWarnings};
use windlass_controllers::{Controllers, Pace, PodAnswers, TokenRequest, TokenSigner};
use windlass_runtime::Manager;
use windlass_server::{
    PodAccounts, RuntimeConfig, Server,
    storage::{MemoryStorage, Retention, Storage},
};

/// The memory budget of each cache of the controllers.
const CACHE_BUDGET: usize = 1 << 20;

/// The age of history that is kept, for reads and watches of earlier revisions. Longer than any run.
const HISTORY: Duration = Duration::from_hours(24);

/// The durations of the simulated nodes: short, so that a run settles soon, and equal in all runs.
const PACE: Pace = Pace::new(Duration::from_millis(200), Duration::from_millis(100)).jitter(0.0);

/// The time limit for the controllers to stop.
const STOP: Duration = Duration::from_secs(2);

/// A server with its controllers.
#[derive(Debug)]
pub(super) struct ControlPlane {
    pub(super) server: Server,
    /// The administrator.
    pub(super) client: Client,
    running: Option<(oneshot::Sender<()>, JoinHandle<windlass_runtime::Result<()>>)>,
}

impl ControlPlane {
    /// Creates a server that clients reach at an address.
    pub(super) fn new(address: SocketAddr, runtime: RuntimeConfig, answers: Option<PodAnswers>) -> Self {
        let retention = Retention { age: HISTORY, ..Retention::default() };
        let server = Server::builder()
            .storage(Arc::new(MemoryStorage::with_retention(retention)) as Arc<dyn Storage>)
            .address(address)
            .runtime_config(runtime)
            // The controllers create the accounts.
            .pod_accounts(PodAccounts::Required);
        let server = match answers {
            Some(answers) => server.containers(answers),
            None => server,
        };
        let server = server.build();
        // The server warns about the deprecated Endpoints, which the controllers write intentionally.
        let client = Client::from_service(server.service(), "default").with_warnings(IgnoreWarnings);
        Self { server, client, running: None }
    }

    /// Starts the selected controllers. `ca` is the certificate authority for the pods' clients.
    pub(super) fn start_controllers(&mut self, controllers: &Controllers, nodes: usize, ca: &str) {
        let issuer = self.server.clone();
        let signer = TokenSigner::new(move |request| {
            let TokenRequest { namespace, account, uid, secret } = request;
            Ok(issuer.issue_legacy_token(namespace, account, uid, secret)?)
        });
        let mut manager =
            Manager::builder(self.client.clone()).caches(InformerOptions::default().budget(CACHE_BUDGET)).build();
        // The program provides the controllers that are not selected.
        controllers
            .clone()
            .binder_elsewhere()
            .nodes(nodes)
            .pace(PACE)
            .root_ca(ca)
            .token_signer(signer)
            .add_to(&mut manager);
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(manager.run(async move { drop(stopped.await) }));
        self.running = Some((stop, running));
    }

    /// Stops everything.
    pub(super) async fn stop(mut self) {
        if let Some((stop, mut running)) = self.running.take() {
            drop(stop);
            if time::timeout(STOP, &mut running).await.is_err() {
                running.abort();
            }
        }
        self.server.stop();
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some((_, running)) = &self.running {
            running.abort();
        }
        self.server.stop();
    }
}
