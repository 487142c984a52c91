//! The server: built from its parts, called in process, or served on a socket.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
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
use windlass_api::{BoxError, Clock, ContainerRuntime, Entropy, Status};
use windlass_serve::Upgrade;

use crate::{
    admission::{AdmissionConfiguration, PodAccounts},
    aggregation::{Aggregation, ProxyIdentity},
    audit::AuditConfiguration,
    authn::{
        Anonymous, AuthenticationConfiguration, AuthenticationConfigurationError, AuthenticationOptions, Authenticator,
        FrontProxy, TokenIssuer, TokenWebhook, Tokens,
    },
    authz::{Authorization, Authorizer, AuthorizerChain},
    bootstrap::{Authorities, RegistryOptions},
    budget::{Budget, Limits},
    codec::Offer,
    descriptions::Descriptions,
    extension::ExtensionApi,
    flow_control::{FlowControl, FlowControlOptions},
    http::{Body, Origin, RequestBody, Trust, UpgradedProtocol, handle, too_many_requests},
    identity::User,
    kinds::{RuntimeConfig, core::service::ServiceCidr, flowcontrol},
    kubernetes::KubernetesVersion,
    metrics::Metrics,
    single_flight::SingleFlight,
    state::{AddedCheck, State},
    storage::{MemoryStorage, Storage},
    tls::TlsIdentity,
};

mod coalesced_body;
mod connection;
mod listener;
mod outgoing;
mod pacing;
mod spdy;
mod upgraded;
mod websocket;

#[cfg(test)]
mod tests;

/// An API server. Clones are handles to the same server.
///
/// Building a server does no work: the bootstrap objects are created with the first request that needs them. Dropping
/// the last handle (a [`Service`] is one, too) drops the server. Its watches end, and objects in memory storage are
/// lost.
#[derive(Clone)]
pub struct Server(Arc<State>);

/// Configures a [`Server`].
#[derive(Debug)]
#[must_use]
pub struct ServerBuilder {
    clock: Clock,
    entropy: Option<Entropy>,
    token: Option<Arc<str>>,
    tokens: Tokens,
    issuer: TokenIssuer,
    storage: Option<Arc<dyn Storage>>,
    choices: RegistryOptions,
    authorization: Authorization,
    authorizers: Option<AuthorizerChain>,
    address: SocketAddr,
    limits: Limits,
    authentication: AuthenticationOptions,
    descriptions: Descriptions,
    added_check: Option<AddedCheck>,
    containers: Option<Arc<dyn ContainerRuntime>>,
    request_timeout: Duration,
    offer: Offer,
    audit: Option<AuditConfiguration>,
    proxy_identity: Option<ProxyIdentity>,
    flow_control: FlowControlOptions,
    flags: BTreeMap<String, String>,
}

/// The default of [`ServerBuilder::request_timeout`].
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// An in-process client of a server, as a `tower` service: no socket, no task, no credentials.
///
/// Every request runs as the administrator, or as the user set with [`Self::acting_as`]. Bodies of watches yield one
/// frame per event. Works with a paused tokio clock.
///
/// A request with the extension [`Upgrade`] of `windlass-serve` can continue with another protocol, on the connection of
/// the server that has received it.
#[derive(Clone, Debug)]
pub struct Service {
    server: Server,
    user: Arc<User>,
}

// === impl ServerBuilder ===

impl ServerBuilder {
    /// Sets the source of wall-clock time, for creation timestamps and ages.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of randomness, for UIDs, generated names and the duration of watches. TLS keys never come from
    /// it.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = Some(entropy);
        self
    }

    /// Sets the bearer token of the administrator. Defaults to none: requests over a socket then need other credentials,
    /// except for health and version.
    pub fn token(mut self, token: impl Into<Arc<str>>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Adds the bearer token of another user.
    pub fn user_token(self, token: &str, user: User) -> Self {
        self.tokens.add(token, user);
        self
    }

    /// Sets the issuer and the signing key of service account tokens.
    pub fn token_issuer(mut self, issuer: TokenIssuer) -> Self {
        self.issuer = issuer;
        self
    }

    /// Sets the storage. Defaults to memory.
    pub fn storage(mut self, storage: impl Into<Arc<dyn Storage>>) -> Self {
        self.storage = Some(storage.into());
        self
    }

    /// Sets the Kubernetes version whose resources, fields, documents, columns and roles the server has.
    ///
    /// Reading the tables of another version than the default one takes about 0.5 MB of memory, once per process.
    pub const fn kubernetes(mut self, version: KubernetesVersion) -> Self {
        self.choices.kubernetes = version;
        self
    }

    /// Sets the API versions that Kubernetes has removed and that the server serves for old clients, such as
    /// `policy/v1beta1`. By default there are none.
    ///
    /// They are other versions of the same objects: a write in one version can be read and watched in all of them.
    ///
    /// ```
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use windlass_server::Server;
    ///
    /// let server = Server::builder().runtime_config("policy/v1beta1=true".parse()?).build();
    /// # Ok(())
    /// # }
    /// ```
    pub fn runtime_config(mut self, config: RuntimeConfig) -> Self {
        self.choices.runtime = config;
        self
    }

    /// Sets the address range of services. Defaults to `10.0.0.0/24`.
    pub fn service_cidr(mut self, cidr: ServiceCidr) -> Self {
        self.choices.service_cidr = cidr;
        self
    }

    /// Sets the address that clients get, for example in the service `kubernetes`. When the server serves, it is
    /// replaced by the address of the listener.
    ///
    /// Set it if in-process requests come before that.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets the IP address that clients get instead of that of the listener. Servers over one etcd list it in the endpoints
    /// of the service `kubernetes`, so it must differ between them. By default it is that of the listener. For a listener on a
    /// loopback or unspecified address, they list that of the interface with the default route.
    pub const fn advertise_address(mut self, address: IpAddr) -> Self {
        self.choices.advertised = Some(address);
        self
    }

    /// Sets the service account requirements of new pods. Defaults to none.
    pub fn pod_accounts(mut self, accounts: PodAccounts) -> Self {
        self.choices.pod_accounts = accounts;
        self
    }

    /// Sets the admission plugins and their configuration. By default they are those of kube-apiserver, nothing is exempt from Pod Security, namespaces without
    /// labels allow all pods, and namespaces without a quota have no limits.
    pub fn admission(mut self, configuration: AdmissionConfiguration) -> Self {
        self.choices.admission = Arc::new(configuration);
        self
    }

    /// Sets the time after which events are deleted, unless they are written again. Defaults to one hour.
    pub const fn event_lifetime(mut self, lifetime: Duration) -> Self {
        self.choices.event_lifetime = Some(lifetime);
        self
    }

    /// Sets the maximum time until the response to a request begins, except for watches and other long-running requests.
    /// Defaults to 60 s. The parameter `timeout` of a request can only shorten it. A write of one object has at most 34 s,
    /// as in kube-apiserver. This does not apply to bindings, evictions and token requests.
    ///
    /// A request that takes longer fails with code 504. A write can still happen after that.
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets whether the server reads and writes objects in CBOR (`application/cbor`, and `application/cbor-seq` for watches),
    /// also in patches for server-side apply (`application/apply-patch+cbor`). Defaults to `false`, as in kube-apiserver,
    /// where it is the feature gate `CBORServingAndStorage`.
    ///
    /// Objects are stored as before. Documents of discovery and OpenAPI have no CBOR.
    pub const fn cbor(mut self, is_served: bool) -> Self {
        self.offer = if is_served { Offer::WithCbor } else { Offer::Stable };
        self
    }

    /// Sets the authorization mode. Defaults to roles.
    pub fn authorization(mut self, authorization: Authorization) -> Self {
        self.authorization = authorization;
        self
    }

    /// Sets the handling of requests without credentials over sockets. By default their user is `system:anonymous`.
    pub fn anonymous(mut self, anonymous: Anonymous) -> Self {
        self.authentication.anonymous = anonymous;
        self
    }

    /// Asks a webhook about bearer tokens that no other authenticator knows.
    pub fn token_webhook(mut self, webhook: TokenWebhook) -> Self {
        self.authentication.webhook = Some(webhook);
        self
    }

    /// Accepts bootstrap tokens: secrets of type `bootstrap.kubernetes.io/token` in `kube-system`. By default they are not
    /// accepted.
    pub const fn bootstrap_tokens(mut self, accepted: bool) -> Self {
        self.authentication.bootstrap_tokens = accepted;
        self
    }

    /// Sets whether the tokens in secrets are only valid while the secret and its service account exist. Defaults to true.
    pub const fn service_account_lookup(mut self, lookup: bool) -> Self {
        self.authentication.skips_lookup = !lookup;
        self
    }

    /// Accepts front proxies that name users in headers. Their CA is that of
    /// [`TlsIdentity::with_front_proxy_ca`](crate::TlsIdentity::with_front_proxy_ca).
    pub fn front_proxy(mut self, proxy: FrontProxy) -> Self {
        self.authentication.front_proxy = Some(proxy);
        self
    }

    /// Sets the limits on the memory that clients on sockets can occupy.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Delays a list of the current state until this time has passed since the last write to another kind. By default
    /// there is no delay.
    ///
    /// The lists of kube-apiserver wait up to 100 ms in this case. Tests written for it may rely on the time that
    /// controllers gain.
    pub const fn list_lag(mut self, lag: Duration) -> Self {
        self.choices.list_lag = lag;
        self
    }

    /// Sets descriptions of kinds and fields, for `kubectl explain` and for table columns. By default there are none.
    ///
    /// `schemas` returns JSON schemas by their names in the OpenAPI documents of Kubernetes, such as
    /// `io.k8s.api.core.v1.Pod`; only their descriptions are used. The feature `schemars` of `k8s-openapi` provides
    /// them. The function is called for each document that a client reads.
    pub fn descriptions(mut self, schemas: fn() -> serde_json::Map<String, serde_json::Value>) -> Self {
        self.descriptions = Descriptions::new(schemas);
        self
    }

    /// Adds a check to `/healthz` and `/readyz`, but not to `/livez`, for a part of the program without which some
    /// requests fail. A restart of the server would not help. Replaces the check of an earlier call.
    ///
    /// kube-apiserver has the check `kms-providers`, for the providers of encryption at rest.
    pub fn readiness_check<F>(mut self, name: &'static str, check: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.added_check = Some(AddedCheck { name, check: Arc::new(move || Box::pin(check())) });
        self
    }

    /// Answers commands (`exec`) and requests for logs from these containers, in place of the kubelets of all nodes. By
    /// default these requests fail, because this server does not connect to kubelets.
    ///
    /// A container runs if the status of its pod says so.
    pub fn containers(mut self, runtime: impl ContainerRuntime + 'static) -> Self {
        self.containers = Some(Arc::new(runtime));
        self
    }

    /// Sets a chain of authorizers, which replaces [`Self::authorization`]. Members of `system:masters` may still do
    /// everything.
    pub fn authorizers(mut self, chain: AuthorizerChain) -> Self {
        self.authorizers = Some(chain);
        self
    }

    /// Sets the audit policy and its backends. By default there is no audit log.
    pub fn audit(mut self, audit: AuditConfiguration) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Serves the kinds of a program, and no others, for an `APIService` of a cluster.
    ///
    /// Such a server usually trusts the cluster's front proxy ([`Self::front_proxy`]) and lets the cluster decide about
    /// permissions ([`AuthorizerChain::reviewed_by`]).
    pub fn extension(mut self, api: ExtensionApi) -> Self {
        self.choices.extension = Some(Arc::new(api));
        self
    }

    /// Sets the client certificate that the server presents to the API servers of APIService objects. By default it presents
    /// none: most of them then refuse the requests, because they cannot trust the user in the headers.
    pub fn proxy_identity(mut self, identity: ProxyIdentity) -> Self {
        self.proxy_identity = Some(identity);
        self
    }

    /// Sets the maximum number of reads at the same time, as `--max-requests-inflight`. Defaults to 400. 0 is no limit.
    ///
    /// With [priority and fairness](Self::priority_and_fairness), the sum of this and
    /// [`Self::max_mutating_requests_in_flight`] is the number of seats that the priority levels share. Long-running
    /// requests are not limited, except for the beginning of a watch.
    pub const fn max_requests_in_flight(mut self, limit: u32) -> Self {
        self.flow_control.reads = limit;
        self
    }

    /// Sets the maximum number of writes at the same time, as `--max-mutating-requests-inflight`. Defaults to 200. 0 is no
    /// limit.
    pub const fn max_mutating_requests_in_flight(mut self, limit: u32) -> Self {
        self.flow_control.writes = limit;
        self
    }

    /// Enables or disables API Priority and Fairness, as `--enable-priority-and-fairness`. Enabled by default.
    ///
    /// If it is disabled, or if both limits are 0, the limits apply to reads and writes of all users except the members of
    /// `system:masters`, and no request waits.
    pub const fn priority_and_fairness(mut self, is_enabled: bool) -> Self {
        self.flow_control.is_fair = is_enabled;
        self
    }

    /// Sets the flags of the program, which `/flagz` shows to administrators and to the group `system:monitoring`. Omit
    /// secrets. By default there are none.
    pub fn flags(mut self, flags: BTreeMap<String, String>) -> Self {
        self.flags = flags;
        self
    }

    /// Builds the server.
    #[must_use]
    pub fn build(self) -> Server {
        let (stopping, _) = watch::channel(false);
        let address = self.choices.advertised.unwrap_or_else(|| self.address.ip());
        let entropy = self.entropy.unwrap_or_default();
        let schemas: Vec<_> = flowcontrol::schemas("").into_iter().map(|(schema, _)| schema).collect();
        let audit = self.audit.and_then(|audit| audit.build(self.clock.clone(), entropy.clone()));
        Server(Arc::new_cyclic(|this| State {
            this: this.clone(),
            started: self.clock.now(),
            flags: self.flags,
            clock: self.clock,
            entropy,
            audit,
            authenticator: Authenticator::new(self.token, self.tokens, self.issuer, self.authentication),
            authorizer: Arc::new(Authorizer::new(self.authorization, self.authorizers, self.choices.kubernetes)),
            storage: self.storage.unwrap_or_else(|| Arc::new(MemoryStorage::default())),
            choices: self.choices,
            request_timeout: self.request_timeout,
            offer: self.offer,
            registry: OnceCell::new(),
            start: SingleFlight::default(),
            presence: Mutex::default(),
            deferred: OnceCell::new(),
            deferring: SingleFlight::default(),
            stopping,
            metrics: Metrics::default(),
            flow_control: FlowControl::new(self.flow_control, &flowcontrol::levels(), &schemas),
            descriptions: self.descriptions,
            added_check: self.added_check,
            containers: self.containers,
            address: Mutex::new(SocketAddr::new(address, self.address.port())),
            budget: Budget::new(self.limits),
            authorities: Mutex::default(),
            aggregation: Arc::new(Aggregation::new(self.proxy_identity)),
        }))
    }
}

// === impl Server ===

impl Server {
    /// Returns a builder for a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            clock: Clock::system(),
            entropy: None,
            token: None,
            tokens: Tokens::default(),
            issuer: TokenIssuer::default(),
            storage: None,
            choices: RegistryOptions::default(),
            authorization: Authorization::default(),
            authorizers: None,
            address: SocketAddr::from(([127, 0, 0, 1], 443)),
            limits: Limits::default(),
            authentication: AuthenticationOptions::default(),
            descriptions: Descriptions::default(),
            added_check: None,
            containers: None,
            request_timeout: REQUEST_TIMEOUT,
            offer: Offer::default(),
            audit: None,
            proxy_identity: None,
            flow_control: FlowControlOptions::default(),
            flags: BTreeMap::new(),
        }
    }

    /// Returns the server as an in-process service.
    #[must_use]
    pub fn service(&self) -> Service {
        Service { server: self.clone(), user: self.0.authenticator.admin() }
    }

    /// Adds the bearer token of a user. Takes effect immediately.
    pub fn add_user_token(&self, token: &str, user: User) {
        self.0.authenticator.tokens().add(token, user);
    }

    /// Sets the issuers of JSON web tokens and the handling of anonymous requests. Takes effect immediately. A later call
    /// replaces the issuers.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid, also in combination with the issuers of service account tokens, or
    /// if a later one changes the handling of anonymous requests. The previous configuration is then still used.
    pub fn configure_authentication(
        &self,
        configuration: &AuthenticationConfiguration,
    ) -> Result<(), AuthenticationConfigurationError> {
        self.0.authenticator.configure(configuration)?;
        // Otherwise the next request of each issuer waits for its keys.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.0.authenticator.prefetch();
        }
        Ok(())
    }

    /// Publishes a client CA in the ConfigMap `extension-apiserver-authentication`. [`Self::serve`] does so with those of its
    /// identity.
    pub async fn publish_client_ca(&self, pem: &str) {
        self.0.publish_authorities(Authorities { clients: Some(pem.into()), front_proxies: None }).await;
    }

    /// Issues a legacy token of a service account, for a secret of type `kubernetes.io/service-account-token`.
    pub fn issue_legacy_token(
        &self,
        namespace: &str,
        account: &str,
        uid: &str,
        secret: &str,
    ) -> Result<String, Status> {
        self.0.authenticator.issuer().issue_legacy(namespace, account, uid, secret)
    }

    /// Creates the bootstrap objects, unless a request already did.
    pub async fn start(&self) -> Result<(), Status> {
        self.0.ensure_deferred().await
    }

    /// Serves HTTPS with HTTP/1.1 and HTTP/2 until `shutdown` is ready. Then watches end, and most of a second is left
    /// for requests in progress. When this function returns, no task and no connection is left.
    ///
    /// # Errors
    /// Returns an error if the listener has no address. Failures of single connections are logged.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: TlsIdentity,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let authorities =
            Authorities { clients: tls.client_ca().cloned(), front_proxies: tls.front_proxy_ca().cloned() };
        self.0.publish_authorities(authorities).await;
        self.0.authenticator.prefetch();
        listener::serve(self, listener, Some(tls), shutdown).await
    }

    /// Like [`Self::serve`], without TLS and with HTTP/1.1 only. Tokens are sent unencrypted: use it for measurements
    /// on one machine only.
    pub async fn serve_plain(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        listener::serve(self, listener, None, shutdown).await
    }

    /// Ends all watches, in process and over sockets. New watches end immediately. Other requests are answered as
    /// before; the readiness probe fails. Over etcd, the server removes itself from the endpoints of the service
    /// `kubernetes`, which [`Self::leave`] waits for.
    pub fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// Removes the server from the endpoints of the service `kubernetes`, and deletes its identity Lease, if other servers may
    /// use its etcd. [`Self::serve`] does so at its end. Waits two seconds at most.
    pub async fn leave(&self) {
        self.0.leave().await;
    }

    /// Waits until the audit events so far were written, for five seconds at most. [`Self::serve`] does so at its end.
    pub async fn flush_audit(&self) {
        if let Some(audit) = self.0.audit() {
            audit.flush().await;
        }
    }

    /// Closes all watches, as if all connections were lost. Clients can watch again at once. For tests of clients.
    pub async fn drop_watches(&self) -> Result<(), Status> {
        self.0.registry().await?.drop_watches();
        Ok(())
    }

    pub(crate) fn inner(&self) -> &Arc<State> {
        &self.0
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("storage", &self.0.storage).finish_non_exhaustive()
    }
}

// === impl Service ===

impl Service {
    /// Runs all requests as this user.
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let inner = self.server.0.clone();
        let upgrade = request.extensions_mut().remove::<Upgrade>();
        let origin = Origin {
            trust: Trust::InProcess(self.user.clone()),
            stopping: inner.stopping(),
            remote: None,
            is_upgradable: upgrade.is_some(),
        };
        let upgrade = upgrade.map(|upgrade| (upgrade, Arc::clone(&inner.budget)));
        Box::pin(async move {
            let (mut head, body) = handle(inner, origin, request.map(boxed)).await.into_parts();
            let body = match (head.extensions.remove::<UpgradedProtocol>(), upgrade) {
                (Some(protocol), Some((upgrade, budget))) => {
                    match upgraded::run(protocol, body, upgrade, &budget.open()) {
                        Ok(()) => Body::whole(""),
                        Err(_) => return Ok(too_many_requests()),
                    }
                }
                _ => body,
            };
            Ok(Response::from_parts(head, body))
        })
    }
}

/// Boxes a request body of any type.
pub(crate) fn boxed<B>(body: B) -> RequestBody
where
    B: http_body::Body<Data: Buf, Error: Into<BoxError>> + Send + 'static,
{
    body.map_frame(|frame| frame.map_data(|mut data| -> Bytes { data.copy_to_bytes(data.remaining()) }))
        .map_err(Into::into)
        .boxed_unsync()
}
