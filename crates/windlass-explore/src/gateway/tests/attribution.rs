//! Attribution of changes to requests, and their points.

use http::Method;
use serde_json::{Value, json};

use crate::{
    cluster::{
        ClusterOptions, Observed,
        fixture::{CONFIG_MAPS, Fixture, config_map},
    },
    record::{Actor, Change},
};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// Returns the originator and the content of a change.
fn line(change: &Change) -> String {
    let actor = match change.actor {
        Actor::Program(process) => process.to_string(),
        Actor::Other => "other".to_owned(),
    };
    format!("{actor} {}", change.point.explained())
}

fn is_own(change: &Change) -> bool {
    matches!(change.actor, Actor::Program(_))
}

/// Returns a Deployment.
fn web() -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}},
        },
    })
}

fn lines(observed: &Observed) -> Vec<String> {
    observed.of_config_maps().map(line).collect()
}

#[tokio::test]
async fn writes_of_the_program_are_attributed() {
    let fixture = Fixture::start("none").await;
    let (program, other) = (fixture.process(1), fixture.administrator());
    let a = format!("{CONFIG_MAPS}/a");
    let mut object = program.create("a").await;
    object["data"]["shape"] = "round".into();
    program.succeed(Method::PUT, &a, object).await;
    program.set("a", "green").await;
    other.set("a", "blue").await;
    // Without an effect, the response has the version of the other client's change.
    program.set("a", "blue").await;
    let mut applied = config_map("b");
    program.succeed(Method::PATCH, &format!("{CONFIG_MAPS}/b?fieldManager=test"), applied.clone()).await;
    applied["metadata"]["finalizers"] = json!(["example.dev/f"]);
    program.succeed(Method::PATCH, &format!("{CONFIG_MAPS}/b?fieldManager=test"), applied).await;
    program.delete("a").await;
    program.delete("b").await;
    // The removal of the last finalizer removes the object.
    let b = format!("{CONFIG_MAPS}/b");
    program.succeed(Method::PATCH, &b, json!({"metadata": {"finalizers": null}})).await;
    fixture.cluster.begin_step(1);
    let second = fixture.process(2);
    for name in ["c", "d"] {
        second.create(name).await;
    }
    second
        .succeed(Method::DELETE, &format!("{CONFIG_MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt"), Value::Null)
        .await;
    let observed = fixture.finish().await;
    let expected = [
        "1 create of configmaps default/a in step 0",
        "1 update of configmaps default/a (data.shape) in step 0",
        "1 update of configmaps default/a (data.color) in step 0",
        "other update of configmaps default/a (data.color) in step 0, number 2",
        "1 create of configmaps default/b in step 0",
        "1 update of configmaps default/b (metadata.finalizers) in step 0",
        "1 delete of configmaps default/a in step 0",
        "1 update of configmaps default/b (metadata.deletionGracePeriodSeconds, metadata.deletionTimestamp) in step 0",
        "1 delete of configmaps default/b in step 0",
        "2 create of configmaps default/c in step 1",
        "2 create of configmaps default/d in step 1",
        "2 delete of configmaps default/c in step 1",
        "2 delete of configmaps default/d in step 1",
    ];
    assert_eq!(lines(&observed), expected);
    assert!(observed.changes.is_sorted_by_key(|change| change.revision));
    let created = observed.of_config_maps().next().unwrap();
    assert!(created.before.is_none());
    assert_eq!(created.after.as_ref().unwrap()["data"]["color"], "red");
    let first = &observed.requests[0];
    assert_eq!((first.process, first.status, first.revision), (1, Some(201), Some(created.revision)));
    let without_effect = observed.requests.iter().filter(|request| request.revision.is_none()).count();
    assert_eq!(without_effect, 1);
    assert_eq!(observed.revision_of_step.len(), 2);
    assert!(!observed.end.keys().any(|name| name.resource == "configmaps" && name.name.len() == 1));
}

#[tokio::test]
async fn pods_and_custom_resources_are_observed() {
    let definition = |plural: &str, kind: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.dev")},
            "spec": {
                "group": "example.dev", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        })
    };
    let options = ClusterOptions { nodes: 1, crds: vec![definition("shops", "Shop")], ..ClusterOptions::default() };
    let fixture = Fixture::start_with("none", &options).await;
    let program = fixture.process(1);
    let shop = json!({"apiVersion": "example.dev/v1", "kind": "Shop", "metadata": {"name": "s"}, "spec": {"size": 1}});
    program.succeed(Method::POST, "/apis/example.dev/v1/namespaces/default/shops", shop.clone()).await;
    let status = json!({"status": {"phase": "Open"}});
    program.succeed(Method::PATCH, "/apis/example.dev/v1/namespaces/default/shops/s/status", status).await;
    // A definition that the program installs.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    program.succeed(Method::POST, definitions, definition("bars", "Bar")).await;
    let bar = json!({"apiVersion": "example.dev/v1", "kind": "Bar", "metadata": {"generateName": "b-"}});
    while program.send(Method::POST, "/apis/example.dev/v1/namespaces/default/bars", bar.clone()).await.unwrap().0
        == 404
    {
        tokio::task::yield_now().await;
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    program.succeed(Method::POST, "/api/v1/namespaces/default/pods", pod).await;
    let observed = fixture.finish().await;
    let own: Vec<_> = observed.changes.iter().filter(|change| is_own(change)).map(line).collect();
    let expected = [
        "1 create of shops.example.dev default/s in step 0",
        "1 update of shops.example.dev default/s (status.phase) in step 0",
        "1 create of customresourcedefinitions.apiextensions.k8s.io bars.example.dev in step 0",
        "1 create of bars.example.dev default/b-* in step 0",
        "1 create of pods default/p in step 0",
    ];
    assert_eq!(own, expected);
}

#[tokio::test]
async fn subresources_are_attributed() {
    let plan = "refused(500)@0:update:deployments.apps/default/web:spec.replicas";
    let fixture = Fixture::start(plan).await;
    let program = fixture.process(1);
    program.succeed(Method::POST, DEPLOYMENTS, web()).await;
    let scale = format!("{DEPLOYMENTS}/web/scale");
    let patch = json!({"spec": {"replicas": 0}});
    assert_eq!(program.send(Method::PATCH, &scale, patch.clone()).await.unwrap().0, 500);
    assert_eq!(program.get(&scale).await.1["spec"]["replicas"], 2);
    program.succeed(Method::PATCH, &scale, patch).await;
    let pods = "/api/v1/namespaces/default/pods";
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    pod["spec"] = web()["spec"]["template"]["spec"].clone();
    program.succeed(Method::POST, pods, pod.clone()).await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    program.succeed(Method::POST, &format!("{pods}/p/eviction"), eviction).await;
    // A pod without a node is removed at once.
    program.succeed(Method::POST, pods, pod).await;
    program.succeed(Method::DELETE, &format!("{pods}/p"), Value::Null).await;
    let observed = fixture.finish().await;
    let own: Vec<_> = observed.changes.iter().filter(|change| is_own(change)).map(line).collect();
    let expected = [
        "1 create of deployments.apps default/web in step 0",
        "1 update of deployments.apps default/web (spec.replicas) in step 0",
        "1 create of pods default/p in step 0",
        "1 update of pods default/p (metadata.deletionGracePeriodSeconds, metadata.deletionTimestamp) in step 0",
        "1 create of pods default/p in step 0, number 2",
        "1 delete of pods default/p in step 0, number 2",
    ];
    assert_eq!(own, expected);
}

#[tokio::test]
async fn events_and_leases_are_no_changes() {
    let fixture = Fixture::start("none").await;
    let program = fixture.process(1);
    let begun = tokio::time::Instant::now();
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}});
    program.succeed(Method::POST, "/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Tested",
        "involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": "default"},
    });
    program.succeed(Method::POST, "/api/v1/namespaces/default/events", event).await;
    assert!(begun.elapsed() < tokio::time::Duration::from_secs(4), "waits for changes that are not observed");
    let observed = fixture.finish().await;
    assert!(!observed.changes.iter().any(is_own));
    assert_eq!(observed.requests.len(), 2);
}

/// Returns the sorted points of the creations and deletions of a Deployment's life.
async fn deployment() -> Vec<String> {
    let fixture = Fixture::start_with("none", &ClusterOptions { nodes: 1, ..ClusterOptions::default() }).await;
    let program = fixture.process(1);
    program.succeed(Method::POST, DEPLOYMENTS, web()).await;
    let settle = || async {
        // Nothing changes for a second.
        let quiet = tokio::time::Duration::from_secs(1);
        while fixture.cluster.activity().last_change.elapsed() < quiet {
            tokio::time::sleep_until(fixture.cluster.activity().last_change + quiet).await;
        }
    };
    settle().await;
    let (_, ready) = program.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(ready["status"]["readyReplicas"], 2);
    fixture.cluster.begin_step(1);
    program.succeed(Method::DELETE, &format!("{DEPLOYMENTS}/web"), Value::Null).await;
    settle().await;
    let observed = fixture.finish().await;
    let is_whole = |change: &&Change| change.point.fields.is_empty() && !change.object.resource.starts_with("endpoint");
    let mut points: Vec<_> = observed.changes.iter().filter(is_whole).map(line).collect();
    points.sort();
    points
}

#[tokio::test]
async fn equal_runs_have_equal_points() {
    let points = deployment().await;
    let of_pods: Vec<_> = points.iter().filter(|point| point.contains("pods default/web-")).collect();
    assert_eq!(of_pods.len(), 4, "{points:?}");
    assert!(of_pods.iter().all(|point| point.contains("-* in step")), "{of_pods:?}");
    assert_eq!(points, deployment().await);
}

#[tokio::test]
async fn writes_in_removed_api_versions_are_attributed() {
    let runtime = "policy/v1beta1=true".parse().unwrap();
    let fixture = Fixture::start_with("none", &ClusterOptions { runtime, ..ClusterOptions::default() }).await;
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}});
    let budgets = "/apis/policy/v1beta1/namespaces/default/poddisruptionbudgets";
    fixture.process(1).succeed(Method::POST, budgets, budget).await;
    let observed = fixture.finish().await;
    let own: Vec<_> = observed.changes.iter().filter(|change| is_own(change)).map(line).collect();
    assert_eq!(own, ["1 create of poddisruptionbudgets.policy default/b in step 0"]);
}
