//! The layer between the clients of a run and its server, which records requests and injects the planned faults.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tower::{Service, ServiceExt as _};
use windlass_api::{BoxError, GroupResource, Status};
use windlass_client::{Body, Transport, Verb};

use super::{
    plan::WriteFault,
    run_state::{Command, Gate, Incarnation, RunState, collection_of, resource_of},
    timeline::EntryKind,
};
use crate::{requests::Sent, wire};

/// The annotation that another client writes to cause a conflict.
pub(crate) const TOUCH: &str = "windlass.dev/touched-by-somebody-else";

/// The resources of Events.
const EVENTS: [&str; 2] = ["events", "events.events.k8s.io"];

/// The resource of leader election leases.
const LEASES: &str = "leases.coordination.k8s.io";

/// The origin of a request.
#[derive(Clone)]
pub(crate) enum Who {
    /// The program under test.
    Program(Arc<Incarnation>),
    /// The user who performs the steps.
    User,
    /// A program that runs alongside.
    OtherController,
}

/// The transport to the server of a run.
#[derive(Clone)]
pub(crate) struct FaultyTransport {
    pub(crate) transport: Transport,
    pub(crate) run_state: Arc<RunState>,
    pub(crate) who: Who,
}

/// A broken connection.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection lost (injected by the exploration)")]
struct Lost;

/// A request that can be sent later.
type Held = Request<Body>;

impl Who {
    fn name(&self) -> String {
        match self {
            Self::Program(incarnation) => incarnation.name(),
            Self::User => "user".to_owned(),
            Self::OtherController => "other".to_owned(),
        }
    }
}

impl FaultyTransport {
    async fn carry(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let sent = Sent::new(&head, body.clone());
        let request = Request::from_parts(head, body.into());
        if let Who::Program(incarnation) = &self.who {
            incarnation.pass().await;
            // Lease renewals depend on time, also during a fault, and do not indicate a loop.
            if resource_of(&sent) != LEASES && !self.run_state.admit() {
                // A loop: nothing else would end it.
                std::future::pending::<()>().await;
            }
        }
        let resource = resource_of(&sent);
        if !sent.is_write() {
            return self.read(&sent, request).await;
        }
        if matches!(self.who, Who::OtherController) && EVENTS.contains(&resource.as_str()) {
            return Ok(thrown_away(&sent));
        }
        if self.run_state.is_ignored(&resource) {
            return self.transport.oneshot(request).await;
        }
        if self.run_state.is_new(&resource) {
            self.list(&resource, &collection_of(&sent)).await;
        }
        match self.who.clone() {
            Who::Program(incarnation) => self.write(&incarnation, &sent, request).await,
            Who::User | Who::OtherController => self.forward(&sent, request, String::new()).await,
        }
    }

    /// Performs a read, and records it unless it is a watch or an internal request.
    async fn read(self, sent: &Sent, request: Held) -> Result<Response<Body>, BoxError> {
        let answer = self.transport.oneshot(request).await;
        if matches!(sent.verb, Verb::Get | Verb::List) && !self.run_state.is_ignored(&resource_of(sent)) {
            let status =
                answer.as_ref().map_or_else(|_| "no response".to_owned(), |answer| answer.status().to_string());
            self.run_state.log(self.who.name(), EntryKind::Read, format!("{}: {status}", described(sent)));
        }
        answer
    }

    /// Performs a write of the program under test.
    async fn write(
        self,
        incarnation: &Arc<Incarnation>,
        sent: &Sent,
        request: Held,
    ) -> Result<Response<Body>, BoxError> {
        let (n, fault) = self.run_state.write(sent.verb == Verb::Update);
        let number = format!(" (write {n})");
        let Some(fault) = fault else { return self.forward(sent, request, number).await };
        let run_state = Arc::clone(&self.run_state);
        let log = |what: &str| {
            run_state.log(incarnation.name(), EntryKind::Fault, format!("{what}: {}{number}", described(sent)));
        };
        match fault {
            WriteFault::Lose => {
                let answer = self.forward(sent, request, number.clone()).await;
                log("the response is lost");
                answer.and(Err(Lost.into()))
            }
            WriteFault::Refuse => {
                log("the server rejects it with an internal error");
                Ok(wire::answer(&Status::internal("injected by the exploration")))
            }
            WriteFault::Conflict => {
                log("another client changes the object just before");
                self.touch(sent).await;
                let answer = self.clone().forward(sent, request, number).await;
                self.check_overwrite(sent).await;
                answer
            }
            WriteFault::Crash | WriteFault::Rewind => {
                let rewind = (fault == WriteFault::Rewind).then(|| run_state.notes().step_version.clone()).flatten();
                let _ = self.forward(sent, request, number.clone()).await;
                log("the program crashes after it");
                incarnation.set(Gate::Closed);
                run_state.command(Command::Crash { incarnation: incarnation.number, rewind });
                std::future::pending().await
            }
            WriteFault::Depose => {
                log("it is delayed, and no other request of the program gets through");
                incarnation.set(Gate::Blocked);
                let (arrive, arrives) = oneshot::channel();
                run_state.command(Command::Depose { incarnation: incarnation.number, arrive });
                let (late, this) = (sent.clone(), self);
                // The write is already in the network: it arrives even if its sender crashes.
                let answered = tokio::spawn(async move {
                    let _ = arrives.await;
                    this.forward(&late, request, format!("{number}, late")).await
                });
                answered.await?
            }
        }
    }

    /// Sends a write, and records its effects.
    async fn forward(self, sent: &Sent, request: Held, note: String) -> Result<Response<Body>, BoxError> {
        let (resource, path) = (resource_of(sent), collection_of(sent));
        let unanswered = self.run_state.begin_write(&resource, &path);
        let answer = self.transport.clone().oneshot(request).await;
        let (told, answer) = match answer {
            Err(error) => (format!("no response: {error}"), Err(error)),
            Ok(answer) => {
                let (head, body) = answer.into_parts();
                let body = body.collect().await?.to_bytes();
                let told = outcome(sent, head.status, &body);
                (told, Ok(Response::from_parts(head, Body::from(body))))
            }
        };
        self.run_state.log(self.who.name(), EntryKind::Write, format!("{}: {told}{note}", described(sent)));
        // Watches show a write before its response arrives, so pending writes are listed as well. A later write may
        // depend on an earlier one.
        let places = self.run_state.unanswered();
        drop(unanswered);
        self.list_all(&places).await;
        answer
    }

    /// Lists all objects of a resource.
    pub(crate) async fn list(&self, resource: &str, path: &str) {
        self.list_all(&[(resource.to_owned(), path.to_owned())]).await;
    }

    /// Lists all objects of resources, given with their paths.
    async fn list_all(&self, places: &[(String, String)]) {
        let mut lists = Vec::with_capacity(places.len());
        for (resource, path) in places {
            if let Some(list) = get(&self.transport, path).await {
                lists.push((&**resource, &**path, list));
            }
        }
        self.run_state.apply_lists(lists.iter().map(|(resource, path, list)| (*resource, *path, &**list)));
    }

    /// Annotates the object as another client.
    async fn touch(&self, sent: &Sent) {
        let patch = json!({"metadata": {"annotations": {TOUCH: "yes"}}});
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(object_path(sent))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .body(Body::from(patch.to_string()));
        if let Ok(request) = request {
            let _ = self.transport.clone().oneshot(request).await;
        }
    }

    /// Reports an update that has removed the annotation: an update without a version overwrites other writes.
    async fn check_overwrite(&self, sent: &Sent) {
        let Some(object) = get(&self.transport, &object_path(sent)).await else { return };
        let object: Value = serde_json::from_slice(&object).unwrap_or_default();
        if object["metadata"]["annotations"][TOUCH].is_null() && sent.subresource.is_none() {
            self.run_state.add_finding(format!("{} has overwritten another client's preceding write", described(sent)));
        }
    }
}

impl Service<Request<Body>> for FaultyTransport {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().carry(request))
    }
}

/// Returns a success response for a discarded Event.
fn thrown_away(sent: &Sent) -> Response<Body> {
    if sent.verb == Verb::Create {
        let mut answer = Response::new(Body::from(sent.body.clone()));
        *answer.status_mut() = StatusCode::CREATED;
        answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        return answer;
    }
    let resource = GroupResource::new(sent.group.clone(), sent.resource.clone());
    wire::answer(&Status::not_found(&resource, sent.name.as_deref().unwrap_or_default()))
}

/// Reads a path.
pub(crate) async fn get(transport: &Transport, path: &str) -> Option<Bytes> {
    let request = Request::builder().uri(path).body(Body::empty()).ok()?;
    let ask = transport.clone().oneshot(request);
    let answer = tokio::time::timeout(Duration::from_secs(10), ask).await.ok()?.ok()?;
    if answer.status() != StatusCode::OK {
        return None;
    }
    Some(answer.into_body().collect().await.ok()?.to_bytes())
}

fn object_path(sent: &Sent) -> String {
    let path = sent.uri.path();
    let subresource = sent.subresource.as_ref().map(|subresource| format!("/{subresource}")).unwrap_or_default();
    path.strip_suffix(&subresource).unwrap_or(path).to_owned()
}

/// Describes a request, such as `update pods default/web-0/status`.
fn described(sent: &Sent) -> String {
    let mut name = sent.name.clone().unwrap_or_else(|| match sent.verb {
        Verb::Create => {
            let metadata = &sent.json()["metadata"];
            let generated = metadata["generateName"].as_str().map(|prefix| format!("{prefix}*"));
            metadata["name"].as_str().map(str::to_owned).or(generated).unwrap_or_default()
        }
        _ => "*".to_owned(),
    });
    if let Some(namespace) = &sent.namespace {
        name = format!("{namespace}/{name}");
    }
    if let Some(subresource) = &sent.subresource {
        name = format!("{name}/{subresource}");
    }
    format!("{} {} {name}", format!("{:?}", sent.verb).to_lowercase(), resource_of(sent))
}

/// Describes a response, such as `201` or `409 AlreadyExists`.
fn outcome(sent: &Sent, status: StatusCode, body: &[u8]) -> String {
    let code = status.as_u16();
    if status.is_success() {
        let generated = sent.verb == Verb::Create && sent.json()["metadata"]["name"].is_null();
        let name = generated.then(|| serde_json::from_slice::<Value>(body).ok()).flatten();
        return match name.as_ref().and_then(|object| object["metadata"]["name"].as_str()) {
            Some(name) => format!("{code}, {name}"),
            None => code.to_string(),
        };
    }
    match serde_json::from_slice::<Status>(body) {
        Ok(status) => format!("{code} {}", status.reason.as_deref().unwrap_or_default()),
        Err(_) => code.to_string(),
    }
}
