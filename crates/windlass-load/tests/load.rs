//! Runs against the embedded server, with the built-in controllers and paused time.
#![cfg(test)]

use std::{future, time::Duration};

use windlass_api::{
    Entropy, Status,
    k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace},
    },
};
use windlass_controllers::{Controllers, Pace};
use windlass_envtest::{Environment, RequestMatcher, Sent, Verb};
use windlass_load::{Keep, Load, Results, Size, Workload, report};

/// ConfigMaps that are created at 10 a second, and deleted.
const CONFIGS: &str = "
name: configs
rate: 10
objects:
  config: {count: 5, template: {apiVersion: v1, kind: ConfigMap, data: {name: '${name}'}}}
phases:
- {name: create, create: [config], order: listed, wait: ready}
- {name: update, update: [config], wait: ready}
- {name: delete, delete: [config], wait: gone}
";

/// An environment whose controllers run pods on `nodes` nodes.
async fn cluster(nodes: usize) -> Environment {
    let env = Environment::builder().seed(7).start().await.unwrap();
    let mut manager = env.manager();
    Controllers::all().nodes(nodes).pace(Pace::immediate()).add_to(&mut manager);
    env.run(manager);
    env.eventually_all::<windlass_api::k8s_openapi::api::core::v1::Node>(move |found| found.len() == nodes).await;
    env
}

fn load(env: &Environment, workload: Workload, size: Size) -> Load {
    Load::new(env.client(), workload)
        .size(size)
        .seed(5)
        .clock(env.clock().clone())
        .entropy(Entropy::seeded(9))
        .timeout(Duration::from_mins(1))
}

fn configs() -> Workload {
    Workload::parse("configs", CONFIGS).unwrap()
}

/// The creations of ConfigMaps in namespaces of a run.
fn creates() -> RequestMatcher {
    let creates = RequestMatcher::any().of::<ConfigMap>().verb(Verb::Create);
    creates.matching(|sent| sent.uri.path().contains("windlass-load-"))
}

/// A size for workloads without pods.
fn one_node() -> Size {
    Size { nodes: 1, ..Size::default() }
}

fn count(results: &Results, verb: &str, resource: &str) -> usize {
    let rows = results.requests.iter().filter(|row| row.verb == verb && row.resource == resource);
    rows.map(|row| row.count).sum()
}

async fn namespaces(env: &Environment) -> usize {
    let list = env.client().list::<Namespace>().labels("load.windlass.dev/run").await.unwrap();
    list.len()
}

#[tokio::test(start_paused = true)]
async fn load_completes_and_counts_equal_the_requests() {
    let env = cluster(4).await;
    let deployments = env.record(RequestMatcher::any().of::<Deployment>());
    let size = Size {
        pods_per_node: Some(15.0),
        rate: Some(20.0),
        churn: 2.0,
        duration: Duration::from_secs(3),
        ..Size::default()
    };
    let results = load(&env, Workload::built_in("load").unwrap(), size).run(future::pending()).await.unwrap();

    assert!(results.is_complete(), "{}", report::text(&results));
    assert!(results.slos_met(), "{}", report::text(&results));
    assert_eq!(results.phases.len(), 7, "{:?}", results.phases);
    for (name, verb) in [("create", Verb::Create), ("patch", Verb::Patch), ("delete", Verb::Delete)] {
        // The controllers also patch Deployments, but never only the replicas.
        let by_load = move |sent: &Sent| verb != Verb::Patch || sent.json()["spec"]["replicas"].is_number();
        let sent = deployments.count(&RequestMatcher::any().verb(verb).matching(by_load));
        assert!(sent >= 10, "{name}: {sent}");
        assert_eq!(count(&results, name, "deployments.apps"), sent, "{name}");
    }
    // 60 pods: 10 small Deployments, one of each other kind, and the DaemonSet's pods.
    assert_eq!(count(&results, "create", "statefulsets.apps"), 1);
    assert_eq!(count(&results, "create", "jobs.batch"), 1);
    assert!(count(&results, "get", "configmaps") > 0 && count(&results, "list", "pods") > 0);
    let pods = results.pod_startup.as_ref().unwrap();
    assert!(pods.total.count >= 60, "{}", pods.total.count);
    assert!(results.watch["deployments.apps"].count > 0);
    assert_eq!(namespaces(&env).await, 0);
    assert!(results.remaining.is_empty(), "{:?}", results.remaining);
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn density_completes() {
    let env = cluster(2).await;
    let size = Size {
        pods_per_node: Some(10.0),
        rate: Some(20.0),
        parameters: [("latencyPods".to_owned(), 10.0)].into(),
        ..Size::default()
    };
    let results = load(&env, Workload::built_in("density").unwrap(), size).run(future::pending()).await.unwrap();
    assert!(results.is_complete() && results.slos_met(), "{}", report::text(&results));
    assert_eq!(count(&results, "create", "pods"), 10);
    assert_eq!(results.pod_startup.as_ref().unwrap().total.count, 30);
    let text = report::text(&results);
    assert!(text.contains("density on 2 nodes: 20 pods in 1 namespace, rate 20, seed 5"), "{text}");
    assert!(text.contains("objectives are met."), "{text}");
    let page = report::html(&results);
    assert!(page.matches("<svg").count() == 4 && !page.contains("NaN") && !page.contains("http-equiv"), "{page}");
    let json: serde_json::Value = serde_json::from_str(&report::json(&results)).unwrap();
    assert_eq!((json["format"].as_u64(), json["variables"]["pods"].as_f64()), (Some(1), Some(20.0)));
    assert!(json["requests"][0]["latency"]["p99"].is_number());
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failures_are_counted_by_reason_and_the_run_continues() {
    let env = cluster(1).await;
    let busy = env.on(creates()).once().fail(Status::failure(429, "TooManyRequests", "busy"));
    let conflict = env.on(creates()).once().fail(Status::failure(409, "AlreadyExists", "there"));
    let lost = env.on(creates()).once().lose();
    // This object exists, although its creation failed.
    let unanswered = env.on(creates()).once().lose_answers();
    let updates = env.on(RequestMatcher::any().of::<ConfigMap>().verb(Verb::Patch)).fail(Status::failure(
        500,
        "InternalError",
        "oops",
    ));
    let results = load(&env, configs(), one_node()).run(future::pending()).await.unwrap();
    drop((busy, conflict, lost, unanswered, updates));

    let row =
        |verb: &str| results.requests.iter().find(|row| row.verb == verb && row.resource == "configmaps").unwrap();
    let create = row("create");
    let failures: Vec<(&str, usize)> =
        create.failures.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(failures, [("409 AlreadyExists", 1), ("429 TooManyRequests", 1), ("connection failed", 2)]);
    assert_eq!((create.count, create.failed, create.met), (5, 4, false));
    assert_eq!(create.latency.unwrap().count, 1);
    assert_eq!(row("patch").failures["500 InternalError"], 2);
    assert!(row("patch").latency.is_none());
    assert_eq!(row("delete").count, 2, "only what exists is deleted");
    assert_eq!(results.skipped, 6, "three updates and three deletions");
    assert!(results.is_complete() && !results.slos_met());
    assert!(report::text(&results).contains("objectives are missed: create configmaps (resource), patch configmaps"));
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn get_of_an_object_that_the_run_deletes_meanwhile_is_answered() {
    let env = cluster(1).await;
    let gets = RequestMatcher::any().of::<ConfigMap>().verb(Verb::Get);
    // Each get arrives after the deletion of its object, which was sent later.
    let late = env.on(gets).delay(Duration::from_secs(2));
    let workload = Workload::parse("configs", &format!("{CONFIGS}reads:\n- {{verb: get, of: config, share: 1}}\n"));
    let results = load(&env, workload.unwrap(), one_node()).run(future::pending()).await.unwrap();
    drop(late);
    let get = results.requests.iter().find(|row| row.verb == "get").unwrap();
    assert!(get.count > 0 && get.failures.is_empty(), "{get:?}");
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn latency_includes_the_wait_for_a_slow_server() {
    let env = cluster(1).await;
    // With one request at a time, the fifth create is sent 2 s late: 5 × 0.6 s for what should take 0.4 s.
    let slow = env.on(creates()).delay(Duration::from_millis(600));
    let results = load(&env, configs(), one_node()).concurrency(1).run(future::pending()).await.unwrap();
    drop(slow);
    let create = results.requests.iter().find(|row| row.verb == "create").unwrap();
    let (latency, service) = (create.latency.unwrap(), create.service.unwrap());
    assert!((2.55..2.7).contains(&latency.max), "{latency:?}");
    assert!((0.6..0.65).contains(&service.max), "{service:?}");
    assert!(!create.met);
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopped_run_cleans_up_and_returns_its_results() {
    let env = cluster(1).await;
    let held = env.on(creates()).after(3).hold();
    let stop = tokio::time::sleep(Duration::from_secs(20));
    let results = load(&env, configs(), one_node()).run(stop).await.unwrap();
    drop(held);
    assert!(results.interrupted && !results.is_complete());
    assert_eq!((results.phases.len(), count(&results, "create", "configmaps")), (1, 3));
    assert_eq!(namespaces(&env).await, 0);
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_objects_are_not_touched() {
    let env = cluster(1).await;
    let mut foreign = Namespace::default();
    foreign.metadata.name = Some("windlass-load-other-0".to_owned());
    foreign.metadata.labels = Some([("load.windlass.dev/run".to_owned(), "other".to_owned())].into());
    env.client().create(&foreign).await.unwrap();
    let writes = env.record(RequestMatcher::writes().matching(|sent| sent.uri.path().contains("windlass-load-other")));
    let kept = load(&env, configs(), one_node()).keep(Keep::Everything).run(future::pending()).await.unwrap();
    assert_eq!(kept.remaining.len(), 1);
    assert!(report::text(&kept).contains(&format!("kubectl delete namespace -l load.windlass.dev/run={}", kept.run)));
    assert_eq!(namespaces(&env).await, 2);
    load(&env, configs(), one_node()).entropy(Entropy::seeded(1)).run(future::pending()).await.unwrap();
    assert_eq!(namespaces(&env).await, 2, "the kept and the other namespace remain");
    let by_controllers = ["serviceaccounts", "configmaps"];
    let requests = writes.requests();
    let others: Vec<_> =
        requests.iter().filter(|write| !by_controllers.contains(&write.sent.resource.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_are_deleted_at_the_end() {
    let env = cluster(1).await;
    let text = "
name: classes
namespaces: 2
objects:
  class: {total: 3, template: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, value: 5}}
phases:
- {name: create, create: [class], wait: ready}
";
    let workload = Workload::parse("classes", text).unwrap();
    let results = load(&env, workload, one_node()).run(future::pending()).await.unwrap();
    assert_eq!(count(&results, "create", "priorityclasses.scheduling.k8s.io"), 3);
    assert!(results.is_complete() && results.remaining.is_empty(), "{:?}", results.remaining);
    let classes = env.client().list::<windlass_api::k8s_openapi::api::scheduling::v1::PriorityClass>().await.unwrap();
    let left = classes.iter().filter(|class| class.metadata.name.as_deref().unwrap_or_default().contains("load"));
    assert_eq!(left.count(), 0);
    env.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn workloads_that_do_not_fit_the_server_are_rejected_first() {
    let env = cluster(1).await;
    let writes = env.record(RequestMatcher::writes().of::<Namespace>().verb(Verb::Create));
    for (object, expected) in [
        ("{count: 1, template: {apiVersion: v9, kind: Thing}}", "objects.a: the server has no kind Thing in v9"),
        (
            "{count: 1, template: {apiVersion: v1, kind: ConfigMap, data: {a: '${nme}'}}}",
            "objects.a.template: ${nme}: unknown variable",
        ),
        (
            "{count: 1, template: {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass}}",
            "objects.a.template: PriorityClass is cluster-scoped",
        ),
    ] {
        let text = format!("name: t\nobjects: {{a: {object}}}\nphases: [{{name: c, create: [a]}}]\n");
        let workload = Workload::parse("w.yaml", &text).unwrap();
        let error = load(&env, workload, one_node()).run(future::pending()).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("workload w.yaml: {expected}")), "{error}");
    }
    assert_eq!(writes.requests().len(), 0, "nothing was created");
    env.stop().await.unwrap();
}

#[tokio::test]
async fn unreachable_server_is_an_error() {
    let config = windlass_client::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = windlass_client::Client::new(config).unwrap();
    let error = Load::new(client, configs()).run(future::pending()).await.unwrap_err();
    let text = windlass_api::ErrorChain(&error).to_string();
    assert!(
        text.starts_with("cannot count the nodes of the cluster: list nodes: the connection to the server failed"),
        "{text}"
    );
}
