//! Admission: plugins that change or reject an authorized write.
//!
//! The plugins form a chain and run in order. First, each plugin may change the object. Once the object is complete and
//! valid, each plugin may reject it. Webhooks are at the end of the chain. If a webhook changes the object, the
//! mutating plugins run a second time.
//!
//! To add a plugin: implement [`Admission`] in a module here, and add it to [`chain`] in the order of kube-apiserver.

use std::sync::Arc;

use futures::future::BoxFuture;
use windlass_api::{Cause, GroupResource, Status};

use crate::{
    authz::Authorizer,
    registry::{Admission, Attributes, Operation, Registry},
    resource::{Item, OwnRules, Target},
};

mod certificates;
mod classes;
mod configuration;
mod creation;
mod escalation;
mod evaluation;
mod invocation;
mod limits;
mod matching;
mod node_restriction;
mod nodes;
mod own_rules;
mod pod_security;
mod pods;
mod policies;
mod protection;
mod quota;
mod service_accounts;
mod webhooks;

pub(crate) use self::{
    certificates::{CertificateDecisions, CertificateSubjects, SignerPermissions},
    classes::{ClaimResize, DefaultClasses, PriorityClasses, RuntimeClasses},
    creation::CreateOnUpdate,
    escalation::NoEscalation,
    limits::LimitRanges,
    node_restriction::NodeRestriction,
    nodes::TaintNewNodes,
    own_rules::OwnResources,
    pods::PodDefaults,
    policies::AdmissionPolicies,
    protection::ProtectStorage,
    service_accounts::ServiceAccounts,
    webhooks::Webhooks,
};

pub use self::configuration::{AdmissionConfiguration, AdmissionConfigurationError};

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
    pod_accounts: PodAccounts,
    configuration: &AdmissionConfiguration,
    authorizer: Arc<Authorizer>,
) -> Vec<Arc<dyn Admission>> {
    let mut chain: Vec<Arc<dyn Admission>> =
        vec![Arc::new(CreateOnUpdate(Arc::clone(&authorizer))), Arc::new(NamespaceLifecycle), Arc::new(LimitRanges)];
    if pod_accounts == PodAccounts::Required {
        chain.push(Arc::new(ServiceAccounts));
    }
    if configuration.restricts_nodes() {
        chain.push(Arc::new(NodeRestriction(Arc::clone(&authorizer))));
    }
    let rest: [Arc<dyn Admission>; 15] = [
        Arc::new(TaintNewNodes),
        Arc::new(configuration.pod_security()),
        Arc::new(PriorityClasses),
        Arc::new(PodDefaults),
        Arc::new(DefaultClasses),
        Arc::new(ProtectStorage),
        Arc::new(ClaimResize),
        Arc::new(RuntimeClasses),
        Arc::new(CertificateDecisions(Arc::clone(&authorizer))),
        Arc::new(SignerPermissions(Arc::clone(&authorizer))),
        Arc::new(CertificateSubjects),
        Arc::new(AdmissionPolicies::new(Arc::clone(&authorizer))),
        Arc::new(Webhooks::new(Arc::clone(&authorizer))),
        Arc::new(configuration.resource_quotas()),
        Arc::new(NoEscalation(authorizer)),
    ];
    chain.extend(rest);
    chain
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
            let is_open =
                |found: &Item| Ok::<_, Status>(!found.encoded.meta().map_err(Status::internal)?.is_deleting());
            if let Some(found) = registry.peek_recent(&target).await?
                && is_open(&found)?
            {
                return Ok(());
            }
            // Another server may have replaced the namespace just now.
            let found = registry.peek(&target).await?.ok_or_else(missing)?;
            if is_open(&found)? {
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
