//! Tests of the rules of kinds that are not workloads.

use super::*;

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }})
}

/// Returns the fields and messages of the causes.
fn causes_of(status: Status) -> Vec<(String, String)> {
    let causes = status.details.unwrap().causes;
    causes.into_iter().map(|cause| (cause.field, cause.message)).collect()
}

#[tokio::test]
async fn volume_records_its_last_phase_transition() {
    let fixture = Fixture::new().await;
    let volume = json!({"metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
    }});
    let volume = fixture.create("persistentvolumes", volume).await.unwrap();
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(volume["spec"]["hostPath"]["type"], "");
    assert_eq!(volume["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    assert_eq!(volume["status"]["phase"], "Pending");
    let since = volume["status"]["lastPhaseTransitionTime"].clone();
    assert_eq!(since, volume["metadata"]["creationTimestamp"]);

    fixture.advance_clock(10);
    let status = fixture.object("persistentvolumes", "v").subresource("status");
    let same = fixture.merge(&status, json!({"status": {"message": "m"}})).await.unwrap();
    assert_eq!(same["status"]["lastPhaseTransitionTime"], since);
    let moved = fixture.merge(&status, json!({"status": {"phase": "Available"}})).await.unwrap();
    assert_ne!(moved["status"]["lastPhaseTransitionTime"], since);
}

#[tokio::test]
async fn claims_get_the_default_class_and_grow_if_it_allows() {
    let fixture = Fixture::new().await;
    assert_eq!(
        fixture.create("persistentvolumeclaims", claim("before")).await.unwrap()["spec"].get("storageClassName"),
        None
    );
    for (name, grows) in [("old", false), ("new", true)] {
        fixture.advance_clock(1);
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let class = json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "p",
            "allowVolumeExpansion": grows});
        fixture.create("storageclasses", class).await.unwrap();
    }
    let made = fixture.create("persistentvolumeclaims", claim("a")).await.unwrap();
    assert_eq!(made["spec"]["storageClassName"], "new");
    let mut other = claim("b");
    other["spec"]["storageClassName"] = "old".into();
    fixture.create("persistentvolumeclaims", other).await.unwrap();

    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let grow = |name: &'static str| {
        let (fixture, larger) = (&fixture, larger.clone());
        async move { fixture.merge(&fixture.object("persistentvolumeclaims", name), larger).await }
    };
    let early = grow("a").await.unwrap_err();
    assert!(early.message.contains("spec is immutable after creation except"), "{}", early.message);
    for name in ["a", "b"] {
        let status = fixture.object("persistentvolumeclaims", name).subresource("status");
        fixture.merge(&status, json!({"status": {"phase": "Bound"}})).await.unwrap();
    }
    assert_eq!(grow("a").await.unwrap()["spec"]["resources"]["requests"]["storage"], "2Gi");
    let refused = grow("b").await.unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("only dynamically provisioned pvc can be resized"), "{}", refused.message);
}

#[tokio::test]
async fn role_ref_of_a_binding_is_immutable() {
    let fixture = Fixture::new().await;
    let binding = json!({"metadata": {"name": "system:x"}, "roleRef": {"kind": "Role", "name": "a"},
        "subjects": [{"kind": "User", "name": "u"}]});
    let binding = fixture.create("rolebindings", binding).await.unwrap();
    assert_eq!(binding["subjects"][0]["apiGroup"], "rbac.authorization.k8s.io");
    let target = fixture.object("rolebindings", "system:x");
    let refused = fixture.merge(&target, json!({"roleRef": {"name": "b"}})).await.unwrap_err();
    assert_eq!(
        refused.message,
        "RoleBinding.rbac.authorization.k8s.io \"system:x\" is invalid: roleRef: Invalid value: \
         {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot change roleRef"
    );
    let put = json!({"metadata": {"name": "new"}, "rules": []});
    let role = fixture.update("roles", put).await.unwrap();
    assert_eq!(role["rules"], Value::Null, "an empty list is stored as none");
    let slash = json!({"metadata": {"name": "a/b"}, "rules": [{"verbs": []}]});
    let refused = causes_of(fixture.create("clusterroles", slash).await.unwrap_err());
    let fields: Vec<&str> = refused.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["metadata.name", "rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"]);
}

#[tokio::test]
async fn autoscaler_converts_between_both_versions() {
    let fixture = Fixture::new().await;
    let resources = fixture.registry.resources();
    let [first, second] = ["v1", "v2"].map(|version| {
        Target::collection(resources.get("autoscaling", version, "horizontalpodautoscalers").unwrap(), Some("default"))
    });
    let object = |target: &Target| Target { name: Some("a".to_owned()), ..target.clone() };
    let body = json!({"metadata": {"name": "a"}, "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "maxReplicas": 3,
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
    }});
    let made = fixture.registry.create(&second, Body::Value(body), WriteParams::default()).await.unwrap();
    let made = value(&made);
    assert_eq!(made["spec"]["minReplicas"], 1);
    assert_eq!(made["spec"]["behavior"]["scaleUp"]["policies"][1]["value"], 100);

    let old = fixture.registry.get(&object(&first), GetParams::default()).await.unwrap().value();
    assert_eq!(
        (old["apiVersion"].clone(), old["spec"]["targetCPUUtilizationPercentage"].clone()),
        (json!("autoscaling/v1"), json!(50))
    );
    assert_eq!(
        old["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"],
        "[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"m\",\"targetAverageValue\":\"10\"}}]"
    );
    // A write through the old version keeps the fields of the new version.
    let written =
        fixture.merge(&object(&first), json!({"spec": {"targetCPUUtilizationPercentage": 60}})).await.unwrap();
    assert_eq!(written["spec"]["targetCPUUtilizationPercentage"], 60);
    let new = fixture.registry.get(&object(&second), GetParams::default()).await.unwrap().value();
    assert_eq!(new["spec"]["metrics"][0]["pods"], made["spec"]["metrics"][1]["pods"]);
    assert_eq!(new["spec"]["metrics"][1]["resource"]["target"]["averageUtilization"], 60);
    assert_eq!(new["spec"]["behavior"], made["spec"]["behavior"]);
    assert_eq!(new["metadata"].get("annotations"), None);
}

#[tokio::test]
async fn network_policies_are_defaulted_and_ranges_validated() {
    let fixture = Fixture::new().await;
    let policy = |cidr: &str, except: &str| {
        json!({"metadata": {"name": "p"}, "spec": {"podSelector": {}, "egress": [{
            "ports": [{"port": 80}], "to": [{"ipBlock": {"cidr": cidr, "except": [except]}}],
        }]}})
    };
    let refused = causes_of(fixture.create("networkpolicies", policy("10.0.0.1/8", "11.0.0.0/16")).await.unwrap_err());
    assert_eq!(
        refused,
        [
            (
                "spec.egress[0].to[0].ipBlock.cidr".to_owned(),
                "Invalid value: \"10.0.0.1/8\": must not have bits set beyond the prefix length".to_owned()
            ),
            (
                "spec.egress[0].to[0].ipBlock.except[0]".to_owned(),
                "Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`".to_owned()
            ),
        ]
    );
    let made = fixture.create("networkpolicies", policy("10.0.0.0/8", "10.1.0.0/16")).await.unwrap();
    assert_eq!(made["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(made["spec"]["egress"][0]["ports"][0], json!({"protocol": "TCP", "port": 80}));
    assert_eq!(made["metadata"]["generation"], 1);
}

#[tokio::test]
async fn limit_ranges_are_defaulted_and_need_no_name() {
    let fixture = Fixture::new().await;
    let range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Mi"}}]}});
    let made = fixture.create("limitranges", range).await.unwrap();
    assert_eq!(made["metadata"]["name"], made["metadata"]["uid"]);
    assert_eq!(made["spec"]["limits"][0]["default"], json!({"cpu": "1"}));
    assert_eq!(made["spec"]["limits"][0]["defaultRequest"], json!({"cpu": "1", "memory": "1Mi"}));
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"foo": "1", "pods": "500m"}}});
    let refused = causes_of(fixture.create("resourcequotas", quota).await.unwrap_err());
    assert_eq!(refused.len(), 3, "{refused:?}");
    assert_eq!(refused[2], ("spec.hard[pods]".to_owned(), "Invalid value: \"500m\": must be an integer".to_owned()));
}

#[tokio::test]
async fn pods_have_the_priority_of_their_class() {
    let fixture = Fixture::new().await;
    let made = fixture.create("pods", pod("a")).await.unwrap();
    assert_eq!(made["spec"]["priority"], 0);
    let class = |name: &str, value: i64| json!({"metadata": {"name": name}, "value": value, "globalDefault": true});
    fixture.create("priorityclasses", class("high", 100)).await.unwrap();
    let second = fixture.create("priorityclasses", class("higher", 200)).await.unwrap_err();
    assert!(second.message.contains("PriorityClass high is already marked as default"), "{}", second.message);
    let made = fixture.create("pods", pod("b")).await.unwrap();
    assert_eq!(
        (made["spec"]["priority"].clone(), made["spec"]["priorityClassName"].clone()),
        (json!(100), json!("high"))
    );
    let mut critical = pod("c");
    critical["spec"]["priorityClassName"] = "system-node-critical".into();
    assert_eq!(fixture.create("pods", critical).await.unwrap()["spec"]["priority"], 2_000_001_000);
    let kept = fixture.delete("priorityclasses", "system-node-critical", DeleteParams::default()).await.unwrap_err();
    assert!(kept.message.ends_with("this is a system priority class and cannot be deleted"), "{}", kept.message);
}

#[tokio::test]
async fn disruption_budget_update_requires_a_version() {
    let fixture = Fixture::new().await;
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}});
    let made = fixture.create("poddisruptionbudgets", budget.clone()).await.unwrap();
    assert_eq!(
        (made["metadata"]["generation"].clone(), made["status"]["disruptionsAllowed"].clone()),
        (json!(1), json!(0))
    );
    let blind = fixture.update("poddisruptionbudgets", budget).await.unwrap_err();
    assert!(blind.message.contains("must be specified for an update"), "{}", blind.message);
    let target = fixture.object("poddisruptionbudgets", "b");
    let changed = fixture.merge(&target, json!({"spec": {"minAvailable": "50%"}})).await.unwrap();
    assert_eq!(changed["metadata"]["generation"], 2);
    let both = fixture.merge(&target, json!({"spec": {"maxUnavailable": "101%"}})).await.unwrap_err();
    assert_eq!(causes_of(both).len(), 2);
}

#[tokio::test]
async fn bootstrap_objects_equal_kube_apiservers() {
    let fixture = Fixture::new().await;
    let range = fixture.get("servicecidrs", "kubernetes").await.unwrap();
    assert_eq!(range["status"]["conditions"][0]["status"], "True");
    assert_eq!(fixture.get("ipaddresses", "10.0.0.1").await.unwrap()["spec"]["parentRef"]["name"], "kubernetes");
    let list = fixture.list("componentstatuses", ListParams::default()).await.unwrap();
    assert_eq!(names(&list.items), ["controller-manager", "scheduler", "etcd-0"]);
    let missing = fixture.get("componentstatuses", "x").await.unwrap_err();
    assert_eq!(missing.message, "componentstatus \"x\" not found");
}
