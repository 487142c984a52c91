//! The rules that kube-apiserver declares with its Go types since 1.37. It reports their errors after those of all other
//! rules.
//!
//! The tables only order and name the errors: the functions of the kinds find them, in every version. The rules of a table
//! are in the order in which kube-apiserver checks them: those of an object, then those of its fields.

use crate::{
    kubernetes::KubernetesVersion::{self, V1_34, V1_37},
    object::{
        Check::{Enum, Forbidden, Immutable, ImmutableValue, Items, Length, Required, Unique, Valid},
        DeclaredRule,
    },
};

/// Returns the rules of a kind whose errors are moved to the end.
pub(super) fn of_kind(kubernetes: KubernetesVersion, group: &str, kind: &str) -> &'static [DeclaredRule] {
    // Before 1.34, the selector is compared after the validation of the kind.
    if kubernetes < V1_34 && group == "apps" && matches!(kind, "DaemonSet" | "Deployment" | "ReplicaSet") {
        return SELECTOR;
    }
    if kubernetes < V1_37 {
        return &[];
    }
    match (group, kind) {
        ("", "ReplicationController") => REPLICATION_CONTROLLER,
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => POLICY_BINDING,
        ("autoscaling", "HorizontalPodAutoscaler") => AUTOSCALER,
        ("batch", "CronJob") => CRON_JOB,
        ("discovery.k8s.io", "EndpointSlice") => ENDPOINT_SLICE,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => PRIORITY_LEVEL,
        ("networking.k8s.io", "IngressClass") => INGRESS_CLASS,
        ("networking.k8s.io", "IPAddress") => IP_ADDRESS,
        ("networking.k8s.io", "NetworkPolicy") => NETWORK_POLICY,
        ("node.k8s.io", "RuntimeClass") => RUNTIME_CLASS,
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => ROLE,
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => ROLE_BINDING,
        ("resource.k8s.io", "DeviceClass") => DEVICE_CLASS,
        ("resource.k8s.io", "ResourceClaim") => CLAIM,
        ("resource.k8s.io", "ResourceClaimTemplate") => CLAIM_TEMPLATE,
        ("resource.k8s.io", "ResourceSlice") => SLICE,
        ("storage.k8s.io", "StorageClass") => STORAGE_CLASS,
        ("storage.k8s.io", "VolumeAttachment") => VOLUME_ATTACHMENT,
        _ => &[],
    }
}

use DeclaredRule as D;

const SELECTOR: &[D] = &[D::new("spec.selector", ImmutableValue)];

const REPLICATION_CONTROLLER: &[D] = &[
    D::new("metadata.name", Valid),
    D::new("spec.replicas", Required),
    D::new("spec.replicas", Valid),
    D::new("spec.minReadySeconds", Valid),
];

const POLICY_BINDING: &[D] = &[D::new("spec.policyName", Required), D::new("spec.validationActions", Required)];

const AUTOSCALER: &[D] = &[D::new("spec.minReplicas", Valid), D::new("spec.maxReplicas", Required)];

const CRON_JOB: &[D] = &[D::new("spec.schedule", Required)];

const ENDPOINT_SLICE: &[D] = &[
    D::new("addressType", Required),
    D::new("addressType", Immutable),
    D::new("addressType", Enum),
    D::new("endpoints.*.addresses", Required),
    D::new("endpoints.*.addresses", Items),
];

const PRIORITY_LEVEL: &[D] = &[
    D::new("spec.exempt", Forbidden),
    D::new("spec.limited", Forbidden),
    D::new("spec.limited", Required),
    D::new("spec.type", Required),
    D::new("spec.limited.limitResponse.queuing", Forbidden),
    D::new("spec.limited.limitResponse.queuing", Required),
    D::new("spec.limited.limitResponse.type", Required),
];

const INGRESS_CLASS: &[D] = &[D::new("spec.parameters.kind", Required), D::new("spec.parameters.name", Required)];

const IP_ADDRESS: &[D] = &[
    D::new("spec.parentRef", Required),
    D::new("spec.parentRef", Immutable),
    D::new("spec.parentRef.resource", Required),
    D::new("spec.parentRef.name", Required),
];

const NETWORK_POLICY: &[D] =
    &[D::new("spec.ingress.*.from.*.ipBlock.cidr", Required), D::new("spec.egress.*.to.*.ipBlock.cidr", Required)];

const RUNTIME_CLASS: &[D] = &[D::new("handler", Immutable), D::new("handler", Required), D::new("handler", Valid)];

const ROLE: &[D] = &[D::new("rules.*.verbs", Required)];

const ROLE_BINDING: &[D] = &[D::new("subjects.*.name", Required), D::new("roleRef.name", Required)];

const DEVICE_CLASS: &[D] = &[
    D::new("metadata.name", Valid),
    D::new("spec.selectors", Items),
    D::new("spec.config", Items),
    D::new("spec.config.*.opaque.driver", Required),
    D::new("spec.config.*.opaque.driver", Valid),
    D::new("spec.config.*.opaque.driver", Length),
    D::new("spec.extendedResourceName", Valid),
];

/// Returns the rules of a request for devices, in the order of its fields.
macro_rules! claim {
    ($spec:literal, $($rest:expr),*) => {
        &[
            D::new(concat!($spec, ".devices.requests"), Items),
            D::new(concat!($spec, ".devices.requests.*"), Unique),
            D::new(concat!($spec, ".devices.requests.*.exactly.selectors"), Items),
            D::new(concat!($spec, ".devices.requests.*.exactly.allocationMode"), Enum),
            D::new(concat!($spec, ".devices.requests.*.exactly.tolerations.*.key"), Valid),
            D::new(concat!($spec, ".devices.requests.*.exactly.tolerations.*.operator"), Required),
            D::new(concat!($spec, ".devices.requests.*.exactly.tolerations.*.operator"), Enum),
            D::new(concat!($spec, ".devices.requests.*.exactly.tolerations.*.effect"), Enum),
            D::new(concat!($spec, ".devices.requests.*.firstAvailable"), Items),
            D::new(concat!($spec, ".devices.requests.*.firstAvailable.*"), Unique),
            D::new(concat!($spec, ".devices.requests.*.firstAvailable.*.deviceClassName"), Required),
            D::new(concat!($spec, ".devices.requests.*.firstAvailable.*.deviceClassName"), Valid),
            D::new(concat!($spec, ".devices.requests.*.firstAvailable.*.selectors"), Items),
            D::new(concat!($spec, ".devices.requests.*.firstAvailable.*.allocationMode"), Enum),
            D::new(concat!($spec, ".devices.constraints"), Items),
            D::new(concat!($spec, ".devices.constraints.*.requests"), Items),
            D::new(concat!($spec, ".devices.constraints.*.requests.*"), Unique),
            D::new(concat!($spec, ".devices.constraints.*.matchAttribute"), Valid),
            D::new(concat!($spec, ".devices.constraints.*.distinctAttribute"), Valid),
            D::new(concat!($spec, ".devices.config"), Items),
            D::new(concat!($spec, ".devices.config.*.requests"), Items),
            D::new(concat!($spec, ".devices.config.*.requests.*"), Unique),
            D::new(concat!($spec, ".devices.config.*.opaque.driver"), Required),
            D::new(concat!($spec, ".devices.config.*.opaque.driver"), Valid),
            D::new(concat!($spec, ".devices.config.*.opaque.driver"), Length),
            $($rest),*
        ]
    };
}

const CLAIM: &[D] = claim!(
    "spec",
    D::new("spec", Immutable),
    D::new("status.reservedFor", Items),
    D::new("status.reservedFor.*", Unique)
);

const CLAIM_TEMPLATE: &[D] = claim!("spec.spec",);

const SLICE: &[D] = &[
    D::new("spec.devices.*.attributes.*", Valid),
    D::new("spec.devices.*.taints.*.effect", Required),
    D::new("spec.devices.*.taints.*.effect", Enum),
    D::new("spec.sharedCounters", Items),
    D::new("spec.sharedCounters.*.name", Required),
    D::new("spec.sharedCounters.*.name", Valid),
    D::new("spec.sharedCounters.*.counters", Required),
];

const STORAGE_CLASS: &[D] = &[
    D::new("provisioner", Required),
    D::new("provisioner", Immutable),
    D::new("parameters", Immutable),
    D::new("reclaimPolicy", Immutable),
    D::new("volumeBindingMode", Immutable),
];

const VOLUME_ATTACHMENT: &[D] = &[
    D::new("spec", Immutable),
    D::new("spec.attacher", Required),
    D::new("spec.attacher", Valid),
    D::new("spec.attacher", Length),
];
