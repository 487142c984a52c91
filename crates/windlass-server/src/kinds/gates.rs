//! The differences between the kinds of the served versions: rules, warnings, and the fields of features.
//!
//! kube-apiserver enables a feature by default since some version. Older versions have its fields in their types and
//! schemas, but drop them from objects. Fields that older versions do not have at all need no entry: they are unknown
//! fields there.

use serde_json::Value;

use super::declared;
use crate::{
    kubernetes::KubernetesVersion::{self, V1_34, V1_35, V1_36, V1_37},
    object::{NameRule, change_each, default_pointer},
    resource::{GatedField, Generation, Resets, Rules, StatusRule},
};

/// The kinds whose updates older versions validate twice for the resulting state, and the version since which they do
/// so once.
const VALIDATED_TWICE: &[(&str, &str, KubernetesVersion)] = &[
    ("", "PersistentVolumeClaim", V1_35),
    ("", "ReplicationController", V1_35),
    ("apps", "DaemonSet", V1_34),
    ("apps", "ReplicaSet", V1_34),
    ("networking.k8s.io", "NetworkPolicy", V1_36),
    ("rbac.authorization.k8s.io", "ClusterRole", V1_35),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", V1_35),
    ("rbac.authorization.k8s.io", "Role", V1_35),
    ("rbac.authorization.k8s.io", "RoleBinding", V1_35),
    ("storage.k8s.io", "CSINode", V1_36),
    ("storage.k8s.io", "VolumeAttachment", V1_35),
    ("storage.k8s.io", "VolumeAttributesClass", V1_35),
];

/// The beginnings of warnings, and the version that introduces each.
const WARNINGS: &[(&str, KubernetesVersion)] = &[
    ("ResourceQuota ", V1_35),
    ("spec.externalIPs is deprecated", V1_36),
    ("spec.externalIPs is ignored for headless services", V1_34),
    ("spec.loadBalancerIP is ignored for headless services", V1_34),
    ("spec.serviceAccountTokenInSecrets is unset", V1_35),
    ("spec.SessionAffinity is ignored for headless services", V1_34),
];

/// Returns the rules of a kind in a version, from those in the default version.
pub(super) fn rules(kubernetes: KubernetesVersion, group: &str, kind: &str, default: &Rules) -> Rules {
    let mut rules = Rules {
        kubernetes,
        generation: generation(kubernetes, group, kind).unwrap_or(default.generation),
        gated_fields: of_kind(group, kind),
        gated_pod_fields: POD_SPEC,
        disabled_pod_fields: of_pods(kubernetes),
        declared: declared::of_kind(kubernetes, group, kind),
        reports_once: kubernetes >= V1_37 && !matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io"),
        ..default.clone()
    };
    let mut twice = VALIDATED_TWICE.iter().filter(|(of_group, of_kind, _)| (*of_group, *of_kind) == (group, kind));
    if twice.any(|(_, _, since)| kubernetes < *since) {
        rules.validated_twice = true;
        rules.metadata.changed += 1;
    }
    match (group, kind) {
        // The feature RelaxedServiceNameValidation.
        ("", "Service") if kubernetes < V1_36 => {
            rules.name = NameRule::Label1035;
            rules.metadata.changed += usize::from(kubernetes < V1_34);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") if kubernetes < V1_36 => {
            rules.resets = Resets { status_unowned: Some(Resets::BARE_STATUS.status), ..rules.resets };
        }
        // The feature ServiceCIDRStatusFieldWiping.
        ("networking.k8s.io", "ServiceCIDR") if kubernetes < V1_36 => {
            rules.status = StatusRule::Plain;
            rules.resets = Resets { main: &[], status_unowned: Some(&[]), ..rules.resets };
        }
        ("resource.k8s.io", "ResourceClaim") if kubernetes < V1_35 => {
            rules.resets = Resets { status_unowned: Some(Resets::STATUS.status), ..rules.resets };
        }
        _ => {}
    }
    rules
}

/// Reports whether the server of a version sends a warning.
pub(super) fn has_warning(kubernetes: KubernetesVersion, text: &str) -> bool {
    WARNINGS.iter().all(|(start, since)| kubernetes >= *since || !text.starts_with(start))
}

/// Returns the rule for the generation of a kind, if it is not that of the default version.
fn generation(kubernetes: KubernetesVersion, group: &str, kind: &str) -> Option<Generation> {
    // The feature HPAGeneration.
    (kubernetes >= V1_37 && (group, kind) == ("autoscaling", "HorizontalPodAutoscaler")).then_some(Generation::Spec)
}

/// Returns the defaults of a kind that older versions do not have.
pub(super) fn defaults(kubernetes: KubernetesVersion, group: &str, kind: &str) -> Option<fn(&mut Value)> {
    match (group, kind) {
        // The feature MaxUnavailableStatefulSet.
        ("apps", "StatefulSet") if kubernetes >= V1_37 => Some(|set| {
            if set["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
                change_each(set, "spec.updateStrategy.rollingUpdate", |rolling| {
                    default_pointer(rolling, "maxUnavailable", 1);
                });
            }
        }),
        ("storage.k8s.io", "CSIDriver") if kubernetes >= V1_37 => Some(|driver| {
            change_each(driver, "spec", |spec| default_pointer(spec, "preventPodSchedulingIfMissing", false));
        }),
        _ => None,
    }
}

/// Returns the fields of disabled features in pod specs.
fn of_pods(kubernetes: KubernetesVersion) -> &'static [&'static str] {
    if kubernetes < V1_37 { DISABLED_POD_FIELDS } else { DISABLED_POD_FIELDS_1_37 }
}

/// Returns the fields of a kind.
fn of_kind(group: &str, kind: &str) -> &'static [GatedField] {
    match (group, kind) {
        ("", "PersistentVolume") => VOLUME,
        ("", "PersistentVolumeClaim") => VOLUME_CLAIM,
        ("", "Pod") => POD,
        ("apps", "Deployment" | "ReplicaSet") => REPLICAS,
        ("apps", "StatefulSet") => STATEFUL_SET,
        ("autoscaling", "HorizontalPodAutoscaler") => AUTOSCALER,
        ("discovery.k8s.io", "EndpointSlice") => ENDPOINT_SLICE,
        ("resource.k8s.io", "DeviceClass") => DEVICE_CLASS,
        ("resource.k8s.io", "ResourceClaim") => CLAIM,
        ("resource.k8s.io", "ResourceClaimTemplate") => CLAIM_TEMPLATE,
        ("resource.k8s.io", "ResourceSlice") => SLICE,
        ("storage.k8s.io", "CSIDriver") => CSI_DRIVER,
        ("storage.k8s.io", "CSINode") => CSI_NODE,
        _ => &[],
    }
}

const fn since(since: KubernetesVersion, path: &'static str) -> GatedField {
    within(KubernetesVersion::ALL[0], since, path)
}

const fn disabled(path: &'static str) -> GatedField {
    GatedField::disabled(path)
}

/// The fields of disabled features in pods before 1.37.
const DISABLED_POD_FIELDS: &[&str] = &[
    "schedulingGroup",
    // The name of `schedulingGroup` in 1.35.
    "workloadRef",
    "containers.*.lifecycle.stopSignal",
    "initContainers.*.lifecycle.stopSignal",
    "ephemeralContainers.*.lifecycle.stopSignal",
    "volumes.*.projected.sources.*.clusterTrustBundle",
    "volumes.*.projected.sources.*.podCertificate",
];

/// The fields of disabled features in pods since 1.37.
const DISABLED_POD_FIELDS_1_37: &[&str] = &[
    "evictionResponders",
    "schedulingGroup",
    "containers.*.lifecycle.postStart.httpGet.protocol",
    "containers.*.lifecycle.preStop.httpGet.protocol",
    "containers.*.lifecycle.stopSignal",
    "containers.*.livenessProbe.grpc.mode",
    "containers.*.livenessProbe.httpGet.protocol",
    "containers.*.readinessProbe.grpc.mode",
    "containers.*.readinessProbe.httpGet.protocol",
    "containers.*.startupProbe.grpc.mode",
    "containers.*.startupProbe.httpGet.protocol",
    "containers.*.volumeMounts.*.bindMountOptions",
    "initContainers.*.lifecycle.postStart.httpGet.protocol",
    "initContainers.*.lifecycle.preStop.httpGet.protocol",
    "initContainers.*.lifecycle.stopSignal",
    "initContainers.*.livenessProbe.grpc.mode",
    "initContainers.*.livenessProbe.httpGet.protocol",
    "initContainers.*.readinessProbe.grpc.mode",
    "initContainers.*.readinessProbe.httpGet.protocol",
    "initContainers.*.startupProbe.grpc.mode",
    "initContainers.*.startupProbe.httpGet.protocol",
    "initContainers.*.volumeMounts.*.bindMountOptions",
    "ephemeralContainers.*.lifecycle.stopSignal",
    "ephemeralContainers.*.volumeMounts.*.bindMountOptions",
    "volumes.*.configMap.defaultUser",
    "volumes.*.configMap.items.*.user",
    "volumes.*.downwardAPI.defaultUser",
    "volumes.*.downwardAPI.items.*.user",
    "volumes.*.emptyDir.mode",
    "volumes.*.projected.defaultUser",
    "volumes.*.projected.sources.*.clusterTrustBundle.user",
    "volumes.*.projected.sources.*.configMap.items.*.user",
    "volumes.*.projected.sources.*.downwardAPI.items.*.user",
    "volumes.*.projected.sources.*.podCertificate.user",
    "volumes.*.projected.sources.*.secret.items.*.user",
    "volumes.*.projected.sources.*.serviceAccountToken.user",
    "volumes.*.secret.defaultUser",
    "volumes.*.secret.items.*.user",
];

/// Returns a field that only the versions from `from` to that before `since` drop.
const fn within(from: KubernetesVersion, since: KubernetesVersion, path: &'static str) -> GatedField {
    GatedField::new(path, from, since)
}

/// The fields of pod specs, in pods and in templates.
const POD_SPEC: &[GatedField] = &[
    since(V1_34, "resourceClaims"),
    since(V1_34, "resources"),
    since(V1_34, "containers.*.resources.claims"),
    since(V1_34, "initContainers.*.resources.claims"),
    since(V1_34, "ephemeralContainers.*.resources.claims"),
    since(V1_35, "hostnameOverride"),
    since(V1_35, "containers.*.restartPolicy"),
    since(V1_35, "ephemeralContainers.*.restartPolicy"),
    since(V1_35, "containers.*.restartPolicyRules"),
    since(V1_35, "initContainers.*.restartPolicyRules"),
    since(V1_35, "ephemeralContainers.*.restartPolicyRules"),
];

const POD: &[GatedField] = &[
    since(V1_34, "status.observedGeneration"),
    since(V1_34, "status.conditions.*.observedGeneration"),
    since(V1_34, "status.resourceClaimStatuses"),
    disabled("status.volumeHealth"),
];

const VOLUME: &[GatedField] = &[since(V1_34, "spec.volumeAttributesClassName")];

const VOLUME_CLAIM: &[GatedField] = &[
    since(V1_34, "spec.volumeAttributesClassName"),
    since(V1_34, "status.currentVolumeAttributesClassName"),
    since(V1_34, "status.modifyVolumeStatus"),
    disabled("status.healthStatus"),
];

const REPLICAS: &[GatedField] = &[since(V1_35, "status.terminatingReplicas")];

const AUTOSCALER: &[GatedField] =
    &[since(V1_35, "spec.behavior.scaleDown.tolerance"), since(V1_35, "spec.behavior.scaleUp.tolerance")];

const ENDPOINT_SLICE: &[GatedField] = &[since(V1_34, "endpoints.*.hints!.forNodes")];

const STATEFUL_SET: &[GatedField] = &[since(V1_37, "spec.updateStrategy.rollingUpdate.maxUnavailable")];

const CSI_DRIVER: &[GatedField] =
    &[since(V1_35, "spec.nodeAllocatableUpdatePeriodSeconds"), since(V1_37, "spec.preventPodSchedulingIfMissing")];

const CSI_NODE: &[GatedField] = &[disabled("status.storageHealth")];

const DEVICE_CLASS: &[GatedField] = &[since(V1_36, "spec.extendedResourceName")];

const CLAIM: &[GatedField] = &[
    since(V1_36, "spec.devices.requests.*.exactly.capacity"),
    within(V1_35, V1_36, "spec.devices.requests.*.exactly.tolerations"),
    since(V1_36, "spec.devices.requests.*.firstAvailable.*.capacity"),
    within(V1_35, V1_36, "spec.devices.requests.*.firstAvailable.*.tolerations"),
    since(V1_36, "spec.devices.constraints.*.distinctAttribute"),
    disabled("spec.devices.requests.*.exactly.derivedAttributes"),
    disabled("spec.devices.requests.*.firstAvailable.*.derivedAttributes"),
    since(V1_36, "status.allocation.allocationTimestamp"),
    since(V1_36, "status.allocation.devices.results.*.bindingConditions"),
    since(V1_36, "status.allocation.devices.results.*.bindingFailureConditions"),
    since(V1_36, "status.allocation.devices.results.*.consumedCapacity"),
    since(V1_36, "status.allocation.devices.results.*.shareID"),
    since(V1_36, "status.allocation.devices.results.*.tolerations"),
    disabled("status.allocation.devices.results.*.skipNodeOperations"),
    since(V1_36, "status.devices.*.shareID"),
];

const CLAIM_TEMPLATE: &[GatedField] = &[
    since(V1_36, "spec.spec.devices.requests.*.exactly.capacity"),
    within(V1_35, V1_36, "spec.spec.devices.requests.*.exactly.tolerations"),
    since(V1_36, "spec.spec.devices.requests.*.firstAvailable.*.capacity"),
    within(V1_35, V1_36, "spec.spec.devices.requests.*.firstAvailable.*.tolerations"),
    since(V1_36, "spec.spec.devices.constraints.*.distinctAttribute"),
    disabled("spec.spec.devices.requests.*.exactly.derivedAttributes"),
    disabled("spec.spec.devices.requests.*.firstAvailable.*.derivedAttributes"),
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
    disabled("spec.devices.*.consumesCounters.*.compatibilityGroups"),
    disabled("spec.devices.*.nodeAllocatableResourceMappings"),
    // The name of `nodeAllocatableResourceMappings` since 1.37.
    disabled("spec.devices.*.nodeAllocatableResources"),
    disabled("spec.partitionTypeAttribute"),
    disabled("spec.skipNodeOperations"),
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
            let options = KindOptions::of(kubernetes);
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

    #[test]
    fn hints_stay_without_their_nodes() {
        let options = KindOptions::of(KubernetesVersion::V1_33);
        let mut slice = json!({"endpoints": [{"hints": {"forNodes": [{"name": "n"}]}}]});
        let kinds = built_ins(&options);
        kinds
            .get("discovery.k8s.io", "v1", "endpointslices")
            .unwrap()
            .strategy
            .rules()
            .drop_disabled_fields(&mut slice);
        assert_eq!(slice, json!({"endpoints": [{"hints": {}}]}));
    }
}
