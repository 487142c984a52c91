//! The client: a transport, the settings for sending requests, and default options. The modules above it add the verbs.

mod options;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use serde::de::DeserializeOwned;
use tower::Service;
use windlass_api::{
    BoxError, DryRun, FieldValidation, ListWatchError, Scope, WriteOptions, managed_fields::ManagedFieldsMode,
};

use crate::{
    Config, Error, Result,
    body::Body,
    config::Compression,
    config_error::ConfigError,
    field_manager,
    negotiation::{Encodable, Negotiation},
    operation::{Operation, Verb},
    pipeline::{Policy, Reading, Sending, Throttle},
    request::{RequestError, Target},
    response, transcoded,
    transport::{self, Transport, Upgraded},
    user_agent,
    write_observer::WriteObserver,
};

/// A client of one API server. Cheap to clone; clones share the connections.
///
/// By default, a client limits its rate as client-go does: 5 requests per second with a burst of 10, and for discovery
/// 50 requests per second with a burst of 300. It retries a request when the server asks for it. The `with_*` and
/// `without_*` methods return a client that shares the connections and differs in one setting. To change a setting for
/// one call, call the verb on such a client.
///
/// A verb on a kind, `client.get::<Pod>("p")`, is short for the same verb on its [`Resources`](crate::Resources):
/// `client.resources::<Pod>().get("p")`. Calls on namespaced kinds that name no namespace use the client's default
/// namespace, except for `list` and `watch`, which then cover all namespaces.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    policy: Arc<Policy>,
    defaults: Defaults,
}

/// Defaults for the options of calls.
#[derive(Clone, Debug)]
struct Defaults {
    /// The field manager of writes. `None` stands for the program: applies name it, and for other writes the server
    /// takes it from the user agent.
    field_owner: Option<Arc<str>>,
    dry_run: DryRun,
    /// The validation of unknown fields. `None` leaves the choice to the server, which warns.
    field_validation: Option<FieldValidation>,
    /// The only namespace that calls may use.
    confined_to: Option<Arc<str>>,
    managed_fields: ManagedFieldsMode,
}

impl Default for Defaults {
    fn default() -> Self {
        let managed_fields = ManagedFieldsMode::Keep;
        let dry_run = DryRun::default();
        Self { field_owner: None, dry_run, field_validation: None, confined_to: None, managed_fields }
    }
}

#[derive(Debug)]
struct Shared {
    transport: Transport,
    default_namespace: String,
    user_agent: HeaderValue,
}

/// The default namespace of a call on a namespaced resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultNamespace {
    /// The client's default namespace.
    OfClient,
    /// All namespaces.
    All,
}

impl Client {
    /// Creates a client for the server that [`Config::infer`] finds: from a kubeconfig or from the pod's service
    /// account.
    ///
    /// Reads a few small files with blocking I/O.
    #[allow(clippy::unused_async, reason = "credentials that have to be fetched first will be awaited here")]
    pub async fn try_default() -> Result<Self> {
        Self::new(Config::infer()?)
    }

    /// Creates a client from a configuration. It connects when the first request is sent.
    #[allow(clippy::needless_pass_by_value, reason = "a configuration contains secrets and is consumed")]
    pub fn new(config: Config) -> Result<Self> {
        let transport = config.connect()?;
        let (server, compression) = (Some(config.server), config.compression);
        let negotiation = Negotiation::new(config.content_type);
        let policy = Policy { compression, negotiation, server, ..Policy::default() };
        Self::assemble(transport, config.default_namespace, &config.user_agent, policy)
    }

    /// Creates a client that sends its requests to a service, such as an API server in this process. Request URIs are
    /// paths.
    ///
    /// Such a client has no rate limit and does not request compressed responses, because both only pay off over a
    /// network.
    pub fn from_service<S, B>(service: S, default_namespace: impl Into<String>) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let transport = transport::erase(service);
        let policy = Policy { throttle: Throttle::Explicit(None), compression: Compression::Off, ..Policy::default() };
        Self::assemble(transport, default_namespace.into(), &user_agent::of_this_program(), policy)
            .expect("the default user agent is plain text")
    }

    fn assemble(transport: Transport, default_namespace: String, user_agent: &str, policy: Policy) -> Result<Self> {
        let user_agent = HeaderValue::from_str(user_agent)
            .map_err(|_| ConfigError::UserAgent { user_agent: user_agent.to_owned() })?;
        let shared = Arc::new(Shared { transport, default_namespace, user_agent });
        Ok(Self { shared, policy: Arc::new(policy), defaults: Defaults::default() })
    }

    /// Returns this client with a default field manager for its writes. A call's own field manager overrides it.
    ///
    /// By default, the field manager is the name of the program, from the
    /// [user agent](crate::Config::with_user_agent). In the reconciler of a controller, it is the name of the program and
    /// of the controller, such as `shop/website`. Servers reject a name of more than 128 bytes.
    #[must_use]
    pub fn with_field_owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.defaults.field_owner = Some(owner.into());
        self
    }

    /// Returns this client with the field manager of a part of the program: `program/component`, unless a field manager
    /// [is set](Self::with_field_owner). A name of more than 128 bytes ends with a hash.
    ///
    /// Parts of a program that apply the same objects need different field managers. Otherwise, each removes the fields
    /// that only the other applies.
    #[must_use]
    pub fn with_component(self, component: &str) -> Self {
        if self.defaults.field_owner.is_some() {
            return self;
        }
        let owner = field_manager::of_component(self.field_manager(), component);
        self.with_field_owner(owner)
    }

    /// Returns this client with the connections and the credentials of another client of the same server. All settings
    /// stay, also the default namespace and the user agent.
    ///
    /// A program that acts as several users has one client for each of them.
    #[must_use]
    pub fn with_credentials_of(mut self, other: &Self) -> Self {
        self.shared = Arc::new(Shared {
            transport: other.shared.transport.clone(),
            default_namespace: self.shared.default_namespace.clone(),
            user_agent: self.shared.user_agent.clone(),
        });
        self
    }

    /// Returns this client with all writes as dry runs, whatever their options say. The server then processes a write
    /// but does not store it.
    ///
    /// Reads, raw [requests](Self::request), and commands run in containers are not affected.
    #[must_use]
    pub fn with_dry_run(mut self) -> Self {
        self.defaults.dry_run = DryRun::All;
        self
    }

    /// Returns this client with a default for [field validation](FieldValidation): how the server treats unknown and
    /// duplicate fields in writes. A call's own setting overrides it.
    #[must_use]
    pub fn with_field_validation(mut self, validation: FieldValidation) -> Self {
        self.defaults.field_validation = Some(validation);
        self
    }

    /// Returns this client confined to one namespace. Calls on namespaced kinds that name no namespace use this one,
    /// including lists and watches. Calls that name another namespace fail before they are sent.
    ///
    /// Cluster-scoped kinds and raw [requests](Self::request) are not affected. Confinement protects against mistakes;
    /// it is not a security boundary.
    #[must_use]
    pub fn confined_to(mut self, namespace: impl Into<Arc<str>>) -> Self {
        self.defaults.confined_to = Some(namespace.into());
        self
    }

    /// Returns this client with `managedFields` removed from decoded objects. They are about half of a typical object.
    ///
    /// An update without `managedFields` leaves them unchanged on the server. By default, a client retains
    /// `managedFields`.
    #[must_use]
    pub fn without_managed_fields(mut self) -> Self {
        self.defaults.managed_fields = ManagedFieldsMode::Drop;
        self
    }

    /// Returns the namespace that the client is [confined to](Self::confined_to), if any.
    #[must_use]
    pub fn confinement(&self) -> Option<&str> {
        self.defaults.confined_to.as_deref()
    }

    /// Returns the default field manager of writes, if it is set.
    #[must_use]
    pub fn field_owner(&self) -> Option<&str> {
        self.defaults.field_owner.as_deref()
    }

    /// Returns the field manager of writes that name no other: the one that is set, or the name of the program.
    #[must_use]
    pub fn field_manager(&self) -> &str {
        let program = || field_manager::of_program(self.shared.user_agent.to_str().unwrap_or_default());
        self.field_owner().unwrap_or_else(program)
    }

    /// Returns the namespace of calls that name none.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.confinement().unwrap_or(&self.shared.default_namespace)
    }

    /// Returns the default options of writes.
    pub(crate) fn write_options(&self) -> WriteOptions {
        let Defaults { field_owner, dry_run, field_validation, .. } = &self.defaults;
        let field_manager = field_owner.as_deref().map(str::to_owned);
        WriteOptions { field_manager, dry_run: *dry_run, field_validation: *field_validation }
    }

    /// Returns the observer of successful writes.
    pub(crate) fn write_observer(&self) -> Option<&dyn WriteObserver> {
        self.policy.writes.as_deref()
    }

    /// Returns whether `managedFields` are retained in decoded objects.
    pub(crate) fn managed_fields(&self) -> ManagedFieldsMode {
        self.defaults.managed_fields
    }

    /// Returns the dry-run option that every deletion gets.
    pub(crate) fn dry_run(&self) -> DryRun {
        self.defaults.dry_run
    }

    /// Sets the namespace of a target that names none. Returns an error if the client is confined to another namespace.
    pub(crate) fn place(&self, target: &mut Target, default: DefaultNamespace) -> Result<(), RequestError> {
        if target.resource.scope == Scope::Cluster {
            return Ok(());
        }
        match (&target.namespace, self.confinement()) {
            (Some(namespace), Some(own)) if namespace != own => {
                Err(RequestError::Confined { namespace: namespace.clone(), own: own.to_owned() })
            }
            (None, None) if default == DefaultNamespace::All => Ok(()),
            (Some(_), _) => Ok(()),
            (None, _) => {
                target.namespace = Some(self.default_namespace().to_owned());
                Ok(())
            }
        }
    }

    /// Sends a raw request with the client's credentials and returns the response, including failures. The time to read
    /// the response body is not limited.
    pub async fn request(&self, request: Request<impl Into<Body>>) -> Result<Response<Body>> {
        let operation = Operation::request(request.uri().path());
        let outcome = self.send(request.map(Into::into), &operation, Reading::Stream).await;
        outcome.map_err(|error| Error::new(operation, ListWatchError::Transport(error)))
    }

    /// Sends a raw request and decodes the response. Returns an error if the response is not a success.
    pub async fn request_json<T: DeserializeOwned>(&self, request: Request<impl Into<Body>>) -> Result<T> {
        let operation = Operation::request(request.uri().path());
        let answer = async {
            let response = self.execute(request, &operation).await?;
            response::decode(response, self.response_limit()).await
        };
        let outcome = answer.await;
        outcome.map_err(|error| Error::new(operation, error))
    }

    /// Sends a raw request and streams the response body. The time to read it is not limited. Returns an error if the
    /// response is not a success.
    pub async fn request_stream(&self, request: Request<impl Into<Body>>) -> Result<Body> {
        let operation = Operation::request(request.uri().path());
        let outcome = self.execute_as(request, &operation, Reading::Stream).await;
        outcome.map(Response::into_body).map_err(|error| Error::new(operation, error))
    }

    /// Sends a request with an `Upgrade` header and returns the connection once the server has switched protocols. The
    /// response headers name the new protocol. Returns an error if the server does not switch.
    ///
    /// The connection is not shared with other requests, uses HTTP/1.1 until the switch, and is closed on drop.
    pub async fn upgrade(&self, request: Request<impl Into<Body>>) -> Result<(Response<()>, Upgraded)> {
        let operation = Operation::request(request.uri().path());
        let outcome = self.switch(request.map(Into::into), &operation).await;
        outcome.map_err(|error| Error::new(operation, error))
    }

    /// Like [`Self::upgrade`], with the operation to name in errors.
    pub(crate) async fn switch(
        &self,
        request: Request<Body>,
        operation: &Operation,
    ) -> Result<(Response<()>, Upgraded), ListWatchError> {
        let method = request.method().clone();
        let sent = self.send(request, operation, Reading::Stream).await;
        let mut response = sent.map_err(ListWatchError::Transport)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let response = response::check(response, &method, operation).await?;
            let code = response.status();
            return Err(ListWatchError::Decode(
                format!("the server answered {code} and did not switch protocols").into(),
            ));
        }
        let connection = hyper::upgrade::on(&mut response).await;
        let connection = connection.map_err(|error| ListWatchError::Transport(error.into()))?;
        Ok((response.map(drop), Upgraded::new(connection)))
    }

    /// Sends a request and decodes the response as its verb requires. Returns an error if the response is not a
    /// success.
    pub(crate) async fn execute(
        &self,
        request: Request<impl Into<Body>>,
        operation: &Operation,
    ) -> Result<Response<Body>, ListWatchError> {
        self.execute_as(request, operation, Reading::of(operation.verb)).await
    }

    /// Sends a request for a resource in the encoding that the client prefers, and again in JSON if the server rejects
    /// that encoding. A response in CBOR is converted to JSON.
    pub(crate) async fn execute_negotiated(
        &self,
        request: Request<Bytes>,
        target: &Target,
        operation: &Operation,
        body: Encodable,
    ) -> Result<Response<Body>, ListWatchError> {
        let negotiation = &self.policy.negotiation;
        let Some(preferred) = negotiation.propose(&request, target, operation.verb, body) else {
            return self.execute(request, operation).await;
        };
        let header = |request: &Request<Bytes>| request.headers().get(header::CONTENT_TYPE).cloned();
        let is_converted = header(&preferred) != header(&request);
        match self.execute(preferred, operation).await {
            Err(ListWatchError::Status(status)) if is_about_encoding(status.code, operation.verb, is_converted) => {
                let outcome = self.execute(request, operation).await;
                // Otherwise the code had another reason, such as a webhook that uses it.
                if !matches!(&outcome, Err(ListWatchError::Status(again)) if again.code == status.code) {
                    negotiation.refused(target);
                }
                outcome
            }
            outcome => outcome.map(transcoded::to_json),
        }
    }

    /// Sends a request. Returns an error if the response is not a success.
    pub(crate) async fn execute_as(
        &self,
        request: Request<impl Into<Body>>,
        operation: &Operation,
        reading: Reading,
    ) -> Result<Response<Body>, ListWatchError> {
        let method = request.method().clone();
        let sent = self.send(request.map(Into::into), operation, reading).await;
        response::check(sent.map_err(ListWatchError::Transport)?, &method, operation).await
    }

    /// Sends a request and returns the response, including failures.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        operation: &Operation,
        reading: Reading,
    ) -> Result<Response<Body>, BoxError> {
        request.headers_mut().entry(header::USER_AGENT).or_insert_with(|| self.shared.user_agent.clone());
        let sending = Sending { transport: &self.shared.transport, policy: &self.policy, operation, reading };
        sending.send(request).await
    }
}

/// Reports whether the server may have rejected the encoding of a request: that of the response, or that of the body. The
/// body of a patch is about the encoding only if it was converted.
const fn is_about_encoding(code: u16, verb: Verb, is_converted: bool) -> bool {
    code == 406 || code == 415 && (is_converted || !matches!(verb, Verb::Patch | Verb::Apply))
}

#[cfg(test)]
mod tests;
