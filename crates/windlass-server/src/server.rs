//! The server as a value: built from its parts, asked in process, or put on a socket.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Buf, Bytes};
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    sync::{OnceCell, watch},
};
use windlass_api::{BoxError, Clock, Entropy, Status};

use crate::{
    admission::PodAccounts,
    authn::{Anonymous, Authenticator, TokenIssuer, Tokens, User},
    authz::{Attempt, Authorization, Authorizer, AuthorizerChain, Decision, RoleName, Rule},
    bootstrap::{self, Choices},
    descriptions::Descriptions,
    http::{Body, Origin, RequestBody, Stopping, Trust, handle},
    kinds::service::ServiceCidr,
    metrics::Metrics,
    registry::Registry,
    storage::{MemoryStorage, Storage},
    tls::TlsIdentity,
};

mod budget;
mod connection;
mod gathered;
mod heads;
mod joined;
mod limits;
mod listener;
mod outgoing;
mod streams;

#[cfg(test)]
mod tests;

use self::budget::Budget;
pub(crate) use self::budget::OverBudget;
pub use self::limits::Limits;

/// An API server. Clones are handles on the same one.
///
/// Building one does no work: the objects that every cluster has are made with the first request that needs them, and so
/// is whatever else takes time. Dropping the last handle (a [`Service`] is one too) drops the server: its watches end, and
/// with memory storage its objects are gone.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

/// How a [`Server`] is to be.
#[derive(Debug)]
#[must_use]
pub struct ServerBuilder {
    clock: Clock,
    entropy: Option<Entropy>,
    token: Option<Arc<str>>,
    tokens: Tokens,
    issuer: TokenIssuer,
    storage: Option<Arc<dyn Storage>>,
    choices: Choices,
    authorization: Authorization,
    authorizers: Option<AuthorizerChain>,
    address: SocketAddr,
    limits: Limits,
    anonymous: Anonymous,
    descriptions: Descriptions,
}

/// A server in this process, as a `tower` service: no socket, no task, no credentials.
///
/// Every request is the administrator's, or that of the user whom [`Self::acting_as`] names. Bodies of watches yield one
/// frame per event. Works under a paused tokio clock.
#[derive(Clone, Debug)]
pub struct Service {
    server: Server,
    user: Arc<User>,
}

pub(crate) struct Inner {
    clock: Clock,
    entropy: Entropy,
    authenticator: Authenticator,
    authorizer: Arc<Authorizer>,
    storage: Arc<dyn Storage>,
    choices: Choices,
    /// Made with the first request that needs it.
    registry: OnceCell<Registry>,
    /// Set once the objects of [`bootstrap::furnish`] are there.
    furnished: OnceCell<()>,
    /// True once answers that go on are to end.
    stopping: watch::Sender<bool>,
    metrics: Metrics,
    descriptions: Descriptions,
    /// Where clients are told that the server is.
    address: Mutex<SocketAddr>,
    /// The account of what clients on sockets hold.
    budget: Arc<Budget>,
    /// The authority of clients, in PEM, once the server serves with one.
    client_ca: Mutex<Option<Arc<str>>>,
}

// === impl ServerBuilder ===

impl ServerBuilder {
    /// Where wall-clock time comes from: creation timestamps, ages.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Where randomness comes from: uids, generated names, the duration of watches. Keys of TLS are never taken from it.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = Some(entropy);
        self
    }

    /// The bearer token of the administrator. Without one nobody can do anything over a socket but ask for health and version.
    pub fn token(mut self, token: impl Into<Arc<str>>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The bearer token of somebody else.
    pub fn user_token(self, token: &str, user: User) -> Self {
        self.tokens.add(token, user);
        self
    }

    /// In whose name tokens of service accounts are issued, and with which key.
    pub fn token_issuer(mut self, issuer: TokenIssuer) -> Self {
        self.issuer = issuer;
        self
    }

    /// Where objects live; memory, unless it is given.
    pub fn storage(mut self, storage: impl Into<Arc<dyn Storage>>) -> Self {
        self.storage = Some(storage.into());
        self
    }

    /// The range that services get their addresses from; `10.0.0.0/24`, unless it is given.
    pub fn service_cidr(mut self, cidr: ServiceCidr) -> Self {
        self.choices.service_cidr = cidr;
        self
    }

    /// Where clients are told that the server is, by the service `kubernetes` for one; that of the listener, once it serves.
    ///
    /// To be given where somebody asks in process before that.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// What pods need to do with service accounts; nothing, unless it is said.
    pub fn pod_accounts(mut self, accounts: PodAccounts) -> Self {
        self.choices.pod_accounts = accounts;
        self
    }

    /// Who may do what; what roles say, unless it is said.
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.authorization = authorization;
        self
    }

    /// The answer to requests without credentials over sockets; they are `system:anonymous` by default.
    pub fn anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// Bounds what clients on sockets can make the server hold.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Delays a list of the present state until this long after the last write of another kind. By default it is not delayed.
    ///
    /// The real server's lists wait for up to 100 ms then, and tests that were written with it may rely on the time that a controller
    /// has meanwhile.
    pub const fn list_lag(mut self, lag: Duration) -> Self {
        self.choices.list_lag = lag;
        self
    }

    /// Descriptions of kinds and fields, for `kubectl explain` and for the columns of tables. By default there are none.
    ///
    /// `schemas` returns JSON schemas by their names in Kubernetes' OpenAPI documents, such as
    /// `io.k8s.api.core.v1.Pod`; only their descriptions are used. The feature `schemars` of `k8s-openapi` has them. The
    /// function is called for each document that a client reads.
    pub fn descriptions(mut self, schemas: fn() -> serde_json::Map<String, serde_json::Value>) -> Self {
        self.descriptions = Descriptions::new(schemas);
        self
    }

    /// Sets the authorizers that decide in turn, instead of [`Self::authorization`]. Members of `system:masters` may do
    /// everything all the same.
    pub fn authorizers(mut self, chain: AuthorizerChain) -> Self {
        self.authorizers = Some(chain);
        self
    }

    /// The server.
    #[must_use]
    pub fn build(self) -> Server {
        let (stopping, _) = watch::channel(false);
        Server(Arc::new(Inner {
            clock: self.clock,
            entropy: self.entropy.unwrap_or_default(),
            authenticator: Authenticator::new(self.token, self.tokens, self.issuer, self.anonymous),
            authorizer: Arc::new(Authorizer::new(self.authorization, self.authorizers)),
            storage: self.storage.unwrap_or_else(|| Arc::new(MemoryStorage::default())),
            choices: self.choices,
            registry: OnceCell::new(),
            furnished: OnceCell::new(),
            stopping,
            metrics: Metrics::default(),
            descriptions: self.descriptions,
            address: Mutex::new(self.address),
            budget: Budget::new(self.limits),
            client_ca: Mutex::default(),
        }))
    }
}

// === impl Server ===

impl Server {
    /// A server that is yet to be built.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            clock: Clock::system(),
            entropy: None,
            token: None,
            tokens: Tokens::default(),
            issuer: TokenIssuer::default(),
            storage: None,
            choices: Choices::default(),
            authorization: Authorization::default(),
            authorizers: None,
            address: SocketAddr::from(([127, 0, 0, 1], 443)),
            limits: Limits::default(),
            anonymous: Anonymous::default(),
            descriptions: Descriptions::default(),
        }
    }

    /// The server as a service in this process.
    #[must_use]
    pub fn service(&self) -> Service {
        Service { server: self.clone(), user: self.0.authenticator.admin() }
    }

    /// Lets somebody in who shows this bearer token, from now on.
    pub fn add_user_token(&self, token: &str, user: User) {
        self.0.authenticator.tokens().add(token, user);
    }

    /// Makes the objects that every cluster has, if nobody has asked for anything yet.
    pub async fn start(&self) -> Result<(), Status> {
        self.0.furnish().await
    }

    /// Serves HTTPS, versions 1.1 and 2, until `shutdown` is ready: then watches end, requests that are under way get most
    /// of a second to finish, and no task and no connection is left when this returns.
    ///
    /// # Errors
    /// When the listener has no address. Failures of single connections are logged.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: TlsIdentity,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        if let Some(pem) = tls.client_ca() {
            self.0.publish_client_ca(pem).await;
        }
        listener::serve(self, listener, Some(&tls), shutdown).await
    }

    /// As [`Self::serve`], without TLS and with HTTP/1.1 only. Tokens travel in the clear: for measurements on one machine.
    pub async fn serve_plain(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        listener::serve(self, listener, None, shutdown).await
    }

    /// Ends all watches, in process and over sockets, and those that are yet to come as soon as they begin. Other requests
    /// are answered as before; readiness fails.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Closes all watches, as the loss of all connections would; clients can watch again at once. For tests of clients.
    pub async fn drop_watches(&self) -> Result<(), Status> {
        self.0.registry().await?.drop_watches();
        Ok(())
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("storage", &self.0.storage).finish_non_exhaustive()
    }
}

impl Inner {
    /// The registry, started if this is the first request that needs it. A start that failed is tried again.
    pub(crate) async fn registry(&self) -> Result<&Registry, Status> {
        let start = || async {
            let (clock, entropy) = (self.clock.clone(), self.entropy.clone());
            let (storage, authorizer) = (self.storage.clone(), Arc::clone(&self.authorizer));
            let registry = bootstrap::start(storage, clock, entropy, self.choices, authorizer, self.address()).await?;
            let client_ca = self.client_ca.lock().clone();
            if let Some(pem) = client_ca {
                bootstrap::publish_client_ca(&registry, &pem).await?;
            }
            Ok(registry)
        };
        self.registry.get_or_try_init(start).await
    }

    /// Makes the objects that only few ask for, if they are not there.
    pub(crate) async fn furnish(&self) -> Result<(), Status> {
        let registry = self.registry().await?;
        self.furnished.get_or_try_init(|| bootstrap::furnish(registry)).await.copied()
    }

    /// Whether a user may do something, by the roles of this moment.
    pub(crate) async fn decide(&self, user: &User, attempt: &Attempt<'_>) -> Result<Decision, Status> {
        if !self.authorizer.trusts(user) {
            self.furnish().await?;
        }
        self.authorizer.decide(&*self.storage, user, attempt).await
    }

    /// Refuses what a user may not do.
    pub(crate) async fn authorize(&self, user: &User, attempt: &Attempt<'_>) -> Result<(), Status> {
        if !self.authorizer.trusts(user) {
            self.furnish().await?;
        }
        self.authorizer.require(&*self.storage, user, attempt).await
    }

    /// Reports whether webhooks are asked, so that rules do not hold everything that a user may do.
    pub(crate) fn asks_webhooks(&self) -> bool {
        self.authorizer.asks_webhooks()
    }

    /// All that a user may do in a namespace; and the roles that are not there.
    pub(crate) async fn rules_of(&self, user: &User, namespace: &str) -> Result<(Vec<Rule>, Vec<RoleName>), Status> {
        self.furnish().await?;
        self.authorizer.rules_of(&*self.storage, user, namespace).await
    }

    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
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

    pub(crate) fn set_address(&self, address: SocketAddr) {
        *self.address.lock() = address;
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Publishes the authority of clients: now, if the server has started, or else when it starts.
    async fn publish_client_ca(&self, pem: &Arc<str>) {
        *self.client_ca.lock() = Some(Arc::clone(pem));
        if let Some(registry) = self.registry.get()
            && let Err(error) = bootstrap::publish_client_ca(registry, pem).await
        {
            tracing::warn!(%error, "cannot publish the authority of clients in kube-system");
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    pub(crate) fn stopping(&self) -> Stopping {
        Stopping(self.stopping.subscribe())
    }
}

// === impl Service ===

impl Service {
    /// The same server, each request being this user's.
    #[must_use]
    pub fn acting_as(self, user: User) -> Self {
        Self { user: Arc::new(user), ..self }
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.server.0.clone();
        let origin = Origin { trust: Trust::Known(self.user.clone()), stopping: inner.stopping() };
        Box::pin(async move { Ok(handle(inner, origin, request.map(boxed)).await) })
    }
}

/// A request body of whatever type as the one type that is handled.
pub(crate) fn boxed<B>(body: B) -> RequestBody
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    body.map_frame(|frame| frame.map_data(|mut data| -> Bytes { data.copy_to_bytes(data.remaining()) }))
        .map_err(Into::into)
        .boxed_unsync()
}
