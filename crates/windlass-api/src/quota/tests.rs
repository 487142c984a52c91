use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn usage(group: &str, plural: &str, object: &Value) -> Usage {
    Evaluator::of(group, plural).unwrap().measure(object, now())
}

/// Returns amounts in the form of kube-apiserver's messages.
fn shown(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

#[test]
fn resources_are_counted_unless_they_are_not_stored() {
    assert_eq!(Evaluator::of("", "events"), None);
    assert_eq!(Evaluator::of("events.k8s.io", "events"), None);
    assert_eq!(Evaluator::of("authorization.k8s.io", "localsubjectaccessreviews"), None);
    let things = usage("example.com", "things", &json!({}));
    assert_eq!(shown(&things.amounts), "count/things.example.com=1");
    let secrets = usage("", "secrets", &json!({}));
    assert_eq!(shown(&secrets.amounts), "count/secrets=1,secrets=1");
    assert!(Evaluator::of("", "secrets").unwrap().counts("secrets"));
    assert!(!Evaluator::of("example.com", "secrets").unwrap().counts("secrets"));
}

#[test]
fn pod_uses_the_sum_of_its_containers() {
    let spec = json!({"containers": [
        container("a", json!({"cpu": "100m", "memory": "1Gi", "example.com/gpu": "2"}), json!({"cpu": "1"})),
        container("b", json!({"cpu": "1", "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}), json!({"memory": "2Gi"})),
    ]});
    let expected = "count/pods=1,cpu=1100m,ephemeral-storage=1Gi,hugepages-2Mi=4Mi,limits.cpu=1,limits.memory=2Gi,\
                    memory=1Gi,pods=1,requests.cpu=1100m,requests.ephemeral-storage=1Gi,requests.example.com/gpu=2,\
                    requests.hugepages-2Mi=4Mi,requests.memory=1Gi";
    assert_eq!(shown(&usage("", "pods", &pod(spec)).amounts), expected);
}

#[test]
fn init_containers_run_beside_earlier_sidecars() {
    let sidecar = |cpu: &str| {
        let mut sidecar = container("s", json!({"cpu": cpu}), json!({}));
        sidecar["restartPolicy"] = "Always".into();
        sidecar
    };
    let cpu = |spec: Value| usage("", "pods", &pod(spec)).amounts["cpu"].to_string();
    let main = || container("m", json!({"cpu": "2"}), json!({}));
    let init = || container("i", json!({"cpu": "5"}), json!({}));
    assert_eq!(cpu(json!({"containers": [main()], "initContainers": [init()]})), "5");
    assert_eq!(cpu(json!({"containers": [main()], "initContainers": [sidecar("1"), init()]})), "6");
    assert_eq!(cpu(json!({"containers": [main()], "initContainers": [sidecar("1"), sidecar("3")]})), "6");
}

#[test]
fn resources_of_the_pod_replace_those_of_its_containers() {
    let spec = json!({
        "resources": {"requests": {"cpu": "3", "ephemeral-storage": "1"}, "limits": {"memory": "1Gi"}},
        "containers": [container("a", json!({"cpu": "1"}), json!({}))],
    });
    let used = usage("", "pods", &pod(spec));
    assert_eq!(shown(&used.amounts), "count/pods=1,cpu=3,limits.memory=1Gi,pods=1,requests.cpu=3");
    assert_eq!(used.missing_amounts(["requests.memory"]), None);
}

#[test]
fn overhead_adds_to_requests_and_existing_limits() {
    let spec = json!({"overhead": {"cpu": "1", "memory": "1Mi"}, "containers": [container("a", json!({}), json!({"cpu": "1"}))]});
    let used = usage("", "pods", &pod(spec));
    let expected = "count/pods=1,cpu=1,limits.cpu=2,memory=1Mi,pods=1,requests.cpu=1,requests.memory=1Mi";
    assert_eq!(shown(&used.amounts), expected);
}

#[test]
fn resized_container_uses_the_larger_amount() {
    let mut pod = pod(json!({"containers": [container("a", json!({"cpu": "1"}), json!({"cpu": "1"}))]}));
    pod["status"] = json!({"containerStatuses": [{
        "name": "a",
        "allocatedResources": {"cpu": "3"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
    }]});
    let used = |pod: &Value| usage("", "pods", pod).amounts;
    assert_eq!((used(&pod)["cpu"].value(), used(&pod)["limits.cpu"].value()), (3, 2));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "9"}, "limits": {"cpu": "9"}});
    assert_eq!((used(&pod)["cpu"].value(), used(&pod)["limits.cpu"].value()), (9, 9));
    pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    assert_eq!((used(&pod)["cpu"].value(), used(&pod)["limits.cpu"].value()), (3, 2));
}

#[test]
fn ended_and_overdue_pods_only_count_as_objects() {
    let mut pod = pod(json!({"containers": [container("a", json!({"cpu": "1"}), json!({}))]}));
    for phase in ["Failed", "Succeeded"] {
        pod["status"] = json!({"phase": phase});
        assert_eq!(shown(&usage("", "pods", &pod).amounts), "count/pods=1");
    }
    pod["status"] = json!({"phase": "Running"});
    pod["metadata"]["deletionTimestamp"] = "2025-12-31T23:59:50Z".into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 10.into();
    assert!(usage("", "pods", &pod).amounts.contains_key("pods"));
    pod["metadata"]["deletionGracePeriodSeconds"] = 9.into();
    assert_eq!(shown(&usage("", "pods", &pod).amounts), "count/pods=1");
}

#[test]
fn missing_amounts_are_reported_by_container() {
    let used = usage(
        "",
        "pods",
        &pod(json!({
            "containers": [
                container("b", json!({"cpu": "1"}), json!({})),
                container("a", json!({}), json!({"memory": "1"})),
            ],
            "initContainers": [container("i", json!({"cpu": "1"}), json!({"memory": "1"}))],
        })),
    );
    assert_eq!(used.missing_amounts(["pods", "count/pods", "requests.ephemeral-storage"]), None);
    let expected = "must specify limits.memory for: b; requests.cpu for: a";
    assert_eq!(used.missing_amounts(["requests.cpu", "limits.memory", "pods"]).as_deref(), Some(expected));
}

#[test]
fn names_of_pod_resources_are_known() {
    let pods = Evaluator::of("", "pods").unwrap();
    for name in [
        "pods",
        "count/pods",
        "cpu",
        "limits.memory",
        "requests.ephemeral-storage",
        "hugepages-2Mi",
        "requests.hugepages-1Gi",
        "requests.example.com/gpu",
        "requests.deviceclass.resource.kubernetes.io/x",
    ] {
        assert!(pods.counts(name), "{name}");
    }
    for name in
        ["services", "example.com/gpu", "requests.storage", "limits.example.com/gpu", "requests.kubernetes.io/x"]
    {
        assert!(!pods.counts(name), "{name}");
    }
}

fn requirement(scope: &str, operator: &str, values: &[&str]) -> ScopeRequirement {
    ScopeRequirement {
        scope: scope.to_owned(),
        operator: operator.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}

#[test]
fn scopes_select_pods_by_their_spec() {
    let is_in = |spec: Value, scope: &str| usage("", "pods", &pod(spec)).is_in(&requirement(scope, "Exists", &[]));
    assert!(is_in(json!({"activeDeadlineSeconds": 5}), "Terminating"));
    assert!(!is_in(json!({"activeDeadlineSeconds": 5}), "NotTerminating"));
    assert!(is_in(json!({}), "NotTerminating"));
    let burstable = || json!({"containers": [container("a", json!({"cpu": "1"}), json!({}))]});
    assert!(is_in(burstable(), "NotBestEffort") && !is_in(burstable(), "BestEffort"));
    let tiny = || json!({"containers": [container("a", json!({"cpu": "0", "ephemeral-storage": "1"}), json!({}))]});
    assert!(is_in(tiny(), "BestEffort"));
    assert!(is_in(json!({"resources": {}, "containers": burstable()["containers"]}), "BestEffort"));
    let affinity = |kind: &str, term: Value| json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": term}]}}});
    assert!(is_in(affinity("podAffinity", json!({"namespaceSelector": {}})), "CrossNamespacePodAffinity"));
    assert!(is_in(affinity("podAntiAffinity", json!({"namespaces": ["n"]})), "CrossNamespacePodAffinity"));
    assert!(!is_in(affinity("podAffinity", json!({"namespaces": []})), "CrossNamespacePodAffinity"));
    assert!(!is_in(json!({}), "Unknown"));
}

#[test]
fn scope_selectors_compare_priority_classes() {
    let high = usage("", "pods", &pod(json!({"priorityClassName": "high"})));
    let none = usage("", "pods", &pod(json!({})));
    for (operator, values, of_high, of_none) in [
        ("In", &["high", "low"][..], true, false),
        ("In", &["low"], false, false),
        ("NotIn", &["high"], false, true),
        ("NotIn", &["low"], true, true),
        ("Exists", &[], true, false),
        ("DoesNotExist", &[], false, true),
        ("Odd", &[], false, false),
    ] {
        let scope = requirement("PriorityClass", operator, values);
        assert_eq!((high.is_in(&scope), none.is_in(&scope)), (of_high, of_none), "{operator} {values:?}");
    }
}

#[test]
fn requirements_come_from_scopes_and_selector() {
    let expression = json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]});
    let quota = json!({"spec": {"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [expression]}}});
    let expected = [requirement("BestEffort", "Exists", &[]), requirement("PriorityClass", "In", &["high"])];
    assert_eq!(ScopeRequirement::of_quota(&quota), expected);
    assert!(ScopeRequirement::of_quota(&json!({})).is_empty());
}

#[test]
fn services_count_node_ports_and_load_balancers() {
    let used = |spec: Value| {
        let amounts = usage("", "services", &json!({"spec": spec})).amounts;
        (amounts["services.nodeports"].value(), amounts["services.loadbalancers"].value(), amounts["services"].value())
    };
    let ports = || json!([{"port": 1}, {"port": 2, "nodePort": 30_000}]);
    assert_eq!(used(json!({"type": "ClusterIP", "ports": ports()})), (0, 0, 1));
    assert_eq!(used(json!({"type": "NodePort", "ports": ports()})), (2, 0, 1));
    assert_eq!(used(json!({"type": "LoadBalancer", "ports": ports()})), (2, 1, 1));
    let without = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": ports()});
    assert_eq!(used(without), (1, 1, 1));
}

#[test]
fn claims_count_storage_by_class() {
    let claim = |class: &str, storage: &str| json!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": storage}}}});
    let used = |claim: &Value| shown(&usage("", "persistentvolumeclaims", claim).amounts);
    let expected = "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
                    gold.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi";
    assert_eq!(used(&claim("gold", "1Gi")), expected);
    let expected = "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2";
    assert_eq!(used(&claim("", "1500m")), expected);
    let mut expanded = claim("", "1Gi");
    expanded["status"] = json!({"allocatedResources": {"storage": "3Gi"}});
    assert!(used(&expanded).ends_with("requests.storage=3Gi"));
    let mut annotated = claim("gold", "1");
    annotated["metadata"] = json!({"annotations": {"volume.beta.kubernetes.io/storage-class": "silver"}});
    assert!(used(&annotated).contains("silver.storageclass.storage.k8s.io/requests.storage=1"));
    let claims = Evaluator::of("", "persistentvolumeclaims").unwrap();
    assert!(claims.counts("gold.storageclass.storage.k8s.io/requests.storage"));
    assert!(
        !claims.counts("gold.storageclass.storage.k8s.io/limits.storage") && !claims.counts("gold/requests.storage")
    );
}

#[test]
fn attributes_classes_of_a_claim_select_quotas() {
    let claim = json!({
        "spec": {"volumeAttributesClassName": "new"},
        "status": {"currentVolumeAttributesClassName": "old"},
    });
    let used = usage("", "persistentvolumeclaims", &claim);
    assert!(used.is_in(&requirement("VolumeAttributesClass", "Exists", &[])));
    assert!(used.is_in(&requirement("VolumeAttributesClass", "In", &["old"])));
    assert!(used.is_in(&requirement("VolumeAttributesClass", "NotIn", &["old"])));
    assert!(!used.is_in(&requirement("VolumeAttributesClass", "In", &["other"])));
    assert!(!used.is_in(&requirement("BestEffort", "Exists", &[])));
}

#[test]
fn device_claims_count_the_maximum_of_their_alternatives() {
    let exactly = |class: &str, count: i64| json!({"exactly": {"deviceClassName": class, "allocationMode": "ExactCount", "count": count}});
    let alternative =
        |class: &str, count: i64| json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    let claim = json!({"spec": {"devices": {"requests": [
        exactly("gpu", 2),
        {"firstAvailable": [alternative("gpu", 1), alternative("gpu", 4), alternative("nic", 1)]},
        {"exactly": {"deviceClassName": "disk", "allocationMode": "All"}},
        {"exactly": {"deviceClassName": "odd", "allocationMode": "Unknown"}},
    ]}}});
    let expected = "count/resourceclaims.resource.k8s.io=1,disk.deviceclass.resource.k8s.io/devices=32,\
                    gpu.deviceclass.resource.k8s.io/devices=6,nic.deviceclass.resource.k8s.io/devices=1,\
                    odd.deviceclass.resource.k8s.io/devices=0";
    assert_eq!(shown(&usage("resource.k8s.io", "resourceclaims", &claim).amounts), expected);
    assert!(
        Evaluator::of("resource.k8s.io", "resourceclaims").unwrap().counts("gpu.deviceclass.resource.k8s.io/devices")
    );
}

#[test]
fn only_writes_that_can_change_the_usage_are_affected() {
    let evaluator = |group: &str, plural: &str| Evaluator::of(group, plural).unwrap();
    let (new, old) = (json!({"spec": {"activeDeadlineSeconds": 1}}), json!({}));
    let pods = evaluator("", "pods");
    assert!(pods.is_affected(None, None));
    assert!(pods.is_affected(None, Some((&new, &old))) && !pods.is_affected(None, Some((&old, &old))));
    assert!(pods.is_affected(Some("resize"), Some((&old, &old))));
    assert!(!pods.is_affected(Some("binding"), None) && !pods.is_affected(Some("status"), Some((&old, &old))));
    let claims = evaluator("", "persistentvolumeclaims");
    assert!(claims.is_affected(Some("status"), Some((&old, &old))));
    assert!(evaluator("", "services").is_affected(None, Some((&old, &old))));
    assert!(!evaluator("", "services").is_affected(Some("status"), Some((&old, &old))));
    assert!(!evaluator("", "secrets").is_affected(None, Some((&old, &old))));
}
