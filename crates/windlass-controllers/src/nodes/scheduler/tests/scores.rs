use super::*;

fn labeled(names: [&str; 2]) -> Cluster {
    Cluster::of(names.map(|name| node(name, &json!({"host": name, "disk": name}))))
}

#[test]
fn pods_go_to_the_node_with_more_room() {
    let mut cluster = labeled(["a", "b"]);
    cluster.place(&pod("x", "1", json!({})), "a");
    assert_eq!(cluster.schedule(&pod("1", "100m", json!({}))), "b");
    let mut empty = labeled(["a", "b"]);
    let mut plain = pod("1", "0", json!({}));
    plain["spec"]["containers"][0]["resources"] = json!({});
    assert_eq!(empty.schedule(&plain), "a");
    plain["metadata"]["name"] = json!("2");
    assert_eq!(empty.schedule(&plain), "b", "a container without requests counts with an assumed amount");
}

#[test]
fn balanced_use_of_resources_is_preferred() {
    let mut cluster = Cluster::of([("a", "4", "1Gi"), ("b", "1", "4Gi")].map(|(name, cpu, memory)| {
        let mut node = node(name, &json!({}));
        node["status"]["allocatable"] = json!({"cpu": cpu, "memory": memory, "pods": "9"});
        node
    }));
    let mut wanting = pod("p", "1", json!({}));
    wanting["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "800m", "memory": "200Mi"});
    assert_eq!(cluster.outcome(&wanting), "a");
}

#[test]
fn preferred_node_affinity_outweighs_room() {
    let mut cluster = labeled(["a", "b"]);
    cluster.place(&pod("x", "500m", json!({})), "b");
    let term = json!({"weight": 10, "preference": {"matchExpressions": [
        {"key": "disk", "operator": "In", "values": ["b"]}]}});
    let preferring = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}});
    assert_eq!(cluster.outcome(&pod("p", "100m", preferring)), "b");
    assert_eq!(cluster.outcome(&pod("p", "100m", json!({}))), "a");
}

#[test]
fn soft_taints_are_avoided_unless_tolerated() {
    let mut tainted = node("a", &json!({}));
    tainted["spec"] = json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]});
    let mut cluster = Cluster::of([tainted, node("b", &json!({}))]);
    cluster.place(&pod("x", "500m", json!({})), "b");
    assert_eq!(cluster.outcome(&pod("p", "100m", json!({}))), "b");
    assert_eq!(cluster.outcome(&pod("p", "100m", json!({"tolerations": [{"operator": "Exists"}]}))), "a");
}

#[test]
fn preferred_affinity_between_pods_works_in_both_directions() {
    let term = |app: &str| {
        let selector = json!({"matchLabels": {"app": app}});
        json!([{"weight": 100, "podAffinityTerm": {"topologyKey": "host", "labelSelector": selector}}])
    };
    let preferring = |kind: &str, app: &str| json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": term(app)}}});
    let mut cluster = labeled(["a", "b"]);
    cluster.place(&pod("db", "500m", json!({})), "b");
    assert_eq!(cluster.outcome(&pod("web", "100m", preferring("podAffinity", "db"))), "b");
    assert_eq!(cluster.outcome(&pod("web", "100m", preferring("podAntiAffinity", "db"))), "a");
    let mut cluster = labeled(["a", "b"]);
    cluster.place(&pod("db", "500m", preferring("podAffinity", "web")), "b");
    assert_eq!(cluster.outcome(&pod("web", "100m", json!({}))), "b", "the pod that is there wants the other one");
    assert_eq!(cluster.outcome(&pod("other", "100m", json!({}))), "a");
}

#[test]
fn soft_spread_prefers_the_emptier_domain() {
    let mut cluster = labeled(["a", "b"]);
    let soft = json!({"topologySpreadConstraints": [{"topologyKey": "host", "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "web"}}}]});
    cluster.place(&pod("web", "0", json!({})), "a");
    cluster.place(&pod("other", "1", json!({})), "b");
    let mut second = pod("web", "100m", soft);
    second["metadata"]["name"] = json!("web-2");
    assert_eq!(cluster.outcome(&second), "b");
}
