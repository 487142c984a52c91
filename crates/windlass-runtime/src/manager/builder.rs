//! Builder of managers.

use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use windlass_api::{ApiResource, Clock, Entropy, ListWatch};
use windlass_client::Client;

use super::Manager;
#[cfg(feature = "console")]
use crate::Console;
#[cfg(feature = "metrics")]
use crate::metrics::{MetricsServer, Registry};
use crate::{
    CacheOptions, ControllerDefaults, ControllerMetrics, LeaderElection, ManagerHandle, Runnable,
    caches::{Caches, UndeclaredReads},
    cluster::{Cluster, ListWatches},
    controller_settings::{ControllerOverride, Overrides},
    events::{EventApi, EventSender},
    health::Probes,
    metrics::NoMetrics,
    read_your_writes,
    sharding::Sharding,
};

/// The default grace period.
const GRACE: Duration = Duration::from_secs(30);

/// Builds a [`Manager`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct ManagerBuilder {
    client: Client,
    list_watches: Option<ListWatches>,
    caches: Caches,
    own_writes_timeout: Duration,
    clock: Clock,
    entropy: Entropy,
    defaults: ControllerDefaults,
    overrides: Overrides,
    grace: Duration,
    election: Option<LeaderElection>,
    sharding: Option<Sharding>,
    event_api: EventApi,
    /// `None`: the registry, if there is one.
    metrics: Option<Arc<dyn ControllerMetrics>>,
    #[cfg(feature = "metrics")]
    registry: Option<Registry>,
    #[cfg(feature = "metrics")]
    metrics_server: Option<Box<dyn FnOnce(&Registry) -> MetricsServer + Send>>,
    probes: Probes,
    #[cfg(feature = "console")]
    console: Option<Console>,
}

impl ManagerBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self {
            // As in controller-runtime: work queues limit the load, and the server's API priority and fairness protects
            // other clients.
            client: client.without_default_rate_limit(),
            list_watches: None,
            caches: Caches::default(),
            own_writes_timeout: read_your_writes::TIMEOUT,
            clock: Clock::system(),
            entropy: Entropy::os(),
            overrides: Overrides::default(),
            defaults: ControllerDefaults::default(),
            grace: GRACE,
            election: None,
            sharding: None,
            event_api: EventApi::default(),
            metrics: None,
            #[cfg(feature = "metrics")]
            registry: None,
            #[cfg(feature = "metrics")]
            metrics_server: None,
            probes: Probes::disabled(),
            #[cfg(feature = "console")]
            console: None,
        }
    }

    /// Sets how long a read waits until the cache shows the manager's own writes. Defaults to 10 s.
    ///
    /// After that the read fails with [`windlass_client::Error::Stale`], and a reconcile with
    /// [`Error::Stale`](crate::Error::Stale), which is retried with back-off.
    pub fn own_writes_timeout(mut self, limit: Duration) -> Self {
        self.own_writes_timeout = limit;
        self
    }

    /// Sets the wall clock for reconcilers. Defaults to the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the randomness for reconcilers and for the back-off of caches. Defaults to the operating system's.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets how long runnables may take to end before they are aborted. Defaults to 30 s.
    pub fn grace_period(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the defaults for controllers.
    pub fn controllers(mut self, defaults: ControllerDefaults) -> Self {
        self.defaults = defaults;
        self
    }

    /// Overrides settings of the controller with this name. The controller must exist when the manager starts.
    pub fn override_controller(mut self, name: impl Into<String>, of: ControllerOverride) -> Self {
        self.overrides.insert(name.into(), of);
        self
    }

    /// Changes the defaults for controllers.
    #[cfg(feature = "config")]
    pub(crate) fn changed_controllers(mut self, change: impl FnOnce(ControllerDefaults) -> ControllerDefaults) -> Self {
        self.defaults = change(self.defaults);
        self
    }

    /// Enables leader election, see [`LeaderElection`]. Runnables that must run only once, mainly controllers, run in
    /// the elected process. Without it, every process that runs the manager is a leader.
    ///
    /// A manager that loses the election stops with [`Error::LeadershipLost`](crate::Error::LeadershipLost), without a
    /// grace period. The program should then exit and be restarted.
    pub fn leader_election(mut self, election: LeaderElection) -> Self {
        self.election = Some(election);
        self
    }

    /// Divides the keys of controllers among the replicas of the program, see [`Sharding`]. Only controllers with
    /// [`Controller::sharded`](crate::Controller::sharded) take part. Runnables that must run only once also need a
    /// leader election.
    #[cfg(feature = "sharding")]
    pub fn sharding(mut self, sharding: Sharding) -> Self {
        self.sharding = Some(sharding);
        self
    }

    /// Sets the API for writing events. Defaults to the core API.
    pub fn event_api(mut self, api: EventApi) -> Self {
        self.event_api = api;
        self
    }

    /// Sets the receiver of controller metrics. Defaults to the registry, if there is one.
    pub fn metrics(mut self, metrics: impl ControllerMetrics) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Sets the registry for all metrics: controllers, their queues, the caches, the requests of the manager's client,
    /// and leader election.
    #[cfg(feature = "metrics")]
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Serves the metrics of the registry: the one from [`Self::registry`], or a new one.
    ///
    /// ```
    /// # use windlass_runtime::{ManagerBuilder, metrics::MetricsServer};
    /// # fn with_metrics(builder: ManagerBuilder) -> ManagerBuilder {
    /// builder.metrics_server(|registry| MetricsServer::bind(":8443", registry).secure().for_authorized())
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    pub fn metrics_server(mut self, server: impl FnOnce(&Registry) -> MetricsServer + Send + 'static) -> Self {
        self.metrics_server = Some(Box::new(server));
        self
    }

    /// Serves probes. [`Manager::healthz`] and [`Manager::readyz`] add checks to them.
    pub fn probes(mut self, probes: Probes) -> Self {
        self.probes = probes;
        self
    }

    /// Serves the [`Console`]: on a loopback port (`"9090"`), at an address (`"[::1]:9090"`), or on a listener.
    #[cfg(feature = "console")]
    pub fn console(mut self, console: impl Into<Console>) -> Self {
        self.console = Some(console.into());
        self
    }

    /// Sets the options of all caches, except for kinds configured with [`Self::cache_of`].
    pub fn caches(mut self, options: impl Into<CacheOptions>) -> Self {
        self.caches.usual = options.into();
        self
    }

    /// Changes the options of all caches, except for kinds configured with [`Self::cache_of`].
    #[cfg(feature = "config")]
    pub(crate) fn changed_caches(mut self, change: impl FnOnce(CacheOptions) -> CacheOptions) -> Self {
        self.caches.usual = change(self.caches.usual);
        self
    }

    /// Sets the options of the caches of one kind: typed, dynamic and metadata-only. Namespaces or informer options
    /// that are not set here are inherited from the options for all kinds. Objects that the options exclude cannot be
    /// read through any cache of the manager.
    pub fn cache_of(mut self, resource: ApiResource, options: impl Into<CacheOptions>) -> Self {
        self.caches.chosen.retain(|(chosen, _)| *chosen != resource);
        self.caches.chosen.push((resource, options.into()));
        self
    }

    /// Fails cached reads of objects that no cache holds, instead of starting a cache for them. So a rare read does not
    /// load all objects of a kind into memory, and each kind that needs permissions to list and watch is declared.
    ///
    /// Caches are declared by controllers (watches, and [`Controller::reads`](crate::Controller::reads)), by
    /// [`Cluster::informer`] and by [`Cluster::index`]. controller-runtime's `ReaderFailOnMissingInformer`.
    pub fn declared_caches_only(mut self) -> Self {
        self.caches.undeclared = UndeclaredReads::Fail;
        self
    }

    /// Sets the source of the caches' objects, per resource and namespace. Defaults to the client.
    ///
    /// For tests without a server, and for layers between a server and a cache.
    pub fn list_watch(
        mut self,
        list_watch: impl Fn(&ApiResource, Option<&str>) -> Arc<dyn ListWatch> + Send + Sync + 'static,
    ) -> Self {
        self.list_watches = Some(Arc::new(list_watch));
        self
    }

    /// Creates the manager, without runnables.
    pub fn build(self) -> Manager {
        let (client, election, sharding, metrics) = (self.client, self.election, self.sharding, self.metrics);
        #[cfg(feature = "metrics")]
        let registry = self.registry.or_else(|| self.metrics_server.is_some().then(Registry::new));
        #[cfg(feature = "metrics")]
        let client = match &registry {
            Some(registry) => client.with_metrics(registry.requests_to("")),
            None => client,
        };
        #[cfg(feature = "otlp")]
        let client = if client.has_trace_headers() { client } else { client.with_trace_headers(crate::otlp::inject) };
        #[cfg(feature = "metrics")]
        let election = election.map(|election| match &registry {
            Some(registry) => election.counted_by(registry.clone()),
            None => election,
        });
        #[cfg(all(feature = "metrics", feature = "sharding"))]
        let sharding = sharding.map(|sharding| match &registry {
            Some(registry) => sharding.counted_by(registry.clone()),
            None => sharding,
        });
        #[cfg(feature = "metrics")]
        let metrics = metrics.or_else(|| Some(Arc::new(registry.clone()?)));
        let metrics = metrics.unwrap_or_else(|| Arc::new(NoMetrics));
        let (sender, events) = EventSender::new(self.clock.clone(), self.entropy.clone());
        #[cfg(feature = "console")]
        let clock = self.clock.clone();
        let cluster = Cluster::new(
            client,
            self.own_writes_timeout,
            self.list_watches,
            self.caches,
            self.clock,
            self.entropy,
            sender,
        );
        #[cfg(feature = "metrics")]
        if let Some(registry) = &registry {
            registry.watch_caches(cluster.cache_statuses());
        }
        #[cfg_attr(
            not(any(feature = "console", feature = "metrics")),
            expect(unused_mut, reason = "there are no servers")
        )]
        let mut runnables: Vec<Box<dyn Runnable>> = Vec::new();
        #[cfg(feature = "metrics")]
        if let Some((server, registry)) = self.metrics_server.zip(registry) {
            runnables.push(Box::new(server(&registry)));
        }
        #[cfg(feature = "console")]
        let console = self.console.map(|console| console.server(clock));
        #[cfg(feature = "console")]
        let console = console.map(|(server, data)| {
            runnables.push(Box::new(server));
            data
        });
        let (handle, requests) = ManagerHandle::new();
        Manager {
            cluster,
            events,
            runnables,
            handle,
            requests,
            defaults: self.defaults,
            overrides: self.overrides,
            probes: self.probes,
            grace: self.grace,
            election,
            sharding,
            event_api: self.event_api,
            observers: Vec::new(),
            metrics,
            #[cfg(feature = "console")]
            console,
        }
    }
}

impl Debug for ManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerBuilder").field("grace", &self.grace).finish_non_exhaustive()
    }
}
