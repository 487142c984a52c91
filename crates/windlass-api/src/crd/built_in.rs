//! The schemas of the parts of built-in kinds: those published by a real server, made structural.

use std::{collections::HashMap, sync::OnceLock};

use k8s_openapi::{
    ByteString,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps,
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, Time},
        runtime::RawExtension,
        util::intstr::IntOrString,
    },
};
use serde_json::{Map, Value, json};

use super::{Schema, schema::unsupported_schema, values::of_type};
use crate::openapi;

const REFERENCE: &str = "#/components/schemas/";
/// Recorded keywords that are invalid in a CustomResourceDefinition, or that would bind it to one minor version.
const DROPPED: [&str; 5] = [
    "enum",
    "x-kubernetes-group-version-kind",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-unions",
];

/// Returns a schema for types whose recorded schema is less precise than their documentation.
fn said_better(name: &str) -> Option<Value> {
    let text = |format: &str| Some(json!({"type": "string", "format": format}));
    let name = name.strip_prefix("io.k8s.apimachinery.pkg.")?;
    match name {
        "api.resource.Quantity" => Some(json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })),
        "util.intstr.IntOrString" => {
            Some(json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}))
        }
        "apis.meta.v1.Time" | "apis.meta.v1.MicroTime" => text("date-time"),
        "runtime.RawExtension" | "apis.meta.v1.FieldsV1" => {
            Some(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
        }
        // The fields that a template may set. The server sets the others.
        "apis.meta.v1.ObjectMeta" => {
            let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
            Some(json!({"type": "object", "properties": {
                "annotations": texts,
                "finalizers": {"type": "array", "items": {"type": "string"}},
                "labels": texts,
                "name": {"type": "string"},
                "namespace": {"type": "string"},
            }}))
        }
        "apis.meta.v1.Condition" => Some(json!({
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "message": {"type": "string", "maxLength": 32768},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "type": {
                    "type": "string", "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        })),
        _ => None,
    }
}

/// Returns the schema of a recorded type.
fn recorded(name: &str) -> JSONSchemaProps {
    serde_json::from_value(resolved(name)).unwrap_or_else(|error| unsupported_schema(format!("{name}: {error}")))
}

fn resolved(name: &str) -> Value {
    static INDEX: OnceLock<HashMap<&'static str, &'static str>> = OnceLock::new();
    if let Some(schema) = said_better(name) {
        return schema;
    }
    let index = INDEX.get_or_init(|| openapi::RECORDED.lines().filter_map(|line| line.split_once('\t')).collect());
    match index.get(name).and_then(|json| serde_json::from_str(json).ok()) {
        Some(schema) => structural(schema),
        None => json!({"$ref": format!("no schema of {name} is recorded")}),
    }
}

/// Converts a recorded schema: resolves references, and removes keywords that are invalid in a
/// CustomResourceDefinition.
fn structural(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else { return schema };
    for key in DROPPED {
        fields.remove(key);
    }
    if let Some(name) = reference(&fields) {
        return resolved(&name);
    }
    let required = fields.get("required").cloned();
    let is_required = |name: &str| {
        required.as_ref().and_then(Value::as_array).is_some_and(|names| names.iter().any(|one| one == name))
    };
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for (name, property) in properties.iter_mut() {
            // The zero value of a Go field that is always encoded is not a deliberate default.
            let zero = is_required(name) || property.get("default") == Some(&json!({}));
            *property = structural(std::mem::take(property));
            if let Some(property) = property.as_object_mut().filter(|_| zero) {
                property.remove("default");
            }
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(part) = fields.get_mut(key) {
            *part = structural(std::mem::take(part));
            if let Some(part) = part.as_object_mut() {
                part.remove("default");
            }
        }
    }
    Value::Object(fields)
}

/// Returns the reference of a schema that consists only of a reference.
fn reference(fields: &Map<String, Value>) -> Option<String> {
    let inner = fields.get("allOf").and_then(|all| all.get(0));
    let target = fields.get("$ref").or_else(|| inner?.get("$ref"))?;
    Some(target.as_str()?.strip_prefix(REFERENCE)?.to_owned())
}

/// Calls a macro with the types that all minor versions in k8s-openapi share, except for the kinds themselves: an object
/// embeds parts of other objects, not whole objects.
macro_rules! built_in_types {
    ($callback:ident) => {
        $callback! {
            api::core::v1, "io.k8s.api.core.v1.":
                AWSElasticBlockStoreVolumeSource, Affinity, AppArmorProfile, AttachedVolume, AzureDiskVolumeSource,
                AzureFilePersistentVolumeSource, AzureFileVolumeSource, CSIPersistentVolumeSource, CSIVolumeSource,
                Capabilities, CephFSPersistentVolumeSource, CephFSVolumeSource, CinderPersistentVolumeSource,
                CinderVolumeSource, ClientIPConfig, ClusterTrustBundleProjection, ComponentCondition,
                ConfigMapEnvSource, ConfigMapKeySelector, ConfigMapNodeConfigSource, ConfigMapProjection,
                ConfigMapVolumeSource, Container, ContainerImage, ContainerPort, ContainerResizePolicy, ContainerState,
                ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, ContainerUser,
                DaemonEndpoint, DownwardAPIProjection, DownwardAPIVolumeFile, DownwardAPIVolumeSource,
                EmptyDirVolumeSource, EndpointAddress, EndpointPort, EndpointSubset, EnvFromSource, EnvVar,
                EnvVarSource, EphemeralContainer, EphemeralVolumeSource, EventSeries, EventSource, ExecAction,
                FCVolumeSource, FlexPersistentVolumeSource, FlexVolumeSource, FlockerVolumeSource,
                GCEPersistentDiskVolumeSource, GRPCAction, GitRepoVolumeSource, GlusterfsPersistentVolumeSource,
                GlusterfsVolumeSource, HTTPGetAction, HTTPHeader, HostAlias, HostIP, HostPathVolumeSource,
                ISCSIPersistentVolumeSource, ISCSIVolumeSource, ImageVolumeSource, KeyToPath, Lifecycle,
                LifecycleHandler, LimitRangeItem, LimitRangeSpec, LinuxContainerUser, LoadBalancerIngress,
                LoadBalancerStatus, LocalObjectReference, LocalVolumeSource, ModifyVolumeStatus, NFSVolumeSource,
                NamespaceCondition, NamespaceSpec, NamespaceStatus, NodeAddress, NodeAffinity, NodeCondition,
                NodeConfigSource, NodeConfigStatus, NodeDaemonEndpoints, NodeFeatures, NodeRuntimeHandler,
                NodeRuntimeHandlerFeatures, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, NodeSpec,
                NodeStatus, NodeSwapStatus, NodeSystemInfo, ObjectFieldSelector, ObjectReference,
                PersistentVolumeClaimCondition, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
                PersistentVolumeClaimTemplate, PersistentVolumeClaimVolumeSource, PersistentVolumeSpec,
                PersistentVolumeStatus, PhotonPersistentDiskVolumeSource, PodAffinity, PodAffinityTerm, PodAntiAffinity,
                PodCondition, PodDNSConfig, PodDNSConfigOption, PodIP, PodOS, PodReadinessGate, PodResourceClaim,
                PodResourceClaimStatus, PodSchedulingGate, PodSecurityContext, PodSpec, PodStatus, PodTemplateSpec,
                PortStatus, PortworxVolumeSource, PreferredSchedulingTerm, Probe, ProjectedVolumeSource,
                QuobyteVolumeSource, RBDPersistentVolumeSource, RBDVolumeSource, ReplicationControllerCondition,
                ReplicationControllerSpec, ReplicationControllerStatus, ResourceClaim, ResourceFieldSelector,
                ResourceHealth, ResourceQuotaSpec, ResourceQuotaStatus, ResourceRequirements, ResourceStatus,
                SELinuxOptions, ScaleIOPersistentVolumeSource, ScaleIOVolumeSource, ScopeSelector,
                ScopedResourceSelectorRequirement, SeccompProfile, SecretEnvSource, SecretKeySelector, SecretProjection,
                SecretReference, SecretVolumeSource, SecurityContext, ServiceAccountTokenProjection, ServicePort,
                ServiceSpec, ServiceStatus, SessionAffinityConfig, SleepAction, StorageOSPersistentVolumeSource,
                StorageOSVolumeSource, Sysctl, TCPSocketAction, Taint, Toleration, TopologySelectorLabelRequirement,
                TopologySelectorTerm, TopologySpreadConstraint, TypedLocalObjectReference, TypedObjectReference, Volume,
                VolumeDevice, VolumeMount, VolumeMountStatus, VolumeNodeAffinity, VolumeProjection,
                VolumeResourceRequirements, VsphereVirtualDiskVolumeSource, WeightedPodAffinityTerm,
                WindowsSecurityContextOptions;
            apimachinery::pkg::apis::meta::v1, "io.k8s.apimachinery.pkg.apis.meta.v1.":
                Condition, FieldSelectorRequirement, LabelSelector, LabelSelectorRequirement, ManagedFieldsEntry,
                ObjectMeta, OwnerReference;
            api::apps::v1, "io.k8s.api.apps.v1.":
                DaemonSetCondition, DaemonSetSpec, DaemonSetStatus, DaemonSetUpdateStrategy, DeploymentCondition,
                DeploymentSpec, DeploymentStatus, DeploymentStrategy, ReplicaSetCondition, ReplicaSetSpec,
                ReplicaSetStatus, RollingUpdateDaemonSet, RollingUpdateDeployment, RollingUpdateStatefulSetStrategy,
                StatefulSetCondition, StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy,
                StatefulSetSpec, StatefulSetStatus, StatefulSetUpdateStrategy;
            api::autoscaling::v2, "io.k8s.api.autoscaling.v2.":
                ContainerResourceMetricSource, ContainerResourceMetricStatus, CrossVersionObjectReference,
                ExternalMetricSource, ExternalMetricStatus, HPAScalingPolicy, HPAScalingRules,
                HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec,
                HorizontalPodAutoscalerStatus, MetricIdentifier, MetricSpec, MetricStatus, MetricTarget,
                MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource, PodsMetricStatus,
                ResourceMetricSource, ResourceMetricStatus;
            api::batch::v1, "io.k8s.api.batch.v1.":
                CronJobSpec, CronJobStatus, JobCondition, JobSpec, JobStatus, JobTemplateSpec, PodFailurePolicy,
                PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
                SuccessPolicy, SuccessPolicyRule, UncountedTerminatedPods;
            api::networking::v1, "io.k8s.api.networking.v1.":
                HTTPIngressPath, HTTPIngressRuleValue, IPAddressSpec, IPBlock, IngressBackend,
                IngressClassParametersReference, IngressClassSpec, IngressLoadBalancerIngress,
                IngressLoadBalancerStatus, IngressPortStatus, IngressRule, IngressServiceBackend, IngressSpec,
                IngressStatus, IngressTLS, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
                NetworkPolicyPort, NetworkPolicySpec, ParentReference, ServiceBackendPort, ServiceCIDRSpec,
                ServiceCIDRStatus;
            api::policy::v1, "io.k8s.api.policy.v1.":
                PodDisruptionBudgetSpec, PodDisruptionBudgetStatus;
            api::rbac::v1, "io.k8s.api.rbac.v1.":
                AggregationRule, PolicyRule, RoleRef, Subject;
            api::storage::v1, "io.k8s.api.storage.v1.":
                CSIDriverSpec, CSINodeDriver, CSINodeSpec, TokenRequest, VolumeAttachmentSource, VolumeAttachmentSpec,
                VolumeAttachmentStatus, VolumeError, VolumeNodeResources;
            api::discovery::v1, "io.k8s.api.discovery.v1.":
                Endpoint, EndpointConditions, EndpointHints, EndpointPort, ForNode, ForZone;
            api::coordination::v1, "io.k8s.api.coordination.v1.":
                LeaseSpec;
        }
    };
}

pub(crate) use built_in_types;

macro_rules! built_in {
    ($($($module:ident)::+, $prefix:literal: $($name:ident),+;)*) => {$(const _: () = {
        use k8s_openapi::$($module)::+ as types;
        built_in!(types, $prefix, $($name)+);
    };)*};
    ($types:ident, $prefix:literal, $($name:ident)+) => {$(
        impl Schema for $types::$name {
            fn schema() -> JSONSchemaProps {
                recorded(concat!($prefix, stringify!($name)))
            }
        }
    )+};
}

built_in_types!(built_in);

macro_rules! by_authors {
    ($($type:ty: $name:literal;)*) => {$(
        impl Schema for $type {
            fn schema() -> JSONSchemaProps {
                recorded(concat!("io.k8s.apimachinery.pkg.", $name))
            }
        }
    )*};
}

by_authors! {
    Quantity: "api.resource.Quantity";
    crate::Quantity: "api.resource.Quantity";
    IntOrString: "util.intstr.IntOrString";
    Time: "apis.meta.v1.Time";
    MicroTime: "apis.meta.v1.MicroTime";
    jiff::Timestamp: "apis.meta.v1.Time";
    RawExtension: "runtime.RawExtension";
}

impl Schema for ByteString {
    fn schema() -> JSONSchemaProps {
        of_type("string", "byte")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::{Container, LocalObjectReference, PodTemplateSpec},
        apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector},
    };

    use super::*;

    fn of<T: Schema>() -> Value {
        serde_json::to_value(T::schema()).unwrap()
    }

    /// Reports whether a key occurs anywhere in a value.
    fn has(value: &Value, key: &str) -> bool {
        match value {
            Value::Object(fields) => fields.iter().any(|(name, value)| name == key || has(value, key)),
            Value::Array(items) => items.iter().any(|item| has(item, key)),
            _ => false,
        }
    }

    #[test]
    fn nested_references_are_resolved() {
        let pod = of::<PodTemplateSpec>();
        assert!(!has(&pod, "$ref") && !has(&pod, "allOf") && !has(&pod, "x-kubernetes-patch-strategy"));
        let container = &pod["properties"]["spec"]["properties"]["containers"]["items"];
        assert_eq!(*container, of::<Container>());
        assert_eq!(
            container["properties"]["resources"]["properties"]["limits"]["additionalProperties"],
            of::<Quantity>()
        );
        let labels = &pod["properties"]["metadata"]["properties"]["labels"];
        assert_eq!(labels["additionalProperties"]["type"], "string");
    }

    #[test]
    fn explicit_defaults_are_kept() {
        let container = of::<Container>();
        let port = &container["properties"]["ports"]["items"]["properties"];
        assert_eq!((&port["protocol"]["default"], &port["containerPort"].get("default")), (&json!("TCP"), &None));
        assert_eq!(of::<LocalObjectReference>()["properties"]["name"]["default"], "");
    }

    #[test]
    fn kubernetes_type_markers_are_in_the_schema() {
        assert_eq!(of::<IntOrString>()["x-kubernetes-int-or-string"], true);
        assert_eq!(of::<Condition>()["properties"]["status"]["enum"], json!(["True", "False", "Unknown"]));
        assert_eq!(of::<LabelSelector>()["x-kubernetes-map-type"], "atomic");
        assert_eq!(of::<Time>(), json!({"type": "string", "format": "date-time"}));
    }
}
