//! Tests of the audit log, in process.

mod backends;
mod pod_security;
mod policies;
mod policy;
mod requests;
mod rotation;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt;
use windlass_api::BoxError;

use super::{
    AuditBatchOptions, AuditConfiguration, AuditMode, AuditPolicy, AuditTruncateOptions, AuditWebhook,
    AuditWebhookOptions,
};
use crate::{Server, http::Body};

/// A webhook that keeps the lists that it gets.
#[derive(Debug)]
struct Recorder {
    lists: Mutex<Vec<Value>>,
    /// The number of requests, with those that failed.
    requests: AtomicUsize,
    fails: AtomicBool,
    /// A request needs a permit.
    permits: Semaphore,
}

impl Recorder {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lists: Mutex::default(),
            requests: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
            permits: Semaphore::new(100_000),
        })
    }

    fn hang(&self) {
        self.permits.forget_permits(100_000);
    }

    fn resume(&self) {
        self.permits.add_permits(100_000);
    }

    fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    fn sizes(&self) -> Vec<usize> {
        self.lists.lock().iter().map(|list| list["items"].as_array().unwrap().len()).collect()
    }

    fn events(&self) -> Vec<Value> {
        self.lists.lock().iter().flat_map(|list| list["items"].as_array().unwrap().clone()).collect()
    }

    /// Takes the events, each as `stage verb code`.
    fn take_stages(&self) -> Vec<String> {
        let events = self.events();
        self.lists.lock().clear();
        events.iter().map(describe).collect()
    }
}

fn describe(event: &Value) -> String {
    let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
    format!("{} {} {}", text("stage"), text("verb"), event["responseStatus"]["code"])
}

impl AuditWebhook for Recorder {
    fn post(&self, events: Bytes) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            self.requests.fetch_add(1, SeqCst);
            self.permits.acquire().await?.forget();
            self.permits.add_permits(1);
            if self.fails.load(SeqCst) {
                return Err("the webhook answered 500".into());
            }
            self.lists.lock().push(serde_json::from_slice(&events)?);
            Ok(())
        })
    }
}

fn policy(rules: Value) -> AuditPolicy {
    AuditPolicy::parse(json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules})).unwrap()
}

fn blocking() -> AuditWebhookOptions {
    let batch = AuditBatchOptions { mode: AuditMode::Blocking, ..AuditBatchOptions::of_webhook() };
    AuditWebhookOptions { batch, ..AuditWebhookOptions::default() }
}

/// Starts a server that sends its events to a recorder.
fn server_with(rules: Value, options: &AuditWebhookOptions) -> (Server, Arc<Recorder>) {
    let recorder = Recorder::new();
    let webhook: Arc<dyn AuditWebhook> = recorder.clone();
    let audit = AuditConfiguration::new(policy(rules)).with_webhook(webhook, options).unwrap();
    (Server::builder().token("TOKEN").audit(audit).build(), recorder)
}

fn server(rules: Value) -> (Server, Arc<Recorder>) {
    server_with(rules, &blocking())
}

async fn send(server: &Server, method: &str, path: &str, body: Value) -> Response<Bytes> {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type).body(text).unwrap();
    collect(server.service().oneshot(request).await.unwrap()).await
}

async fn collect(response: Response<Body>) -> Response<Bytes> {
    let (head, body) = response.into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "<v>"}})
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
