//! Requests for resources: dispatches a path and a method to a verb of the registry, and renders the result.

use std::{borrow::Cow, panic::resume_unwind, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Body as _;
use tokio::{sync::Semaphore, time};
use windlass_api::{PatchKind, Status, StatusDetails, reason};

use super::{
    Exchange, Failure,
    body::Body,
    delete_options, logs,
    media::{self, Endpoint, ErrorEncoding, View},
    operation::{Operation, is_built_in},
    options::{WriteOptions, delete_params, delete_params_of, list_params, watch_params},
    protocol::MessageType,
    read::{self, RequestBody},
    remote_command,
    respond::{self, Renderer},
    until, watch, websocket,
};
use crate::request::ResourcePath;
use crate::{
    codec::{Offer, cbor_message, from_cbor},
    connect::{Connected, Connection},
    kubernetes::KubernetesVersion,
    metrics::{Meter, RequestLabels, Scope, Verb},
    offload::{LARGE, offload, offload_future},
    registry::{
        self, DeleteParams, GetParams, PatchType, Registry, ResponseBody, ScopeSize, WebhookCalls, WriteParams, Written,
    },
    resource::{Body as ObjectBody, Conversions, ListItem, ResourceInfo, Target},
    reviews::{self, ReviewContext},
    state::State,
    table::{self, IncludeObject},
    trace_context::TraceContext,
    turns::Class,
};

/// The media type of a patch for server-side apply in CBOR.
const APPLY_CBOR: &str = windlass_cbor::APPLY_MEDIA_TYPE;

/// The time limit of a write of one object, as in kube-apiserver. It begins when the body was received.
const WRITE_LIMIT: Duration = Duration::from_secs(34);

/// The writes that may run at once without their requests. Clients that send writes and disconnect must not collect them.
static FINISHING: Semaphore = Semaphore::const_new(256);

/// A request for a supported operation on an existing resource.
struct Request<'r> {
    server: &'r State,
    exchange: &'r Exchange,
    registry: &'r Registry,
    target: Target,
    /// The type of the endpoint: an object or a collection, of a built-in kind or a custom resource.
    endpoint: Endpoint,
    meter: &'r Meter<'r>,
}

/// Answers a request for a resource.
pub(super) async fn answer(
    server: &State,
    registry: &Registry,
    exchange: &Exchange,
    path: &ResourcePath,
    body: RequestBody,
) -> Result<Response<Body>, Failure> {
    let table = registry.resources();
    let Some(resource) = table.get(&path.group, &path.version, &path.resource) else {
        let built_in = |resource: &ResourceInfo| resource.group == path.group && is_built_in(resource);
        let known = path.group.is_empty() || table.iter().any(built_in);
        return Err(if known { Status::unknown_resource().into() } else { Failure::NotFound });
    };
    if let Some(connection) = connection(path, resource) {
        return connect(server, registry, exchange, path, resource, connection).await;
    }
    let operation = Operation::of(&exchange.method, path, resource)?;
    let namespace = if resource.is_namespaced() { path.namespace.clone() } else { None };
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let name = if path.legacy_watch { None } else { some(&path.name) };
    let target = Target { resource: Arc::clone(resource), namespace, name, subresource: some(&path.subresource) };
    let endpoint = match (is_built_in(resource), operation) {
        (false, _) => Endpoint::Custom,
        (true, Operation::List | Operation::Watch) => Endpoint::Collection,
        (true, _) if table::is_printed(resource, &path.subresource) => Endpoint::Object,
        (true, _) => Endpoint::Unprinted,
    };
    record_deprecation(exchange, resource);
    let meter = server.metrics().begin(request_labels(exchange, path, resource, operation));
    let request = Request { server, exchange, registry, target, endpoint, meter: &meter };
    // Boxed to keep the future of a get small.
    let answer = {
        let answered = pin!(async {
            match operation {
                Operation::Get => request.get().await,
                Operation::List => Box::pin(request.list()).await,
                Operation::Watch => Box::pin(request.watch(&path.name)).await,
                Operation::Create => Box::pin(request.create(body)).await,
                Operation::Update => Box::pin(request.update(body)).await,
                Operation::Patch => Box::pin(request.patch(body)).await,
                Operation::Delete => Box::pin(request.delete(body)).await,
                Operation::DeleteCollection => Box::pin(request.delete_collection(body)).await,
            }
        });
        until(exchange.deadline, answered).await
    };
    if matches!(answer, Err(Failure::TimedOut)) {
        tracing::debug!(method = %exchange.method, target = exchange.target(), "a request has timed out");
    }
    meter.record_response(answer.as_ref().map_or_else(Failure::code, |response| response.status().as_u16()));
    answer
}

/// Records in the audit log that the resource is deprecated, and the version without it.
fn record_deprecation(exchange: &Exchange, resource: &ResourceInfo) {
    const REMOVED: &str = "unavailable in v";
    if let Some(warning) = resource.deprecation.as_deref().filter(|_| exchange.audit.is_enabled()) {
        exchange.audit.annotate("k8s.io/deprecated", "true");
        if let Some((_, rest)) = warning.split_once(REMOVED) {
            let version: String = rest.chars().take_while(|char| char.is_ascii_digit() || *char == '.').collect();
            exchange.audit.annotate("k8s.io/removed-release", version);
        }
    }
}

/// Returns the labels for the request's metrics.
fn request_labels<'r>(
    exchange: &Exchange,
    path: &'r ResourcePath,
    resource: &'r ResourceInfo,
    operation: Operation,
) -> RequestLabels<'r> {
    let verb = match operation {
        _ if exchange.info.is_long_running() => Verb::Watch,
        Operation::Get => Verb::Get,
        Operation::List => Verb::List,
        Operation::Watch => Verb::Watch,
        Operation::Create => Verb::Post,
        Operation::Update => Verb::Put,
        Operation::Patch if is_apply(media::content_type(&exchange.headers)) => Verb::Apply,
        Operation::Patch => Verb::Patch,
        Operation::Delete | Operation::DeleteCollection => Verb::Delete,
    };
    let scope = match (path.name.is_empty(), &path.namespace) {
        _ if operation == Operation::Create => Scope::Resource,
        (false, _) => Scope::Resource,
        (true, Some(_)) => Scope::Namespace,
        (true, None) => Scope::Cluster,
    };
    RequestLabels {
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        subresource: &path.subresource,
        verb,
        scope,
        dry_run: exchange.query.get("dryRun").is_some(),
    }
}

/// Returns the connection that a path requests, if any.
fn connection(path: &ResourcePath, resource: &ResourceInfo) -> Option<Connection> {
    let whole = !path.legacy_watch && resource.is_namespaced() != path.namespace.is_none();
    let connection = Connection::of(&path.resource, &path.subresource);
    let connection = connection.filter(|_| whole && path.group.is_empty() && is_built_in(resource))?;
    let served = resource.subresource(&path.subresource).is_some();
    (served && (path.rest.is_empty() || connection.is_proxy())).then_some(connection)
}

async fn connect(
    server: &State,
    registry: &Registry,
    exchange: &Exchange,
    path: &ResourcePath,
    resource: &Arc<ResourceInfo>,
    connection: Connection,
) -> Result<Response<Body>, Failure> {
    if !connection.accepts_method(&exchange.method) {
        return Err(Status::method_not_allowed().into());
    }
    let target = Target::object(resource, path.namespace.as_deref(), &path.name).subresource(&path.subresource);
    if connection.is_admitted() {
        if exchange.query.get("dryRun").is_some() {
            return Err(Status::bad_request("dryRun is not supported").into());
        }
        let options = connection.options(&exchange.query, &exchange.info.passed_path())?;
        let (user, warnings, name) = (exchange.user.clone(), exchange.warnings.clone(), path.name.clone());
        let trace = TraceContext::of(&exchange.headers);
        let audit = exchange.audit.clone();
        let context =
            registry::RequestContext { user, warnings, audit, trace, name, ..registry::RequestContext::default() };
        registry.admit_connection(&target, options, context).await?;
    }
    match connection.connect(registry, server.containers.as_deref(), &target, &exchange.query).await? {
        Connected::Nothing => {
            let mut response = Response::new(Body::whole(Bytes::new()));
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok(response)
        }
        Connected::Log(log) => Ok(logs::answer(registry, &exchange.stopping, *log).await?),
        Connected::Command(command) => remote_command::answer(exchange, *command),
    }
}

impl Request<'_> {
    async fn get(self) -> Result<Response<Body>, Failure> {
        let renderer = self.renderer()?;
        let resource_version = self.exchange.query.text("resourceVersion").map(str::to_owned);
        let item = self.registry.get(&self.target, GetParams { resource_version }).await?;
        Ok(renderer.object(StatusCode::OK, &item).await?)
    }

    async fn list(self) -> Result<Response<Body>, Failure> {
        if self.exchange.info.is_long_running() {
            return self.watch("").await;
        }
        let renderer = self.renderer()?;
        let params = list_params(&self.exchange.query)?;
        self.registry.wait_for_list_lag(&self.target, &params).await;
        let list = self.registry.list_compact(&self.target, params).await?;
        if let (Some(path), Some(ScopeSize { count, read, bytes })) = (&self.exchange.info.resource, list.scope) {
            self.server.flow_control().objects().record(path, count, read, bytes);
        }
        Ok(renderer.list(list).await?)
    }

    async fn watch(self, name: &str) -> Result<Response<Body>, Failure> {
        let Exchange { headers, query, .. } = self.exchange;
        let params = watch_params(query, name)?;
        let representation = media::negotiate_watch(headers, query, self.endpoint, self.server.offer)?;
        let include = self.include(representation.view)?;
        self.warn_if_deprecated();
        let session = self.registry.watch(&self.target, params).await?;
        let clock = self.registry.clock().clone();
        let (stopping, watching) = (self.exchange.stopping.clone(), self.meter.record_watch());
        let descriptions = self.server.descriptions().clone();
        let rendering = watch::Rendering { representation, include, descriptions, clock };
        let counted = self.server.flow_control().watches().register(&self.exchange.info, query);
        let initial = session.initial_bytes();
        let frames = watch::frames(session, rendering, stopping, watching, counted);
        if self.exchange.is_handshake() {
            let messages = frames.map(move |frame| watch::message(frame, representation.encoding));
            let messages = Body::frames(messages).with_initial(initial);
            return Ok(websocket::accept(headers, messages, MessageType::of(representation.encoding)));
        }
        let content_type = HeaderValue::from_static(representation.encoding.stream_type());
        Ok(respond::respond(StatusCode::OK, content_type, Body::frames(frames).with_initial(initial)))
    }

    async fn create(self, body: RequestBody) -> Result<Response<Body>, Failure> {
        let renderer = self.renderer()?;
        let body = self.object(body).await?;
        let params = self.write_params(self.write_options("CreateOptions")?);
        let written = if reviews::is_review(&self.target) {
            let review_context =
                ReviewContext { server: self.server, registry: self.registry, user: &self.exchange.user };
            reviews::answer(&review_context, &self.target, &body, &params).await?
        } else if self.target.resource.plural == "bindings" && self.target.resource.group.is_empty() {
            self.registry.create_binding(&self.target, &body, &params).await?
        } else {
            let size = size(&body);
            self.write(size, |registry, target| async move { registry.create(&target, body, params).await }).await?
        };
        self.written(&renderer, written).await
    }

    async fn update(self, body: RequestBody) -> Result<Response<Body>, Failure> {
        let renderer = self.renderer()?;
        // For updates the options are validated before the body is read, as in kube-apiserver.
        let params = self.write_params(self.write_options("UpdateOptions")?);
        let body = self.object(body).await?;
        let size = size(&body);
        let update = |registry: Registry, target| async move { registry.update(&target, body, params).await };
        let written = self.write(size, update).await?;
        self.written(&renderer, written).await
    }

    async fn patch(self, body: RequestBody) -> Result<Response<Body>, Failure> {
        let kind = self.patch_kind(&body)?;
        let renderer = self.renderer()?;
        let mut body = read::read(&self.exchange.headers, body).await?;
        if media::content_type(&self.exchange.headers) == APPLY_CBOR {
            body = json_of_cbor(body).await?;
        }
        let options = WriteOptions::parse_patch(&self.exchange.query, kind, &self.user_agent(), self.kubernetes())?;
        self.exchange.audit.record_patch(&body, kind == PatchKind::Apply);
        // A small patch of a large object is much work, too.
        let size = body.len().max(self.registry.recent_size(&self.target).await);
        let patch = match kind {
            PatchKind::Json => PatchType::Json,
            PatchKind::Merge => PatchType::Merge,
            PatchKind::Strategic => PatchType::Strategic,
            PatchKind::Apply => {
                let (force, params) = (options.force, self.write_params(options));
                let apply =
                    |registry: Registry, target| async move { registry.apply(&target, &body, force, params).await };
                return self.written(&renderer, self.write(size, apply).await?).await;
            }
        };
        let params = self.write_params(options);
        let patch = |registry: Registry, target| async move { registry.patch(&target, patch, body, params).await };
        self.written(&renderer, self.write(size, patch).await?).await
    }

    async fn delete(self, body: RequestBody) -> Result<Response<Body>, Failure> {
        let renderer = self.renderer()?;
        let params = self.delete_params(body).await?;
        let delete = |registry: Registry, target| async move { registry.delete(&target, params).await };
        let deleted = self.write(0, delete).await?;
        let code = if deleted.accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
        self.answer(&renderer, deleted.answer, code).await
    }

    async fn delete_collection(self, body: RequestBody) -> Result<Response<Body>, Failure> {
        let renderer = self.renderer()?;
        let list = list_params(&self.exchange.query)?;
        let params = self.delete_params(body).await?;
        let delete =
            |registry: Registry, target| async move { registry.delete_collection(&target, params, list).await };
        let list = self.finish(0, delete).await?.try_map(|item| Ok(ListItem::from(item)))?;
        Ok(renderer.list(list).await?)
    }

    /// Runs a write of one object with a body of this size, in at most [`WRITE_LIMIT`].
    async fn write<T, W>(&self, size: usize, write: impl FnOnce(Registry, Target) -> W) -> Result<T, Status>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Status>> + Send + 'static,
    {
        // Pinned in place, because the future is large.
        let finished = pin!(self.finish(size, write));
        time::timeout(WRITE_LIMIT, finished).await.unwrap_or_else(|_| {
            let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
            let details = StatusDetails::default();
            Err(Status::failure(504, reason::TIMEOUT, message).with_details(details))
        })
    }

    /// Runs a write. Large bodies are decoded and validated outside of the runtime. If the kind has claims, it runs to its
    /// end, even if the request ends before: otherwise claims could remain that nothing releases, such as the addresses of
    /// a service.
    async fn finish<T, W>(&self, size: usize, write: impl FnOnce(Registry, Target) -> W) -> Result<T, Status>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Status>> + Send + 'static,
    {
        let (registry, target) = (self.registry.clone(), self.target.clone());
        if !self.target.resource.strategy.has_claims() {
            // The future of a small write, by far the most frequent one, is not moved.
            if size < LARGE {
                return write(registry, target).await;
            }
            return offload_future(Box::pin(write(registry, target))).await?;
        }
        let permit = FINISHING.acquire().await.map_err(Status::internal)?;
        let written = Box::pin(write(registry, target));
        let finished = tokio::spawn(Class::current().scope(async move {
            let _permit = permit;
            if size < LARGE { written.await } else { offload_future(written).await? }
        }));
        finished.await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(cancelled) => Status::internal(cancelled),
        })?
    }

    /// Negotiates the rendering of the response.
    fn renderer(&self) -> Result<Renderer, Failure> {
        let Exchange { headers, query, .. } = self.exchange;
        let representation = media::negotiate(headers, query, self.endpoint, self.server.offer)?;
        self.warn_if_deprecated();
        let now = self.registry.clock().now();
        Ok(Renderer {
            resource: Arc::clone(&self.target.resource),
            representation,
            include: self.include(representation.view)?,
            descriptions: self.server.descriptions().clone(),
            audit: self.exchange.audit.clone(),
            now,
        })
    }

    /// Adds the deprecation warning of the resource. Called only after successful negotiation.
    fn warn_if_deprecated(&self) {
        self.exchange.warnings.extend(self.target.resource.deprecation.clone());
    }

    fn include(&self, view: View) -> Result<IncludeObject, Status> {
        match view {
            View::Table(_) => IncludeObject::parse(self.exchange.query.get("includeObject").unwrap_or_default()),
            _ => Ok(IncludeObject::default()),
        }
    }

    /// Returns the user agent, the default for the field manager. Invalid UTF-8 is accepted, as in Go.
    fn user_agent(&self) -> Cow<'_, str> {
        let agent = self.exchange.headers.get(header::USER_AGENT);
        agent.map(|value| String::from_utf8_lossy(value.as_bytes())).unwrap_or_default()
    }

    async fn object(&self, body: RequestBody) -> Result<ObjectBody, Failure> {
        let format = media::body_format(&self.exchange.headers, self.server.offer)?;
        let bytes = read::read(&self.exchange.headers, body).await?;
        Ok(ObjectBody::Encoded { bytes, format })
    }

    fn write_params(&self, options: WriteOptions) -> WriteParams {
        WriteParams {
            dry_run: options.dry_run,
            field_validation: options.field_validation,
            field_manager: options.field_manager,
            warnings: self.exchange.warnings.clone(),
            audit: self.exchange.audit.clone(),
            user: self.exchange.user.clone(),
            trace: TraceContext::of(&self.exchange.headers),
            conversions: Conversions::default(),
            webhooks: WebhookCalls::Configured,
            options: options.given,
        }
    }

    /// Returns the type of the patch in the body.
    fn patch_kind(&self, body: &RequestBody) -> Result<PatchKind, Status> {
        const FOR_CUSTOM: [&str; 4] =
            ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml", APPLY_CBOR];
        let sent = media::content_type(&self.exchange.headers);
        let custom = self.endpoint == Endpoint::Custom;
        let has_cbor = self.server.offer == Offer::WithCbor;
        let for_custom = &FOR_CUSTOM[..if has_cbor { 4 } else { 3 }];
        match PatchKind::from_media_type(sent) {
            None if has_cbor && sent == APPLY_CBOR => Ok(PatchKind::Apply),
            Some(kind) if !(custom && kind == PatchKind::Strategic) => Ok(kind),
            _ if custom => Err(Status::unsupported_media_type(for_custom)),
            _ => Err(media::unsupported_by_route(self.kubernetes(), !body.is_end_stream())),
        }
    }

    fn kubernetes(&self) -> KubernetesVersion {
        self.server.choices.kubernetes
    }

    fn write_options(&self, kind: &str) -> Result<WriteOptions, Status> {
        WriteOptions::parse(&self.exchange.query, kind, &self.user_agent(), self.kubernetes())
    }

    /// Reads the options of a deletion, from the body if there is one.
    async fn delete_params(&self, body: RequestBody) -> Result<DeleteParams, Failure> {
        let bytes: Bytes = read::read(&self.exchange.headers, body).await?;
        if bytes.is_empty() {
            return Ok(self.with_caller(delete_params(&self.exchange.query, self.kubernetes())?));
        }
        let format = media::body_format(&self.exchange.headers, self.server.offer)?;
        let options = delete_options::decode(&bytes, format, self.kubernetes())?;
        if self.exchange.audit.wants_request() {
            self.exchange.audit.record_request(delete_options::audited(&options));
        }
        Ok(self.with_caller(delete_params_of(&options, self.kubernetes())?))
    }

    fn with_caller(&self, params: DeleteParams) -> DeleteParams {
        let Exchange { user, warnings, audit, headers, .. } = self.exchange;
        let trace = TraceContext::of(headers);
        DeleteParams { user: user.clone(), warnings: warnings.clone(), audit: audit.clone(), trace, ..params }
    }

    async fn written(&self, renderer: &Renderer, written: Written) -> Result<Response<Body>, Failure> {
        let code = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        self.answer(renderer, written.answer, code).await
    }

    async fn answer(
        &self,
        renderer: &Renderer,
        answer: ResponseBody,
        code: StatusCode,
    ) -> Result<Response<Body>, Failure> {
        match answer {
            ResponseBody::Object(item) => Ok(renderer.object(code, &item).await?),
            ResponseBody::Status(status) => Ok(self.status(&status, code)),
        }
    }

    /// Returns a successful response with a `Status` instead of an object.
    fn status(&self, status: &Status, code: StatusCode) -> Response<Body> {
        let (headers, query) = (&self.exchange.headers, &self.exchange.query);
        // A status has no other views than the whole object.
        let offer = self.server.offer;
        let agreed = media::negotiate(headers, query, Endpoint::Object, offer).map(|agreed| agreed.encoding);
        let encoding = agreed.map_or_else(|_| media::negotiate_error(headers, query, offer), ErrorEncoding::As);
        self.exchange.audit.record_status(status);
        let mut response = respond::status(status, encoding);
        *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(code);
        response
    }
}

/// Reports whether a patch is server-side apply.
fn is_apply(media_type: &str) -> bool {
    media_type == PatchKind::Apply.media_type() || media_type == APPLY_CBOR
}

/// Converts a patch for server-side apply to JSON. A large one is converted outside of the runtime.
async fn json_of_cbor(body: Bytes) -> Result<Bytes, Status> {
    // The message of kube-apiserver calls it YAML, too.
    let convert =
        |body: &[u8]| from_cbor(body).map_err(|error| format!("error decoding YAML: {}", cbor_message(&error, body)));
    let converted = if body.len() < LARGE { convert(&body) } else { offload(move || convert(&body)).await? };
    converted.map(Bytes::from).map_err(Status::bad_request)
}

/// Returns the number of bytes of a body that a client sent.
fn size(body: &ObjectBody) -> usize {
    match body {
        ObjectBody::Encoded { bytes, .. } => bytes.len(),
        ObjectBody::Value(_) => 0,
    }
}
