//! Admission: plugins that change or reject an authorized write.
//!
//! The plugins form a chain and run in order. First, each plugin may change the object. Once the object is complete and
//! valid, each plugin may reject it. Webhooks are at the end of the chain. If a webhook changes the object, the
//! mutating plugins run a second time.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{Cause, DryRun, GroupResource, Status};

use crate::{
    authn::User,
    authz::Authorizer,
    registry::Registry,
    resource::{ResourceInfo, SubresourceInfo, Target},
    warning::Warnings,
};

mod certificates;
mod classes;
pub(crate) mod conditions;
mod creation;
mod escalation;
mod limits;
mod nodes;
mod pods;
mod protection;
mod service_accounts;
mod webhooks;

pub(crate) use self::{
    certificates::{CertificateDecisions, CertificateSubjects},
    classes::{ClaimGrowth, DefaultClasses, PriorityClasses, RuntimeClasses},
    creation::CreateOnUpdate,
    escalation::NoEscalation,
    limits::LimitRanges,
    nodes::TaintNewNodes,
    pods::PodDefaults,
    protection::ProtectStorage,
    service_accounts::{ENFORCE as ENFORCE_MOUNTABLE_SECRETS, ServiceAccounts},
    webhooks::{Reinvocation, Webhooks},
};

/// An admission plugin.
pub(crate) trait Admission: fmt::Debug + Send + Sync + 'static {
    /// Changes the object or rejects the write, before the object is validated.
    fn admit<'a>(&'a self, _registry: &'a Registry, _write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    /// Validates the write. The object is in its final form, as it will be stored.
    fn validate<'a>(&'a self, _registry: &'a Registry, _write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    /// Reports whether the plugin handles this write.
    fn handles(&self, write: &Attributes) -> bool;

    /// Reports whether the plugin also handles objects of a kind other than the resource's, for example a scale.
    fn knows_parts(&self) -> bool {
        false
    }
}

/// The attributes of a write. The objects are in the hub version of the resource.
#[derive(Debug)]
pub(crate) struct Attributes {
    pub(crate) operation: Operation,
    pub(crate) resource: Arc<ResourceInfo>,
    pub(crate) subresource: Option<String>,
    /// Empty for cluster-scoped resources.
    pub(crate) namespace: String,
    /// Empty if the name has not been generated yet.
    pub(crate) name: String,
    /// The new state. Null for deletions.
    pub(crate) object: Value,
    /// The old state. `None` for creations.
    pub(crate) old: Option<Value>,
    /// The user and the options of the request.
    pub(crate) asked: Asked,
    /// The kind of the objects, if it differs from the resource's kind.
    pub(crate) part: Option<PartKind>,
    pub(crate) reinvocation: Reinvocation,
}

/// The kind that a subresource takes instead of the resource's kind: a scale, a binding, or the options of a
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// The user and the options of a write request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) user: Arc<User>,
    pub(crate) dry_run: DryRun,
    /// Warnings for the client. They are sent even if the write fails.
    pub(crate) warnings: Warnings,
    /// The name in the path. Empty if the request has none because the name will be generated.
    pub(crate) name: String,
}

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// A request that is forwarded to a pod, a service or a node.
    Connect,
}

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

/// Returns the plugins, in order.
pub(crate) fn chain(pod_accounts: PodAccounts, authorizer: Arc<Authorizer>) -> Vec<Arc<dyn Admission>> {
    let mut chain: Vec<Arc<dyn Admission>> =
        vec![Arc::new(CreateOnUpdate(Arc::clone(&authorizer))), Arc::new(NamespaceLifecycle), Arc::new(LimitRanges)];
    if pod_accounts == PodAccounts::Required {
        chain.push(Arc::new(ServiceAccounts));
    }
    let rest: [Arc<dyn Admission>; 11] = [
        Arc::new(TaintNewNodes),
        Arc::new(PriorityClasses),
        Arc::new(PodDefaults),
        Arc::new(DefaultClasses),
        Arc::new(ProtectStorage),
        Arc::new(ClaimGrowth),
        Arc::new(RuntimeClasses),
        Arc::new(CertificateDecisions(Arc::clone(&authorizer))),
        Arc::new(CertificateSubjects),
        Arc::new(Webhooks::default()),
        Arc::new(NoEscalation(authorizer)),
    ];
    chain.extend(rest);
    chain
}

impl From<&SubresourceInfo> for PartKind {
    fn from(SubresourceInfo { group, version, kind, .. }: &SubresourceInfo) -> Self {
        Self { group: group.clone(), version: version.clone(), kind: kind.clone() }
    }
}

impl Registry {
    pub(crate) async fn admit(&self, write: &mut Attributes) -> Result<(), Status> {
        self.admit_once(write).await?;
        if write.reinvocation.begin_again() {
            self.admit_once(write).await?;
        }
        Ok(())
    }

    async fn admit_once(&self, write: &mut Attributes) -> Result<(), Status> {
        for plugin in self.admission() {
            if write.concerns(&**plugin) {
                plugin.admit(self, write).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn validate_admission(&self, write: &mut Attributes) -> Result<(), Status> {
        for plugin in self.admission() {
            if write.concerns(&**plugin) {
                plugin.validate(self, write).await?;
            }
        }
        Ok(())
    }
}

impl Attributes {
    /// Creates the attributes of a write to a target, without an old state.
    pub(crate) fn of(operation: Operation, target: &Target, object: Value, asked: Asked) -> Self {
        Self {
            operation,
            resource: Arc::clone(&target.resource),
            subresource: target.subresource.clone(),
            namespace: target.namespace().to_owned(),
            name: target.name().to_owned(),
            object,
            old: None,
            asked,
            part: None,
            reinvocation: Reinvocation::default(),
        }
    }

    /// Returns the `Status` that rejects this write.
    pub(crate) fn forbidden(&self, why: impl fmt::Display) -> Status {
        Status::forbidden(&self.resource.group_resource(), &self.name, why)
    }

    /// Reports whether a plugin handles the write.
    fn concerns(&self, plugin: &dyn Admission) -> bool {
        plugin.handles(self) && (self.part.is_none() || plugin.knows_parts())
    }

    fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.kind == "Namespace"
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

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Admission for NamespaceLifecycle {
    fn handles(&self, write: &Attributes) -> bool {
        match write.operation {
            Operation::Create => !write.namespace.is_empty() && !write.is_namespace() && !is_access_review(write),
            Operation::Update | Operation::Connect => false,
            Operation::Delete => write.is_namespace(),
        }
    }

    fn knows_parts(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.operation == Operation::Delete {
                return if IMMORTAL.contains(&&*write.name) {
                    Err(write.forbidden("this namespace may not be deleted"))
                } else {
                    Ok(())
                };
            }
            let namespace = &write.namespace;
            let resources = registry.resources();
            let missing = || Status::not_found(&GroupResource::new("", "namespaces"), namespace);
            let namespaces = resources.get("", "v1", "namespaces").ok_or_else(missing)?;
            let found = registry.peek(&Target::object(namespaces, None, namespace)).await?.ok_or_else(missing)?;
            if !found.encoded.meta().map_err(Status::internal)?.is_deleting() {
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
