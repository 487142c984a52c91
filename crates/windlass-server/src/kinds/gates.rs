//! The fields of features that kube-apiserver enables by default since one of the served versions. Its older versions
//! have the fields in their types and schemas, but drop them from objects.
//!
//! Fields that older versions do not have at all need no entry: they are unknown fields there.

use crate::{
    kubernetes::KubernetesVersion::{self, V1_36},
    object::NameRule,
    resource::GatedField,
};

/// Returns the rule for the names of a kind, if it is not that of the newest version.
pub(super) fn name_rule(kubernetes: KubernetesVersion, group: &str, kind: &str) -> Option<NameRule> {
    // The feature RelaxedServiceNameValidation.
    (kubernetes < V1_36 && (group, kind) == ("", "Service")).then_some(NameRule::Label1035)
}

/// Returns the fields of a kind.
pub(super) fn of_kind(group: &str, kind: &str) -> &'static [GatedField] {
    match (group, kind) {
        ("resource.k8s.io", "DeviceClass") => DEVICE_CLASS,
        ("resource.k8s.io", "ResourceClaim") => CLAIM,
        ("resource.k8s.io", "ResourceClaimTemplate") => CLAIM_TEMPLATE,
        ("resource.k8s.io", "ResourceSlice") => SLICE,
        _ => &[],
    }
}

const fn since(since: KubernetesVersion, path: &'static str) -> GatedField {
    GatedField::new(path, since)
}

const DEVICE_CLASS: &[GatedField] = &[since(V1_36, "spec.extendedResourceName")];

const CLAIM: &[GatedField] = &[
    since(V1_36, "spec.devices.requests.*.exactly.capacity"),
    since(V1_36, "spec.devices.requests.*.exactly.tolerations"),
    since(V1_36, "spec.devices.requests.*.firstAvailable.*.capacity"),
    since(V1_36, "spec.devices.requests.*.firstAvailable.*.tolerations"),
    since(V1_36, "spec.devices.constraints.*.distinctAttribute"),
    since(V1_36, "status.allocation.allocationTimestamp"),
    since(V1_36, "status.allocation.devices.results.*.bindingConditions"),
    since(V1_36, "status.allocation.devices.results.*.bindingFailureConditions"),
    since(V1_36, "status.allocation.devices.results.*.consumedCapacity"),
    since(V1_36, "status.allocation.devices.results.*.shareID"),
    since(V1_36, "status.allocation.devices.results.*.tolerations"),
    since(V1_36, "status.devices.*.shareID"),
];

const CLAIM_TEMPLATE: &[GatedField] = &[
    since(V1_36, "spec.spec.devices.requests.*.exactly.capacity"),
    since(V1_36, "spec.spec.devices.requests.*.exactly.tolerations"),
    since(V1_36, "spec.spec.devices.requests.*.firstAvailable.*.capacity"),
    since(V1_36, "spec.spec.devices.requests.*.firstAvailable.*.tolerations"),
    since(V1_36, "spec.spec.devices.constraints.*.distinctAttribute"),
];

const SLICE: &[GatedField] = &[
    since(V1_36, "spec.perDeviceNodeSelection"),
    since(V1_36, "spec.sharedCounters"),
    since(V1_36, "spec.devices.*.allNodes"),
    since(V1_36, "spec.devices.*.allowMultipleAllocations"),
    since(V1_36, "spec.devices.*.bindingConditions"),
    since(V1_36, "spec.devices.*.bindingFailureConditions"),
    since(V1_36, "spec.devices.*.bindsToNode"),
    since(V1_36, "spec.devices.*.capacity.*.requestPolicy"),
    since(V1_36, "spec.devices.*.consumesCounters"),
    since(V1_36, "spec.devices.*.nodeName"),
    since(V1_36, "spec.devices.*.nodeSelector"),
    since(V1_36, "spec.devices.*.taints"),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{
        kinds::{KindOptions, built_ins},
        kubernetes::KubernetesVersion,
    };

    #[test]
    fn gated_fields_are_dropped_before_their_version() {
        let dropped = |kubernetes| {
            let options = KindOptions {
                kubernetes,
                service_cidr: "10.0.0.0/24".parse().unwrap(),
                entropy: windlass_api::Entropy::seeded(1),
            };
            let mut slice = json!({"spec": {"driver": "d", "devices": [
                {"name": "a", "nodeName": "n", "capacity": {"x": {"value": "1", "requestPolicy": {"default": "1"}}}},
            ]}});
            let kinds = built_ins(&options);
            let slices = kinds.get("resource.k8s.io", "v1", "resourceslices").unwrap();
            slices.strategy.rules().drop_disabled_fields(&mut slice);
            slice["spec"]["devices"][0].take()
        };
        assert_eq!(dropped(KubernetesVersion::V1_35), json!({"name": "a", "capacity": {"x": {"value": "1"}}}));
        assert_eq!(dropped(KubernetesVersion::V1_36)["nodeName"], "n");
    }
}
