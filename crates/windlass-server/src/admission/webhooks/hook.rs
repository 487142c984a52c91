//! A registered webhook: its rules, selectors and failure policy.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use windlass_api::{GroupResource, LabelSelector, Status};

use super::{Attributes, Operation, call::Failure};
use crate::{
    codec,
    kinds::{
        conditions::{Conditions, Verdict},
        label_selector,
    },
    object::Tree,
    registry::HookId,
    registry::{Registry, SubresourceKind},
    resource::{ResourceInfo, Shape, Target},
};

/// One entry of a configuration.
pub(super) struct Hook {
    configuration: String,
    index: usize,
    webhook: Value,
}

/// A webhook's view of a write, in the version that one of its rules names.
pub(super) struct Invocation {
    pub(super) resource: Arc<ResourceInfo>,
}

impl Hook {
    pub(super) const fn new(configuration: String, index: usize, webhook: Value) -> Self {
        Self { configuration, index, webhook }
    }

    pub(super) fn id(&self) -> HookId {
        (self.configuration.clone(), self.index)
    }

    pub(super) fn configuration(&self) -> &str {
        &self.configuration
    }

    pub(super) fn name(&self) -> &str {
        self.webhook.text(&["name"])
    }

    pub(super) fn client_config(&self) -> &Value {
        self.webhook.at(&["clientConfig"]).unwrap_or(&Value::Null)
    }

    pub(super) fn timeout(&self) -> Duration {
        let seconds = self.webhook.int(&["timeoutSeconds"]).and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(seconds.unwrap_or(10))
    }

    /// Returns the first review version of the webhook that this server supports.
    pub(super) fn review_version(&self) -> Option<&str> {
        let versions = self.webhook.items(&["admissionReviewVersions"]).iter().filter_map(Value::as_str);
        versions.into_iter().find(|version| matches!(*version, "v1" | "v1beta1"))
    }

    pub(super) fn has_no_side_effects(&self) -> bool {
        matches!(self.webhook.text(&["sideEffects"]), "None" | "NoneOnDryRun")
    }

    pub(super) fn is_reinvoked(&self) -> bool {
        self.webhook.text(&["reinvocationPolicy"]) == "IfNeeded"
    }

    pub(super) fn has_conditions(&self) -> bool {
        !self.webhook.items(&["matchConditions"]).is_empty()
    }

    pub(super) fn conditions_hold(&self, conditions: &Conditions, request: &Value) -> Verdict {
        conditions.evaluate(&self.webhook, request)
    }

    /// Reports whether a write fails if this webhook cannot be called.
    pub(super) fn fails_closed(&self) -> bool {
        self.webhook.text(&["failurePolicy"]) != "Ignore"
    }

    /// Handles a failed call. Returns an error if the failure policy is `Fail`.
    pub(super) fn failed(&self, failure: &Failure) -> Result<(), Status> {
        let why = format!("failed calling webhook {:?}: {failure}", self.name());
        if !self.fails_closed() {
            tracing::warn!(why, "ignored a failed webhook call");
            return Ok(());
        }
        Err(Status::internal(why))
    }

    /// Decides whether the webhook is called, and in which version it gets the object.
    pub(super) async fn matching_invocation(
        &self,
        registry: &Registry,
        write: &Attributes,
    ) -> Result<Option<Invocation>, Status> {
        if !self.selects_object(write) {
            return Ok(None);
        }
        let Some(invocation) = self.rule(registry, write) else { return Ok(None) };
        Ok(self.selects_namespace(registry, write).await?.then_some(invocation))
    }

    fn rule(&self, registry: &Registry, write: &Attributes) -> Option<Invocation> {
        let rules = self.webhook.items(&["rules"]);
        if rules.iter().any(|rule| matches(rule, &write.resource, write)) {
            return Some(Invocation { resource: Arc::clone(&write.resource) });
        }
        if self.webhook.text(&["matchPolicy"]) != "Equivalent" {
            return None;
        }
        // Resources with the same storage prefix are versions of the same resource.
        let resources = registry.resources();
        let same = || resources.all().iter().filter(|resource| resource.prefix == write.resource.prefix);
        let mut found = rules.iter().filter_map(|rule| same().find(|resource| matches(rule, resource, write)));
        found.next().map(|resource| Invocation { resource: Arc::clone(resource) })
    }

    fn selects_object(&self, write: &Attributes) -> bool {
        let selector = self.selector("objectSelector");
        // Without metadata no selector matches, not even one that requires the absence of a label.
        let selected = |object: &Value| object.at(&["metadata"]).is_some() && selects(&selector, object);
        selector.is_empty() || selected(&write.object) || write.old.as_ref().is_some_and(selected)
    }

    async fn selects_namespace(&self, registry: &Registry, write: &Attributes) -> Result<bool, Status> {
        let selector = self.selector("namespaceSelector");
        if selector.is_empty() || (write.namespace.is_empty() && !write.is_namespace()) {
            return Ok(true);
        }
        if write.is_namespace() {
            let namespace = if write.operation == Operation::Delete { write.old.as_ref() } else { Some(&write.object) };
            return Ok(namespace.is_some_and(|namespace| selects(&selector, namespace)));
        }
        let missing = || Status::not_found(&GroupResource::new("", "namespaces"), &write.namespace);
        let resources = registry.resources();
        let namespaces = resources.get("", "v1", "namespaces").ok_or_else(missing)?;
        let found =
            registry.peek_recent(&Target::object(namespaces, None, &write.namespace)).await?.ok_or_else(missing)?;
        Ok(selects(&selector, &found.value()))
    }

    fn selector(&self, field: &str) -> LabelSelector {
        self.webhook.at(&[field]).map(label_selector).unwrap_or_default()
    }
}

impl Invocation {
    /// Returns an object of a write as the webhook sees it. Null if there is no such object.
    pub(super) async fn object(&self, write: &Attributes, hub: &Value) -> Result<Value, Status> {
        if hub.is_null() {
            return Ok(Value::Null);
        }
        if let Some(part) = &write.subresource_kind {
            return Ok(part.with_type_meta(hub));
        }
        let ResourceInfo { group, version, kind, .. } = &*self.resource;
        let object = self.resource.hub_to_requested(&self.resource.convert_to_own_hub(hub.clone()).await?).into_owned();
        Ok(set_type_meta(object, group, version, kind))
    }
}

impl SubresourceKind {
    /// Returns the kind as reviews name it.
    pub(super) fn to_review_value(&self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }

    /// Returns an object of this kind as webhooks see it.
    pub(super) fn with_type_meta(&self, object: &Value) -> Value {
        set_type_meta(object.clone(), &self.group, &self.version, &self.kind)
    }

    pub(super) fn shape(&self) -> Result<Shape, Status> {
        let plan = codec::plan(&self.group, &self.version, &self.kind);
        Ok(Shape::BuiltIn(plan.ok_or_else(Status::unknown_resource)?))
    }
}

/// Returns the object with its kind and API version set.
fn set_type_meta(mut object: Value, group: &str, version: &str, kind: &str) -> Value {
    if let Some(fields) = object.as_object_mut() {
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    object
}

impl ResourceInfo {
    /// Returns the kind and the resource as reviews name them.
    pub(super) fn to_review_value(&self) -> (Value, Value) {
        let Self { group, version, kind, plural, .. } = self;
        let kind = json!({"group": group, "version": version, "kind": kind});
        (kind, json!({"group": group, "version": version, "resource": plural}))
    }
}

fn selects(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches(|label| object.at(&["metadata", "labels", label]).and_then(Value::as_str))
}

/// Reports whether a rule matches the write, if its object is treated as an object of `resource`.
fn matches(rule: &Value, resource: &ResourceInfo, write: &Attributes) -> bool {
    let names = |field: &str, requested: &str| {
        rule.items(&[field]).iter().filter_map(Value::as_str).any(|name| name == "*" || name == requested)
    };
    let operation = match write.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    };
    let in_namespace = !write.namespace.is_empty() && !write.is_namespace();
    let scope = match rule.text(&["scope"]) {
        "Namespaced" => in_namespace,
        "Cluster" => !in_namespace,
        _ => true,
    };
    let subresource = write.subresource.as_deref().unwrap_or_default();
    let is_resource = rule.items(&["resources"]).iter().filter_map(Value::as_str).any(|name| {
        let (plural, sub) = name.split_once('/').unwrap_or((name, ""));
        (plural == "*" || plural == resource.plural) && (sub == "*" || sub == subresource)
    });
    scope
        && is_resource
        && names("operations", operation)
        && names("apiGroups", &resource.group)
        && names("apiVersions", &resource.version)
}
