//! The state of a running server, shared by its requests.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{OnceCell, watch};
use windlass_api::{BoxError, Clock, ContainerRuntime, Entropy, Status};

use crate::{
    aggregation::{self, Aggregation},
    audit::Audit,
    authn::{Authenticator, Host},
    authz::{AccessAttributes, Authorizer, Decision, RoleName, Rule},
    bootstrap::{self, Announced, Authorities, Presence, RegistryOptions},
    budget::Budget,
    codec::Offer,
    descriptions::Descriptions,
    flow_control::FlowControl,
    identity::User,
    kubernetes::KubernetesVersion,
    metrics::Metrics,
    registry::Registry,
    single_flight::SingleFlight,
    storage::Storage,
};

/// The state of a server.
pub(crate) struct State {
    /// This state, for work that continues when its request ends.
    pub(crate) this: Weak<Self>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    /// The time at which the server was built.
    pub(crate) started: Timestamp,
    /// The flags of the program, for `/flagz`.
    pub(crate) flags: BTreeMap<String, String>,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) choices: RegistryOptions,
    /// The encodings of objects.
    pub(crate) offer: Offer,
    /// The maximum time for a request that is not long-running.
    pub(crate) request_timeout: Duration,
    /// Created with the first request that needs it.
    pub(crate) registry: OnceCell<Registry>,
    /// The start of the registry in progress.
    pub(crate) start: SingleFlight<Result<(), Status>>,
    /// The presence among the servers over a shared storage, while the server is announced.
    pub(crate) presence: Mutex<Option<Presence>>,
    /// Set when the objects of [`bootstrap::ensure_deferred`] exist.
    pub(crate) deferred: OnceCell<()>,
    /// The creation of these objects in progress.
    pub(crate) deferring: SingleFlight<Result<(), Status>>,
    /// `true` when long-running responses must end.
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) metrics: Metrics,
    /// The limits on requests at the same time.
    pub(crate) flow_control: FlowControl,
    /// The audit log. `None` without a policy.
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) descriptions: Descriptions,
    pub(crate) added_check: Option<AddedCheck>,
    /// The containers of the cluster. `None` if the kubelets of the nodes are unreachable.
    pub(crate) containers: Option<Arc<dyn ContainerRuntime>>,
    /// The address that documents and objects give to clients.
    pub(crate) address: Mutex<SocketAddr>,
    /// The memory held by clients on sockets.
    pub(crate) budget: Arc<Budget>,
    /// The CAs of clients, once the server serves with them.
    pub(crate) authorities: Mutex<Authorities>,
    /// The API servers that extend this one.
    pub(crate) aggregation: Arc<Aggregation>,
}

/// A check that the program adds to the probes.
#[derive(Clone)]
pub(crate) struct AddedCheck {
    pub(crate) name: &'static str,
    pub(crate) check: Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>,
}

impl fmt::Debug for AddedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddedCheck").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Signals the shutdown to long-running requests. Clones share the signal.
#[derive(Clone, Debug)]
pub(crate) struct Stopping(pub(crate) watch::Receiver<bool>);

impl State {
    /// Returns the registry, and starts it with the first request that needs it. Requests share a start, and its error. A
    /// later request retries a failed one. A start continues when its request ends or is not polled.
    pub(crate) async fn registry(&self) -> Result<&Registry, Status> {
        if self.registry.get().is_none() {
            let start = |state: Arc<Self>| async move {
                state.registry.get_or_try_init(|| state.start_registry()).await.map(drop)
            };
            self.run(&self.start, start).await?;
        }
        self.registry.get().ok_or_else(|| Status::internal("the server has not started"))
    }

    async fn start_registry(&self) -> Result<Registry, Status> {
        let (clock, entropy) = (self.clock.clone(), self.entropy.clone());
        let (storage, authorizer) = (self.storage.clone(), Arc::clone(&self.authorizer));
        let own = Announced { address: self.address(), stopping: self.stopping.subscribe() };
        let (registry, presence) =
            bootstrap::start(storage, clock, entropy, self.choices.clone(), authorizer, &self.aggregation, own).await?;
        *self.presence.lock() = presence;
        registry.keep_task(aggregation::start(&registry, &self.aggregation).await?);
        let authorities = self.authorities.lock().clone();
        let published = bootstrap::publish_authorities(&registry, &authorities, self.authenticator.front_proxy());
        if let Err(error) = published.await {
            tracing::warn!(%error, "cannot publish the CAs of clients in kube-system");
        }
        Ok(registry)
    }

    /// Creates the roles, flow control objects and API services if they are missing.
    pub(crate) async fn ensure_deferred(&self) -> Result<(), Status> {
        if self.deferred.initialized() {
            return Ok(());
        }
        let create = |state: Arc<Self>| async move {
            let registry = state.registry().await?;
            let create = || bootstrap::ensure_deferred(registry, &state.flow_control);
            state.deferred.get_or_try_init(create).await.copied()
        };
        self.run(&self.deferring, create).await
    }

    /// Runs work that several requests wait for in a task, which a request that is not polled does not delay.
    async fn run<W>(
        &self,
        flight: &SingleFlight<Result<(), Status>>,
        work: impl FnOnce(Arc<Self>) -> W,
    ) -> Result<(), Status>
    where
        W: Future<Output = Result<(), Status>> + Send + 'static,
    {
        let state = self.this.upgrade().ok_or_else(|| Status::internal("the server has ended"))?;
        let lost = || Err(Status::internal("the start of the server has ended"));
        flight.join(|| Box::pin(work(state)), lost).await
    }

    /// Decides whether a user may perform a request, by the current roles.
    pub(crate) async fn decide(&self, user: &User, attempt: &AccessAttributes<'_>) -> Result<Decision, Status> {
        if !self.authorizer.is_unrestricted(user) {
            self.ensure_deferred().await?;
        }
        self.authorizer.decide(&self.storage, user, attempt).await
    }

    /// Returns an error unless the user may perform the request.
    pub(crate) async fn authorize(&self, user: &User, attempt: &AccessAttributes<'_>) -> Result<(), Status> {
        if !self.authorizer.is_unrestricted(user) {
            self.ensure_deferred().await?;
        }
        self.authorizer.require(&self.storage, user, attempt).await
    }

    /// Reports whether authorization webhooks are called. If so, a user's rules don't include all of their permissions.
    pub(crate) fn has_webhooks(&self) -> bool {
        self.authorizer.has_webhooks()
    }

    /// Returns all rules for a user in a namespace, and the names of missing roles.
    pub(crate) async fn rules_of(&self, user: &User, namespace: &str) -> Result<(Vec<Rule>, Vec<RoleName>), Status> {
        self.ensure_deferred().await?;
        self.authorizer.rules_of(&self.storage, user, namespace).await
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    pub(crate) fn flow_control(&self) -> &FlowControl {
        &self.flow_control
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn audit(&self) -> Option<&Arc<Audit>> {
        self.audit.as_ref()
    }

    pub(crate) fn aggregation(&self) -> &Aggregation {
        &self.aggregation
    }

    pub(crate) fn added_check(&self) -> Option<&AddedCheck> {
        self.added_check.as_ref()
    }

    pub(crate) fn descriptions(&self) -> &Descriptions {
        &self.descriptions
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(crate) fn address(&self) -> SocketAddr {
        *self.address.lock()
    }

    /// Sets the address of the listener. An advertised address replaces it.
    pub(crate) fn set_address(&self, address: SocketAddr) {
        let ip = self.choices.advertised.unwrap_or_else(|| address.ip());
        *self.address.lock() = SocketAddr::new(ip, address.port());
    }

    /// Removes the server from those over a shared storage.
    pub(crate) async fn leave(&self) {
        let presence = self.presence.lock().take();
        if let Some(presence) = presence {
            presence.end().await;
        }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Publishes the CAs of clients now if the server has started, or else when it starts.
    pub(crate) async fn publish_authorities(&self, authorities: Authorities) {
        let merged = {
            let mut known = self.authorities.lock();
            known.update(authorities);
            known.clone()
        };
        if let Some(registry) = self.registry.get()
            && let Err(error) =
                bootstrap::publish_authorities(registry, &merged, self.authenticator.front_proxy()).await
        {
            tracing::warn!(%error, "cannot publish the CAs of clients in kube-system");
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    pub(crate) fn stopping(&self) -> Stopping {
        Stopping(self.stopping.subscribe())
    }
}

impl Stopping {
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the server shuts down or is dropped.
    pub(crate) async fn requested(&mut self) {
        // An error means that the sender was dropped.
        drop(self.0.wait_for(|stopping| *stopping).await);
    }
}

impl Host for State {
    fn clock(&self) -> &Clock {
        self.clock()
    }

    fn kubernetes(&self) -> KubernetesVersion {
        self.choices.kubernetes
    }

    async fn registry(&self) -> Result<&Registry, Status> {
        self.registry().await
    }

    async fn authorize(&self, user: &User, attempt: &AccessAttributes<'_>) -> Result<(), Status> {
        self.authorize(user, attempt).await
    }
}
