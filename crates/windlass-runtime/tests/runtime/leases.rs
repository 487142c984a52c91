//! A server that holds leases and takes events, with a line of its own for each client.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use windlass_api::BoxError;
use windlass_client::{Body, Client};

/// Clones are the same server.
#[derive(Clone, Default)]
pub(crate) struct Leases(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    lease: Option<Value>,
    lines: HashMap<String, Line>,
    requests: Vec<Sent>,
}

/// What becomes of a client's requests.
#[derive(Clone, Copy, Default)]
pub(crate) enum Line {
    /// They are answered at once.
    #[default]
    Up,
    /// They are carried out at once and answered later.
    SlowAnswer(Duration),
    /// They never get there.
    Cut,
    /// They are refused with this status.
    Refused(u16),
}

/// A request that the server has carried out.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) client: String,
    pub(crate) at: Instant,
    pub(crate) request: String,
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Leases {
    pub(crate) fn client(&self, name: &str) -> Client {
        let (server, name) = (self.clone(), name.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, name) = (server.clone(), name.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = BodyExt::collect(body).await?.to_bytes();
                let line = server.0.lock().lines.get(&name).copied().unwrap_or_default();
                match line {
                    Line::Up => Ok(server.answer(&name, &head, &body)),
                    Line::SlowAnswer(after) => {
                        let answer = server.answer(&name, &head, &body);
                        sleep(after).await;
                        Ok(answer)
                    }
                    Line::Cut => std::future::pending().await,
                    Line::Refused(status) => Ok::<_, BoxError>(status_answer(status)),
                }
            }
        });
        Client::from_service(service, "default")
    }

    pub(crate) fn line(&self, client: &str, line: Line) {
        self.0.lock().lines.insert(client.to_owned(), line);
    }

    pub(crate) fn lease(&self) -> Option<Value> {
        self.0.lock().lease.clone()
    }

    pub(crate) fn holder(&self) -> String {
        self.lease().map_or_else(String::new, |lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned())
    }

    /// Changes the lease behind everybody's back.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock();
        state.version += 1;
        let version = state.version.to_string();
        let lease = state.lease.as_mut().expect("there is one");
        change(lease);
        lease["metadata"]["resourceVersion"] = json!(version);
    }

    pub(crate) fn remove(&self) {
        self.0.lock().lease = None;
    }

    /// The requests of a client, for the lease.
    pub(crate) fn sent(&self, client: &str) -> Vec<Sent> {
        let state = self.0.lock();
        let of_client = |sent: &&Sent| sent.client == client && sent.request.contains("leases");
        state.requests.iter().filter(of_client).cloned().collect()
    }

    /// The messages of events.
    pub(crate) fn events(&self) -> Vec<String> {
        let state = self.0.lock();
        let events = state.requests.iter().filter(|sent| sent.request.contains("events"));
        events.map(|sent| format!("{} {}", sent.body["reason"], sent.body["message"]).replace('"', "")).collect()
    }

    fn answer(&self, client: &str, head: &http::request::Parts, body: &Bytes) -> Response<Full<Bytes>> {
        let mut state = self.0.lock();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let status = if head.uri.path().contains("/leases") { state.carry_out(&head.method, &body) } else { 201 };
        let request = format!("{} {}", head.method, head.uri.path());
        state.requests.push(Sent {
            client: client.to_owned(),
            at: Instant::now(),
            request,
            status,
            body: body.clone(),
        });
        match (status, &state.lease) {
            (200, Some(lease)) => json_answer(200, lease),
            (201, _) => json_answer(201, &body),
            (status, _) => status_answer(status),
        }
    }
}

impl State {
    fn carry_out(&mut self, method: &Method, body: &Value) -> u16 {
        let stored = self.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
        let status = match (method, stored) {
            (&Method::GET, Some(_)) => return 200,
            (&Method::POST, None) => 200,
            (&Method::PUT, Some(version)) if *version == body["metadata"]["resourceVersion"] => 200,
            (&Method::POST | &Method::PUT, Some(_)) => return 409,
            _ => return 404,
        };
        self.version += 1;
        let mut lease = body.clone();
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease);
        status
    }
}

fn json_answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let answer = Response::builder().status(status).header("content-type", "application/json");
    answer.body(Full::new(body.to_string().into())).unwrap()
}

fn status_answer(status: u16) -> Response<Full<Bytes>> {
    let reason = match StatusCode::from_u16(status).unwrap() {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        _ => "InternalError",
    };
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status});
    json_answer(status, &body)
}
