//! The gateway: the HTTPS server between the program and the cluster.
//!
//! A bearer token tells which process of the program sent a request. The gateway records the request, lets the cluster
//! execute it in this process, claims the change that it caused, and injects faults into requests, responses and watches.
//! The administrator's requests pass unchanged and unrecorded.
//!
//! Only HTTP/1.1 is offered: a connection has one request at a time, so that a lost response does not take other requests
//! with it. Upgraded connections of `exec` pass unchanged; watches of the program as WebSockets are declined.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fmt,
    net::SocketAddr,
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header, request::Parts};
use http_body_util::{BodyExt as _, Collected, Full, LengthLimitError, Limited};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tower::Service as _;
use windlass_api::{Entropy, Status};
use windlass_client::Verb;
use windlass_serve::{Application, Connection, RequestBody, Upgrade};
use windlass_server::{Server, Service, User};

use crate::{
    history::History,
    injection::{Command, Injections},
    plan::Plan,
};

mod answer;
mod call;
mod frames;
mod gates;
mod incarnation;
mod media;
mod read;
mod strikes;
mod watch;
mod write;

pub(crate) use self::frames::Frames;
use self::{
    answer::{Answer, Body, failure},
    call::Call,
    gates::{Gates, View},
    incarnation::Incarnation,
};

/// The maximum size of a request body, as in kube-apiserver.
const MAX_BODY: usize = 3 << 20;

/// The user of the program.
const USER: &str = "program";

/// The gateway of one run.
pub(crate) struct Gateway {
    /// The cluster, as the user of the program.
    program: Service,
    /// The cluster, as the administrator.
    administrator: Service,
    history: Arc<History>,
    injections: Injections,
    gates: Gates,
    state: Mutex<State>,
    /// The secret part of all tokens.
    secret: String,
    /// The resources that the first process watches once it has started, if known.
    expected: Option<BTreeSet<String>>,
    commands: mpsc::UnboundedSender<Command>,
    /// Notified when the activity of the cluster may have changed.
    activity: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    /// The processes that have a kubeconfig.
    processes: BTreeMap<usize, Arc<Incarnation>>,
    /// The view that begins with the next process.
    next_view: Option<View>,
    /// The number of writes that a fault delays.
    delayed: usize,
    /// `true` from the end of a process by a fault until the next one has a kubeconfig.
    is_restarting: bool,
}

/// The application of the HTTPS server.
#[derive(Clone, Debug)]
pub(crate) struct Entrance(pub(crate) Arc<Gateway>);

/// A connection to the gateway.
#[derive(Debug)]
pub(crate) struct Entered {
    gateway: Arc<Gateway>,
    /// Notified to close the connection.
    lost: Arc<Notify>,
}

/// The originator of a request.
enum Client {
    Process(Arc<Incarnation>),
    Administrator,
}

impl Application for Entrance {
    type Connection = Entered;

    fn connect(&self, _: SocketAddr) -> Entered {
        Entered { gateway: Arc::clone(&self.0), lost: Arc::default() }
    }
}

impl Connection for Entered {
    type Body = Body;

    fn answer(&self, request: Request<RequestBody>) -> impl Future<Output = Response<Body>> + Send + use<> {
        let (gateway, lost) = (Arc::clone(&self.gateway), Arc::clone(&self.lost));
        async move {
            match gateway.answer(request).await {
                Answer::Response(response) => return response,
                Answer::Lost => lost.notify_one(),
                Answer::Never => {}
            }
            std::future::pending().await
        }
    }

    async fn closed(&self) {
        self.lost.notified().await;
    }
}

impl Gateway {
    pub(crate) fn new(
        server: &Server,
        plan: &Plan,
        history: Arc<History>,
        commands: mpsc::UnboundedSender<Command>,
        activity: Arc<Notify>,
    ) -> Self {
        let entropy = Entropy::os();
        let user = User::new(USER).in_groups(["system:masters", "system:authenticated"]);
        Self {
            program: server.service().acting_as(user),
            administrator: server.service(),
            history,
            injections: Injections::new(plan.clone()),
            gates: Gates::default(),
            state: Mutex::default(),
            secret: format!("{:016x}{:016x}", entropy.next_u64(), entropy.next_u64()),
            expected: None,
            commands,
            activity,
        }
    }

    /// Sets the resources that the first process watches once it has started, if known.
    pub(crate) fn expecting(self, watched: Option<BTreeSet<String>>) -> Self {
        Self { expected: watched, ..self }
    }

    // === processes ===

    /// Admits a process, and returns its token.
    pub(crate) fn admit(&self, process: usize) -> String {
        let mut state = self.state.lock();
        state.is_restarting = false;
        let admitted = || Arc::new(Incarnation::new(process, Arc::clone(&self.activity)));
        state.processes.entry(process).or_insert_with(admitted);
        format!("{}-{process}", self.secret)
    }

    /// Returns the administrator's token.
    pub(crate) fn administrator_token(&self) -> String {
        format!("{}-administrator", self.secret)
    }

    /// Closes a process: none of its requests is answered from now on.
    pub(crate) fn close(&self, process: usize) {
        if let Some(process) = self.state.lock().processes.get(&process) {
            process.close();
        }
        self.activity.notify_one();
    }

    fn client(&self, headers: &HeaderMap) -> Option<Client> {
        let header = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = header.split_once(' ')?;
        let name = token.trim().strip_prefix(self.secret.as_str())?.strip_prefix('-')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        if name == "administrator" {
            return Some(Client::Administrator);
        }
        let process = self.state.lock().processes.get(&name.parse().ok()?).cloned();
        process.map(Client::Process)
    }

    // === activity ===

    /// Returns the number of requests without a response, and of undelivered events, of all running processes.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        state
            .processes
            .values()
            .filter(|process| !process.is_closed())
            .fold((0, 0), |(in_flight, undelivered), process| {
                (in_flight + process.in_flight(), undelivered + process.undelivered())
            })
    }

    /// Reports whether [`Self::release`] would do anything.
    pub(crate) fn is_holding(&self) -> bool {
        self.gates.is_holding()
    }

    /// Reports whether nothing is held except for a gap that ends in a later step.
    pub(crate) fn is_gap_beyond_step(&self) -> bool {
        self.gates.is_gap_beyond(self.history.now().0)
    }

    /// Reports whether a fault is in progress: a write is delayed, or a process is to be started.
    pub(crate) fn is_striking(&self) -> bool {
        let state = self.state.lock();
        state.delayed > 0 || state.is_restarting
    }

    /// Reports whether the newest process has not started yet: it has sent no request, or does not watch everything that
    /// earlier processes did. The first process has the expectation of earlier runs.
    pub(crate) fn is_starting(&self) -> bool {
        let state = self.state.lock();
        let mut processes = state.processes.values();
        let Some(last) = processes.next_back() else { return false };
        let earlier = processes.map(|process| process.watched()).reduce(|all, watched| &all | &watched);
        last.is_starting(earlier.as_ref().or(self.expected.as_ref()))
    }

    /// Returns the resources that all processes have watched.
    pub(crate) fn watched(&self) -> BTreeSet<String> {
        let state = self.state.lock();
        let watched = state.processes.values().map(|process| process.watched());
        watched.reduce(|all, watched| &all & &watched).unwrap_or_default()
    }

    /// Opens all gates, and ends a rewound view.
    pub(crate) fn release(&self) {
        if self.gates.release(self.history.latest_revision()) {
            self.injections.end_gap();
            let note = "delivered what was held: everything else had settled";
            self.injections.note(self.history.now(), note.to_owned());
            self.history.touch();
        }
    }

    /// Begins the view of an injected rewind.
    pub(crate) fn rewind(&self) {
        if let Some(view) = self.state.lock().next_view.take() {
            self.gates.rewind(view);
        }
    }

    pub(crate) const fn injections(&self) -> &Injections {
        &self.injections
    }

    // === requests ===

    async fn answer(self: Arc<Self>, request: Request<RequestBody>) -> Answer {
        match self.client(request.headers()) {
            None => Answer::Response(failure(&Status::unauthorized())),
            Some(Client::Administrator) => {
                let (mut parts, body) = request.into_parts();
                parts.headers.remove(header::AUTHORIZATION);
                let Ok(response) = self.administrator.clone().call(Request::from_parts(parts, body)).await;
                Answer::Response(response.map(answer::body))
            }
            Some(Client::Process(process)) => {
                process.begin();
                let ended = process.closed();
                tokio::select! {
                    biased;
                    () = ended => Answer::Never,
                    answer = self.serve(&process, request) => answer,
                }
            }
        }
    }

    /// Serves a request of the program.
    async fn serve(self: &Arc<Self>, process: &Arc<Incarnation>, request: Request<RequestBody>) -> Answer {
        let (mut parts, body) = request.into_parts();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let number = self.history.begin_request(process.number(), parts.method.as_str(), &target);
        let call = Call::parse(&parts.method, &parts.uri);
        let is_watch = call.as_ref().is_some_and(|call| call.verb == Verb::Watch);
        let is_handshake = parts.headers.contains_key(header::SEC_WEBSOCKET_KEY);
        let _in_flight = (!is_watch).then(|| process.in_flight_request());
        if call.as_ref().is_some_and(Call::is_connection) && parts.headers.contains_key(header::UPGRADE) {
            let response = self.connect(process, number, Request::from_parts(parts, body)).await;
            self.history.answered(number);
            return Answer::Response(response);
        }
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Answer::Response(failure(&Status::too_large(MAX_BODY)));
            }
            // The client has disconnected.
            Err(_) => return Answer::Lost,
        };
        for name in [header::AUTHORIZATION, header::UPGRADE, header::CONNECTION, header::CONTENT_LENGTH] {
            parts.headers.remove(name);
        }
        parts.headers.remove(header::TRANSFER_ENCODING);
        media::request_json(&mut parts.headers);
        let request = Request::from_parts(parts, body);
        let answer = match call {
            Some(call) if call.is_write() => {
                // The write is completed and attributed even if the process ends.
                let (gateway, process) = (Arc::clone(self), Arc::clone(process));
                let write = tokio::spawn(async move { gateway.write(&process, number, &call, request).await });
                write.await.unwrap_or(Answer::Lost)
            }
            Some(_) if is_watch && is_handshake => Answer::Response(self.decline_upgrade(number)),
            Some(call) if is_watch => self.watch(process, number, call, request).await,
            Some(call) => self.read(number, &call, request).await,
            None => Answer::Response(self.forward(number, request).await),
        };
        if matches!(answer, Answer::Response(_)) {
            self.history.answered(number);
        }
        answer
    }

    /// Lets the cluster execute a request.
    async fn forward(&self, number: usize, request: Request<Bytes>) -> Response<Body> {
        let response = self.call(request).await;
        self.history.executed(number, response.status().as_u16());
        response.map(answer::body)
    }

    /// Lets the cluster continue a connection with another protocol. The request is in flight until that ends.
    async fn connect(
        &self,
        process: &Arc<Incarnation>,
        number: usize,
        request: Request<RequestBody>,
    ) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(header::AUTHORIZATION);
        if let Some(upgrade) = parts.extensions.remove::<Upgrade>() {
            parts.extensions.insert(upgrade.keep(process.in_flight_request()));
        }
        let Ok(response): Result<_, Infallible> = self.program.clone().call(Request::from_parts(parts, body)).await;
        self.history.executed(number, response.status().as_u16());
        response.map(answer::body)
    }

    /// Sends a request to the cluster as the program.
    async fn call(&self, request: Request<Bytes>) -> Response<windlass_server::Body> {
        let Ok(response): Result<_, Infallible> = self.program.clone().call(request.map(Full::new)).await;
        response
    }

    /// Sends a request to the cluster as the administrator. Returns the status code and the JSON body.
    async fn ask(&self, request: Request<Bytes>) -> (u16, Value) {
        let Ok(response): Result<_, Infallible> = self.administrator.clone().call(request.map(Full::new)).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Reads a document as the administrator. Returns `None` if it does not exist.
    async fn read_json(&self, target: &str) -> Option<Value> {
        let request = Request::get(target).body(Bytes::new()).ok()?;
        let (status, value) = self.ask(request).await;
        (status == 200).then_some(value)
    }

    /// Returns the current revision of the storage.
    pub(crate) async fn revision(&self) -> u64 {
        // Any list has the current revision. This one is empty.
        let list = self.read_json("/api/v1/namespaces/kube-node-lease/limitranges").await;
        list.as_ref().and_then(crate::history::revision_of).unwrap_or_default()
    }
}

/// Replaces the target of a request, keeping its headers.
fn retargeted(parts: &Parts, target: &str, body: Bytes) -> Option<Request<Bytes>> {
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.headers_mut() = parts.headers.clone();
    *request.uri_mut() = target.parse().ok()?;
    Some(request)
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("injections", &self.injections).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
