//! The manager: starts controllers and other runnables in order, and stops them.

mod background_task;
mod builder;
mod election;
mod groups;
mod sharding;

use std::{
    borrow::Cow,
    fmt::{self, Debug},
    future::Future,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use windlass_api::{BoxError, ErrorChain};
use windlass_client::Client;

pub use self::builder::ManagerBuilder;
use self::{election::ElectionTask, groups::Groups, sharding::ShardingTask};
use crate::{
    ControllerDefaults, Error, LeaderElection, ManagerHandle, ReconcileObserver, Result, Runnable,
    cluster::Cluster,
    controller_settings::Overrides,
    events::{EventApi, Queue, Writer},
    health::Probes,
    observer::ControllerMetrics,
    reporter::Reporter,
    runnable::{ActingRunnable, Group, PreparedRunnable, Request, RunnableContext, Task},
    sharding::Sharding,
    shutdown::Stopper,
};

/// Runs controllers against one cluster. They share a client and caches: two controllers that watch the same kind share
/// one watch and one copy of the objects.
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
    /// The events recorded by the recorders of the cluster.
    events: Queue,
    runnables: Vec<Box<dyn Runnable>>,
    handle: ManagerHandle,
    /// Requests sent by clones of `handle`.
    requests: mpsc::UnboundedReceiver<Request>,
    defaults: ControllerDefaults,
    overrides: Overrides,
    grace: Duration,
    election: Option<LeaderElection>,
    sharding: Option<Sharding>,
    event_api: EventApi,
    observers: Vec<Arc<dyn ReconcileObserver>>,
    metrics: Arc<dyn ControllerMetrics>,
    /// The probes configured by the builder, if any.
    probes: Probes,
    /// The data of the console, if there is one.
    #[cfg(feature = "console")]
    console: Option<Arc<crate::console_data::ConsoleData>>,
}

impl Manager {
    /// Creates a manager for the cluster that the environment configures, see `Client::try_default`.
    pub async fn try_default() -> Result<Self> {
        Ok(Self::new(Client::try_default().await?))
    }

    /// Creates a manager for the client's cluster. The same as `Manager::builder(client).build()`.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// Returns a builder of managers.
    pub fn builder(client: Client) -> ManagerBuilder {
        ManagerBuilder::new(client)
    }

    /// Returns the client and the caches.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns this manager as a runnable of another manager, for programs that work with several clusters. Each has its
    /// own client, caches and recorders. It starts before the controllers of the outer manager and ends after them.
    ///
    /// ```no_run
    /// # use windlass_api::{ObjectRef, k8s_openapi::api::core::v1::{ConfigMap, Secret}};
    /// # use windlass_client::Client;
    /// # use windlass_runtime::{Action, Context, Controller, Manager, Result, Watch, shutdown};
    /// # use std::sync::Arc;
    /// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
    /// # async fn main_(here: Client, there: Client) -> Result<()> {
    /// let (mut manager, other) = (Manager::new(here), Manager::new(there));
    /// let copies = Controller::<ConfigMap>::new()
    ///     .watches_in(other.cluster(), Watch::<Secret>::all(), |secret| [ObjectRef::from(secret.key().clone())])
    ///     .reconcile(reconcile);
    /// manager.add(copies).add(other.into_runnable("the other cluster"));
    /// manager.run(shutdown::signal()).await
    /// # }
    /// ```
    pub fn into_runnable(self, name: impl Into<String>) -> impl Runnable {
        let run = async move |running: RunnableContext| self.run(async move { running.stop().requested().await }).await;
        Task::new(name, run).in_group(Group::Webhooks)
    }

    /// Adds a controller or another runnable. Runnables of one group start in the order in which they were added.
    pub fn add(&mut self, runnable: impl Runnable) -> &mut Self {
        self.runnables.push(Box::new(runnable));
        self
    }

    /// Adds runnables that act with the connections and the credentials of another client of the same server: in `add`, and
    /// in the runnables that it adds, the [cluster](Self::cluster) is [a view](Cluster::with_credentials_of) with these
    /// credentials. Runnables that they add later have it, too. The caches are shared, with the credentials of the manager.
    ///
    /// kube-controller-manager runs each controller with its own service account in this way.
    ///
    /// ```no_run
    /// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
    /// # use windlass_client::Client;
    /// # use windlass_runtime::{Action, Context, Controller, Manager, Result, shutdown};
    /// # use std::sync::Arc;
    /// # async fn reconcile(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
    /// # async fn main_(reader: Client, writer: Client) -> Result<()> {
    /// let mut manager = Manager::new(reader);
    /// manager.with_credentials_of(&writer, |manager| {
    ///     manager.add(Controller::<ConfigMap>::new().reconcile(reconcile));
    /// });
    /// manager.run(shutdown::signal()).await
    /// # }
    /// ```
    pub fn with_credentials_of(&mut self, client: &Client, add: impl FnOnce(&mut Self)) -> &mut Self {
        let cluster = self.cluster.with_credentials_of(client);
        let own = std::mem::replace(&mut self.cluster, cluster);
        let first = self.runnables.len();
        add(self);
        let cluster = std::mem::replace(&mut self.cluster, own);
        let added = self.runnables.split_off(first);
        let acting = added
            .into_iter()
            .map(|runnable| Box::new(ActingRunnable { runnable, cluster: cluster.clone() }) as Box<dyn Runnable>);
        self.runnables.extend(acting);
        self
    }

    /// Returns a handle that adds and removes runnables while the manager runs.
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

    /// Adds an observer of each step of every controller.
    pub fn on_reconcile(&mut self, observer: impl ReconcileObserver) -> &mut Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Runs everything until `shutdown` resolves or a runnable fails, then stops everything.
    ///
    /// The stop is graceful: no new work begins, and work in progress gets the grace period to finish before it is
    /// aborted. When this method returns, no task of the manager is running. Dropping its future aborts all tasks.
    ///
    /// Returns the first error, if any: a runnable failed, panicked, or was aborted after the grace period.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let (stop, stopped) = oneshot::channel();
        let mut run = self.boxed_run(stopped);
        tokio::select! {
            biased;
            () = shutdown => {}
            result = &mut run => return result,
        }
        // Sending fails only if the run has ended.
        let _ = stop.send(());
        run.await
    }

    /// Boxed in a function of its own, so that it is compiled in this crate and not in each program.
    fn boxed_run(self, shutdown: oneshot::Receiver<()>) -> BoxFuture<'static, Result<()>> {
        self.run_until(shutdown).boxed()
    }

    async fn run_until(self, mut shutdown: oneshot::Receiver<()>) -> Result<()> {
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
            #[cfg(feature = "console")]
            console,
        } = self;
        if probes.is_enabled() {
            runnables.push(Box::new(probes));
        }
        let named = runnables.into_iter().map(|runnable| Ok(handle.prepare(runnable)?.0));
        let mut runnables = named.collect::<Result<Vec<_>>>()?;
        overrides.check_names(runnables.iter().map(PreparedRunnable::name))?;

        // Without leader election it would run in every replica, on all keys.
        if sharding.is_some()
            && election.is_none()
            && let Some(alone) = runnables.iter().find(|addition| addition.group().needs_leadership())
        {
            return Err(Error::NotSharded { name: alone.name().to_owned() });
        }
        let membership = sharding.map(|sharding| sharding.in_manager(&cluster)).transpose()?;
        let elector = election.map(|election| election.in_manager(&cluster)).transpose()?;

        // A separate set: dropping this future aborts it.
        let (mut writer, writer_stop) = (JoinSet::new(), Stopper::new());
        let events = Writer::new(cluster.client().clone(), events, cluster.entropy().clone(), event_api);
        writer.spawn(events.run(writer_stop.handle()));
        let mut election_task = ElectionTask::new(elector);
        let mut sharding_task = ShardingTask::new(membership);
        #[cfg(feature = "console")]
        let reporter = Reporter::new(observers, metrics, console);
        #[cfg(not(feature = "console"))]
        let reporter = Reporter::new(observers, metrics);
        let (leadership, shard) = (election_task.leadership().clone(), sharding_task.shard().clone());
        let mut groups = Groups::new(cluster, reporter, leadership, shard, defaults, overrides, handle);

        // 1. Start. Each runnable waits for its own dependencies: controllers wait for their caches.
        //    - Servers first: probes must be answered while caches sync, or the kubelet restarts the process.
        //    - Webhooks before caches: the API server may need our conversion webhook to answer our own lists.
        //    - Caches: started by the first runnable that uses one.
        //    - Other runnables that may run in several processes.
        //    - Runnables that warm up for leadership.
        runnables.sort_by_key(PreparedRunnable::group); // stable
        let leaders_at = runnables.partition_point(|runnable| !runnable.group().needs_leadership());
        let mut leaders = runnables.split_off(leaders_at);
        for runnable in runnables {
            groups.start(runnable);
        }

        // 2. Run until shutdown or the first failure.
        //    - All other runnables, mainly controllers, start when this process is elected, or at once without an
        //      election.
        //    - Runnables added later start at once, or with them.
        //    - Sharded runnables start when the process has its shard.
        election_task.start();
        sharding_task.start();
        let leadership = election_task.leadership().clone();
        let mut elected = pin!(leadership.acquired().fuse());
        let mut leads = false;
        let mut first_error = loop {
            tokio::select! {
                biased;
                _ = &mut shutdown => break None,
                error = election_task.failure() => break Some(error),
                error = sharding_task.failure() => break Some(error),
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
        drop((requests, leaders)); // Pending and later requests fail.
        match &first_error {
            None => tracing::info!("stopping"),
            // The end of the program is not a failure of a runnable.
            Some(Error::Aborted { name }) => tracing::info!(name, "stopping with the runtime"),
            Some(error) => tracing::error!(error = %ErrorChain(error), "stopping because of a failure"),
        }

        // 3. Stop, in the opposite order: controllers write until their last reconcile ends, which may need caches,
        //    webhooks and probes. All share one grace period.
        //    The event writer stops last, because events may be recorded until then.
        //    A process that has lost an election may not act any more, so it gets no grace period.
        let grace = if matches!(first_error, Some(Error::LeadershipLost)) { Duration::ZERO } else { grace };
        let stop = async {
            groups.stop(&mut election_task, &mut sharding_task, &mut first_error).await;
            writer_stop.stop();
            writer.join_next().await
        };
        if tokio::time::timeout(grace, stop).await.is_err() {
            writer.shutdown().await;
            let names = groups.abort().await;
            election_task.abort().await;
            sharding_task.abort().await;
            tracing::error!(?names, ?grace, "aborted runnables after the grace period");
            first_error.get_or_insert(Error::GraceExceeded { names, grace });
        }
        // 4. The tasks that belong to runnables (workers, handlers) end with them; this waits for them.
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
