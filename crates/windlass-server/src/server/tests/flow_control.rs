//! Tests of priority and fairness, and of the limits without it.

use futures::poll;
use http_body::Frame;
use http_body_util::StreamBody;
use windlass_api::BoxError;

use super::*;
use crate::{
    AuditBatchOptions, AuditConfiguration, AuditMode, AuditPolicy, AuditWebhook, AuditWebhookOptions, identity::User,
    turns::Class,
};

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const MERGE: &str = "application/merge-patch+json";
const TOO_MANY: &str = "Too many requests, please try again later.\n";

/// Creates a level, and a schema for all resources of a user.
async fn create(admin: &Service, level: &str, limits: Value, user: &str) {
    let spec = json!({"type": "Limited", "limited": limits});
    let created = post(admin, LEVELS, json!({"metadata": {"name": level}, "spec": spec})).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let created = post(admin, SCHEMAS, schema(&format!("of-{user}"), level, user)).await;
    assert_eq!(created.code, 201, "{}", created.body);
}

fn schema(name: &str, level: &str, user: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
    "priorityLevelConfiguration": {"name": level},
    "rules": [{
        "subjects": [{"kind": "User", "user": {"name": user}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true,
            "namespaces": ["*"]}],
    }]}})
}

/// Limits without seats that are its own or can be borrowed.
fn no_seats() -> Value {
    json!({"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Queue", "queuing": {
        "queues": 1, "handSize": 1, "queueLengthLimit": 2}}})
}

async fn uid(admin: &Service, path: &str) -> String {
    get(admin, path).await.json()["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Returns the names of the schema and the level of a response.
async fn classes(admin: &Service, answer: &Answer) -> (String, String) {
    let mut names = Vec::new();
    for (path, header) in [(SCHEMAS, "x-kubernetes-pf-flowschema-uid"), (LEVELS, "x-kubernetes-pf-prioritylevel-uid")] {
        let list = get(admin, path).await.json();
        let items = list["items"].as_array().unwrap();
        let found = items.iter().find(|item| item["metadata"]["uid"] == answer.header(header));
        names.push(found.map_or_else(String::new, |item| item["metadata"]["name"].as_str().unwrap().to_owned()));
    }
    let [schema, level] = names.try_into().unwrap();
    (schema, level)
}

#[tokio::test(start_paused = true)]
async fn responses_have_the_uids_of_schema_and_level() {
    let server = server();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    // The objects do not exist before a request needs them.
    assert_eq!(get(&admin, CONFIG_MAPS).await.header("x-kubernetes-pf-flowschema-uid"), "");
    let answer = get(&jane, CONFIG_MAPS).await;
    assert_eq!(answer.code, 403);
    assert_eq!(
        answer.header("x-kubernetes-pf-flowschema-uid"),
        uid(&admin, &format!("{SCHEMAS}/global-default")).await
    );
    let level = uid(&admin, &format!("{LEVELS}/global-default")).await;
    assert_eq!(answer.header("x-kubernetes-pf-prioritylevel-uid"), level);
    let answer = get(&admin, CONFIG_MAPS).await;
    assert_eq!(classes(&admin, &answer).await, ("exempt".to_owned(), "exempt".to_owned()));
    // Long-running requests are not limited, except for watches.
    let answer = get(&jane, "/api/v1/namespaces/default/pods/p/log").await;
    assert_eq!(answer.header("x-kubernetes-pf-flowschema-uid"), "");
    let answer = get(&jane, "/api/v1/pods?watch=1").await;
    assert_eq!(classes(&admin, &answer).await.0, "global-default");
}

#[tokio::test(start_paused = true)]
async fn bodies_have_the_class_of_their_user() {
    let server = server();
    get(&server.service(), CONFIG_MAPS).await;
    let class = async |service: Service| {
        let request = request("GET", "/api").body(String::new()).unwrap();
        service.oneshot(request).await.unwrap().body().class()
    };
    assert_eq!(class(server.service()).await, Class::Exempt);
    let user = async |name| match class(server.service().acting_as(User::new(name))).await {
        Class::Flow { level, flow } => (level, flow),
        other => panic!("{other:?}"),
    };
    let (jane, joe, scheduler) = (user("jane").await, user("joe").await, user("system:kube-scheduler").await);
    assert!(jane.0 == joe.0 && jane.1 != joe.1, "{jane:?} {joe:?}");
    assert_ne!(jane.0, scheduler.0);
}

#[tokio::test(start_paused = true)]
async fn users_are_flows_in_levels_without_queues_and_without_fairness() {
    let server = server();
    let admin = server.service();
    create(&admin, "mine", json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}), "nobody").await;
    let mut divided = schema("divided", "mine", "");
    divided["spec"]["distinguisherMethod"] = json!({"type": "ByUser"});
    divided["spec"]["rules"] = json!([{
        "subjects": [{"kind": "Group", "group": {"name": "system:authenticated"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }]);
    divided["spec"]["matchingPrecedence"] = 5.into();
    assert_eq!(post(&admin, SCHEMAS, divided).await.code, 201);
    let mut flows = Vec::new();
    let unfair = Server::builder().priority_and_fairness(false).build();
    for server in [&server, &unfair] {
        for name in ["jane", "joe"] {
            let request = request("GET", "/api").body(String::new()).unwrap();
            let answer = server.service().acting_as(User::new(name)).oneshot(request).await.unwrap();
            let class = answer.body().class();
            assert!(matches!(class, Class::Flow { .. }), "{name}: {class:?}");
            flows.push(class);
        }
    }
    assert!(flows.chunks(2).all(|users| users[0] != users[1]), "{flows:?}");
}

#[tokio::test(start_paused = true)]
async fn changed_objects_apply_to_the_next_request() {
    let server = server();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    let seats = json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}});
    create(&admin, "mine", seats, "jane").await;
    let class = async || {
        let answer = get(&jane, CONFIG_MAPS).await;
        classes(&admin, &answer).await.0
    };
    assert_eq!(class().await, "of-jane");
    let first = json!({"spec": {"matchingPrecedence": 900}});
    assert_eq!(post(&admin, SCHEMAS, schema("other", "system", "jane")).await.code, 201);
    assert_eq!(class().await, "of-jane");
    assert_eq!(with_body(&admin, "PATCH", &format!("{SCHEMAS}/other"), MERGE, &first).await.code, 200);
    assert_eq!(class().await, "other");
    assert_eq!(
        send(&admin, request("DELETE", &format!("{SCHEMAS}/other")).body(String::new()).unwrap()).await.code,
        200
    );
    assert_eq!(class().await, "of-jane");
    assert_eq!(send(&admin, request("DELETE", &format!("{LEVELS}/mine")).body(String::new()).unwrap()).await.code, 200);
    assert_eq!(class().await, "global-default");
}

#[tokio::test(start_paused = true)]
async fn request_without_a_seat_waits_and_is_rejected() {
    let server = server();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    create(&admin, "none", no_seats(), "jane").await;
    for (query, millis) in [("", 15_000), ("?timeout=2s", 500), ("?timeout=10m", 15_000)] {
        let start = Instant::now();
        let answer = get(&jane, &format!("{CONFIG_MAPS}{query}")).await;
        assert_eq!((answer.code, &*answer.body), (429, TOO_MANY));
        assert_eq!(start.elapsed(), Duration::from_millis(millis), "{query}");
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        assert_eq!(classes(&admin, &answer).await, ("of-jane".to_owned(), "none".to_owned()));
    }
    let start = Instant::now();
    assert_eq!(get(&jane, "/api/v1/pods?watch=1&timeoutSeconds=1").await.code, 429);
    assert_eq!(start.elapsed(), Duration::from_secs(15));
    let metrics = get(&admin, "/metrics").await.body;
    let rejected = "rejected_requests_total{flow_schema=\"of-jane\",priority_level=\"none\",reason=\"time-out\"} 4\n";
    assert!(metrics.contains(rejected), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn full_queue_rejects_at_once_until_a_client_leaves() {
    let server = server();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    create(&admin, "none", no_seats(), "jane").await;
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(get(&jane, CONFIG_MAPS))).collect();
    for request in &mut waiting {
        assert!(poll!(request).is_pending());
    }
    let start = Instant::now();
    assert_eq!(get(&jane, CONFIG_MAPS).await.code, 429);
    assert_eq!(start.elapsed(), Duration::ZERO);
    drop(waiting.pop());
    let mut next = Box::pin(get(&jane, CONFIG_MAPS));
    assert!(poll!(&mut next).is_pending());
    let dump = get(&admin, "/debug/api_priority_and_fairness/dump_priority_levels").await;
    let row = dump.body.lines().find(|line| line.starts_with("none,")).unwrap();
    let cells: Vec<_> = row.split(',').map(str::trim).collect();
    assert_eq!(cells[1..], ["1", "false", "false", "2", "0", "0", "2", "0", "1"], "{}", dump.body);
    // The level gets seats.
    let seats = json!({"spec": {"limited": {"nominalConcurrencyShares": 30}}});
    assert_eq!(with_body(&admin, "PATCH", &format!("{LEVELS}/none"), MERGE, &seats).await.code, 200);
    assert_eq!(next.await.code, 403);
    assert_eq!(waiting.pop().unwrap().await.code, 403);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn open_watch_occupies_no_seat() {
    let server = server();
    let admin = server.service();
    let jane = server.service().acting_as(User::new("jane").in_groups(["readers"]));
    let role = json!({"metadata": {"name": "readers"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"],
        "verbs": ["list", "watch"]}]});
    assert_eq!(post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await.code, 201);
    let binding = json!({"metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}]});
    assert_eq!(post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await.code, 201);
    let seats = json!({"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}});
    create(&admin, "single", seats, "jane").await;
    let _open = watch(&jane, &format!("{CONFIG_MAPS}?watch=1")).await;
    let second = watch(&jane, &format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(second.status(), 200);
    assert_eq!(get(&jane, CONFIG_MAPS).await.code, 200);
}

/// A webhook that keeps the audit events that it gets.
#[derive(Debug, Default)]
struct Recorder(parking_lot::Mutex<Vec<Value>>);

impl AuditWebhook for Recorder {
    fn post(&self, events: Bytes) -> futures::future::BoxFuture<'_, Result<(), BoxError>> {
        let events: Value = serde_json::from_slice(&events).unwrap();
        self.0.lock().extend(events["items"].as_array().unwrap().clone());
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_request_has_an_audit_event_without_status_and_decision() {
    let recorder = Arc::new(Recorder::default());
    let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [
        {"level": "Metadata", "users": ["jane"], "omitStages": ["RequestReceived"]}, {"level": "None"}]});
    let batch = AuditBatchOptions { mode: AuditMode::Blocking, ..AuditBatchOptions::of_webhook() };
    let options = AuditWebhookOptions { batch, ..AuditWebhookOptions::default() };
    let webhook = Arc::clone(&recorder) as Arc<dyn AuditWebhook>;
    let audit = AuditConfiguration::new(AuditPolicy::parse(policy).unwrap()).with_webhook(webhook, &options).unwrap();
    let server = Server::builder().audit(audit).build();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    create(&admin, "none", no_seats(), "jane").await;
    assert_eq!(get(&jane, CONFIG_MAPS).await.code, 429);
    server.flush_audit().await;
    let events = recorder.0.lock().clone();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["responseStatus"], json!({"metadata": {}, "code": 429}));
    assert_eq!(events[0]["annotations"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn mandatory_and_suggested_objects_are_restored_each_minute() {
    let admin = server().service();
    let path = format!("{SCHEMAS}/catch-all");
    let before = get(&admin, &path).await.json();
    assert_eq!(send(&admin, request("DELETE", &path).body(String::new()).unwrap()).await.code, 200);
    let lendable = |percent| json!({"spec": {"limited": {"lendablePercent": percent}}});
    let level = format!("{LEVELS}/workload-low");
    assert_eq!(with_body(&admin, "PATCH", &level, MERGE, lendable(80)).await.code, 200);
    let mut unknown = schema("unknown", "system", "jane");
    unknown["metadata"]["annotations"] = json!({"apf.kubernetes.io/autoupdate-spec": "true"});
    assert_eq!(post(&admin, SCHEMAS, unknown).await.code, 201);
    time::sleep(Duration::from_secs(59)).await;
    assert_eq!(get(&admin, &path).await.code, 404);
    time::sleep(Duration::from_secs(2)).await;
    let after = get(&admin, &path).await.json();
    assert_eq!(after["spec"], before["spec"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["status"]["conditions"][0]["reason"], "Found");
    assert_eq!(get(&admin, &level).await.json()["spec"]["limited"]["lendablePercent"], 90);
    assert_eq!(get(&admin, &format!("{SCHEMAS}/unknown")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn status_is_written_at_most_six_times_per_minute() {
    let admin = server().service();
    let path = format!("{SCHEMAS}/a");
    assert_eq!(post(&admin, SCHEMAS, schema("a", "missing", "jane")).await.code, 201);
    let reason = async || get(&admin, &path).await.json()["status"]["conditions"][0]["reason"].clone();
    for round in 1..=6 {
        time::sleep(Duration::from_millis(10)).await;
        assert_eq!(reason().await, "NotFound", "{round}");
        let other = json!({"status": {"conditions": [{"type": "Dangling", "status": "True", "reason": "Other"}]}});
        assert_eq!(with_body(&admin, "PATCH", &format!("{path}/status"), MERGE, other).await.code, 200);
    }
    time::sleep(Duration::from_secs(10)).await;
    assert_eq!(reason().await, "Other");
    time::sleep(Duration::from_secs(90)).await;
    assert_eq!(reason().await, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn without_fairness_requests_beyond_the_limit_are_rejected() {
    let builder = Server::builder().priority_and_fairness(false);
    let server = builder.max_requests_in_flight(0).max_mutating_requests_in_flight(1).build();
    let (admin, jane) = (server.service(), server.service().acting_as(User::new("jane")));
    let role = json!({"metadata": {"name": "janes"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    assert_eq!(post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", role).await.code, 201);
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, BoxError>>());
    let endless = request("POST", CONFIG_MAPS).header(header::CONTENT_TYPE, "application/json").body(body).unwrap();
    let mut first = Box::pin(jane.clone().oneshot(endless));
    assert!(time::timeout(Duration::from_secs(1), &mut first).await.is_err());
    let name = |name: &str| json!({"metadata": {"name": name}});
    let answer = post(&jane, CONFIG_MAPS, name("a")).await;
    assert_eq!((answer.code, &*answer.body), (429, TOO_MANY));
    assert_eq!((answer.header("retry-after"), answer.header("x-kubernetes-pf-flowschema-uid")), ("1", ""));
    // Reads have no limit here, and administrators never have one.
    assert_eq!(get(&jane, CONFIG_MAPS).await.code, 200);
    assert_eq!(post(&admin, CONFIG_MAPS, name("b")).await.code, 201);
    drop(first);
    assert_eq!(post(&jane, CONFIG_MAPS, name("a")).await.code, 201);
    assert!(!get(&admin, "/metrics").await.body.contains("flowcontrol"));
    assert_eq!(get(&admin, "/debug/api_priority_and_fairness/dump_queues").await.code, 404);
}
