//! The interface of admission plugins: the attributes of a write, and the chain that checks it.
//!
//! First each plugin may change the object. Once the object is complete and valid, each plugin may reject it. The
//! plugins are in [`crate::admission`].

use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{DryRun, Status};

use super::Registry;
use crate::{
    audit::AuditContext,
    identity::User,
    object::Tree,
    resource::{ResourceInfo, SubresourceInfo, Target},
    trace_context::TraceContext,
    warning::Warnings,
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
    fn handles_subresource_kinds(&self) -> bool {
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
    pub(crate) context: RequestContext,
    /// The kind of the objects, if it differs from the resource's kind.
    pub(crate) subresource_kind: Option<SubresourceKind>,
    pub(crate) reinvocation: Reinvocation,
}

/// The kind that a subresource takes instead of the resource's kind: a scale, a binding, or the options of a
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubresourceKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// The user and the options of a write request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestContext {
    pub(crate) user: Arc<User>,
    pub(crate) dry_run: DryRun,
    /// Warnings for the client. They are sent even if the write fails.
    pub(crate) warnings: Warnings,
    /// The event of the request, to which plugins add annotations.
    pub(crate) audit: AuditContext,
    /// The trace context of the request, for webhooks.
    pub(crate) trace: TraceContext,
    /// The name in the path. Empty if the request has none because the name will be generated.
    pub(crate) name: String,
    pub(crate) webhooks: WebhookCalls,
    /// The options that the client set, besides the dry run, by their names in reviews.
    pub(crate) options: Option<Arc<Value>>,
}

/// The admission webhooks that a write calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WebhookCalls {
    /// Those whose rules match it.
    #[default]
    Configured,
    /// None, for the objects that the server needs at its start: the program of a webhook may start later.
    Never,
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

/// The state of reinvocation. After a webhook or a policy has changed an object, the plugins run again, and so do the
/// webhooks and the policies with the policy `IfNeeded`.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    round: Round,
    /// The calls of each [`Plugin`].
    calls: [Calls; 2],
}

/// The plugins that call webhooks or policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    Policies,
    Webhooks,
}

/// The calls of a plugin.
#[derive(Debug, Default)]
struct Calls {
    /// The webhooks that were called and have the policy `IfNeeded`.
    reinvocable: Vec<HookId>,
    /// The webhooks that are called in the second round.
    scheduled: Vec<HookId>,
    /// The object after the webhooks of the first round.
    left: Value,
}

/// The round of mutating admission. There are at most two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Round {
    #[default]
    First,
    /// A webhook or a policy changed the object in the first round, so a second round follows.
    FirstChanged,
    Second,
}

/// The name of a configuration and the index of a webhook in it, or a policy with its binding and parameters.
pub(crate) type HookId = (String, usize);

impl From<&SubresourceInfo> for SubresourceKind {
    fn from(SubresourceInfo { group, version, kind, .. }: &SubresourceInfo) -> Self {
        Self { group: group.clone(), version: version.clone(), kind: kind.clone() }
    }
}

impl Registry {
    pub(crate) async fn admit(&self, write: &mut Attributes) -> Result<(), Status> {
        self.admit_once(write).await?;
        if write.reinvocation.start_second_round() {
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
    pub(crate) fn new(operation: Operation, target: &Target, object: Value, context: RequestContext) -> Self {
        Self {
            operation,
            resource: Arc::clone(&target.resource),
            subresource: target.subresource.clone(),
            namespace: target.namespace().to_owned(),
            name: target.name().to_owned(),
            object,
            old: None,
            context,
            subresource_kind: None,
            reinvocation: Reinvocation::default(),
        }
    }

    /// Sets the state that the write replaces.
    #[must_use]
    pub(crate) fn replacing(self, old: Value) -> Self {
        Self { old: Some(old), ..self }
    }

    /// Takes name and namespace from the object instead of the target.
    #[must_use]
    pub(crate) fn with_object_name(mut self) -> Self {
        self.object.text(&["metadata", "name"]).clone_into(&mut self.name);
        self.object.text(&["metadata", "namespace"]).clone_into(&mut self.namespace);
        self
    }

    /// Sets the kind of the objects, if it is not the kind of the resource.
    #[must_use]
    pub(crate) fn with_kind(self, kind: SubresourceKind) -> Self {
        Self { subresource_kind: Some(kind), ..self }
    }

    /// Returns the `Status` that rejects this write.
    pub(crate) fn forbidden(&self, why: impl fmt::Display) -> Status {
        let generated = self.object.text(&["metadata", "generateName"]);
        let name = [&*self.name, generated].into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        Status::forbidden(&self.resource.group_resource(), name, why)
    }

    /// Returns the `Status` that rejects this write, without a generated name.
    pub(crate) fn forbidden_by_name(&self, why: impl fmt::Display) -> Status {
        Status::forbidden(&self.resource.group_resource(), self.object.text(&["metadata", "name"]), why)
    }

    /// Reports whether the server sends the write itself, for example at its start. No request has this user value.
    pub(crate) fn is_internal(&self) -> bool {
        self.context.user.name.is_empty() || Arc::ptr_eq(&self.context.user, &User::own())
    }

    /// Reports whether a pod is created or updated, but none of its subresources.
    pub(crate) fn is_pod_write(&self) -> bool {
        self.resource.group.is_empty()
            && self.resource.kind == "Pod"
            && self.subresource.is_none()
            && matches!(self.operation, Operation::Create | Operation::Update)
    }

    /// Reports whether a plugin handles the write.
    pub(crate) fn concerns(&self, plugin: &dyn Admission) -> bool {
        plugin.handles(self) && (self.subresource_kind.is_none() || plugin.handles_subresource_kinds())
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.kind == "Namespace"
    }
}

impl Reinvocation {
    /// Starts the second round and returns `true` if one is necessary.
    pub(crate) fn start_second_round(&mut self) -> bool {
        let again = self.round == Round::FirstChanged;
        if again {
            self.round = Round::Second;
        }
        again
    }

    /// Returns the number of the current round, from 0.
    pub(crate) fn round_number(&self) -> usize {
        usize::from(self.round == Round::Second)
    }

    pub(crate) fn begin_round(&mut self, plugin: Plugin, object: &Value) {
        let calls = &mut self.calls[plugin as usize];
        if self.round == Round::Second && calls.left != *object {
            calls.schedule();
        }
    }

    /// Reports whether a webhook is called in the current round. The second round calls only scheduled webhooks.
    pub(crate) fn should_call(&self, plugin: Plugin, id: &HookId) -> bool {
        self.round != Round::Second || self.calls[plugin as usize].scheduled.contains(id)
    }

    /// Schedules all webhooks with the policy `IfNeeded` that were called so far.
    pub(crate) fn schedule(&mut self, plugin: Plugin) {
        self.calls[plugin as usize].schedule();
    }

    /// Records the object after the webhooks of a round.
    pub(crate) fn end_round(&mut self, plugin: Plugin, object: &Value) {
        self.calls[plugin as usize].left.clone_from(object);
    }

    /// Records a call of a webhook. `again`: the webhook also wants to see later changes.
    pub(crate) fn record_call(&mut self, plugin: Plugin, id: HookId, again: bool, changed: bool) {
        let calls = &mut self.calls[plugin as usize];
        if changed {
            calls.schedule();
            if self.round == Round::First {
                self.round = Round::FirstChanged;
            }
        }
        if again {
            calls.reinvocable.push(id);
        }
    }
}

impl Calls {
    /// Schedules all webhooks with the policy `IfNeeded` for the second round.
    fn schedule(&mut self) {
        self.scheduled.append(&mut self.reinvocable);
    }
}
