//! HTTP request handling on top of the registry.
//!
//! A request passes these steps in order: routing by its path alone ([`RequestInfo`]), authentication, impersonation,
//! priority and fairness ([`FlowControl`](crate::flow_control::FlowControl)), authorization, then the endpoint, here or at
//! another API server ([`aggregation`]). Each failure becomes a `Status` in a form that the client accepts. Texts, codes and
//! headers are kube-apiserver's, byte for byte, including its plain-text answers for unknown paths.
//!
//! This module does not depend on a socket. A request runs in the future that [`handle`] returns and in the response
//! body. No task runs in the background, so dropping both ends the request.

use std::{
    net::IpAddr,
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, TryFutureExt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use tokio::time::{self, Instant};
use windlass_api::Status;

use crate::{
    aggregation::Remotes,
    audit::{self, AuditContext, AuditedFailure, AuditedRequest, RequestAudit},
    authn::{self, Authenticated, Credentials},
    authz::AccessAttributes,
    bootstrap,
    codec::Offer,
    discovery::{self, Document},
    encoded::Style,
    flow_control::Schema,
    health,
    identity::User,
    kubernetes::KubernetesVersion,
    offload::offload,
    openapi,
    request::{self, Query, RequestInfo, ResourcePath},
    resource::{ResourceInfo, ResourceTable},
    state::{State, Stopping},
    tls::ClientCertificate,
    warning::Warnings,
};

mod body;
mod compress;
mod delete_options;
mod failure;
mod fairness;
mod forward;
mod issuer;
mod json;
mod logs;
mod media;
mod operation;
mod options;
mod pieces;
mod protocol;
mod read;
mod remote_command;
mod resource;
mod respond;
mod watch;
mod websocket;
mod zpages;

pub(crate) use self::body::Frames;
pub use self::body::{Body, BodyError};
use self::{
    failure::Failure,
    media::{Encoding, Endpoint, ErrorEncoding},
};
pub(crate) use self::{
    failure::too_many_requests,
    protocol::{Channels, MessageType, UpgradedProtocol},
    read::RequestBody,
};

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// The origin of a request.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) trust: Trust,
    pub(crate) stopping: Stopping,
    /// The client's address. `None` for requests in process.
    pub(crate) remote: Option<IpAddr>,
    /// The connection can continue with another protocol: WebSocket or SPDY.
    pub(crate) is_upgradable: bool,
}

/// The basis for authenticating a request.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// A known user in this process. No credentials are necessary.
    InProcess(Arc<User>),
    /// A user identified by the connection's certificate or by headers.
    Socket(ClientCertificate),
}

/// A request whose body has not been read yet.
#[derive(Debug)]
pub(crate) struct Exchange {
    method: Method,
    info: RequestInfo,
    query: Query,
    /// The query as received.
    raw_query: Option<String>,
    headers: HeaderMap,
    warnings: Warnings,
    stopping: Stopping,
    /// The client's address. `None` for requests in process.
    remote: Option<IpAddr>,
    /// The connection can continue with another protocol: WebSocket or SPDY.
    is_upgradable: bool,
    audit_id: HeaderValue,
    /// The end of the time limit, if there is one.
    deadline: Option<Instant>,
    /// The user for whom the request runs. Empty before authentication.
    user: Arc<User>,
    audit: AuditContext,
}

/// Answers a request. Every failure, including a panic, becomes a response.
pub(crate) async fn handle(server: Arc<State>, origin: Origin, request: http::Request<RequestBody>) -> Response<Body> {
    let (Parts { method, uri, headers, .. }, body) = request.into_parts();
    let query = Query::parse(uri.query().unwrap_or_default());
    let warnings = Warnings::default();
    let audit_id = headers.get(AUDIT_ID).cloned();
    let audit_id = audit_id.unwrap_or_else(|| {
        let id = server.entropy().uuid();
        HeaderValue::from_str(&id).expect("a UUID consists of hexadecimal digits and dashes")
    });
    let encoding = media::negotiate_error(&headers, &query, server.offer);
    let head = method == Method::HEAD;
    let received = server.audit().map(|_| server.clock().now()).unwrap_or_default();
    let mut audit = RequestAudit::default();
    let mut schema = None;
    // Boxed because the future is large and is moved several times.
    let answer = Box::pin(async {
        if !request::is_well_formed(uri.path()) {
            return Err(Failure::Malformed);
        }
        let info = RequestInfo::new(&method, uri.path(), &query)?;
        let mut exchange = Exchange {
            method,
            info,
            query,
            raw_query: uri.query().map(str::to_owned),
            headers,
            warnings: warnings.clone(),
            stopping: origin.stopping.clone(),
            remote: origin.remote,
            is_upgradable: origin.is_upgradable,
            audit_id: audit_id.clone(),
            deadline: None,
            user: Arc::default(),
            audit: AuditContext::default(),
        };
        let limit = exchange.time_limit(&server).ok().flatten();
        exchange.deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        if exchange.info.resource.is_some() {
            let started = pin!(server.registry().map_ok(drop).map_err(Failure::from));
            until(exchange.deadline, started).await?;
        }
        let audited = AuditedRequest {
            uri: uri.path_and_query().map_or("/", |target| target.as_str()),
            audit_id: audit_id.as_bytes(),
            headers: &exchange.headers,
            info: &exchange.info,
            remote: origin.remote,
            received,
        };
        let checked = {
            let checked = pin!(check(&server, &origin.trust, &exchange));
            until(exchange.deadline, checked).await
        };
        let Authenticated { user: caller, annotations } = match checked {
            Ok(caller) => caller,
            Err(failure) => {
                audit::failed(server.audit(), &audited, &exchange.audited_failure(&failure, encoding, &origin.trust))
                    .await;
                return Err(failure);
            }
        };
        let begun = RequestAudit::begin(server.audit(), &audited, &caller).await;
        audit = begun.map_err(|_| exchange.internal("failed to store audit event"))?;
        exchange.audit = annotated(audit.context(), annotations);
        answer_caller(&server, exchange, caller, body, &mut schema).await
    });
    let mut response = match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(Ok(response)) => response,
        Ok(Err(failure)) => {
            let encoding = encoding.of_code(failure.code());
            if let Some(status) = failure.negotiated(encoding) {
                audit.context().record_status(status);
            }
            failure.response(encoding)
        }
        Err(panic) => {
            std::mem::take(&mut audit).panicked(panic).await;
            tracing::error!(uri = %uri, "the server panicked in a request");
            let message = "This request caused apiserver to panic. Look in the logs for details.\n";
            respond::text(StatusCode::INTERNAL_SERVER_ERROR, message)
        }
    };
    if head {
        // hyper drops the body itself for HTTP/1 only.
        *response.body_mut() = Body::whole("");
    }
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_id);
    fairness::add_headers(schema.as_deref(), headers);
    headers.entry(header::CACHE_CONTROL).or_insert(NO_CACHE);
    for warning in warnings.headers() {
        headers.append(header::WARNING, warning);
    }
    if audit.is_enabled() { audited(audit, response).await } else { response }
}

/// Records a response in the audit log, a complete one before it is sent.
async fn audited(mut audit: RequestAudit, response: Response<Body>) -> Response<Body> {
    audit.respond(response.status().as_u16()).await;
    if response.body().length().is_some() {
        audit.complete().await;
        return response;
    }
    response.map(|body| body.followed_by(audit.complete()))
}

/// Returns the event of a request with the annotations of its authentication.
fn annotated(audit: &AuditContext, annotations: Vec<(&'static str, String)>) -> AuditContext {
    for (key, value) in annotations {
        audit.annotate(key, value);
    }
    audit.clone()
}

/// Answers the request of an authenticated caller as soon as it may run. Sets the schema of the request.
async fn answer_caller(
    server: &Arc<State>,
    mut exchange: Exchange,
    caller: Arc<User>,
    body: RequestBody,
    schema: &mut Option<Arc<Schema>>,
) -> Result<Response<Body>, Failure> {
    let deadline = exchange.deadline;
    exchange.user = {
        let impersonated = pin!(impersonate(server, caller, &exchange));
        until(deadline, impersonated).await?
    };
    let outcome = fairness::enter(server, &exchange).await;
    let class = outcome.class;
    *schema = outcome.schema;
    let running = outcome.admitted.map_err(|retry_after| Failure::Overload { retry_after })?;
    {
        let authorized = pin!(authorize(server, &exchange));
        until(deadline, authorized).await?;
    }
    let remotes = server.aggregation().remotes();
    let _running = Some(running).filter(|_| fairness::keeps_seats(&exchange, &remotes));
    // Pinned before it gets its class, because the future is large.
    let answered = pin!(answer(server, exchange, body, &remotes));
    let response = until(deadline, pin!(class.scope(answered))).await?;
    Ok(response.map(|body| body.of_class(class)))
}

/// Drops the work of a request at its deadline. A commit that the storage has received may happen.
async fn until<T>(
    deadline: Option<Instant>,
    work: Pin<&mut impl Future<Output = Result<T, Failure>>>,
) -> Result<T, Failure> {
    match deadline {
        Some(deadline) => time::timeout_at(deadline, work).await.unwrap_or(Err(Failure::TimedOut)),
        None => work.await,
    }
}

/// Checks the timeout of a request, and returns the user who sends it.
async fn check(server: &State, trust: &Trust, exchange: &Exchange) -> Result<Authenticated, Failure> {
    exchange.time_limit(server)?;
    match trust {
        Trust::InProcess(user) => Ok(user.clone().into()),
        Trust::Socket(certificate) => {
            let credentials = Credentials { certificate, headers: &exchange.headers, path: &exchange.info.path };
            let user = server.authenticator().authenticate(server, credentials, &exchange.warnings).await;
            user.map_err(Failure::Unauthorized)
        }
    }
}

/// Returns the user for whom a request runs, who may differ from the caller.
async fn impersonate(server: &State, caller: Arc<User>, exchange: &Exchange) -> Result<Arc<User>, Failure> {
    let Exchange { info, headers, audit, .. } = exchange;
    let impersonated = authn::impersonated(server, server.authenticator(), &caller, info, headers).await;
    let impersonated = impersonated.map_err(|status| {
        // Before 1.35, invalid headers are internal errors.
        if status.code == 400 && server.choices.kubernetes < KubernetesVersion::V1_35 {
            exchange.internal(status.message)
        } else {
            Failure::Unauthorized(status)
        }
    })?;
    Ok(match impersonated {
        Some(impersonated) => {
            audit.record_impersonation(&impersonated.user, impersonated.constraint);
            impersonated.user
        }
        None => caller,
    })
}

/// Returns an error unless the user of a request has the permission.
async fn authorize(server: &State, exchange: &Exchange) -> Result<(), Failure> {
    let Exchange { info, audit, user, .. } = exchange;
    let attributes = AccessAttributes::of(info);
    let decision = server.decide(user, &attributes).await;
    if audit.is_enabled() {
        match &decision {
            Ok(decision) if decision.is_allowed() || decision.problem().is_empty() => {
                let shown = if decision.is_allowed() { "allow" } else { "forbid" };
                audit.annotate("authorization.k8s.io/decision", shown);
                audit.annotate("authorization.k8s.io/reason", decision.reason());
            }
            _ => audit.annotate("authorization.k8s.io/reason", "internal error"),
        }
    }
    decision.and_then(|decision| decision.require(user, &attributes)).map_err(Failure::Unauthorized)
}

/// Answers an authorized request. Most requests are for resources, so these are routed first.
async fn answer(
    server: &Arc<State>,
    exchange: Exchange,
    body: RequestBody,
    remotes: &Remotes,
) -> Result<Response<Body>, Failure> {
    if exchange.info.path.starts_with("//") {
        return Err(Failure::NotFound);
    }
    if let Some(api) = &server.choices.extension {
        let is_own = exchange.info.resource.as_ref().is_none_or(|resource| api.has_group(&resource.group));
        if !is_own {
            return Err(Failure::NotFound);
        }
    }
    let path = exchange.info.path.as_str();
    if let Some(remote) = remotes.route(path).or_else(|| remotes.openapi_route(path)) {
        return forward::forward(server, &exchange, remote, body).await;
    }
    match &exchange.info.resource {
        // The legacy proxy verb is recognized for authorization, but no longer served.
        _ if exchange.info.verb == "proxy" => Err(Status::unknown_resource().into()),
        Some(resource) => answer_resource(server, &exchange, resource, body).await,
        None => match answer_server_endpoint(server, &exchange).await? {
            Some(response) => Ok(response),
            None => answer_discovery(server, &exchange).await,
        },
    }
}

/// Answers a request for objects.
async fn answer_resource(
    server: &Arc<State>,
    exchange: &Exchange,
    resource: &ResourcePath,
    body: RequestBody,
) -> Result<Response<Body>, Failure> {
    let registry = server.registry().await?;
    if bootstrap::is_deferred(&resource.group) {
        server.ensure_deferred().await?;
    }
    let response = resource::answer(server, registry, exchange, resource, body).await?;
    if exchange.info.is_long_running() {
        return Ok(response);
    }
    Ok(compress::compress(response, exchange.header(header::ACCEPT_ENCODING)).await)
}

/// Answers a request about the server itself: health, version, metrics, and the issuer of tokens.
async fn answer_server_endpoint(server: &Arc<State>, exchange: &Exchange) -> Result<Option<Response<Body>>, Failure> {
    let path = exchange.info.path.as_str();
    if let Some(report) = health::probe(server, path, &exchange.query_pairs()).await {
        return Ok(Some(respond::report(report)));
    }
    if matches!(path, "/version" | "/version/") {
        exchange.only_get()?;
        media::accepts_only_json(&exchange.headers)?;
        return Ok(Some(respond::document(
            StatusCode::OK,
            health::version(server.choices.kubernetes),
            Encoding::PrettyJson,
        )));
    }
    if let Some(page) = zpages::answer(server, exchange) {
        return match (page, media::negotiate_error(&exchange.headers, &exchange.query, Offer::Stable)) {
            (Ok(page), _) => Ok(Some(page)),
            // These paths do not offer protobuf, also not for errors.
            (Err(error), ErrorEncoding::As(Encoding::Protobuf)) => {
                Ok(Some(respond::status(&error, ErrorEncoding::Forced)))
            }
            (Err(error), _) => Err(Failure::Status(error)),
        };
    }
    if path == "/metrics" {
        let audit = server.audit().map(|audit| audit.metrics().text()).unwrap_or_default();
        let text = audit + &server.metrics().text() + &server.flow_control().metrics();
        let text = Body::whole(text + &server.aggregation().remotes().metrics());
        return Ok(Some(respond::respond(StatusCode::OK, respond::METRICS, text)));
    }
    if let Some(document) = server.flow_control().debug_document(path) {
        return Ok(Some(respond::respond(StatusCode::OK, respond::TEXT, Body::whole(document))));
    }
    issuer::document(server, path).map(|document| issuer::answer(exchange, &document)).transpose()
}

/// Answers a request for the index, for discovery or for OpenAPI.
async fn answer_discovery(server: &Arc<State>, exchange: &Exchange) -> Result<Response<Body>, Failure> {
    let path = exchange.info.path.as_str();
    let registry = server.registry().await?;
    let table = match &server.choices.extension {
        Some(api) => Arc::new(api.visible(&registry.resources())),
        None => registry.resources(),
    };
    if matches!(path, "/" | "/index.html") {
        let compact = json::encode(&health::index(server, &table));
        return Ok(respond::document(StatusCode::OK, compact, Encoding::PrettyJson));
    }
    let accept = exchange.header(header::ACCEPT);
    let known = exchange.header(header::IF_NONE_MATCH);
    if is_route(path, &table) {
        exchange.only_get()?;
        media::route_accepts(accept.unwrap_or_default(), Endpoint::Object, Offer::Stable)?;
    }
    if is_foreign(path, &table) {
        return Err(Failure::NotFound);
    }
    let remotes = server.aggregation().remotes();
    let foreign = remotes.versions();
    let address = server.address().to_string();
    let generation = remotes.generation();
    let request =
        discovery::Request { path, accept, if_none_match: known, address: &address, foreign: &foreign, generation };
    let document = if let Some(document) = discovery::answer(&table, &request) {
        let document = document?;
        if exchange.audit.wants_response()
            && document.status == 200
            && document.content_type.starts_with(Encoding::Json.media_type())
        {
            exchange.audit.record_response(document.body.trim_ascii_end().to_vec().into());
        }
        document
    } else {
        describe(server, exchange, table, &remotes).await?
    };
    let encoding = match media::negotiate_error(&exchange.headers, &exchange.query, Offer::Stable) {
        ErrorEncoding::As(encoding) => encoding,
        ErrorEncoding::Forced => Encoding::Json,
    };
    Ok(respond::generated_document(document, encoding))
}

/// Returns an OpenAPI document. It is generated outside of the runtime.
async fn describe(
    server: &Arc<State>,
    exchange: &Exchange,
    table: Arc<ResourceTable>,
    remotes: &Remotes,
) -> Result<Document, Failure> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let path = exchange.info.path.clone();
    let query = exchange.raw_query.clone();
    let accept = owned(exchange.header(header::ACCEPT));
    let known = owned(exchange.header(header::IF_NONE_MATCH));
    let (foreign, foreign_paths) = (remotes.openapi_paths(), remotes.openapi_v2());
    let server = Arc::clone(server);
    let document = offload(move || {
        let request = openapi::Request {
            path: &path,
            query: query.as_deref(),
            accept: accept.as_deref(),
            if_none_match: known.as_deref(),
            descriptions: server.descriptions(),
            now: server.clock().now(),
            foreign: &foreign,
            foreign_paths: &foreign_paths,
        };
        openapi::answer(&table, &request)
    });
    document.await?.ok_or(Failure::NotFound)
}

/// Reports whether kube-apiserver has a separate route for a discovery path, with one method and fixed media types.
/// These are `/api` and the versions of built-in groups. The other paths (lists of groups, groups, versions of custom
/// resources) accept any method.
fn is_route(path: &str, table: &ResourceTable) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["api"] => true,
        ["api", version] => table.has_version("", version),
        ["apis", group, version] => {
            let found = |resource: &ResourceInfo| resource.group == group && resource.version == version;
            table.iter().any(|resource| found(resource) && resource.shape.style() == Style::BuiltIn)
        }
        _ => false,
    }
}

/// Reports whether a path names a missing version of a custom resource group. For built-in groups the answer is a
/// `Status` instead.
fn is_foreign(path: &str, table: &ResourceTable) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let ["apis", group, version] = parts[..] else { return false };
    let built_in = |resource: &ResourceInfo| resource.group == group && resource.shape.style() == Style::BuiltIn;
    !table.has_version(group, version) && !table.iter().any(built_in)
}

impl Exchange {
    /// Returns the path and the query.
    fn target(&self) -> String {
        let query = self.raw_query.as_ref().map(|query| format!("?{query}"));
        format!("{}{}", self.info.path, query.unwrap_or_default())
    }

    /// Returns the status of a request that failed before or in its authentication, as the audit log contains it.
    fn audited_failure(&self, failure: &Failure, encoding: ErrorEncoding, trust: &Trust) -> AuditedFailure {
        let code = failure.code();
        if let Some(status) = failure.negotiated(encoding) {
            return AuditedFailure { status: status.clone(), code, is_response: true };
        }
        let authorization = self.header(header::AUTHORIZATION).unwrap_or_default().trim();
        let scheme = authorization.split_once(' ').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let attempts = [
            ("basic", scheme.as_deref() == Some("basic")),
            ("bearer", scheme.as_deref() == Some("bearer")),
            ("access_token", self.query.text("access_token").is_some()),
            ("x509", !matches!(trust, Trust::Socket(ClientCertificate::Nothing))),
        ];
        let attempted: Vec<_> = attempts.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect();
        let message = if attempted.is_empty() {
            "Authentication failed, no credentials provided".to_owned()
        } else {
            format!("Authentication failed, attempted: {}", attempted.join(", "))
        };
        AuditedFailure { status: Status { message, ..Status::default() }, code, is_response: false }
    }

    /// Returns the error of a request that cannot be processed.
    fn internal(&self, why: impl Into<String>) -> Failure {
        Failure::Internal { target: self.target(), why: why.into() }
    }

    fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Reports whether the response can be sent over a WebSocket, and the client asks for it.
    fn is_handshake(&self) -> bool {
        self.is_upgradable && self.method == Method::GET && authn::is_handshake(&self.headers)
    }

    /// Returns the time for the request, if it is limited.
    fn time_limit(&self, server: &State) -> Result<Option<Duration>, Status> {
        let limit = || options::time_limit(&self.query, server.request_timeout);
        self.info.has_time_limit().then(limit).transpose()
    }

    fn only_get(&self) -> Result<(), Status> {
        if self.method == Method::GET { Ok(()) } else { Err(Status::method_not_allowed()) }
    }

    fn query_pairs(&self) -> health::Options<'_> {
        health::Options { verbose: self.query.get("verbose").is_some(), exclude: self.query.all("exclude").collect() }
    }
}
