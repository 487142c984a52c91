//! The client: one transport, and the verbs for kinds that are known at compile time.

mod options;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use serde::de::DeserializeOwned;
use tower::Service;
use windlass_api::{
    BoxError, DryRun, FieldValidation, ListWatchError, ObjectRef, Patch, Resource, Scope, WriteOptions,
    k8s_openapi::api::autoscaling::v1::Scale, managed_fields::ManagedFields,
};

use crate::{
    Config, ConfigError, Error, Result,
    config::Compression,
    error::Operation,
    pipeline::{Policy, Reading, Sending, Throttle},
    request::{RequestError, Target},
    resources::Resources,
    response,
    transport::{self, Body, Transport, Upgraded},
    user_agent,
    verbs::{Apply, Create, Delete, DeleteCollection, Get, GetOpt, List, PatchOne, Unnamed, Update, Watch},
    written::WriteObserver,
};

/// A client of one API server. Cheap to clone; clones share the connections.
///
/// Requests are sent as Go's client sends them: 5 a second and 10 at once (50 and 300 of those that ask what the server
/// serves), again when the server asks for it. The methods that begin with `with` make a client of the same connections
/// that does it differently; to change one call, make it on such a client.
///
/// A verb on a kind, `client.get::<Pod>("p")`, is short for the same verb on its [`Resources`]:
/// `client.resources::<Pod>().get("p")`. Calls on namespaced kinds that name no namespace are about the client's default
/// namespace, except for `list` and `watch`, which are then about all namespaces.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    policy: Arc<Policy>,
    usual: Usual,
}

/// What calls say where they do not say otherwise.
#[derive(Clone, Debug)]
struct Usual {
    /// In whose name fields are written; `None` leaves it to the server, which takes the user agent.
    field_owner: Option<Arc<str>>,
    dry_run: DryRun,
    /// `None` leaves it to the server, which warns.
    field_validation: Option<FieldValidation>,
    /// The one namespace that calls may be about.
    confined_to: Option<Arc<str>>,
    managed_fields: ManagedFields,
}

impl Default for Usual {
    fn default() -> Self {
        let managed_fields = ManagedFields::Keep;
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

impl Client {
    /// A client for the server that the surroundings point to: [`Config::infer`].
    ///
    /// Reads a few small files, in place.
    #[allow(clippy::unused_async, reason = "credentials that have to be fetched first will be awaited here")]
    pub async fn try_default() -> Result<Self> {
        Self::new(Config::infer()?)
    }

    /// A client for the server of a configuration. Connects when the first request is sent.
    #[allow(clippy::needless_pass_by_value, reason = "a configuration holds secrets, and is used up")]
    pub fn new(config: Config) -> Result<Self> {
        let transport = transport::connect(&config)?;
        let policy = Policy { compression: config.compression, ..Policy::default() };
        Self::assemble(transport, config.default_namespace, &config.user_agent, policy)
    }

    /// A client whose requests go to a service, such as an API server in this process. URIs are paths. There is no limit
    /// to their rate, and answers are not compressed: what is to be spared is on the other side of a network.
    pub fn from_service<S, B>(service: S, default_namespace: impl Into<String>) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let transport = transport::erase(service);
        let policy = Policy { throttle: Throttle::Chosen(None), compression: Compression::Off, ..Policy::default() };
        Self::assemble(transport, default_namespace.into(), &user_agent::of_this_program(), policy)
            .expect("the default user agent is plain text")
    }

    fn assemble(transport: Transport, default_namespace: String, user_agent: &str, policy: Policy) -> Result<Self> {
        let user_agent = HeaderValue::from_str(user_agent)
            .map_err(|_| ConfigError::UserAgent { user_agent: user_agent.to_owned() })?;
        let shared = Arc::new(Shared { transport, default_namespace, user_agent });
        Ok(Self { shared, policy: Arc::new(policy), usual: Usual::default() })
    }

    /// The same client, its writes in the name of `owner` unless they say otherwise.
    #[must_use]
    pub fn with_field_owner(mut self, owner: impl Into<Arc<str>>) -> Self {
        self.usual.field_owner = Some(owner.into());
        self
    }

    /// The same client, whose writes do everything but the storing, whatever they say. Reads are as ever; so are
    /// [requests](Self::request) as they are, and what is done within containers.
    #[must_use]
    pub fn with_dry_run(mut self) -> Self {
        self.usual.dry_run = DryRun::All;
        self
    }

    /// The same client, for whose writes a server does this with fields that the kind does not have, unless they say
    /// otherwise.
    #[must_use]
    pub fn with_field_validation(mut self, validation: FieldValidation) -> Self {
        self.usual.field_validation = Some(validation);
        self
    }

    /// The same client, for one namespace only: calls on namespaced kinds that name no namespace are about this one, lists
    /// and watches too, and those that name another are refused before they are sent. Kinds without namespaces are not
    /// concerned, nor are [requests](Self::request) as they are. It guards against mistakes, not against malice.
    #[must_use]
    pub fn confined_to(mut self, namespace: impl Into<Arc<str>>) -> Self {
        self.usual.confined_to = Some(namespace.into());
        self
    }

    /// The same client, whose answers are decoded without managedFields. Half of a typical object is spared so; a server takes an
    /// update without them as one that does not change them. Unless it is asked for, clients keep what servers send.
    #[must_use]
    pub fn without_managed_fields(mut self) -> Self {
        self.usual.managed_fields = ManagedFields::Drop;
        self
    }

    /// The namespace that the client is [confined to](Self::confined_to), if it is.
    #[must_use]
    pub fn confinement(&self) -> Option<&str> {
        self.usual.confined_to.as_deref()
    }

    /// In whose name fields are written.
    #[must_use]
    pub fn field_owner(&self) -> Option<&str> {
        self.usual.field_owner.as_deref()
    }

    /// The namespace of calls that name none.
    #[must_use]
    pub fn default_namespace(&self) -> &str {
        self.confinement().unwrap_or(&self.shared.default_namespace)
    }

    /// What a write says, unless its call says otherwise.
    pub(crate) fn write_options(&self) -> WriteOptions {
        let Usual { field_owner, dry_run, field_validation, .. } = &self.usual;
        let field_manager = field_owner.as_deref().map(str::to_owned);
        WriteOptions { field_manager, dry_run: *dry_run, field_validation: *field_validation }
    }

    /// Returns the observer of writes that are carried out.
    pub(crate) fn write_observer(&self) -> Option<&dyn WriteObserver> {
        self.policy.writes.as_deref()
    }

    /// What becomes of managedFields in answers.
    pub(crate) fn managed_fields(&self) -> ManagedFields {
        self.usual.managed_fields
    }

    /// What a deletion says, whatever its call says.
    pub(crate) fn dry_run(&self) -> DryRun {
        self.usual.dry_run
    }

    /// Gives a target the namespace that a call means which names none, and refuses those that the client is not for.
    pub(crate) fn place(&self, target: &mut Target, unnamed: Unnamed) -> Result<(), RequestError> {
        if target.resource.scope == Scope::Cluster {
            return Ok(());
        }
        match (&target.namespace, self.confinement()) {
            (Some(namespace), Some(own)) if namespace != own => {
                Err(RequestError::Confined { namespace: namespace.clone(), own: own.to_owned() })
            }
            (None, None) if unnamed == Unnamed::All => Ok(()),
            (Some(_), _) => Ok(()),
            (None, _) => {
                target.namespace = Some(self.default_namespace().to_owned());
                Ok(())
            }
        }
    }

    // === the verbs ===

    /// The objects of a kind: all verbs, with more ways to name the resource.
    pub fn resources<K: Resource>(&self) -> Resources<K> {
        Resources::typed(self.clone())
    }

    /// Reads an object.
    pub fn get<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Get<K> {
        self.resources().get(key)
    }

    /// Reads an object that may not be there.
    pub fn get_opt<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> GetOpt<K> {
        self.resources().get_opt(key)
    }

    /// Lists objects, of all namespaces unless one is given.
    pub fn list<K: Resource>(&self) -> List<K> {
        self.resources().list()
    }

    /// Watches objects, of all namespaces unless one is given.
    pub fn watch<K: Resource>(&self) -> Watch<K> {
        self.resources().watch()
    }

    /// Creates an object, in the namespace that it names.
    pub fn create<K: Resource>(&self, object: &K) -> Create<K> {
        self.resources().create(object)
    }

    /// Replaces an object. With a resourceVersion in it, only if that is still its version.
    pub fn update<K: Resource>(&self, object: &K) -> Update<K> {
        self.resources().update(object)
    }

    /// Replaces the status of an object, and nothing else of it.
    pub fn update_status<K: Resource>(&self, object: &K) -> Update<K> {
        self.resources().update_status(object)
    }

    /// Changes an object.
    pub fn patch<K: Resource>(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<K> {
        self.resources().patch(key, patch)
    }

    /// Server-side apply: makes the object have the fields that `object` has, and own them.
    pub fn apply<K: Resource>(&self, object: &K) -> Apply<K> {
        self.resources().apply(object)
    }

    /// Deletes an object.
    pub fn delete<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Delete<K> {
        self.resources().delete(key)
    }

    /// Deletes the objects of one namespace: of the default one, unless another is given.
    pub fn delete_collection<K: Resource>(&self) -> DeleteCollection<K> {
        self.resources().delete_collection()
    }

    /// Reads the scale of an object.
    pub fn get_scale<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Get<Scale> {
        self.resources::<K>().get_scale(key)
    }

    /// Replaces the scale of an object; `scale` names it.
    pub fn update_scale<K: Resource>(&self, scale: &Scale) -> Update<Scale> {
        self.resources::<K>().update_scale(scale)
    }

    /// Changes the scale of an object.
    pub fn patch_scale<K: Resource>(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<Scale> {
        self.resources::<K>().patch_scale(key, patch)
    }

    // === requests ===

    /// Sends a request as it is, with the client's credentials, and gives the answer as it is, failures included. The body
    /// of the answer may take as long as it takes.
    pub async fn request(&self, request: Request<impl Into<Body>>) -> Result<Response<Body>> {
        let operation = Operation::request(request.uri().path());
        let outcome = self.send(request.map(Into::into), &operation, Reading::Stream).await;
        outcome.map_err(|error| Error::new(operation, ListWatchError::Transport(error)))
    }

    /// Sends a request and decodes the answer; an answer that is no success is an error.
    pub async fn request_json<T: DeserializeOwned>(&self, request: Request<impl Into<Body>>) -> Result<T> {
        let operation = Operation::request(request.uri().path());
        let answer = async {
            let response = self.execute(request, &operation).await?;
            response::decode(response, self.response_limit()).await
        };
        let outcome = answer.await;
        outcome.map_err(|error| Error::new(operation, error))
    }

    /// Sends a request and gives the body of the answer as it comes, for as long as it takes; an answer that is no success
    /// is an error.
    pub async fn request_stream(&self, request: Request<impl Into<Body>>) -> Result<Body> {
        let operation = Operation::request(request.uri().path());
        let outcome = self.execute_as(request, &operation, Reading::Stream).await;
        outcome.map(Response::into_body).map_err(|error| Error::new(operation, error))
    }

    /// Sends a request with an `Upgrade` header, and gives the connection once the server has switched to what it asks
    /// for; the answer's headers say to what. An answer that does not switch is an error.
    ///
    /// The connection is one of its own, speaks HTTP/1.1 up to the switch, and is closed when it is dropped.
    pub async fn upgrade(&self, request: Request<impl Into<Body>>) -> Result<(Response<()>, Upgraded)> {
        let operation = Operation::request(request.uri().path());
        let outcome = self.switch(request.map(Into::into), &operation).await;
        outcome.map_err(|error| Error::new(operation, error))
    }

    /// [`Self::upgrade`] for an operation of any name.
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

    /// Sends a request whose answer is read as those of its verb are; an answer that is no success is an error.
    pub(crate) async fn execute(
        &self,
        request: Request<impl Into<Body>>,
        operation: &Operation,
    ) -> Result<Response<Body>, ListWatchError> {
        self.execute_as(request, operation, Reading::of(operation.verb)).await
    }

    /// Sends a request; an answer that is no success is an error.
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

    /// Sends a request and gives the answer, whatever it is.
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

#[cfg(test)]
mod answers_tests;
#[cfg(test)]
mod cancellation_tests;
#[cfg(test)]
mod tests;
