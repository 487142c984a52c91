use super::*;

fn with_spec(name: &str, labels: &Value, spec: Value) -> Value {
    let mut node = node(name, labels);
    node["spec"] = spec;
    node
}

fn affinity(requirements: &Value) -> Value {
    let terms = json!([{"matchExpressions": requirements}]);
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

#[test]
fn pod_without_nodes_has_kube_schedulers_message() {
    assert_eq!(Cluster::default().outcome(&pod("a", "1", json!({}))), "no nodes available to schedule pods");
}

#[test]
fn cordoned_node_takes_only_tolerating_pods() {
    let mut cluster = Cluster::of([with_spec("a", &json!({}), json!({"unschedulable": true}))]);
    assert_eq!(cluster.reasons(&pod("p", "1", json!({}))), "1 node(s) were unschedulable");
    let tolerations = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    assert_eq!(cluster.outcome(&pod("p", "1", json!({"tolerations": tolerations}))), "a");
}

#[test]
fn each_repelling_taint_needs_a_toleration() {
    for (effect, tolerations, expected) in [
        ("NoSchedule", json!([]), None),
        ("NoExecute", json!([]), None),
        ("PreferNoSchedule", json!([]), Some("a")),
        ("NoSchedule", json!([{"key": "gpu", "value": "x"}]), Some("a")),
        ("NoSchedule", json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]), Some("a")),
        ("NoSchedule", json!([{"operator": "Exists"}]), Some("a")),
        ("NoSchedule", json!([{"key": "gpu", "value": "y"}]), None),
        ("NoExecute", json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]), None),
    ] {
        let taints = json!([{"key": "gpu", "value": "x", "effect": effect}]);
        let mut cluster = Cluster::of([with_spec("a", &json!({}), json!({"taints": taints}))]);
        let pod = pod("p", "1", json!({"tolerations": tolerations}));
        match expected {
            Some(node) => assert_eq!(cluster.outcome(&pod), node, "{effect} {tolerations}"),
            None => assert_eq!(cluster.reasons(&pod), "1 node(s) had untolerated taint(s)", "{effect} {tolerations}"),
        }
    }
}

#[test]
fn node_selector_and_affinity_must_both_match() {
    let mut cluster = Cluster::of([node("a", &json!({"zone": "x", "size": "5"})), node("b", &json!({"zone": "y"}))]);
    let mismatch = "2 node(s) didn't match Pod's node affinity/selector";
    assert_eq!(cluster.outcome(&pod("p", "1", json!({"nodeSelector": {"zone": "y"}}))), "b");
    assert_eq!(cluster.reasons(&pod("p", "1", json!({"nodeSelector": {"zone": "z"}}))), mismatch);
    for (requirement, expected) in [
        (json!({"key": "zone", "operator": "In", "values": ["y", "z"]}), Some("b")),
        (json!({"key": "zone", "operator": "NotIn", "values": ["y"]}), Some("a")),
        (json!({"key": "size", "operator": "Exists"}), Some("a")),
        (json!({"key": "size", "operator": "DoesNotExist"}), Some("b")),
        (json!({"key": "size", "operator": "Gt", "values": ["4"]}), Some("a")),
        (json!({"key": "size", "operator": "Lt", "values": ["5"]}), None),
    ] {
        let pod = pod("p", "1", affinity(&json!([requirement])));
        match expected {
            Some(node) => assert_eq!(cluster.outcome(&pod), node, "{requirement}"),
            None => assert_eq!(cluster.reasons(&pod), mismatch, "{requirement}"),
        }
    }
    let mut both = affinity(&json!([{"key": "size", "operator": "Exists"}]));
    both["nodeSelector"] = json!({"zone": "y"});
    assert_eq!(cluster.reasons(&pod("p", "1", both)), mismatch);
}

#[test]
fn pod_that_names_its_node_visits_no_other() {
    let mut cluster = Cluster::of(["a", "b", "c"].map(|name| node(name, &json!({}))));
    let named = |name: &str| {
        let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]);
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        pod("p", "1", json!({"affinity": {"nodeAffinity": required}}))
    };
    assert_eq!(cluster.outcome(&named("b")), "b");
    cluster.place(&pod("full", "2", json!({})), "b");
    assert_eq!(cluster.reasons(&named("b")), "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]");
    assert_eq!(cluster.reasons(&named("z")), "3 node(s) didn't satisfy plugin(s) [NodeAffinity]");
}

#[test]
fn pods_with_one_host_port_get_a_node_each() {
    let mut cluster = Cluster::of([node("a", &json!({})), node("b", &json!({}))]);
    let with_port = |name: &str| {
        let mut pod = pod(name, "100m", json!({}));
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
        pod
    };
    let places: Vec<_> = ["x", "y"].map(|name| cluster.schedule(&with_port(name))).into();
    assert_eq!(places, ["a", "b"]);
    let taken = "2 node(s) didn't have free ports for the requested pod ports";
    assert_eq!(cluster.reasons(&with_port("z")), taken);
    cluster.core.snapshot.remove(&ObjectKey::new("y").within("n"));
    assert_eq!(cluster.outcome(&with_port("z")), "b");
}

#[test]
fn every_missing_resource_is_reported() {
    let mut cluster = Cluster::of([node("a", &json!({}))]);
    let mut greedy = pod("p", "3", json!({}));
    greedy["spec"]["containers"][0]["resources"]["requests"] =
        json!({"cpu": "3", "memory": "2Gi", "example.com/gpu": "1", "ephemeral-storage": "0"});
    assert_eq!(cluster.reasons(&greedy), "1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory");
    for name in ["1", "2", "3", "4", "5"] {
        cluster.place(&pod(name, "400m", json!({})), "a");
    }
    assert_eq!(cluster.reasons(&pod("p", "100m", json!({}))), "1 Insufficient cpu, 1 Too many pods");
    assert_eq!(cluster.reasons(&pod("p", "0", json!({}))), "1 Too many pods");
}

#[test]
fn requests_include_initialization_overhead_and_pod_level() {
    let mut cluster = Cluster::of([node("a", &json!({}))]);
    let container = |cpu: &str, policy: &str| json!({"name": policy, "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    let fits = |cluster: &mut Cluster, spec: Value| cluster.outcome(&pod("p", "1", spec)) == "a";
    assert!(fits(&mut cluster, json!({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]})));
    let sidecar = json!({"initContainers": [container("1", "Always")]});
    assert!(fits(&mut cluster, sidecar.clone()));
    let mut more = sidecar;
    more["overhead"] = json!({"cpu": "1m"});
    assert!(!fits(&mut cluster, more));
    assert!(!fits(&mut cluster, json!({"resources": {"requests": {"cpu": "2001m"}}})));
}

#[test]
fn reasons_are_counted_and_sorted_as_text() {
    let taints = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
    let mut cluster = Cluster::of([
        with_spec("a", &json!({}), taints.clone()),
        with_spec("b", &json!({}), taints),
        node("c", &json!({})),
    ]);
    assert_eq!(
        cluster.outcome(&pod("p", "3", json!({}))),
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s). \
         preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
}

#[test]
fn deleted_node_and_removed_pods_leave_no_trace() {
    let mut cluster = Cluster::of([node("a", &json!({})), node("b", &json!({}))]);
    cluster.place(&pod("x", "2", json!({})), "a");
    cluster.core.snapshot.remove_node("a");
    assert_eq!(cluster.outcome(&pod("p", "1", json!({}))), "b");
    // The pods of a deleted node count again when the node returns.
    cluster.core.snapshot.set_node(&serde_json::from_value(node("a", &json!({}))).unwrap());
    cluster.core.snapshot.remove_node("b");
    assert_eq!(cluster.reasons(&pod("p", "1", json!({}))), "1 Insufficient cpu");
    cluster.core.snapshot.remove(&ObjectKey::new("x").within("n"));
    assert_eq!(cluster.outcome(&pod("p", "1", json!({}))), "a");
}

#[test]
fn large_clusters_are_searched_in_part_and_in_turn() {
    let mut cluster = Cluster::of((0..300).map(|number| node(&format!("node-{number}"), &json!({}))));
    // 48 % of 300 nodes suffice, and the next search starts after them.
    let picks: Vec<_> = ["a", "b", "c"].map(|name| cluster.outcome(&pod(name, "1", json!({})))).into();
    assert_eq!(picks, ["node-0", "node-144", "node-288"]);
}
