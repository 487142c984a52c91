//! Tests with requests that take too long.

use futures::{FutureExt as _, future::BoxFuture};
use http_body::Frame;
use http_body_util::StreamBody;
use parking_lot::Mutex;
use tokio::sync::watch as gate;
use windlass_api::BoxError;

use super::*;
use crate::{
    AuditBatchOptions, AuditConfiguration, AuditMode, AuditPolicy, AuditWebhook, AuditWebhookOptions,
    storage::{
        Change, CommitError, Committed, EventStream, Expect, MemoryStorage, Revision, Storage, StorageError,
        StoredValue, suite,
    },
};

/// A storage whose requests for some keys wait.
#[derive(Debug)]
struct Held {
    storage: MemoryStorage,
    prefix: &'static str,
    is_open: gate::Sender<bool>,
}

impl Held {
    fn new(prefix: &'static str) -> Arc<Self> {
        Arc::new(Self { storage: MemoryStorage::default(), prefix, is_open: gate::Sender::new(true) })
    }

    fn service(self: &Arc<Self>) -> Service {
        Server::builder().storage(Arc::clone(self) as Arc<dyn Storage>).build().service()
    }

    async fn wait(&self, key: &str) {
        if key.starts_with(self.prefix) {
            self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
        }
    }
}

impl suite::Forward for Held {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        self.wait(key).then(move |()| self.storage.get(key, at)).boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        self.wait(key).then(move |()| self.storage.commit(key, expect, change)).boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        self.wait(prefix).then(move |()| self.storage.watch(prefix, after)).boxed()
    }
}

/// The response of kube-apiserver to a request that takes too long.
const TOO_LATE: &str = r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}
"#;

/// Sends a request whose body never ends. Returns the answer, and the time that it has taken.
async fn endless(service: &Service, path: &str) -> (Answer, Duration) {
    let began = Instant::now();
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, BoxError>>());
    let request = request("POST", path).header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    (Answer { code: parts.status.as_u16(), headers: parts.headers, body }, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn request_that_takes_too_long_fails_after_its_time_limit() {
    let patient = server().service();
    let brief = Server::builder().request_timeout(Duration::from_secs(7)).build().service();
    // The server starts with the first request.
    for service in [&patient, &brief] {
        assert_eq!(get(service, "/api/v1/namespaces/default").await.code, 200);
    }
    for (service, query, seconds) in [
        (&patient, "", 60),
        (&patient, "?timeout=5s", 5),
        (&patient, "?timeout=0s", 60),
        (&patient, "?timeout=-5s", 60),
        (&patient, "?timeout=2m", 60),
        (&brief, "", 7),
        (&brief, "?timeout=10s", 7),
        (&brief, "?timeout=1500ms", 1),
    ] {
        let (answer, took) = endless(service, &format!("{CONFIG_MAPS}{query}")).await;
        assert_eq!((answer.code, &*answer.body, took.as_secs()), (504, TOO_LATE, seconds), "{query}");
        assert_eq!(answer.headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    }
    let (answer, took) = endless(&patient, &format!("{CONFIG_MAPS}?timeout=5")).await;
    assert_eq!((answer.code, took), (400, Duration::ZERO), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn request_whose_storage_is_slow_fails_after_its_time_limit() {
    let held = Held::new("/registry/configmaps/");
    let service = held.service();
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    held.is_open.send_replace(false);
    let began = Instant::now();
    let answer = get(&service, &path).await;
    assert_eq!((answer.code, &*answer.body, began.elapsed().as_secs()), (504, TOO_LATE, 60));
    // A write has a shorter limit, with a complete status.
    let began = Instant::now();
    let answer = post(&service, CONFIG_MAPS, config_map("b")).await;
    let status: Value = serde_json::from_str(&answer.body).unwrap();
    let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    assert_eq!((answer.code, &status["message"], began.elapsed().as_secs()), (504, &json!(message), 34));
    let metrics = get(&service, "/metrics").await.body;
    let counted = |verb: &str| {
        let line = |line: &&str| line.starts_with("apiserver_request_total{") && line.contains(verb);
        metrics.lines().filter(line).any(|line| line.contains("code=\"504\"") && line.contains("configmaps"))
    };
    assert_eq!([counted("verb=\"GET\""), counted("verb=\"POST\"")], [true; 2], "{metrics}");
    held.is_open.send_replace(true);
    assert_eq!(get(&service, &path).await.code, 200);
}

/// A webhook that keeps the audit events that it gets.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<Value>>);

impl AuditWebhook for Recorder {
    fn post(&self, events: Bytes) -> BoxFuture<'_, Result<(), BoxError>> {
        let events: Value = serde_json::from_slice(&events).unwrap();
        self.0.lock().extend(events["items"].as_array().unwrap().clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_takes_too_long_has_a_complete_audit_event() {
    let held = Held::new("/registry/configmaps/");
    let recorder = Arc::new(Recorder::default());
    let policy = AuditPolicy::parse(json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "RequestResponse"}],
    }));
    let batch = AuditBatchOptions { mode: AuditMode::Blocking, ..AuditBatchOptions::of_webhook() };
    let options = AuditWebhookOptions { batch, ..AuditWebhookOptions::default() };
    let webhook: Arc<dyn AuditWebhook> = recorder.clone();
    let audit = AuditConfiguration::new(policy.unwrap()).with_webhook(webhook, &options).unwrap();
    let storage: Arc<dyn Storage> = held.clone();
    let service = Server::builder().storage(storage).audit(audit).build().service();
    assert_eq!(get(&service, "/api/v1/namespaces/default").await.code, 200);
    recorder.0.lock().clear();
    held.is_open.send_replace(false);
    let began = Instant::now();
    assert_eq!(get(&service, &format!("{CONFIG_MAPS}/a?timeout=2s")).await.code, 504);
    assert_eq!(post(&service, &format!("{CONFIG_MAPS}?timeout=3s"), config_map("b")).await.code, 504);
    assert_eq!(began.elapsed().as_secs(), 5);
    let events = std::mem::take(&mut *recorder.0.lock());
    let shown = events.iter().map(|event| {
        let code = &event["responseStatus"]["code"];
        (event["stage"].clone(), event["verb"].clone(), code.clone(), event["responseObject"].clone())
    });
    let expected = |verb: &str| (json!("ResponseComplete"), json!(verb), json!(504), Value::Null);
    assert_eq!(shown.collect::<Vec<_>>(), ["get", "create"].map(expected));
    assert_eq!(events[1]["requestObject"]["metadata"]["name"], "b");
}

#[tokio::test(start_paused = true)]
async fn write_with_claims_is_finished_after_its_time_limit() {
    let held = Held::new("/registry/services/specs/");
    let service = held.service();
    assert_eq!(get(&service, "/api/v1/namespaces/default").await.code, 200);
    let services = "/api/v1/namespaces/default/services";
    let (path, address) = (format!("{services}/a"), "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.77");
    let body = json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}});
    held.is_open.send_replace(false);
    assert_eq!(post(&service, &format!("{services}?timeout=2s"), body).await.code, 504);
    held.is_open.send_replace(true);
    let until = async |path: &str, code: u16| {
        let found = async {
            while get(&service, path).await.code != code {
                time::sleep(Duration::from_millis(10)).await;
            }
        };
        time::timeout(DEADLINE, found).await.unwrap_or_else(|_| panic!("{path} never has code {code}"));
    };
    until(&path, 200).await;
    assert_eq!(get(&service, address).await.code, 200);
    held.is_open.send_replace(false);
    let deleted = with_body(&service, "DELETE", &format!("{path}?timeout=2s"), "application/json", "").await;
    assert_eq!(deleted.code, 504, "{}", deleted.body);
    held.is_open.send_replace(true);
    until(&path, 404).await;
    until(address, 404).await;
}

#[tokio::test(start_paused = true)]
async fn watch_has_no_time_limit() {
    let held = Held::new("/registry/configmaps/");
    let service = held.service();
    assert_eq!(get(&service, "/api/v1/namespaces/default").await.code, 200);
    held.is_open.send_replace(false);
    let began = Instant::now();
    let open = async {
        time::sleep(Duration::from_secs(100)).await;
        held.is_open.send_replace(true);
    };
    // The parameter is not even read.
    let path = format!("{CONFIG_MAPS}?watch=true&timeout=1&timeoutSeconds=300");
    let (mut events, ()) = tokio::join!(watch(&service, &path), open);
    assert_eq!((events.status().as_u16(), began.elapsed().as_secs()), (200, 100));
    assert_eq!(post(&service, CONFIG_MAPS, config_map("a")).await.code, 201);
    assert!(frame(events.body_mut()).await.unwrap().contains("ADDED"));
    let proxied = get(&service, "/api/v1/namespaces/default/services/missing/proxy/?timeout=30").await;
    assert_eq!(proxied.code, 404, "{}", proxied.body);
}

#[tokio::test(start_paused = true)]
async fn start_continues_after_the_time_limit_of_the_request_that_began_it() {
    let held = Held::new("/registry/namespaces/");
    let service = held.service();
    held.is_open.send_replace(false);
    let began = Instant::now();
    let answer = get(&service, &format!("{CONFIG_MAPS}?timeout=2s")).await;
    assert_eq!((answer.code, began.elapsed().as_secs()), (504, 2));
    held.is_open.send_replace(true);
    // No other request begins it again.
    let created = async {
        while held.storage.get("/registry/namespaces/default", None).await.unwrap().1.is_none() {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(DEADLINE, created).await.expect("the server has started");
    assert_eq!(get(&service, CONFIG_MAPS).await.code, 200);
}
