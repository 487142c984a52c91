//! A simulated server for leases and events, with a separate connection for each client.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
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
    /// The leases by name.
    leases: BTreeMap<String, Value>,
    lines: HashMap<String, Line>,
    requests: Vec<Sent>,
}

/// The treatment of a client's requests.
#[derive(Clone, Copy, Default)]
pub(crate) enum Line {
    /// Requests are answered at once.
    #[default]
    Up,
    /// Requests are processed at once, and responses are delayed.
    SlowAnswer(Duration),
    /// Requests are lost.
    Cut,
    /// Requests are rejected with this status.
    Refused(u16),
}

/// A processed request.
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

    /// Returns the only lease, if it exists.
    pub(crate) fn lease(&self) -> Option<Value> {
        self.all().into_iter().next()
    }

    /// Returns all leases, by name.
    pub(crate) fn all(&self) -> Vec<Value> {
        self.0.lock().leases.values().cloned().collect()
    }

    pub(crate) fn holder(&self) -> String {
        self.lease().map_or_else(String::new, |lease| lease["spec"]["holderIdentity"].as_str().unwrap().to_owned())
    }

    /// Changes the lease without a request.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.0.lock();
        state.version += 1;
        let version = state.version.to_string();
        let lease = state.leases.values_mut().next().expect("there is one");
        change(lease);
        lease["metadata"]["resourceVersion"] = json!(version);
    }

    pub(crate) fn remove(&self) {
        self.0.lock().leases.clear();
    }

    /// Returns a client's requests for leases.
    pub(crate) fn sent(&self, client: &str) -> Vec<Sent> {
        let state = self.0.lock();
        let of_client = |sent: &&Sent| sent.client == client && sent.request.contains("leases");
        state.requests.iter().filter(of_client).cloned().collect()
    }

    /// Returns the messages of events.
    pub(crate) fn events(&self) -> Vec<String> {
        let state = self.0.lock();
        let events = state.requests.iter().filter(|sent| sent.request.contains("events"));
        events.map(|sent| format!("{} {}", sent.body["reason"], sent.body["message"]).replace('"', "")).collect()
    }

    fn answer(&self, client: &str, head: &http::request::Parts, body: &Bytes) -> Response<Full<Bytes>> {
        let mut state = self.0.lock();
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let is_lease = head.uri.path().contains("/leases");
        let answer = if is_lease { state.carry_out(head, &body) } else { Ok(body.clone()) };
        let status = match &answer {
            Ok(_) => {
                if is_lease {
                    200
                } else {
                    201
                }
            }
            Err(status) => *status,
        };
        let request = format!("{} {}", head.method, head.uri.path());
        state.requests.push(Sent { client: client.to_owned(), at: Instant::now(), request, status, body });
        match answer {
            Ok(shown) => json_answer(status, &shown),
            Err(status) => status_answer(status),
        }
    }
}

impl State {
    /// Returns the response body, or the status of a rejection.
    fn carry_out(&mut self, head: &http::request::Parts, body: &Value) -> Result<Value, u16> {
        let path = head.uri.path();
        let named = path.rsplit_once("/leases/").map(|(_, name)| name.to_owned());
        let name = named.clone().or_else(|| body["metadata"]["name"].as_str().map(str::to_owned));
        let stored = name.as_ref().and_then(|name| self.leases.get(name)).cloned();
        let is_as_given = |stored: &Value, given: &Value| {
            let holds = |field: &str| given[field].is_null() || given[field] == stored["metadata"][field];
            holds("uid") && holds("resourceVersion")
        };
        match (&head.method, stored) {
            (&Method::GET, _) if named.is_none() => {
                let query = percent_decode_str(head.uri.query().unwrap_or_default()).decode_utf8_lossy();
                let selector = query.split('&').find_map(|part| part.strip_prefix("labelSelector="));
                let (label, value) = selector.and_then(|one| one.split_once('=')).expect("leases are selected");
                let is_selected = |lease: &&Value| lease["metadata"]["labels"][label] == value;
                let items: Vec<_> = self.leases.values().filter(is_selected).collect();
                let metadata = json!({"resourceVersion": self.version.to_string()});
                let (kind, version) = ("LeaseList", "coordination.k8s.io/v1");
                Ok(json!({"kind": kind, "apiVersion": version, "metadata": metadata, "items": items}))
            }
            (&Method::GET, Some(stored)) => Ok(stored),
            (&Method::POST, None) => Ok(self.store(body)),
            (&Method::PUT, Some(stored)) if is_as_given(&stored, &body["metadata"]) => Ok(self.store(body)),
            (&Method::DELETE, Some(stored)) if is_as_given(&stored, &body["preconditions"]) => {
                self.leases.remove(&name.expect("a stored object has a name"));
                Ok(stored)
            }
            (&Method::POST | &Method::PUT | &Method::DELETE, Some(_)) => Err(409),
            _ => Err(404),
        }
    }

    fn store(&mut self, body: &Value) -> Value {
        self.version += 1;
        let mut lease = body.clone();
        let metadata = &mut lease["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{}", self.version));
        }
        metadata["resourceVersion"] = json!(self.version.to_string());
        let name = metadata["name"].as_str().expect("a lease has a name").to_owned();
        self.leases.insert(name, lease.clone());
        lease
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
