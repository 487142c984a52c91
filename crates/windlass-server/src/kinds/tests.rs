use serde_json::json;

use super::{KindOptions, built_ins, catalog};
use crate::{
    kubernetes::KubernetesVersion,
    object::{Errors, Field},
    resource::ResourceTable,
};

fn resources(kubernetes: KubernetesVersion) -> ResourceTable {
    built_ins(&KindOptions::of(kubernetes))
}

#[test]
fn leading_zeros_have_their_own_error_since_1_36() {
    let errors = |kubernetes| {
        let resources = resources(kubernetes);
        let object = json!({"spec": {"clusterIP": "None", "externalIPs": ["010.1.1.1"], "ports": [{"port": 80}]}});
        let mut errors = Errors::of(kubernetes);
        let services = resources.get("", "v1", "services").unwrap();
        services.strategy.validate(&Field::object(&object), &mut errors);
        errors.check(&services.group_kind(), "s").err().map(|status| status.message).unwrap_or_default()
    };
    assert!(errors(KubernetesVersion::V1_36).contains("must not have leading 0s"));
    assert!(!errors(KubernetesVersion::V1_35).contains("must not have leading 0s"));
}

/// Returns the errors of a new object of a built-in kind.
fn errors_of(kubernetes: KubernetesVersion, plural: &str, object: &serde_json::Value) -> String {
    let resources = resources(kubernetes);
    let mut errors = Errors::of(kubernetes);
    let resource = resources.get("", "v1", plural).unwrap();
    resource.strategy.validate(&Field::object(object), &mut errors);
    errors.check(&resource.group_kind(), "x").err().map(|status| status.message).unwrap_or_default()
}

#[test]
fn rules_of_pods_differ_before_1_34() {
    let pod = json!({"spec": {
        "containers": [{"name": "c", "image": "i"}],
        "initContainers": [{"name": "i", "image": "i", "restartPolicy": "OnFailure"}],
        "topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["a"]}],
    }});
    let (before, since) =
        (errors_of(KubernetesVersion::V1_33, "pods", &pod), errors_of(KubernetesVersion::V1_34, "pods", &pod));
    for problem in [
        "spec.initContainers[0].restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
        "matchLabelKeys[0]: Invalid value: \"a\": exists in both matchLabelKeys and labelSelector",
    ] {
        assert!(before.contains(problem) && !since.contains(problem), "{problem}\n{before}\n{since}");
    }
}

#[test]
fn services_have_one_traffic_distribution_before_1_34() {
    let service =
        json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}], "trafficDistribution": "PreferSameZone"}});
    let problem = "Unsupported value: \"PreferSameZone\": supported values: \"PreferClose\"";
    assert!(errors_of(KubernetesVersion::V1_33, "services", &service).contains(problem));
    assert!(!errors_of(KubernetesVersion::V1_34, "services", &service).contains("PreferSameZone"));
}

#[test]
fn each_catalog_resource_has_a_row_and_a_prefix() {
    for kubernetes in KubernetesVersion::ALL {
        assert_eq!(resources(*kubernetes).all().len(), catalog(*kubernetes).len(), "{kubernetes}");
    }
    let resources = resources(KubernetesVersion::default());
    let found = |group: &str, plural: &str| {
        let resource =
            resources.iter().find(|resource| (&*resource.group, &*resource.plural) == (group, plural)).unwrap();
        (resource.prefix.clone(), resource.strategy.scale().is_some(), resource.subresources.len())
    };
    for (group, plural, prefix, scales, subresources) in [
        ("", "pods", "/registry/pods/", false, 10),
        ("", "nodes", "/registry/minions/", false, 2),
        ("", "bindings", "", false, 0),
        ("apps", "deployments", "/registry/deployments/", true, 2),
        ("events.k8s.io", "events", "/registry/events/", false, 0),
        ("networking.k8s.io", "ingresses", "/registry/ingress/", false, 1),
        ("authorization.k8s.io", "subjectaccessreviews", "", false, 0),
    ] {
        assert_eq!(found(group, plural), (prefix.to_owned(), scales, subresources), "{plural}");
    }
}
