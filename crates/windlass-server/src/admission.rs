//! Admission: plugins that change or reject an authorized write.
//!
//! The plugins form a chain and run in order. First, each plugin may change the object. Once the object is complete and
//! valid, each plugin may reject it. Webhooks are at the end of the chain. If a webhook changes the object, the
//! mutating plugins run a second time.
//!
//! To add a plugin: implement [`Admission`] in a module here, add its name to the table in [`plugins`], and add it to
//! [`chain`].

use std::sync::Arc;

use futures::future::BoxFuture;
use windlass_api::{Cause, GroupResource, Status};

use crate::{
    aggregation::Aggregation,
    authz::Authorizer,
    registry::{Admission, Attributes, Operation, Registry},
    resource::{OwnRules, Target},
};

mod certificates;
mod classes;
mod configuration;
mod creation;
mod denials;
mod escalation;
mod evaluation;
mod event_rates;
mod images;
mod invocation;
mod limits;
mod matching;
mod namespaces;
mod node_restriction;
mod node_selectors;
mod nodes;
mod own_rules;
mod owner_references;
mod placement;
mod plugins;
mod pod_security;
mod pods;
mod policies;
mod protection;
mod quota;
mod service_accounts;
mod tolerations;
mod webhooks;

use self::{
    certificates::{BundleAttestation, CertificateDecisions, CertificateSubjects, PodCertificates},
    classes::{ClaimResize, DEFAULT_INGRESS_CLASS, DEFAULT_STORAGE_CLASS, PriorityClasses, RuntimeClasses},
    creation::CreateOnUpdate,
    denials::{AlwaysDeny, DenyServiceExternalIps, LimitAntiAffinity},
    escalation::NoEscalation,
    images::AlwaysPullImages,
    limits::LimitRanges,
    namespaces::{ProvideNamespaces, RequireNamespaces},
    node_restriction::NodeRestriction,
    nodes::TaintNewNodes,
    own_rules::OwnResources,
    owner_references::OwnerReferences,
    placement::{DeclaredFeatures, ResizeLimits, TopologyLabels},
    pods::{DefaultTolerations, PodPriorities},
    policies::AdmissionPolicies,
    protection::ProtectStorage,
    service_accounts::ServiceAccounts,
    tolerations::ExtendedResources,
    webhooks::Webhooks,
};
use crate::kubernetes::KubernetesVersion;

pub use self::{
    configuration::{AdmissionConfiguration, AdmissionConfigurationError},
    plugins::AdmissionPlugins,
};

/// The service account requirements of new pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PodAccounts {
    /// No requirements. For servers without a controller that creates the account `default` in each namespace.
    #[default]
    Optional,
    /// A pod's service account must exist, and the pod gets its token. This is the plugin `ServiceAccount` of
    /// kube-apiserver.
    Required,
}

/// Returns the plugins of a server with the kinds of a program only.
pub(crate) fn extension_chain(rules: OwnRules, authorizer: Arc<Authorizer>) -> Vec<Arc<dyn Admission>> {
    vec![Arc::new(CreateOnUpdate(authorizer)), Arc::new(OwnResources(Arc::new(rules)))]
}

/// Returns the plugins, in order.
pub(crate) fn chain(
    kubernetes: KubernetesVersion,
    pod_accounts: PodAccounts,
    configuration: &AdmissionConfiguration,
    authorizer: Arc<Authorizer>,
    aggregation: &Arc<Aggregation>,
) -> Vec<Arc<dyn Admission>> {
    let plugins = configuration.plugins();
    let authorizer = || Arc::clone(&authorizer);
    let policies = Arc::new(AdmissionPolicies::new(authorizer()));
    let webhooks = Arc::new(Webhooks::new(authorizer(), configuration.webhook_users()));
    let mut chain: Vec<Arc<dyn Admission>> = vec![Arc::new(CreateOnUpdate(authorizer()))];
    for name in plugins.enabled() {
        match name {
            "NamespaceAutoProvision" => chain.push(Arc::new(ProvideNamespaces)),
            "NamespaceLifecycle" => chain.push(Arc::new(NamespaceLifecycle)),
            "NamespaceExists" => chain.push(Arc::new(RequireNamespaces)),
            "LimitPodHardAntiAffinityTopology" => chain.push(Arc::new(LimitAntiAffinity)),
            "LimitRanger" => chain.push(Arc::new(LimitRanges)),
            "ServiceAccount" if pod_accounts == PodAccounts::Required || plugins.is_named(name) => {
                chain.push(Arc::new(ServiceAccounts));
            }
            "NodeRestriction" => chain.push(Arc::new(NodeRestriction(authorizer()))),
            "TaintNodesByCondition" => chain.push(Arc::new(TaintNewNodes)),
            "AlwaysPullImages" => chain.push(Arc::new(AlwaysPullImages)),
            "PodSecurity" => chain.push(Arc::new(configuration.pod_security())),
            "PodNodeSelector" => chain.push(Arc::new(configuration.node_selectors())),
            "Priority" => chain.extend([Arc::new(PriorityClasses) as Arc<dyn Admission>, Arc::new(PodPriorities)]),
            "DefaultTolerationSeconds" => chain.push(Arc::new(DefaultTolerations)),
            "PodTolerationRestriction" => chain.push(Arc::new(configuration.tolerations())),
            "EventRateLimit" => chain.push(Arc::new(configuration.event_rates())),
            "ExtendedResourceToleration" => chain.push(Arc::new(ExtendedResources)),
            "DefaultStorageClass" => chain.push(Arc::new(DEFAULT_STORAGE_CLASS)),
            "StorageObjectInUseProtection" => chain.push(Arc::new(ProtectStorage)),
            "OwnerReferencesPermissionEnforcement" => {
                chain
                    .push(Arc::new(OwnerReferences { authorizer: authorizer(), aggregation: Arc::clone(aggregation) }));
            }
            "PersistentVolumeClaimResize" => chain.push(Arc::new(ClaimResize)),
            "RuntimeClass" => chain.push(Arc::new(RuntimeClasses)),
            "CertificateApproval" => chain.push(Arc::new(CertificateDecisions::approval(authorizer()))),
            "CertificateSigning" => chain.push(Arc::new(CertificateDecisions::signing(authorizer()))),
            "ClusterTrustBundleAttest" => chain.push(Arc::new(BundleAttestation(authorizer()))),
            "CertificateSubjectRestriction" => chain.push(Arc::new(CertificateSubjects)),
            "DefaultIngressClass" => chain.push(Arc::new(DEFAULT_INGRESS_CLASS)),
            "DenyServiceExternalIPs" => chain.push(Arc::new(DenyServiceExternalIps)),
            "PodTopologyLabels" if kubernetes >= KubernetesVersion::V1_35 => chain.push(Arc::new(TopologyLabels)),
            "NodeDeclaredFeatureValidator" if kubernetes >= KubernetesVersion::V1_36 => {
                chain.push(Arc::new(DeclaredFeatures));
            }
            "PodResizeValidator" if kubernetes >= KubernetesVersion::V1_36 => chain.push(Arc::new(ResizeLimits)),
            "MutatingAdmissionPolicy" => chain.push(Arc::new(Mutating(policies.clone()))),
            "MutatingAdmissionWebhook" => chain.push(Arc::new(Mutating(webhooks.clone()))),
            "ValidatingAdmissionPolicy" => chain.push(Arc::new(Validating(policies.clone()))),
            "ValidatingAdmissionWebhook" => chain.push(Arc::new(Validating(webhooks.clone()))),
            "ResourceQuota" => chain.push(Arc::new(configuration.resource_quotas())),
            "AlwaysDeny" => chain.push(Arc::new(AlwaysDeny)),
            // The others do nothing, see the table of plugins.
            _ => {}
        }
    }
    chain.push(Arc::new(PodCertificates(authorizer())));
    chain.push(Arc::new(NoEscalation(authorizer())));
    chain
}

/// The mutating half of a plugin.
#[derive(Debug)]
struct Mutating(Arc<dyn Admission>);

/// The validating half of a plugin.
#[derive(Debug)]
struct Validating(Arc<dyn Admission>);

impl Admission for Mutating {
    fn handles(&self, write: &Attributes) -> bool {
        self.0.handles(write)
    }

    fn handles_subresource_kinds(&self) -> bool {
        self.0.handles_subresource_kinds()
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        self.0.admit(registry, write)
    }
}

impl Admission for Validating {
    fn handles(&self, write: &Attributes) -> bool {
        self.0.handles(write)
    }

    fn handles_subresource_kinds(&self) -> bool {
        self.0.handles_subresource_kinds()
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        self.0.validate(registry, write)
    }
}

/// Rejects creations in missing or terminating namespaces, and deletions of protected namespaces.
///
/// Updates are not checked: they need an existing object, whose namespace exists.
#[derive(Debug)]
pub(crate) struct NamespaceLifecycle;

/// Reports whether the write is an access review. Rejecting it would reveal whether its namespace exists.
fn is_access_review(write: &Attributes) -> bool {
    write.resource.group == "authorization.k8s.io" && write.resource.plural == "localsubjectaccessreviews"
}

const PROTECTED_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Admission for NamespaceLifecycle {
    fn handles(&self, write: &Attributes) -> bool {
        match write.operation {
            Operation::Create => !write.namespace.is_empty() && !write.is_namespace() && !is_access_review(write),
            Operation::Update | Operation::Connect => false,
            Operation::Delete => write.is_namespace(),
        }
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.operation == Operation::Delete {
                return if PROTECTED_NAMESPACES.contains(&&*write.name) {
                    Err(write.forbidden("this namespace may not be deleted"))
                } else {
                    Ok(())
                };
            }
            let namespace = &write.namespace;
            let resources = registry.resources();
            let missing = || Status::not_found(&GroupResource::new("", "namespaces"), namespace);
            let namespaces = resources.get("", "v1", "namespaces").ok_or_else(missing)?;
            let target = Target::object(namespaces, None, namespace);
            if registry.peek_recent(&target).await?.is_some_and(|found| !found.encoded.is_deleting()) {
                return Ok(());
            }
            // Another server may have replaced the namespace just now.
            let found = registry.peek(&target).await?.ok_or_else(missing)?;
            if !found.encoded.is_deleting() {
                return Ok(());
            }
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut status = write.forbidden(why);
            status.details.get_or_insert_default().causes.push(Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            });
            Err(status)
        })
    }
}
