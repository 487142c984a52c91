//! The manager: runs controllers and whatever else belongs to them, in order, until the end.

mod additions;
mod beside;
mod builder;
mod campaign;
mod groups;
mod reporter;
mod runnable;
mod sharing;

use std::{
    borrow::Cow,
    fmt::{self, Debug},
    future::Future,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use tokio::{sync::mpsc, task::JoinSet};
use windlass_api::{BoxError, ErrorChain};
use windlass_client::Client;

pub(crate) use self::reporter::Reporter;
pub use self::{
    additions::{Added, ManagerHandle},
    builder::ManagerBuilder,
    runnable::{Group, Runnable, Running, Task},
};
use self::{
    additions::{Addition, Request},
    campaign::Campaign,
    groups::Groups,
    sharing::Sharing,
};
use crate::{
    ControllerDefaults, Error, LeaderElection, ReconcileObserver, Result, Sharding,
    cluster::Cluster,
    console::Ledger,
    controller::Overrides,
    events::{EventApi, Queue, Writer},
    health::Probes,
    metrics::ControllerMetrics,
    shutdown::Stopper,
};

/// Runs controllers over one cluster. They share its client and its caches: two controllers that watch the same kind
/// cost one watch and one copy of the objects.
///
/// ```no_run
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_runtime::{Action, Context, Controller, Manager, Result, shutdown};
/// # use std::sync::Arc;
/// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
/// # async fn main_() -> Result<()> {
/// let mut manager = Manager::try_default().await?;
/// manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
/// manager.run(shutdown::signal()).await
/// # }
/// ```
#[must_use = "a manager does nothing until it is run"]
pub struct Manager {
    cluster: Cluster,
    /// What the recorders of the cluster say.
    events: Queue,
    runnables: Vec<Box<dyn Runnable>>,
    handle: ManagerHandle,
    /// What is asked for by clones of `handle`.
    requests: mpsc::UnboundedReceiver<Request>,
    defaults: ControllerDefaults,
    overrides: Overrides,
    grace: Duration,
    election: Option<LeaderElection>,
    sharding: Option<Sharding>,
    event_api: EventApi,
    observers: Vec<Arc<dyn ReconcileObserver>>,
    metrics: Arc<dyn ControllerMetrics>,
    /// Answered where the builder was told to, if anywhere.
    probes: Probes,
    /// What the console shows, if there is one.
    ledger: Option<Arc<Ledger>>,
}

impl Manager {
    /// A manager for the cluster that the environment names: see `Client::try_default`.
    pub async fn try_default() -> Result<Self> {
        Ok(Self::new(Client::try_default().await?))
    }

    /// A manager for the client's cluster. The same as `Manager::builder(client).build()`.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// A manager with choices.
    pub fn builder(client: Client) -> ManagerBuilder {
        ManagerBuilder::new(client)
    }

    /// The client and the caches.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Adds a controller or something else to run. Runnables of one group start in the order in which they were added.
    pub fn add(&mut self, runnable: impl Runnable) -> &mut Self {
        self.runnables.push(Box::new(runnable));
        self
    }

    /// A handle by which controllers and others are added, and ended, while the manager runs.
    pub fn handle(&self) -> ManagerHandle {
        self.handle.clone()
    }

    /// Adds a check to `/healthz`: see [`Probes::healthz`] and [`ManagerBuilder::probes`].
    pub fn healthz<F, E>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> &mut Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.probes.add_healthz(name, check);
        self
    }

    /// Adds a check to `/readyz`: see [`Probes::readyz`] and [`ManagerBuilder::probes`].
    pub fn readyz<F, E>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        check: impl Fn() -> F + Send + Sync + 'static,
    ) -> &mut Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.probes.add_readyz(name, check);
        self
    }

    /// Shows each step of every controller to `observer`.
    pub fn on_reconcile(&mut self, observer: impl ReconcileObserver) -> &mut Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Runs everything until `shutdown` resolves or something fails, and stops everything then.
    ///
    /// Stopping is graceful: no new work is begun, and what has begun gets the grace period to finish before it is
    /// aborted. When this returns, nothing of the manager is running any more. When its future is dropped, all of it is
    /// aborted.
    ///
    /// Returns the first error, if any: a runnable that failed or panicked, or had to be aborted at the end.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let Self {
            cluster,
            events,
            mut runnables,
            handle,
            mut requests,
            defaults,
            overrides,
            probes,
            grace,
            election,
            sharding,
            event_api,
            observers,
            metrics,
            ledger,
        } = self;
        if probes.are_answered() {
            runnables.push(Box::new(probes));
        }
        let named = runnables.into_iter().map(|runnable| Ok(handle.prepare(runnable)?.0));
        let mut runnables = named.collect::<Result<Vec<_>>>()?;
        overrides.are_of(runnables.iter().map(Addition::name))?;

        // Without an election it would run in every replica, on all keys.
        if sharding.is_some()
            && election.is_none()
            && let Some(alone) = runnables.iter().find(|addition| addition.group().needs_leadership())
        {
            return Err(Error::NotSharded { name: alone.name().to_owned() });
        }
        let membership = sharding.map(|sharding| sharding.in_manager(&cluster)).transpose()?;
        let elector = election.map(|election| election.in_manager(&cluster)).transpose()?;

        // Its own set: dropped with this future, it is aborted.
        let (mut writer, writer_stop) = (JoinSet::new(), Stopper::new());
        let events = Writer::new(cluster.client().clone(), events, cluster.entropy().clone(), event_api);
        writer.spawn(events.run(writer_stop.handle()));
        let mut campaign = Campaign::new(elector);
        let mut sharing = Sharing::new(membership);
        let reporter = Reporter::new(observers, metrics, ledger);
        let (leadership, shard) = (campaign.leadership().clone(), sharing.shard().clone());
        let mut groups = Groups::new(cluster, reporter, leadership, shard, defaults, overrides, handle);
        let mut shutdown = pin!(shutdown);

        // 1. Start. Each runnable sees to what it needs itself: controllers wait for their caches.
        //    - Servers first: probes must be answered while caches fill, or the process is killed for being slow.
        //    - Webhooks before caches: the API server may need a conversion webhook of ours to answer our own lists.
        //    - Caches: begun by the first runnable that asks for one, on behalf of the manager.
        //    - Others, which do not need to be the only one of their kind in the cluster.
        //    - Those that get ready to act when this process is the leader.
        runnables.sort_by_key(Addition::group); // stable
        let leaders_at = runnables.partition_point(|runnable| !runnable.group().needs_leadership());
        let mut leaders = runnables.split_off(leaders_at);
        for runnable in runnables {
            groups.start(runnable);
        }

        // 2. Run until told to stop, or until the first failure.
        //    - The others, controllers above all, when this process is elected; at once if there is no election.
        //    - What is added later, at once, or with them.
        //    - Those that are ready on their shard, when it is theirs.
        campaign.start();
        sharing.start();
        let leadership = campaign.leadership().clone();
        let mut elected = pin!(leadership.acquired().fuse());
        let mut leads = false;
        let mut first_error = loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break None,
                error = campaign.failure() => break Some(error),
                error = sharing.failure() => break Some(error),
                error = groups.failure() => break Some(error),
                () = &mut elected => {
                    leads = true;
                    for runnable in leaders.drain(..) {
                        groups.start(runnable);
                    }
                }
                Some(request) = requests.recv() => match request {
                    Request::Add(addition) if leads || !addition.group().needs_leadership() => groups.start(addition),
                    Request::Add(addition) => leaders.push(addition),
                    Request::Withdraw(name) => leaders.retain(|waiting| waiting.name() != name),
                }
            }
        };
        drop((requests, leaders)); // Whoever asks now, or waits for these, hears that it is too late.
        match &first_error {
            None => tracing::info!("stopping"),
            // A program that ends is no failure of ours.
            Some(Error::Aborted { name }) => tracing::info!(name, "stopping with the runtime"),
            Some(error) => tracing::error!(error = %ErrorChain(error), "stopping because of a failure"),
        }

        // 3. Stop, in the opposite order: controllers write until their last reconcile, which may need caches, webhooks
        //    and probes. One grace period for all of it.
        //    The events come last: until then there may be something to say.
        //    Who has lost an election may not act any more: there is no grace then.
        let grace = if matches!(first_error, Some(Error::LeadershipLost)) { Duration::ZERO } else { grace };
        let stop = async {
            groups.stop(&mut campaign, &mut sharing, &mut first_error).await;
            writer_stop.stop();
            writer.join_next().await
        };
        if tokio::time::timeout(grace, stop).await.is_err() {
            writer.shutdown().await;
            let names = groups.abort().await;
            campaign.abort().await;
            sharing.abort().await;
            tracing::error!(?names, ?grace, "aborted what was still running after the grace period");
            first_error.get_or_insert(Error::GraceExceeded { names, grace });
        }
        // 4. The tasks that belong to runnables (workers, handlers) end with them; this sees them gone.
        groups.gone().await;
        first_error.map_or(Ok(()), Err)
    }
}

impl Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.runnables.iter().map(|runnable| runnable.name()).collect();
        f.debug_struct("Manager").field("runnables", &names).field("grace", &self.grace).finish_non_exhaustive()
    }
}
