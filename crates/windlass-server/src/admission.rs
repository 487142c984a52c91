//! Admission: who may still object to, or change, a write that is otherwise in order.
//!
//! A chain of plugins, asked in order: first each may change the object, then, once it is complete and valid, each may
//! refuse it. Webhooks stand at the end of the same chain; what they change the plugins see once more.

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{Cause, DryRun, GroupResource, Status};

use crate::{
    authn::User,
    authz::Authorizer,
    registry::{Registry, ResourceInfo, Target},
    warning::Warnings,
};

mod classes;
pub(crate) mod conditions;
mod escalation;
mod limits;
mod nodes;
mod pods;
mod protection;
mod service_accounts;
mod webhooks;

pub(crate) use self::{
    classes::{ClaimGrowth, DefaultClasses, PriorityClasses, RuntimeClasses},
    escalation::NoEscalation,
    limits::LimitRanges,
    nodes::TaintNewNodes,
    pods::PodDefaults,
    protection::ProtectStorage,
    service_accounts::{ENFORCE as ENFORCE_MOUNTABLE_SECRETS, ServiceAccounts},
    webhooks::{Reinvocation, Webhooks},
};

/// One plugin.
pub(crate) trait Admission: fmt::Debug + Send + Sync + 'static {
    /// May change the object, or refuse the write before anything else is checked.
    fn admit<'a>(&'a self, _registry: &'a Registry, _write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    /// May refuse the write; the object is as it will be stored.
    fn validate<'a>(&'a self, _registry: &'a Registry, _write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    /// Whether it has an interest in this write at all.
    fn handles(&self, write: &Attributes) -> bool;
}

/// A write, as admission sees it. The objects are in the hub of the resource.
#[derive(Debug)]
pub(crate) struct Attributes {
    pub(crate) operation: Operation,
    pub(crate) resource: Arc<ResourceInfo>,
    pub(crate) subresource: Option<String>,
    /// Empty for cluster-scoped resources.
    pub(crate) namespace: String,
    /// Empty while it is to be generated.
    pub(crate) name: String,
    /// The new state; null for deletions.
    pub(crate) object: Value,
    /// The old state; none for creations.
    pub(crate) old: Option<Value>,
    /// By whom, and how.
    pub(crate) asked: Asked,
    pub(crate) reinvocation: Reinvocation,
}

/// Who asks for a write, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) user: Arc<User>,
    pub(crate) dry_run: DryRun,
    /// What the client is told, also if the write fails.
    pub(crate) warnings: Warnings,
    /// The name in the path; empty: there is none, since the object is yet to be named.
    pub(crate) name: String,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// What pods need to do with service accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PodAccounts {
    /// Nothing. For servers beside which nobody makes the account `default` of each namespace.
    #[default]
    Optional,
    /// A pod has an account that is there, and gets its token, as the plugin `ServiceAccount` of the real server has it.
    Required,
}

/// The plugins, in order.
pub(crate) fn chain(pod_accounts: PodAccounts, authorizer: Arc<Authorizer>) -> Vec<Arc<dyn Admission>> {
    let mut chain: Vec<Arc<dyn Admission>> = vec![Arc::new(NamespaceLifecycle), Arc::new(LimitRanges)];
    if pod_accounts == PodAccounts::Required {
        chain.push(Arc::new(ServiceAccounts));
    }
    let rest: [Arc<dyn Admission>; 9] = [
        Arc::new(TaintNewNodes),
        Arc::new(PriorityClasses),
        Arc::new(PodDefaults),
        Arc::new(DefaultClasses),
        Arc::new(ProtectStorage),
        Arc::new(ClaimGrowth),
        Arc::new(RuntimeClasses),
        Arc::new(Webhooks::default()),
        Arc::new(NoEscalation(authorizer)),
    ];
    chain.extend(rest);
    chain
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
            if plugin.handles(write) {
                plugin.admit(self, write).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn validate_admission(&self, write: &mut Attributes) -> Result<(), Status> {
        for plugin in self.admission() {
            if plugin.handles(write) {
                plugin.validate(self, write).await?;
            }
        }
        Ok(())
    }
}

impl Attributes {
    /// The refusal of this write.
    pub(crate) fn forbidden(&self, why: impl fmt::Display) -> Status {
        Status::forbidden(&self.resource.group_resource(), &self.name, why)
    }

    fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.kind == "Namespace"
    }
}

/// Nothing is created in namespaces that are not there or on their way out, and some namespaces stay.
///
/// Updates are let through without a look: what they change lives in a namespace that was there.
#[derive(Debug)]
pub(crate) struct NamespaceLifecycle;

const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Admission for NamespaceLifecycle {
    fn handles(&self, write: &Attributes) -> bool {
        match write.operation {
            Operation::Create => !write.namespace.is_empty() && !write.is_namespace(),
            Operation::Update => false,
            Operation::Delete => write.is_namespace(),
        }
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
