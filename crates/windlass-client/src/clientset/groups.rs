//! Written by `cargo xtask clientset` from what a real kube-apiserver serves; do not edit.

use windlass_api::k8s_openapi::{
    api::admissionregistration::v1 as admissionregistration_v1, api::apps::v1 as apps_v1,
    api::authentication::v1 as authentication_v1, api::authorization::v1 as authorization_v1,
    api::autoscaling::v1 as autoscaling_v1, api::autoscaling::v2 as autoscaling_v2, api::batch::v1 as batch_v1,
    api::certificates::v1 as certificates_v1, api::coordination::v1 as coordination_v1, api::core::v1 as core_v1,
    api::discovery::v1 as discovery_v1, api::events::v1 as events_v1, api::flowcontrol::v1 as flowcontrol_v1,
    api::networking::v1 as networking_v1, api::node::v1 as node_v1, api::policy::v1 as policy_v1,
    api::rbac::v1 as rbac_v1, api::resource::v1 as resource_v1, api::scheduling::v1 as scheduling_v1,
    api::storage::v1 as storage_v1, apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions_v1,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration_v1,
};
use windlass_api::{GroupVersionKind, Scheme, SchemeError};

use super::Clientset;
use crate::{
    Client,
    accessor::{Accessor, served},
};

impl Clientset {
    /// The resources of `v1`.
    #[must_use]
    pub fn core_v1(&self) -> CoreV1 {
        CoreV1(self.client.clone())
    }

    /// The resources of `apiregistration.k8s.io/v1`.
    #[must_use]
    pub fn apiregistration_v1(&self) -> ApiregistrationV1 {
        ApiregistrationV1(self.client.clone())
    }

    /// The resources of `apps/v1`.
    #[must_use]
    pub fn apps_v1(&self) -> AppsV1 {
        AppsV1(self.client.clone())
    }

    /// The resources of `events.k8s.io/v1`.
    #[must_use]
    pub fn events_v1(&self) -> EventsV1 {
        EventsV1(self.client.clone())
    }

    /// The resources of `authentication.k8s.io/v1`.
    #[must_use]
    pub fn authentication_v1(&self) -> AuthenticationV1 {
        AuthenticationV1(self.client.clone())
    }

    /// The resources of `authorization.k8s.io/v1`.
    #[must_use]
    pub fn authorization_v1(&self) -> AuthorizationV1 {
        AuthorizationV1(self.client.clone())
    }

    /// The resources of `autoscaling/v2`.
    #[must_use]
    pub fn autoscaling_v2(&self) -> AutoscalingV2 {
        AutoscalingV2(self.client.clone())
    }

    /// The resources of `autoscaling/v1`.
    #[must_use]
    pub fn autoscaling_v1(&self) -> AutoscalingV1 {
        AutoscalingV1(self.client.clone())
    }

    /// The resources of `batch/v1`.
    #[must_use]
    pub fn batch_v1(&self) -> BatchV1 {
        BatchV1(self.client.clone())
    }

    /// The resources of `certificates.k8s.io/v1`.
    #[must_use]
    pub fn certificates_v1(&self) -> CertificatesV1 {
        CertificatesV1(self.client.clone())
    }

    /// The resources of `networking.k8s.io/v1`.
    #[must_use]
    pub fn networking_v1(&self) -> NetworkingV1 {
        NetworkingV1(self.client.clone())
    }

    /// The resources of `policy/v1`.
    #[must_use]
    pub fn policy_v1(&self) -> PolicyV1 {
        PolicyV1(self.client.clone())
    }

    /// The resources of `rbac.authorization.k8s.io/v1`.
    #[must_use]
    pub fn rbac_v1(&self) -> RbacV1 {
        RbacV1(self.client.clone())
    }

    /// The resources of `storage.k8s.io/v1`.
    #[must_use]
    pub fn storage_v1(&self) -> StorageV1 {
        StorageV1(self.client.clone())
    }

    /// The resources of `admissionregistration.k8s.io/v1`.
    #[must_use]
    pub fn admissionregistration_v1(&self) -> AdmissionregistrationV1 {
        AdmissionregistrationV1(self.client.clone())
    }

    /// The resources of `apiextensions.k8s.io/v1`.
    #[must_use]
    pub fn apiextensions_v1(&self) -> ApiextensionsV1 {
        ApiextensionsV1(self.client.clone())
    }

    /// The resources of `scheduling.k8s.io/v1`.
    #[must_use]
    pub fn scheduling_v1(&self) -> SchedulingV1 {
        SchedulingV1(self.client.clone())
    }

    /// The resources of `coordination.k8s.io/v1`.
    #[must_use]
    pub fn coordination_v1(&self) -> CoordinationV1 {
        CoordinationV1(self.client.clone())
    }

    /// The resources of `node.k8s.io/v1`.
    #[must_use]
    pub fn node_v1(&self) -> NodeV1 {
        NodeV1(self.client.clone())
    }

    /// The resources of `discovery.k8s.io/v1`.
    #[must_use]
    pub fn discovery_v1(&self) -> DiscoveryV1 {
        DiscoveryV1(self.client.clone())
    }

    /// The resources of `resource.k8s.io/v1`.
    #[must_use]
    pub fn resource_v1(&self) -> ResourceV1 {
        ResourceV1(self.client.clone())
    }

    /// The resources of `flowcontrol.apiserver.k8s.io/v1`.
    #[must_use]
    pub fn flowcontrol_v1(&self) -> FlowcontrolV1 {
        FlowcontrolV1(self.client.clone())
    }
}

/// The resources of `v1`.
#[derive(Clone, Debug)]
pub struct CoreV1(Client);

impl CoreV1 {
    /// `bindings`
    pub fn bindings(&self, namespace: impl Into<String>) -> Accessor<core_v1::Binding> {
        Accessor::typed(&self.0, namespace)
    }

    /// `componentstatuses`
    pub fn component_statuses(&self) -> Accessor<core_v1::ComponentStatus> {
        Accessor::typed(&self.0, "")
    }

    /// `configmaps`
    pub fn config_maps(&self, namespace: impl Into<String>) -> Accessor<core_v1::ConfigMap> {
        Accessor::typed(&self.0, namespace)
    }

    /// `endpoints`
    pub fn endpoints(&self, namespace: impl Into<String>) -> Accessor<core_v1::Endpoints> {
        Accessor::typed(&self.0, namespace)
    }

    /// `events`
    pub fn events(&self, namespace: impl Into<String>) -> Accessor<core_v1::Event> {
        Accessor::typed(&self.0, namespace)
    }

    /// `limitranges`
    pub fn limit_ranges(&self, namespace: impl Into<String>) -> Accessor<core_v1::LimitRange> {
        Accessor::typed(&self.0, namespace)
    }

    /// `namespaces`
    pub fn namespaces(&self) -> Accessor<core_v1::Namespace> {
        Accessor::typed(&self.0, "")
    }

    /// `nodes`
    pub fn nodes(&self) -> Accessor<core_v1::Node> {
        Accessor::typed(&self.0, "")
    }

    /// `persistentvolumeclaims`
    pub fn persistent_volume_claims(&self, namespace: impl Into<String>) -> Accessor<core_v1::PersistentVolumeClaim> {
        Accessor::typed(&self.0, namespace)
    }

    /// `persistentvolumes`
    pub fn persistent_volumes(&self) -> Accessor<core_v1::PersistentVolume> {
        Accessor::typed(&self.0, "")
    }

    /// `pods`
    pub fn pods(&self, namespace: impl Into<String>) -> Accessor<core_v1::Pod> {
        Accessor::typed(&self.0, namespace)
    }

    /// `podtemplates`
    pub fn pod_templates(&self, namespace: impl Into<String>) -> Accessor<core_v1::PodTemplate> {
        Accessor::typed(&self.0, namespace)
    }

    /// `replicationcontrollers`
    pub fn replication_controllers(&self, namespace: impl Into<String>) -> Accessor<core_v1::ReplicationController> {
        Accessor::typed(&self.0, namespace)
    }

    /// `resourcequotas`
    pub fn resource_quotas(&self, namespace: impl Into<String>) -> Accessor<core_v1::ResourceQuota> {
        Accessor::typed(&self.0, namespace)
    }

    /// `secrets`
    pub fn secrets(&self, namespace: impl Into<String>) -> Accessor<core_v1::Secret> {
        Accessor::typed(&self.0, namespace)
    }

    /// `serviceaccounts`
    pub fn service_accounts(&self, namespace: impl Into<String>) -> Accessor<core_v1::ServiceAccount> {
        Accessor::typed(&self.0, namespace)
    }

    /// `services`
    pub fn services(&self, namespace: impl Into<String>) -> Accessor<core_v1::Service> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    core_v1::Binding: Submit;
    core_v1::ComponentStatus: Get List;
    core_v1::ConfigMap: All;
    core_v1::Endpoints: All;
    core_v1::Event: All;
    core_v1::LimitRange: All;
    core_v1::Namespace: Get List Watch Create Update Patch Delete Finalize Status;
    core_v1::Node: All Status;
    core_v1::PersistentVolumeClaim: All Status;
    core_v1::PersistentVolume: All Status;
    core_v1::Pod: All Bind EphemeralContainers Evict Resize Status;
    core_v1::PodTemplate: All;
    core_v1::ReplicationController: All Scale Status;
    core_v1::ResourceQuota: All Status;
    core_v1::Secret: All;
    core_v1::ServiceAccount: All Token;
    core_v1::Service: All Status;
}

/// The resources of `apiregistration.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct ApiregistrationV1(Client);

impl ApiregistrationV1 {
    /// `apiservices`
    pub fn api_services(&self) -> Accessor<apiregistration_v1::APIService> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    apiregistration_v1::APIService: All Status;
}

/// The resources of `apps/v1`.
#[derive(Clone, Debug)]
pub struct AppsV1(Client);

impl AppsV1 {
    /// `controllerrevisions`
    pub fn controller_revisions(&self, namespace: impl Into<String>) -> Accessor<apps_v1::ControllerRevision> {
        Accessor::typed(&self.0, namespace)
    }

    /// `daemonsets`
    pub fn daemon_sets(&self, namespace: impl Into<String>) -> Accessor<apps_v1::DaemonSet> {
        Accessor::typed(&self.0, namespace)
    }

    /// `deployments`
    pub fn deployments(&self, namespace: impl Into<String>) -> Accessor<apps_v1::Deployment> {
        Accessor::typed(&self.0, namespace)
    }

    /// `replicasets`
    pub fn replica_sets(&self, namespace: impl Into<String>) -> Accessor<apps_v1::ReplicaSet> {
        Accessor::typed(&self.0, namespace)
    }

    /// `statefulsets`
    pub fn stateful_sets(&self, namespace: impl Into<String>) -> Accessor<apps_v1::StatefulSet> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    apps_v1::ControllerRevision: All;
    apps_v1::DaemonSet: All Status;
    apps_v1::Deployment: All Scale Status;
    apps_v1::ReplicaSet: All Scale Status;
    apps_v1::StatefulSet: All Scale Status;
}

/// The resources of `events.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct EventsV1(Client);

impl EventsV1 {
    /// `events`
    pub fn events(&self, namespace: impl Into<String>) -> Accessor<events_v1::Event> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    events_v1::Event: All;
}

/// The resources of `authentication.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct AuthenticationV1(Client);

impl AuthenticationV1 {
    /// `selfsubjectreviews`
    pub fn self_subject_reviews(&self) -> Accessor<authentication_v1::SelfSubjectReview> {
        Accessor::typed(&self.0, "")
    }

    /// `tokenreviews`
    pub fn token_reviews(&self) -> Accessor<authentication_v1::TokenReview> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    authentication_v1::SelfSubjectReview: Create;
    authentication_v1::TokenReview: Create;
}

/// The resources of `authorization.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct AuthorizationV1(Client);

impl AuthorizationV1 {
    /// `localsubjectaccessreviews`
    pub fn local_subject_access_reviews(
        &self,
        namespace: impl Into<String>,
    ) -> Accessor<authorization_v1::LocalSubjectAccessReview> {
        Accessor::typed(&self.0, namespace)
    }

    /// `selfsubjectaccessreviews`
    pub fn self_subject_access_reviews(&self) -> Accessor<authorization_v1::SelfSubjectAccessReview> {
        Accessor::typed(&self.0, "")
    }

    /// `selfsubjectrulesreviews`
    pub fn self_subject_rules_reviews(&self) -> Accessor<authorization_v1::SelfSubjectRulesReview> {
        Accessor::typed(&self.0, "")
    }

    /// `subjectaccessreviews`
    pub fn subject_access_reviews(&self) -> Accessor<authorization_v1::SubjectAccessReview> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    authorization_v1::LocalSubjectAccessReview: Create;
    authorization_v1::SelfSubjectAccessReview: Create;
    authorization_v1::SelfSubjectRulesReview: Create;
    authorization_v1::SubjectAccessReview: Create;
}

/// The resources of `autoscaling/v2`.
#[derive(Clone, Debug)]
pub struct AutoscalingV2(Client);

impl AutoscalingV2 {
    /// `horizontalpodautoscalers`
    pub fn horizontal_pod_autoscalers(
        &self,
        namespace: impl Into<String>,
    ) -> Accessor<autoscaling_v2::HorizontalPodAutoscaler> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    autoscaling_v2::HorizontalPodAutoscaler: All Status;
}

/// The resources of `autoscaling/v1`.
#[derive(Clone, Debug)]
pub struct AutoscalingV1(Client);

impl AutoscalingV1 {
    /// `horizontalpodautoscalers`
    pub fn horizontal_pod_autoscalers(
        &self,
        namespace: impl Into<String>,
    ) -> Accessor<autoscaling_v1::HorizontalPodAutoscaler> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    autoscaling_v1::HorizontalPodAutoscaler: All Status;
}

/// The resources of `batch/v1`.
#[derive(Clone, Debug)]
pub struct BatchV1(Client);

impl BatchV1 {
    /// `cronjobs`
    pub fn cron_jobs(&self, namespace: impl Into<String>) -> Accessor<batch_v1::CronJob> {
        Accessor::typed(&self.0, namespace)
    }

    /// `jobs`
    pub fn jobs(&self, namespace: impl Into<String>) -> Accessor<batch_v1::Job> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    batch_v1::CronJob: All Status;
    batch_v1::Job: All Status;
}

/// The resources of `certificates.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct CertificatesV1(Client);

impl CertificatesV1 {
    /// `certificatesigningrequests`
    pub fn certificate_signing_requests(&self) -> Accessor<certificates_v1::CertificateSigningRequest> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    certificates_v1::CertificateSigningRequest: All Approval Status;
}

/// The resources of `networking.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct NetworkingV1(Client);

impl NetworkingV1 {
    /// `ingressclasses`
    pub fn ingress_classes(&self) -> Accessor<networking_v1::IngressClass> {
        Accessor::typed(&self.0, "")
    }

    /// `ingresses`
    pub fn ingresses(&self, namespace: impl Into<String>) -> Accessor<networking_v1::Ingress> {
        Accessor::typed(&self.0, namespace)
    }

    /// `ipaddresses`
    pub fn ip_addresses(&self) -> Accessor<networking_v1::IPAddress> {
        Accessor::typed(&self.0, "")
    }

    /// `networkpolicies`
    pub fn network_policies(&self, namespace: impl Into<String>) -> Accessor<networking_v1::NetworkPolicy> {
        Accessor::typed(&self.0, namespace)
    }

    /// `servicecidrs`
    pub fn service_cidrs(&self) -> Accessor<networking_v1::ServiceCIDR> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    networking_v1::IngressClass: All;
    networking_v1::Ingress: All Status;
    networking_v1::IPAddress: All;
    networking_v1::NetworkPolicy: All;
    networking_v1::ServiceCIDR: All Status;
}

/// The resources of `policy/v1`.
#[derive(Clone, Debug)]
pub struct PolicyV1(Client);

impl PolicyV1 {
    /// `poddisruptionbudgets`
    pub fn pod_disruption_budgets(&self, namespace: impl Into<String>) -> Accessor<policy_v1::PodDisruptionBudget> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    policy_v1::PodDisruptionBudget: All Status;
}

/// The resources of `rbac.authorization.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct RbacV1(Client);

impl RbacV1 {
    /// `clusterrolebindings`
    pub fn cluster_role_bindings(&self) -> Accessor<rbac_v1::ClusterRoleBinding> {
        Accessor::typed(&self.0, "")
    }

    /// `clusterroles`
    pub fn cluster_roles(&self) -> Accessor<rbac_v1::ClusterRole> {
        Accessor::typed(&self.0, "")
    }

    /// `rolebindings`
    pub fn role_bindings(&self, namespace: impl Into<String>) -> Accessor<rbac_v1::RoleBinding> {
        Accessor::typed(&self.0, namespace)
    }

    /// `roles`
    pub fn roles(&self, namespace: impl Into<String>) -> Accessor<rbac_v1::Role> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    rbac_v1::ClusterRoleBinding: All;
    rbac_v1::ClusterRole: All;
    rbac_v1::RoleBinding: All;
    rbac_v1::Role: All;
}

/// The resources of `storage.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct StorageV1(Client);

impl StorageV1 {
    /// `csidrivers`
    pub fn csi_drivers(&self) -> Accessor<storage_v1::CSIDriver> {
        Accessor::typed(&self.0, "")
    }

    /// `csinodes`
    pub fn csi_nodes(&self) -> Accessor<storage_v1::CSINode> {
        Accessor::typed(&self.0, "")
    }

    /// `csistoragecapacities`
    pub fn csi_storage_capacities(&self, namespace: impl Into<String>) -> Accessor<storage_v1::CSIStorageCapacity> {
        Accessor::typed(&self.0, namespace)
    }

    /// `storageclasses`
    pub fn storage_classes(&self) -> Accessor<storage_v1::StorageClass> {
        Accessor::typed(&self.0, "")
    }

    /// `volumeattachments`
    pub fn volume_attachments(&self) -> Accessor<storage_v1::VolumeAttachment> {
        Accessor::typed(&self.0, "")
    }

    /// `volumeattributesclasses`
    pub fn volume_attributes_classes(&self) -> Accessor<storage_v1::VolumeAttributesClass> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    storage_v1::CSIDriver: All;
    storage_v1::CSINode: All;
    storage_v1::CSIStorageCapacity: All;
    storage_v1::StorageClass: All;
    storage_v1::VolumeAttachment: All Status;
    storage_v1::VolumeAttributesClass: All;
}

/// The resources of `admissionregistration.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct AdmissionregistrationV1(Client);

impl AdmissionregistrationV1 {
    /// `mutatingadmissionpolicies`
    pub fn mutating_admission_policies(&self) -> Accessor<admissionregistration_v1::MutatingAdmissionPolicy> {
        Accessor::typed(&self.0, "")
    }

    /// `mutatingadmissionpolicybindings`
    pub fn mutating_admission_policy_bindings(
        &self,
    ) -> Accessor<admissionregistration_v1::MutatingAdmissionPolicyBinding> {
        Accessor::typed(&self.0, "")
    }

    /// `mutatingwebhookconfigurations`
    pub fn mutating_webhook_configurations(&self) -> Accessor<admissionregistration_v1::MutatingWebhookConfiguration> {
        Accessor::typed(&self.0, "")
    }

    /// `validatingadmissionpolicies`
    pub fn validating_admission_policies(&self) -> Accessor<admissionregistration_v1::ValidatingAdmissionPolicy> {
        Accessor::typed(&self.0, "")
    }

    /// `validatingadmissionpolicybindings`
    pub fn validating_admission_policy_bindings(
        &self,
    ) -> Accessor<admissionregistration_v1::ValidatingAdmissionPolicyBinding> {
        Accessor::typed(&self.0, "")
    }

    /// `validatingwebhookconfigurations`
    pub fn validating_webhook_configurations(
        &self,
    ) -> Accessor<admissionregistration_v1::ValidatingWebhookConfiguration> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    admissionregistration_v1::MutatingAdmissionPolicy: All;
    admissionregistration_v1::MutatingAdmissionPolicyBinding: All;
    admissionregistration_v1::MutatingWebhookConfiguration: All;
    admissionregistration_v1::ValidatingAdmissionPolicy: All Status;
    admissionregistration_v1::ValidatingAdmissionPolicyBinding: All;
    admissionregistration_v1::ValidatingWebhookConfiguration: All;
}

/// The resources of `apiextensions.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct ApiextensionsV1(Client);

impl ApiextensionsV1 {
    /// `customresourcedefinitions`
    pub fn custom_resource_definitions(&self) -> Accessor<apiextensions_v1::CustomResourceDefinition> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    apiextensions_v1::CustomResourceDefinition: All Status;
}

/// The resources of `scheduling.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct SchedulingV1(Client);

impl SchedulingV1 {
    /// `priorityclasses`
    pub fn priority_classes(&self) -> Accessor<scheduling_v1::PriorityClass> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    scheduling_v1::PriorityClass: All;
}

/// The resources of `coordination.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct CoordinationV1(Client);

impl CoordinationV1 {
    /// `leases`
    pub fn leases(&self, namespace: impl Into<String>) -> Accessor<coordination_v1::Lease> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    coordination_v1::Lease: All;
}

/// The resources of `node.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct NodeV1(Client);

impl NodeV1 {
    /// `runtimeclasses`
    pub fn runtime_classes(&self) -> Accessor<node_v1::RuntimeClass> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    node_v1::RuntimeClass: All;
}

/// The resources of `discovery.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct DiscoveryV1(Client);

impl DiscoveryV1 {
    /// `endpointslices`
    pub fn endpoint_slices(&self, namespace: impl Into<String>) -> Accessor<discovery_v1::EndpointSlice> {
        Accessor::typed(&self.0, namespace)
    }
}

served! {
    discovery_v1::EndpointSlice: All;
}

/// The resources of `resource.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct ResourceV1(Client);

impl ResourceV1 {
    /// `deviceclasses`
    pub fn device_classes(&self) -> Accessor<resource_v1::DeviceClass> {
        Accessor::typed(&self.0, "")
    }

    /// `resourceclaims`
    pub fn resource_claims(&self, namespace: impl Into<String>) -> Accessor<resource_v1::ResourceClaim> {
        Accessor::typed(&self.0, namespace)
    }

    /// `resourceclaimtemplates`
    pub fn resource_claim_templates(
        &self,
        namespace: impl Into<String>,
    ) -> Accessor<resource_v1::ResourceClaimTemplate> {
        Accessor::typed(&self.0, namespace)
    }

    /// `resourceslices`
    pub fn resource_slices(&self) -> Accessor<resource_v1::ResourceSlice> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    resource_v1::DeviceClass: All;
    resource_v1::ResourceClaim: All Status;
    resource_v1::ResourceClaimTemplate: All;
    resource_v1::ResourceSlice: All;
}

/// The resources of `flowcontrol.apiserver.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct FlowcontrolV1(Client);

impl FlowcontrolV1 {
    /// `flowschemas`
    pub fn flow_schemas(&self) -> Accessor<flowcontrol_v1::FlowSchema> {
        Accessor::typed(&self.0, "")
    }

    /// `prioritylevelconfigurations`
    pub fn priority_level_configurations(&self) -> Accessor<flowcontrol_v1::PriorityLevelConfiguration> {
        Accessor::typed(&self.0, "")
    }
}

served! {
    flowcontrol_v1::FlowSchema: All Status;
    flowcontrol_v1::PriorityLevelConfiguration: All Status;
}

/// Makes all of these kinds known to a scheme.
pub(super) fn register(scheme: &mut Scheme) -> Result<(), SchemeError> {
    scheme
        .register::<core_v1::Binding>()?
        .register::<core_v1::ComponentStatus>()?
        .register::<core_v1::ConfigMap>()?
        .register::<core_v1::Endpoints>()?
        .register::<core_v1::Event>()?
        .register::<core_v1::LimitRange>()?
        .register::<core_v1::Namespace>()?
        .register::<core_v1::Node>()?
        .register::<core_v1::PersistentVolumeClaim>()?
        .register::<core_v1::PersistentVolume>()?
        .register::<core_v1::Pod>()?
        .register::<core_v1::PodTemplate>()?
        .register::<core_v1::ReplicationController>()?
        .register::<core_v1::ResourceQuota>()?
        .register::<core_v1::Secret>()?
        .register::<core_v1::ServiceAccount>()?
        .register::<core_v1::Service>()?
        .register::<apiregistration_v1::APIService>()?
        .register::<apps_v1::ControllerRevision>()?
        .register::<apps_v1::DaemonSet>()?
        .register::<apps_v1::Deployment>()?
        .register::<apps_v1::ReplicaSet>()?
        .register::<apps_v1::StatefulSet>()?
        .register::<events_v1::Event>()?
        .register::<authentication_v1::SelfSubjectReview>()?
        .register::<authentication_v1::TokenReview>()?
        .register_as::<authentication_v1::TokenRequest>(GroupVersionKind::new(
            "authentication.k8s.io",
            "v1",
            "TokenRequest",
        ))?
        .register::<authorization_v1::LocalSubjectAccessReview>()?
        .register::<authorization_v1::SelfSubjectAccessReview>()?
        .register::<authorization_v1::SelfSubjectRulesReview>()?
        .register::<authorization_v1::SubjectAccessReview>()?
        .register::<autoscaling_v2::HorizontalPodAutoscaler>()?
        .register::<autoscaling_v1::HorizontalPodAutoscaler>()?
        .register_as::<autoscaling_v1::Scale>(GroupVersionKind::new("autoscaling", "v1", "Scale"))?
        .register::<batch_v1::CronJob>()?
        .register::<batch_v1::Job>()?
        .register::<certificates_v1::CertificateSigningRequest>()?
        .register::<networking_v1::IngressClass>()?
        .register::<networking_v1::Ingress>()?
        .register::<networking_v1::IPAddress>()?
        .register::<networking_v1::NetworkPolicy>()?
        .register::<networking_v1::ServiceCIDR>()?
        .register::<policy_v1::PodDisruptionBudget>()?
        .register_as::<policy_v1::Eviction>(GroupVersionKind::new("policy", "v1", "Eviction"))?
        .register::<rbac_v1::ClusterRoleBinding>()?
        .register::<rbac_v1::ClusterRole>()?
        .register::<rbac_v1::RoleBinding>()?
        .register::<rbac_v1::Role>()?
        .register::<storage_v1::CSIDriver>()?
        .register::<storage_v1::CSINode>()?
        .register::<storage_v1::CSIStorageCapacity>()?
        .register::<storage_v1::StorageClass>()?
        .register::<storage_v1::VolumeAttachment>()?
        .register::<storage_v1::VolumeAttributesClass>()?
        .register::<admissionregistration_v1::MutatingAdmissionPolicy>()?
        .register::<admissionregistration_v1::MutatingAdmissionPolicyBinding>()?
        .register::<admissionregistration_v1::MutatingWebhookConfiguration>()?
        .register::<admissionregistration_v1::ValidatingAdmissionPolicy>()?
        .register::<admissionregistration_v1::ValidatingAdmissionPolicyBinding>()?
        .register::<admissionregistration_v1::ValidatingWebhookConfiguration>()?
        .register::<apiextensions_v1::CustomResourceDefinition>()?
        .register::<scheduling_v1::PriorityClass>()?
        .register::<coordination_v1::Lease>()?
        .register::<node_v1::RuntimeClass>()?
        .register::<discovery_v1::EndpointSlice>()?
        .register::<resource_v1::DeviceClass>()?
        .register::<resource_v1::ResourceClaim>()?
        .register::<resource_v1::ResourceClaimTemplate>()?
        .register::<resource_v1::ResourceSlice>()?
        .register::<flowcontrol_v1::FlowSchema>()?
        .register::<flowcontrol_v1::PriorityLevelConfiguration>()?;
    Ok(())
}
