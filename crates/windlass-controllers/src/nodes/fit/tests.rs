use serde_json::{Value, json};

use super::*;

fn node(spec: &Value, labels: &Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": "node-0", "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
    .unwrap()
}

fn pod(spec: Value) -> Pod {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]);
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
}

fn try_fit(pod: &Pod, node: &Node) -> Result<(), FitError> {
    fit(pod, &Demand::of(pod), node, &Usage::default())
}

fn affinity(requirements: &Value) -> Pod {
    pod(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": requirements}]}}}}))
}

#[test]
fn an_undemanding_pod_fits_on_a_ready_node() {
    assert_eq!(try_fit(&pod(json!({})), &node(&json!({}), &json!({}))), Ok(()));
    let mut unready = node(&json!({}), &json!({}));
    unready.status.as_mut().unwrap().conditions = None;
    assert_eq!(try_fit(&pod(json!({})), &unready), Err(FitError::NotReady));
}

#[test]
fn cordoned_node_takes_only_tolerating_pods() {
    let cordoned = node(&json!({"unschedulable": true}), &json!({}));
    assert_eq!(try_fit(&pod(json!({})), &cordoned), Err(FitError::Unschedulable));
    let daemon = pod(json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]}));
    assert_eq!(try_fit(&daemon, &cordoned), Ok(()));
}

#[test]
fn each_repelling_taint_needs_a_toleration() {
    let tainted = |effect: &str| node(&json!({"taints": [{"key": "gpu", "value": "a", "effect": effect}]}), &json!({}));
    let with = |toleration: Value| pod(json!({"tolerations": [toleration]}));
    assert_eq!(try_fit(&pod(json!({})), &tainted("NoSchedule")), Err(FitError::Tainted));
    assert_eq!(try_fit(&pod(json!({})), &tainted("NoExecute")), Err(FitError::Tainted));
    assert_eq!(try_fit(&pod(json!({})), &tainted("PreferNoSchedule")), Ok(()));
    for tolerated in [
        json!({"key": "gpu", "value": "a"}),
        json!({"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}),
        json!({"key": "gpu", "operator": "Exists"}),
        json!({"operator": "Exists"}),
    ] {
        assert_eq!(try_fit(&with(tolerated.clone()), &tainted("NoSchedule")), Ok(()), "{tolerated}");
    }
    for other in [
        json!({"key": "gpu", "value": "b"}),
        json!({"key": "cpu", "operator": "Exists"}),
        json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}),
    ] {
        assert_eq!(try_fit(&with(other.clone()), &tainted("NoSchedule")), Err(FitError::Tainted), "{other}");
    }
}

#[test]
fn the_node_must_have_the_labels_that_the_pod_selects() {
    let labeled = node(&json!({}), &json!({"zone": "a", "cores": "8"}));
    assert_eq!(try_fit(&pod(json!({"nodeSelector": {"zone": "a"}})), &labeled), Ok(()));
    assert_eq!(try_fit(&pod(json!({"nodeSelector": {"zone": "b"}})), &labeled), Err(FitError::Unselected));
    for (operator, key, values, fits) in [
        ("In", "zone", json!(["a", "b"]), true),
        ("In", "none", json!(["a"]), false),
        ("NotIn", "zone", json!(["b"]), true),
        ("NotIn", "none", json!(["b"]), true),
        ("Exists", "zone", json!(null), true),
        ("DoesNotExist", "zone", json!(null), false),
        ("Gt", "cores", json!(["7"]), true),
        ("Lt", "cores", json!(["8"]), false),
        ("Gt", "zone", json!(["1"]), false),
    ] {
        let pod = affinity(&json!([{"key": key, "operator": operator, "values": values}]));
        assert_eq!(try_fit(&pod, &labeled).is_ok(), fits, "{operator} {key}");
    }
    assert_eq!(try_fit(&affinity(&json!([])), &labeled), Err(FitError::Unselected), "an empty term matches nothing");
}

#[test]
fn a_node_can_be_named_by_its_field() {
    let by_name = |name: &str| {
        pod(
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}}),
        )
    };
    assert_eq!(try_fit(&by_name("node-0"), &node(&json!({}), &json!({}))), Ok(()));
    assert_eq!(try_fit(&by_name("node-1"), &node(&json!({}), &json!({}))), Err(FitError::Unselected));
}

#[test]
fn used_capacity_counts() {
    let (pod, node) = (pod(json!({})), node(&json!({}), &json!({})));
    let demand = Demand::of(&pod);
    let usage = |pods: u32| {
        let mut usage = Usage { pods, ..Usage::default() };
        (0..pods).for_each(|_| usage.demand.add(&demand));
        usage
    };
    assert_eq!(fit(&pod, &demand, &node, &usage(2)), Ok(()));
    assert_eq!(fit(&pod, &demand, &node, &usage(3)), Err(FitError::TooManyPods));
    let crowded = Usage { pods: 2, demand: usage(4).demand, ports: Vec::new() };
    assert_eq!(fit(&pod, &demand, &node, &crowded), Err(FitError::Insufficient("cpu".to_owned())));
}
