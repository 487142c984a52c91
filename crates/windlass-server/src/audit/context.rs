//! The audit context of a request: collects its event and processes its stages.

use std::{any::Any, borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::HeaderMap;
use parking_lot::Mutex;
use windlass_api::{Status, reason};

use super::{
    Audit,
    backend::Way,
    event::{self, Event, ObjectReference, ResponseStatus},
    policy::{Evaluation, Level, Stage},
};
use crate::{
    identity::User,
    object::dns_subdomain,
    request::{RequestInfo, ResourcePath},
};

/// The subresources whose responses can last.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// The maximum size of the annotations of one event, in bytes. Webhooks can add any number of them.
const ANNOTATION_BYTES: usize = 256 << 10;

/// A request as its audit event reports it.
pub(crate) struct AuditedRequest<'r> {
    /// The path and the query, as received.
    pub(crate) uri: &'r str,
    pub(crate) audit_id: &'r [u8],
    pub(crate) headers: &'r HeaderMap,
    pub(crate) info: &'r RequestInfo,
    pub(crate) remote: Option<std::net::IpAddr>,
    pub(crate) received: jiff::Timestamp,
}

/// Collects the event of a request. Clones share it. The default collects nothing.
#[derive(Clone, Default)]
pub(crate) struct AuditContext(Option<Arc<Inner>>);

struct Inner {
    audit: Arc<Audit>,
    settings: Evaluation,
    event: Mutex<Event>,
}

/// The audit of a request in progress; by default it does nothing. If it is dropped before the response is complete, the client has closed the
/// connection.
#[derive(Default)]
pub(crate) struct RequestAudit {
    context: AuditContext,
    is_long_running: bool,
    has_started: bool,
    is_finished: bool,
}

impl fmt::Debug for AuditContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuditContext").field(&self.level()).finish()
    }
}

impl fmt::Debug for RequestAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestAudit").field("context", &self.context).finish_non_exhaustive()
    }
}

// === impl AuditContext ===

impl AuditContext {
    /// Evaluates the policy. `user` is `None` if the authentication failed.
    pub(super) fn new(audit: &Arc<Audit>, request: &AuditedRequest<'_>, user: Option<&Arc<User>>) -> Self {
        let settings = audit.evaluate(user.map(|user| &**user), request.info);
        if settings.level == Level::None {
            return Self::default();
        }
        let event = Event {
            level: settings.level,
            audit_id: event::go_text(request.audit_id),
            uri: request.uri.to_owned(),
            verb: request.info.verb.clone(),
            user: user.cloned(),
            source_ips: event::source_ips(request.headers, request.remote),
            user_agent: event::user_agent(request.headers),
            object: request.info.resource.as_ref().map(ObjectReference::of),
            received: request.received,
            ..Event::default()
        };
        Self(Some(Arc::new(Inner { audit: Arc::clone(audit), settings, event: Mutex::new(event) })))
    }

    /// Returns the level of the event; [`Level::None`] if the request is not audited.
    pub(crate) fn level(&self) -> Level {
        self.0.as_ref().map_or(Level::None, |inner| inner.settings.level)
    }

    /// Reports whether the request is audited.
    pub(crate) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Reports whether the event contains the object of the request.
    pub(crate) fn wants_request(&self) -> bool {
        self.level() >= Level::Request
    }

    /// Reports whether the event contains the object of the response.
    pub(crate) fn wants_response(&self) -> bool {
        self.level() >= Level::RequestResponse
    }

    /// Adds an annotation. The first value of a key remains.
    pub(crate) fn annotate(&self, key: impl Into<Cow<'static, str>>, value: impl Into<String>) {
        let Some(inner) = &self.0 else { return };
        let annotations = &mut inner.event.lock().annotations;
        annotations.entry(key.into()).or_insert_with(|| value.into());
    }

    /// Adds an annotation of an admission plugin. As in kube-apiserver, its key must be a qualified name with a prefix. An
    /// annotation beyond [`ANNOTATION_BYTES`] is dropped.
    pub(crate) fn annotate_admission(&self, key: String, value: String) {
        let Some(inner) = &self.0 else { return };
        if !is_qualified_name(&key) {
            tracing::warn!(key, "the key of an audit annotation is not a qualified name with a prefix");
            return;
        }
        let annotations = &mut inner.event.lock().annotations;
        let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size + key.len() + value.len() > ANNOTATION_BYTES {
            tracing::warn!(key, "an audit annotation is dropped because the event has too many");
            return;
        }
        annotations.entry(key.into()).or_insert(value);
    }

    /// Records the user for whom the request runs, and the verb of the constrained impersonation mode.
    pub(crate) fn record_impersonation(&self, user: &Arc<User>, constraint: String) {
        if let Some(inner) = &self.0 {
            let mut event = inner.event.lock();
            event.impersonated = Some(Arc::clone(user));
            event.constraint = constraint;
        }
    }

    /// Completes the reference to the object by the metadata of the object in the request: name, namespace, UID and
    /// resourceVersion.
    pub(crate) fn record_metadata(&self, [name, namespace, uid, version]: [&str; 4]) {
        let Some(inner) = &self.0 else { return };
        let mut event = inner.event.lock();
        let object = event.object.get_or_insert_default();
        for (field, text) in [
            (&mut object.name, name),
            (&mut object.namespace, namespace),
            (&mut object.uid, uid),
            (&mut object.resource_version, version),
        ] {
            if field.is_empty() {
                text.clone_into(field);
            }
        }
    }

    /// Records the object of the request in JSON, as the server encodes it.
    pub(crate) fn record_request(&self, json: Vec<u8>) {
        if let Some(inner) = &self.0 {
            let json = inner.trimmed(json.into());
            inner.event.lock().request_object = Some(json);
        }
    }

    /// Records a patch: in JSON, or in YAML for apply. A patch that is neither is omitted. kube-apiserver 1.36 loses the
    /// whole event in that case, and for apply in YAML; later versions convert it, too.
    pub(crate) fn record_patch(&self, patch: &[u8], is_yaml: bool) {
        let Some(inner) = self.0.as_ref().filter(|_| self.wants_request()) else { return };
        let json = event::compact(patch).or_else(|| {
            let decoded = is_yaml.then(|| crate::codec::decode_applied(patch).ok()).flatten()?;
            let mut json = Vec::with_capacity(patch.len());
            crate::encoded::push_json(&decoded.value, &mut json);
            Some(json)
        });
        if let Some(json) = json {
            inner.event.lock().request_object = Some(json.into());
        }
    }

    /// Records the object of the response in JSON, as the server encodes it, without a newline.
    pub(crate) fn record_response(&self, json: Bytes) {
        if let Some(inner) = &self.0
            && self.wants_response()
        {
            let json = inner.trimmed(json);
            inner.event.lock().response_object = Some(json);
        }
    }

    /// Records a status in the response.
    pub(crate) fn record_status(&self, status: &Status) {
        let Some(inner) = &self.0 else { return };
        if self.wants_response() {
            let mut json = Vec::with_capacity(256);
            crate::encoded::push_json(status, &mut json);
            self.record_response(json.into());
        }
        inner.event.lock().status = Some(ResponseStatus { status: Some(Box::new(status.clone())), code: status.code });
    }
}

impl Inner {
    fn trimmed(&self, json: Bytes) -> Bytes {
        if self.settings.omits_managed_fields { event::without_managed_fields(json) } else { json }
    }

    /// Processes a stage, and waits for the backends if they are blocking. Returns an error if a strict backend failed.
    fn process(&self, stage: Stage) -> BoxFuture<'static, bool> {
        self.process_by(stage, Way::Direct)
    }

    /// Queues the event of a stage, after those of the request that are queued.
    fn queue(&self, stage: Stage) {
        // The event is queued at once; only its acknowledgement would have to be awaited.
        drop(self.process_by(stage, Way::Queued));
    }

    fn process_by(&self, stage: Stage, way: Way) -> BoxFuture<'static, bool> {
        if self.settings.omits(stage) {
            return Box::pin(std::future::ready(true));
        }
        self.audit.process(&self.event.lock(), stage, way)
    }
}

// === impl RequestAudit ===

impl RequestAudit {
    /// Begins the audit of an authenticated request, with the stage `RequestReceived`. Returns an error if a strict backend
    /// cannot store the event.
    pub(crate) async fn begin(
        audit: Option<&Arc<Audit>>,
        request: &AuditedRequest<'_>,
        user: &Arc<User>,
    ) -> Result<Self, StoreError> {
        let context = audit.map(|audit| AuditContext::new(audit, request, Some(user))).unwrap_or_default();
        let is_long_running = request.info.verb == "watch" && request.info.resource.is_some()
            || request.info.verb == "proxy"
            || request.info.resource.as_ref().is_some_and(|path| LONG_RUNNING.contains(&&*path.subresource));
        if let Some(inner) = &context.0
            && !inner.process(Stage::RequestReceived).await
        {
            inner.audit.metrics().rejected();
            return Err(StoreError);
        }
        Ok(Self { context, is_long_running, has_started: false, is_finished: false })
    }

    /// Returns the context, to which the request adds.
    pub(crate) fn context(&self) -> &AuditContext {
        &self.context
    }

    /// Reports whether the request is audited.
    pub(crate) fn is_enabled(&self) -> bool {
        self.context.is_enabled()
    }

    /// Records the code of the response, and processes the stage `ResponseStarted` of requests whose responses can last.
    pub(crate) async fn respond(&mut self, code: u16) {
        let Some(inner) = self.context.0.clone() else { return };
        inner.event.lock().status.get_or_insert_default().code = code;
        self.has_started = true;
        if self.is_long_running {
            inner.process(Stage::ResponseStarted).await;
        }
    }

    /// Processes the stage `ResponseComplete`.
    pub(crate) async fn complete(mut self) {
        self.is_finished = true;
        if let Some(inner) = self.context.0.clone() {
            inner.process(Stage::ResponseComplete).await;
        }
    }

    /// Processes the stage `Panic`.
    pub(crate) async fn panicked(mut self, payload: Box<dyn Any + Send>) {
        self.is_finished = true;
        let Some(inner) = self.context.0.clone() else { return };
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        let status = Status::failure(500, reason::INTERNAL_ERROR, format!("APIServer panic'd: {text}"));
        drop(payload);
        inner.event.lock().status = Some(ResponseStatus { status: Some(Box::new(status)), code: 500 });
        inner.process(Stage::Panic).await;
    }
}

/// The error of a strict backend.
#[derive(Debug)]
pub(crate) struct StoreError;

impl Drop for RequestAudit {
    fn drop(&mut self) {
        let Some(inner) = self.context.0.take().filter(|_| !self.is_finished) else { return };
        if !self.has_started {
            let status = Status {
                status: "Success".to_owned(),
                message: "Connection closed early".to_owned(),
                ..Status::default()
            };
            inner.event.lock().status = Some(ResponseStatus { status: Some(Box::new(status)), code: 200 });
            if self.is_long_running {
                inner.queue(Stage::ResponseStarted);
            }
        }
        inner.queue(Stage::ResponseComplete);
    }
}

/// The status of a request that failed before or in its authentication.
pub(crate) struct AuditedFailure {
    pub(crate) status: Status,
    pub(crate) code: u16,
    /// The status is also the response.
    pub(crate) is_response: bool,
}

/// Audits a request that failed before or in its authentication: one event at the stage `ResponseStarted`.
pub(crate) async fn failed(audit: Option<&Arc<Audit>>, request: &AuditedRequest<'_>, failure: &AuditedFailure) {
    let Some(audit) = audit else { return };
    let context = AuditContext::new(audit, request, None);
    let Some(inner) = &context.0 else { return };
    if failure.is_response {
        context.record_status(&failure.status);
    } else {
        let status = Some(Box::new(failure.status.clone()));
        inner.event.lock().status = Some(ResponseStatus { status, code: failure.code });
    }
    inner.event.lock().status.get_or_insert_default().code = failure.code;
    inner.process(Stage::ResponseStarted).await;
}

/// Reports whether a key consists of a DNS subdomain, a slash and a name.
fn is_qualified_name(key: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    key.split_once('/').is_some_and(|(prefix, name)| {
        let bytes = name.as_bytes();
        !prefix.is_empty()
            && dns_subdomain(prefix).is_empty()
            && bytes.len() <= 63
            && is_edge(bytes.first())
            && is_edge(bytes.last())
            && bytes.iter().all(|byte| is_inner(*byte))
    })
}

impl ObjectReference {
    fn of(path: &ResourcePath) -> Self {
        Self {
            resource: path.resource.clone(),
            namespace: path.namespace.clone().unwrap_or_default(),
            name: path.requested_name().to_owned(),
            group: path.group.clone(),
            version: path.version.clone(),
            subresource: path.subresource.clone(),
            ..Self::default()
        }
    }
}
