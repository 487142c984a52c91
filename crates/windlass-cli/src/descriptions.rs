//! Descriptions of the built-in kinds and their fields, from the schemas of `k8s-openapi`.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value};

/// Adds the schemas of types and of the types that they reference.
macro_rules! add {
    ($generator:ident: $($($module:ident)::+ => {$($kind:ident),+},)+) => {
        $({
            use k8s_openapi::$($module)::+ as module;
            $($generator.subschema_for::<module::$kind>();)+
        })+
    };
}

/// Returns the schemas of all kinds of the server, by their names in Kubernetes' OpenAPI documents.
pub(crate) fn schemas() -> Map<String, Value> {
    let mut generator = SchemaSettings::openapi3().into_generator();
    add_kinds(&mut generator);
    generator.take_definitions(false)
}

fn add_kinds(generator: &mut SchemaGenerator) {
    add!(generator:
        api::admissionregistration::v1 => {MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration},
        api::apps::v1 => {ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
        api::authentication::v1 => {SelfSubjectReview, TokenRequest, TokenReview},
        api::authorization::v1 => {LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview},
        api::autoscaling::v1 => {HorizontalPodAutoscaler, Scale},
        api::autoscaling::v2 => {HorizontalPodAutoscaler},
        api::batch::v1 => {CronJob, Job},
        api::certificates::v1 => {CertificateSigningRequest},
        api::coordination::v1 => {Lease},
        api::core::v1 => {Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount},
        api::discovery::v1 => {EndpointSlice},
        api::events::v1 => {Event},
        api::flowcontrol::v1 => {FlowSchema, PriorityLevelConfiguration},
        api::networking::v1 => {IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR},
        api::node::v1 => {RuntimeClass},
        api::policy::v1 => {Eviction, PodDisruptionBudget},
        api::rbac::v1 => {ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        api::resource::v1 => {DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
        api::scheduling::v1 => {PriorityClass},
        api::storage::v1 => {CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass},
        apiextensions_apiserver::pkg::apis::apiextensions::v1 => {CustomResourceDefinition},
        apimachinery::pkg::apis::meta::v1 => {APIGroup, APIGroupList, APIResourceList, APIVersions, DeleteOptions, ListMeta, Status},
        apimachinery::pkg::version => {Info},
        kube_aggregator::pkg::apis::apiregistration::v1 => {APIService},
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_schema_but_those_of_lists_is_described() {
        let schemas = schemas();
        let recorded = windlass_api::openapi::RECORDED.lines().filter_map(|line| line.split_once('\t'));
        let names = recorded.map(|(name, _)| name).filter(|name| !name.ends_with("List") || name.contains(".meta."));
        let missing: Vec<_> = names.filter(|name| !schemas.contains_key(*name)).collect();
        assert_eq!(missing, ["Patch", "WatchEvent"].map(|name| format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")));
    }

    #[test]
    fn fields_have_their_descriptions() {
        let schemas = schemas();
        let text = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]["description"].as_str();
        assert!(text.is_some_and(|text| text.starts_with("List of containers")), "{text:?}");
    }
}
