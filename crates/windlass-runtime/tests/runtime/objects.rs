//! A simulated server that stores objects by path: gets, creates, updates and merge patches.

use std::{collections::BTreeMap, sync::Arc};

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass_api::BoxError;
use windlass_client::{Body, Client};

/// Clones are the same server.
#[derive(Clone, Default)]
pub(crate) struct Objects(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    by_path: BTreeMap<String, Value>,
    /// The writes, as method and path.
    writes: Vec<String>,
    refuses_existing: bool,
}

impl Objects {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (head, body) = request.into_parts();
                let body: Value = serde_json::from_slice(&BodyExt::collect(body).await?.to_bytes()).unwrap_or_default();
                let (status, body) = server.0.lock().answer(&head.method, head.uri.path(), body);
                let answer = Response::builder().status(status).header("content-type", "application/json");
                Ok::<_, BoxError>(answer.body(Full::new(bytes::Bytes::from(body.to_string())))?)
            }
        });
        Client::from_service(service, "default")
    }

    /// Returns the object at a path.
    pub(crate) fn at(&self, path: &str) -> Option<Value> {
        self.0.lock().by_path.get(path).cloned()
    }

    pub(crate) fn put(&self, path: &str, object: Value) {
        self.0.lock().store(path, object);
    }

    /// Rejects the creation of existing objects. By default a creation replaces them.
    pub(crate) fn refuse_existing(&self) {
        self.0.lock().refuses_existing = true;
    }

    pub(crate) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().writes)
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        if *method != Method::GET {
            self.writes.push(format!("{method} {path} {}", fields(&body)));
        }
        let (object, is_status) = path.strip_suffix("/status").map_or((path, false), |object| (object, true));
        let known = self.by_path.get(object).cloned();
        let expected = &body["metadata"]["resourceVersion"];
        match (method, known) {
            (&Method::POST, _) => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                if self.refuses_existing && self.by_path.contains_key(&path) {
                    let reason = "AlreadyExists";
                    return (409, json!({"kind": "Status", "reason": reason, "code": 409, "status": "Failure"}));
                }
                (201, self.store(&path, body))
            }
            (_, None) => (404, json!({"kind": "Status", "reason": "NotFound", "code": 404, "status": "Failure"})),
            (&Method::GET, Some(known)) => (200, known),
            (_, Some(known)) if expected.is_string() && *expected != known["metadata"]["resourceVersion"] => {
                (409, json!({"kind": "Status", "reason": "Conflict", "code": 409, "status": "Failure"}))
            }
            (&Method::PATCH, Some(mut known)) => {
                if is_status {
                    merge(&mut known["status"], &body["status"]);
                } else {
                    merge(&mut known, &body);
                }
                (200, self.store(object, known))
            }
            (_, Some(_)) => (200, self.store(object, body)),
        }
    }

    /// Stores an object. An object that is being deleted is removed with its last finalizer.
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let metadata = &object["metadata"];
        let finalized = metadata["finalizers"].as_array().is_none_or(Vec::is_empty);
        if metadata["deletionTimestamp"].is_string() && finalized {
            self.by_path.remove(path);
        } else {
            self.by_path.insert(path.to_owned(), object.clone());
        }
        object
    }
}

/// Returns the names of the top-level fields of a body.
fn fields(body: &Value) -> String {
    let names: Vec<_> = body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    names.join(",")
}

fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                into.as_object_mut().unwrap().remove(key);
            }
            value => merge(&mut into[key], value),
        }
    }
}
