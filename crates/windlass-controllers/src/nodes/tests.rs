//! The simulated nodes against the embedded server: stages, failures and zones.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::{ObjectExt, ObjectRef, Patch};
use windlass_envtest::Environment;

use super::Stages;
use crate::{BuiltIn, Controllers, EvictionRates, Pace};

/// Stages of pods with the fields and functions of kwok's general ones: a pod is created, becomes ready, completes if it
/// belongs to a Job, and is deleted after its finalizer was removed.
const PODS: &str = include_str!("stages/testdata/pods.yaml");
/// Stages of nodes: a node is initialized, and fails if it has a label.
const NODES: &str = include_str!("stages/testdata/nodes.yaml");

type Outcome = Result<(), Box<dyn std::error::Error>>;

async fn start(controllers: Controllers) -> Environment {
    let env = Environment::start().await;
    let mut manager = env.manager();
    controllers.pace(Pace::immediate()).add_to(&mut manager);
    env.run(manager);
    env
}

async fn create_pod(env: &Environment, name: &str, more: Value) -> Outcome {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "nginx"}], "tolerations": []},
    });
    merge(&mut pod, more);
    env.client().create(&serde_json::from_value::<Pod>(pod)?).await?;
    Ok(())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn pod(name: &str) -> ObjectRef<Pod> {
    ObjectRef::new(name).within("default")
}

fn phase(pod: &Pod) -> &str {
    crate::pods::phase(pod)
}

fn ready(node: &Node) -> Option<(&str, &str)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((&ready.status, ready.reason.as_deref().unwrap_or_default()))
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_follow_their_stages() -> Outcome {
    let stages = Stages::parse("pods.yaml", PODS)?;
    let env = start(Controllers::of([BuiltIn::Nodes]).nodes(2).stages(stages)).await;
    create_pod(&env, "web", json!({"metadata": {"labels": {"staged": "true"}, "finalizers": ["windlass.dev/test"]}}))
        .await?;
    let job = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "1"}]);
    create_pod(&env, "work", json!({"metadata": {"labels": {"staged": "true"}, "ownerReferences": job}})).await?;
    create_pod(&env, "other", json!({})).await?;

    let created = env.eventually(pod("web"), |pod: &Pod| pod.status.as_ref().is_some_and(|s| s.pod_ip.is_some())).await;
    let status = created.status.clone().unwrap_or_default();
    assert_eq!((phase(&created), status.message.as_deref()), ("Pending", Some("containers of web: [ main ]")));
    assert!(status.pod_ip.is_some_and(|ip| ip.starts_with("10.244.")));
    assert!(status.host_ip.is_some_and(|ip| ip.starts_with("172.18.")));
    let running = env.eventually(pod("web"), |pod: &Pod| phase(pod) == "Running").await;
    let status = running.status.unwrap_or_default();
    let started = status.start_time.unwrap().0;
    let waited = started.duration_since(running.metadata.creation_timestamp.unwrap().0).as_secs();
    assert!((4..=9).contains(&waited), "two delays of 2 s to 4 s: {waited}");
    let container = &status.container_statuses.unwrap()[0];
    assert!(container.ready && container.container_id.is_none(), "{container:?}");

    env.eventually(pod("work"), |pod: &Pod| phase(pod) == "Succeeded").await;
    let other = env.eventually(pod("other"), |pod: &Pod| phase(pod) == "Running").await;
    let statuses = other.status.and_then(|status| status.container_statuses).unwrap_or_default();
    assert!(statuses[0].container_id.is_some(), "no stage selects it, so it has the default life cycle");

    env.client().delete::<Pod>(pod("web")).await?;
    env.eventually_gone(pod("web")).await;
    let events = env.client().list::<Event>().within("default").await?.items;
    let note = events.iter().find(|event| event.reason.as_deref() == Some("Staged"));
    let note = note.and_then(|event| event.message.as_deref());
    assert_eq!(note, Some("a stage has created the containers"));
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn nodes_follow_their_stages() -> Outcome {
    let stages = Stages::parse("nodes.yaml", NODES)?;
    let env = start(Controllers::of([BuiltIn::Nodes]).nodes(1).stages(stages)).await;
    let node = env.eventually("node-0", |node: &Node| ready(node) == Some(("True", "KubeletReady"))).await;
    let status = node.status.unwrap_or_default();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    let pods = status.allocatable.unwrap_or_default()["pods"].0.clone();
    assert_eq!((&*pods, &*status.node_info.unwrap().os_image), ("110", "staged node-0"));
    let label = Patch::Merge(json!({"metadata": {"labels": {"fails": "true"}}}));
    env.client().patch::<Node>("node-0", label).await?;
    env.eventually("node-0", |node: &Node| ready(node) == Some(("False", "nodeFailed"))).await;
    let healed = Patch::Merge(json!({"metadata": {"labels": {"fails": null}}}));
    env.client().patch::<Node>("node-0", healed).await?;
    env.eventually("node-0", |node: &Node| ready(node) == Some(("True", "KubeletReady"))).await;
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn failed_node_loses_its_pods_and_recovers() -> Outcome {
    let env = start(Controllers::of([BuiltIn::Nodes, BuiltIn::NodeLifecycle]).nodes(2)).await;
    env.eventually("node-1", |node: &Node| ready(node).is_some_and(|(status, _)| status == "True")).await;
    let toleration = |seconds: Option<u32>| {
        json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds})
    };
    for (name, seconds) in [("evicted", Some(30)), ("kept", None)] {
        create_pod(&env, name, json!({"spec": {"nodeName": "node-1", "tolerations": [toleration(seconds)]}})).await?;
        env.eventually(pod(name), crate::pods::is_ready).await;
    }
    let fail = |value: Value| Patch::Merge(json!({"metadata": {"annotations": {"windlass.dev/fail": value}}}));
    env.client().patch::<Node>("node-1", fail(json!("true"))).await?;
    let patiently = || env.expect().patience(Duration::from_mins(2));
    let failed =
        patiently().object("node-1", |node: &Node| ready(node) == Some(("Unknown", "NodeStatusUnknown"))).await;
    let conditions = failed.status.and_then(|status| status.conditions).unwrap_or_default();
    assert!(conditions.iter().all(|condition| condition.status == "Unknown"), "{conditions:?}");
    let unreachable = "node.kubernetes.io/unreachable";
    let is_tainted = |node: &Node| {
        let taints = taints(node);
        ["NoSchedule", "NoExecute"].iter().all(|effect| taints.contains(&format!("{unreachable}:{effect}")))
    };
    env.eventually("node-1", is_tainted).await;
    env.eventually(pod("evicted"), |pod: &Pod| !crate::pods::is_ready(pod)).await;
    let evicted = patiently().object(pod("evicted"), |pod: &Pod| pod.is_deleting()).await;
    let target = evicted.status.and_then(|status| status.conditions).unwrap_or_default();
    assert!(target.iter().any(|condition| condition.reason.as_deref() == Some("DeletionByTaintManager")));
    assert_eq!(phase(&env.client().get::<Pod>(pod("evicted")).await?), "Running", "its kubelet does nothing");
    let kept = env.client().get::<Pod>(pod("kept")).await?;
    assert!(!kept.is_deleting() && !crate::pods::is_ready(&kept));

    env.client().patch::<Node>("node-1", fail(Value::Null)).await?;
    env.eventually_gone(pod("evicted")).await;
    env.eventually("node-1", |node: &Node| {
        ready(node) == Some(("True", "KubeletReady")) && !taints(node).iter().any(|taint| taint.contains(unreachable))
    })
    .await;
    env.eventually(pod("kept"), crate::pods::is_ready).await;
    let other = env.client().get::<Node>("node-0").await?;
    assert_eq!(ready(&other), Some(("True", "KubeletReady")), "the other node has sent heartbeats all the time");
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn no_pods_are_evicted_while_no_node_is_ready() -> Outcome {
    let env = start(Controllers::of([BuiltIn::Nodes, BuiltIn::NodeLifecycle]).nodes(2)).await;
    let fail = |value: Value| Patch::Merge(json!({"metadata": {"annotations": {"windlass.dev/fail": value}}}));
    let patiently = || env.expect().patience(Duration::from_mins(2));
    let [repels, evicts] = ["NoSchedule", "NoExecute"].map(|effect| format!("node.kubernetes.io/unreachable:{effect}"));
    env.eventually("node-0", |node: &Node| ready(node).is_some()).await;
    env.eventually("node-1", |node: &Node| ready(node).is_some()).await;
    env.client().patch::<Node>("node-1", fail(json!("true"))).await?;
    patiently().object("node-1", |node: &Node| taints(node).contains(&evicts)).await;
    env.client().patch::<Node>("node-0", fail(json!("true"))).await?;
    for name in ["node-0", "node-1"] {
        patiently().object(name, |node: &Node| taints(node) == [repels.clone()]).await;
    }
    env.client().patch::<Node>("node-0", fail(Value::Null)).await?;
    env.eventually("node-0", |node: &Node| taints(node).is_empty()).await;
    env.eventually("node-1", |node: &Node| taints(node).contains(&evicts)).await;
    Ok(env.stop().await?)
}

/// Creates ready nodes in one zone, without heartbeats, and makes the first ones unready.
async fn fail_nodes(env: &Environment, all: usize, unready: usize) -> Outcome {
    let status = |ready: &str| json!({"conditions": [{"type": "Ready", "status": ready}]});
    for number in 0..all {
        let labels = json!({"topology.kubernetes.io/zone": "a"});
        let node = json!({"metadata": {"name": format!("n{number}"), "labels": labels}, "status": status("True")});
        env.client().create(&serde_json::from_value::<Node>(node)?).await?;
    }
    for number in 0..unready {
        let patch = Patch::Merge(json!({"status": status("False")}));
        env.client().patch::<Node>(&*format!("n{number}"), patch).subresource("status").await?;
    }
    Ok(())
}

/// Returns the number of nodes whose pods are evicted.
async fn evicted_nodes(env: &Environment) -> Result<usize, Box<dyn std::error::Error>> {
    let evicts = "node.kubernetes.io/not-ready:NoExecute".to_owned();
    let nodes = env.client().list::<Node>().await?;
    Ok(nodes.items.iter().filter(|node| taints(node).contains(&evicts)).count())
}

fn only_lifecycle() -> Controllers {
    Controllers::of([BuiltIn::NodeLifecycle]).node_monitor_grace_period(Duration::from_hours(24))
}

#[tokio::test(start_paused = true)]
async fn unready_nodes_of_a_zone_are_evicted_one_after_the_other() -> Outcome {
    let env = start(only_lifecycle()).await;
    fail_nodes(&env, 7, 3).await?;
    let repels = "node.kubernetes.io/not-ready:NoSchedule".to_owned();
    for name in ["n0", "n1", "n2"] {
        env.eventually(name, |node: &Node| taints(node).contains(&repels)).await;
    }
    let mut evicted = Vec::new();
    for _ in 0..3 {
        evicted.push(evicted_nodes(&env).await?);
        tokio::time::sleep(Duration::from_secs(11)).await;
    }
    assert_eq!(evicted, [1, 2, 3]);
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn evictions_stop_in_a_small_zone_with_many_unready_nodes() -> Outcome {
    let env = start(only_lifecycle()).await;
    fail_nodes(&env, 5, 4).await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    // The first node failed while the zone was healthy.
    assert_eq!(evicted_nodes(&env).await?, 1);
    let healed = Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    env.client().patch::<Node>("n3", healed.clone()).subresource("status").await?;
    env.client().patch::<Node>("n2", healed).subresource("status").await?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(evicted_nodes(&env).await?, 2, "two unready nodes of five are few");
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn eviction_rates_can_be_set() -> Outcome {
    let rates = EvictionRates { normal: 0.0, ..EvictionRates::default() };
    let env = start(only_lifecycle().eviction_rates(rates)).await;
    fail_nodes(&env, 3, 1).await?;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(evicted_nodes(&env).await?, 0);
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn node_without_heartbeats_becomes_unknown_in_its_grace_period() -> Outcome {
    let env = start(Controllers::of([BuiltIn::NodeLifecycle]).node_monitor_grace_period(Duration::from_secs(10))).await;
    let node = json!({
        "metadata": {"name": "silent"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2020-01-01T00:00:00Z"}]},
    });
    let begun = Instant::now();
    env.client().create(&serde_json::from_value::<Node>(node)?).await?;
    let node = env.eventually("silent", |node: &Node| ready(node) == Some(("Unknown", "NodeStatusUnknown"))).await;
    let waited = begun.elapsed().as_secs();
    assert!((10..=25).contains(&waited), "{waited}");
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let never = conditions.iter().filter(|condition| condition.reason.as_deref() == Some("NodeStatusNeverUpdated"));
    assert_eq!((conditions.len(), never.count()), (4, 3), "{conditions:?}");
    Ok(env.stop().await?)
}

#[tokio::test(start_paused = true)]
async fn pods_spread_over_the_zones_of_the_nodes() -> Outcome {
    let env = start(Controllers::of([BuiltIn::Nodes]).nodes(5).zones(2)).await;
    let zone = |node: &Node| node.labels().get("topology.kubernetes.io/zone").cloned().unwrap_or_default();
    let mut zones = Vec::new();
    for number in 0..5 {
        let node = env.eventually(&*format!("node-{number}"), |node: &Node| ready(node).is_some()).await;
        assert_eq!(node.labels()["topology.kubernetes.io/region"], "region-0");
        zones.push(zone(&node));
    }
    assert_eq!(zones, ["zone-0", "zone-1", "zone-0", "zone-1", "zone-0"]);
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let mut counts = [0, 0];
    for number in 0..6 {
        let name = format!("web-{number}");
        let more = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": spread}});
        create_pod(&env, &name, more).await?;
        let running = env.eventually(pod(&name), |pod: &Pod| phase(pod) == "Running").await;
        let node: usize = crate::pods::node_name(&running).trim_start_matches("node-").parse()?;
        counts[node % 2] += 1;
    }
    assert_eq!(counts, [3, 3]);
    Ok(env.stop().await?)
}
