//! The audit events of both servers for the same requests, with the same policy.
//!
//! `audit/recorded.jsonl` has the normalized events of the real server, one per line. The embedded server must write the
//! same ones. With an upstream server, its events are compared with the recording, too, or recorded.

use std::{
    collections::BTreeMap,
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use conformance::{RECORD, UPSTREAM};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, time::timeout};
use tower::ServiceExt;
use windlass_client::{
    Auth, Body, Config,
    config::{Kubeconfig, Selection, TlsOptions},
};
use windlass_server::{AuditConfiguration, AuditLogOptions, AuditPolicy, Server, TlsIdentity, User};

use self::{
    requests::{REQUESTS, Step},
    webhook::Webhook,
};

mod requests;
mod webhook;

const POLICY: &str = include_str!("../audit/policy.json");
const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/audit/recorded.jsonl");
/// The token of the user whose requests are audited. xtask gives it to the real server.
const TOKEN: &str = "upstream-auditor";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const DEADLINE: Duration = Duration::from_mins(1);

/// A server with an audit log.
struct Audited {
    config: Config,
    log: PathBuf,
}

impl Audited {
    /// Configures the webhooks, and waits until the server calls them.
    async fn configure(&self, webhook: &Webhook) {
        for kind in ["Mutating", "Validating"] {
            let path = format!("{CONFIGURATIONS}/{}webhookconfigurations", kind.to_lowercase());
            let body = webhook.configuration(kind).to_string();
            let (status, _) = self.send("POST", &path, &[], &body, "setup").await;
            assert_eq!(status, StatusCode::CREATED, "{kind}");
        }
        let started = tokio::time::Instant::now();
        let body = r#"{"metadata":{"name":"probe","labels":{"audit-hook":"yes"}}}"#;
        loop {
            let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
            let (_, response) = self.send("POST", path, &[], body, "setup").await;
            let response: Value = serde_json::from_slice(&response).unwrap();
            if response["data"]["hook"] == "<1>" {
                return;
            }
            assert!(started.elapsed() < DEADLINE, "the webhook is not called: {response}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn remove_webhooks(&self) {
        for kind in ["mutating", "validating"] {
            let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations/audit-hooks");
            self.send("DELETE", &path, &[], "", "setup").await;
        }
    }

    async fn step(&self, step: &Step, audit_id: &str) -> StatusCode {
        self.send(step.method, step.path, step.headers, step.body, audit_id).await.0
    }

    /// Sends a request and reads its response.
    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
        audit_id: &str,
    ) -> (StatusCode, bytes::Bytes) {
        let (credentials, path) = match path.strip_prefix('!') {
            Some(path) => (None, path),
            None => (Some(TOKEN), path),
        };
        let mut request = Request::builder().method(method).uri(path);
        let mut has_type = false;
        for header in headers {
            let (name, value) = header.split_once(": ").unwrap();
            has_type |= name == "content-type";
            request = request.header(name, value);
        }
        if !body.is_empty() && !has_type {
            request = request.header("content-type", "application/json");
        }
        let request = request.header("audit-id", audit_id).header("user-agent", "conformance/1 <x>");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let auth = credentials.map_or(Auth::None, |token| Auth::Bearer(token.into()));
        let transport = self.config.clone().with_auth(auth).connect().unwrap();
        let response = timeout(DEADLINE, transport.oneshot(request)).await.unwrap().unwrap();
        let status = response.status();
        (status, timeout(DEADLINE, response.into_body().collect()).await.unwrap().unwrap().to_bytes())
    }

    /// Returns the events of the log whose audit ID begins with `run`, by request and in their order.
    fn events(&self, run: &str) -> BTreeMap<String, Vec<Value>> {
        let mut events: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for line in fs::read_to_string(&self.log).unwrap_or_default().lines() {
            // The last line may be incomplete.
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            if let Some(request) = event["auditID"].as_str().and_then(|id| id.strip_prefix(run)) {
                events.entry(request.to_owned()).or_default().push(event);
            }
        }
        events
    }

    /// Sends all requests and returns the normalized events, a line each.
    async fn play(&self) -> Vec<String> {
        let run = conformance::unique("audit");
        let webhook = Webhook::start().await;
        self.configure(&webhook).await;
        let (mut lines, mut unexpected) = (Vec::new(), Vec::new());
        for (index, step) in REQUESTS.iter().enumerate() {
            let id = format!("{run}-{index:03}");
            let status = self.step(step, &id).await;
            if status.as_u16() != step.code {
                unexpected
                    .push(format!("{status} instead of {}: {} {} {}", step.code, step.method, step.path, step.body));
            }
        }
        self.remove_webhooks().await;
        assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
        // The last event can follow its response.
        let last = format!("-{:03}", REQUESTS.len() - 1);
        let started = tokio::time::Instant::now();
        let events = loop {
            let events = self.events(&run);
            let is_complete = |event: &Value| event["stage"] == "ResponseComplete";
            if events.get(&last).is_some_and(|events| events.iter().any(is_complete)) {
                break events;
            }
            assert!(started.elapsed() < DEADLINE, "the last event is missing");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let mut normal = Normal { run: run.clone(), uids: Vec::new() };
        for (index, step) in REQUESTS.iter().enumerate() {
            let key = format!("-{index:03}");
            for event in events.get(&key).into_iter().flatten() {
                let mut event = event.clone();
                normal.event(&mut event);
                lines.push(event.to_string());
            }
            if !events.contains_key(&key) {
                lines.push(json!({"none": format!("{} {}", step.method, step.path)}).to_string());
            }
        }
        lines
    }
}

/// Replaces values that differ between runs.
struct Normal {
    run: String,
    uids: Vec<String>,
}

impl Normal {
    fn event(&mut self, event: &mut Value) {
        let fields = event.as_object_mut().unwrap();
        for time in ["requestReceivedTimestamp", "stageTimestamp"] {
            assert_eq!(fields[time].as_str().map(str::len), Some("2006-01-02T15:04:05.000000Z".len()), "{time}");
        }
        if let Some(annotations) = fields.get_mut("annotations").and_then(Value::as_object_mut) {
            // The embedded server does not report latencies.
            annotations.retain(|key, _| !key.starts_with("apiserver.latency."));
            // Other tests have webhooks, too, so the indices are relative to the first one here.
            let indexed = |key: &str| {
                let (prefix, index) = key.rsplit_once("_index_")?;
                let is_of_all = !prefix.starts_with("failed-open.validating.");
                is_of_all.then_some((prefix.to_owned(), index.parse::<usize>().ok()?))
            };
            let first = annotations.keys().filter_map(|key| Some(indexed(key)?.1)).min().unwrap_or_default();
            let relative = std::mem::take(annotations).into_iter().map(|(key, value)| match indexed(&key) {
                Some((prefix, index)) => (format!("{prefix}_index_{}", index - first), value),
                None => (key, value),
            });
            annotations.extend(relative.collect::<Vec<_>>());
        }
        self.value("", event);
    }

    fn value(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| self.value(key, value)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(key, item)),
            Value::String(text) => *text = self.text(key, text),
            _ => {}
        }
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        match key {
            "requestReceivedTimestamp"
            | "stageTimestamp"
            | "creationTimestamp"
            | "deletionTimestamp"
            | "time"
            | "expirationTimestamp" => return "TIME".to_owned(),
            "resourceVersion" if text.len() < 12 && text != "0" && !text.is_empty() => return "VERSION".to_owned(),
            "token" => return "TOKEN".to_owned(),
            "serverAddress" => return "ADDRESS".to_owned(),
            _ => {}
        }
        let mut text = text.replace(&self.run, "RUN");
        if let Some(at) = text.find("generated-") {
            let end = (at + "generated-".len() + 5).min(text.len());
            text.replace_range(at + "generated-".len()..end, "");
        }
        // UIDs, also in messages.
        let mut at = 0;
        while let Some(found) = text.get(at..at + 36) {
            if is_uid(found) {
                let found = found.to_owned();
                let known = self.uids.iter().position(|uid| *uid == found);
                let index = known.unwrap_or_else(|| {
                    self.uids.push(found);
                    self.uids.len() - 1
                });
                text.replace_range(at..at + 36, &format!("UID{index}"));
            }
            at += 1;
            while at < text.len() && !text.is_char_boundary(at) {
                at += 1;
            }
        }
        text
    }
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

fn recording() -> Vec<String> {
    fs::read_to_string(RECORDING).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Compares lines, with a message that shows each difference.
fn assert_equal(found: &[String], recorded: &[String], server: &str) {
    let mut differences = Vec::new();
    for index in 0..found.len().max(recorded.len()) {
        let (found, recorded) = (found.get(index), recorded.get(index));
        if found != recorded {
            let shown = |line: Option<&String>| line.map_or("nothing", String::as_str).to_owned();
            differences.push(format!("{server}: {}\nrecorded: {}\n", shown(found), shown(recorded)));
        }
    }
    assert!(differences.is_empty(), "{} events differ\n{}", differences.len(), differences.join("\n"));
}

async fn embedded(log: &Path) -> (SocketAddr, TlsIdentity, oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let policy: Value = serde_json::from_str(POLICY).unwrap();
    let audit = AuditConfiguration::new(AuditPolicy::parse(policy).unwrap());
    let audit = audit.with_log(&AuditLogOptions { path: log.to_owned(), ..AuditLogOptions::default() }).unwrap();
    let auditor = User::new("auditor").with_uid("auditor").in_groups(["system:masters"]);
    let server = Server::builder().user_token(TOKEN, auditor).audit(audit).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = TlsIdentity::generate(["127.0.0.1"]).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let identity = tls.clone();
    let serving = tokio::spawn(async move {
        server.serve(listener, identity, async { drop(stopped.await) }).await.unwrap();
    });
    (address, tls, stop, serving)
}

#[tokio::test]
async fn audit_events_equal_those_of_the_real_server() {
    if let Some(path) = env::var_os(UPSTREAM) {
        let kubeconfig = Kubeconfig::read(&path).unwrap();
        let config = Config::from_kubeconfig(&kubeconfig, &Selection::default()).unwrap();
        let log = Path::new(&path).with_file_name("audit.log");
        let found = Audited { config, log }.play().await;
        if env::var_os(RECORD).is_some() {
            fs::write(RECORDING, found.join("\n") + "\n").unwrap();
        } else {
            assert_equal(&found, &recording(), "kube-apiserver");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("audit.log");
    let (address, tls, stop, serving) = embedded(&log).await;
    let server = format!("https://{address}").parse().unwrap();
    let config = Config::new(server).with_tls(TlsOptions::trusting(tls.ca_pem()));
    let found = Audited { config, log }.play().await;
    drop(stop);
    serving.await.unwrap();
    let recorded = recording();
    assert!(recorded.len() >= 60, "{} events are recorded", recorded.len());
    assert_equal(&found, &recorded, "windlass-server");
}
