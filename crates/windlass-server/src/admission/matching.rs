//! The rules and selectors by which webhooks and policies match writes.

use std::sync::Arc;

use serde_json::Value;
use windlass_api::{GroupResource, LabelSelector, Status};

use super::invocation::Invocation;
use crate::{
    kinds::label_selector,
    object::Tree,
    registry::{Attributes, Operation, Registry},
    resource::{ResourceInfo, Target},
};

/// The writes that a webhook, a policy or a binding matches.
#[derive(Debug)]
pub(super) struct MatchResources {
    /// The rules. `None` matches all resources.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// A rule also matches other versions of the resources that it names.
    is_equivalent: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resources and subresources.
    resources: Vec<(String, String)>,
    scope: Scope,
    /// The names of objects. Empty for all.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Any,
    Namespaced,
    Cluster,
}

// === impl MatchResources ===

impl MatchResources {
    /// Reads the rules and selectors of a webhook.
    pub(super) fn of_webhook(webhook: &Value) -> Self {
        let rules = webhook.items(&["rules"]).iter().map(Rule::of).collect();
        Self { rules: Some(rules), excluded: Vec::new(), ..Self::selectors(webhook) }
    }

    /// Reads the match resources of a policy or a binding. Without rules, it matches all resources.
    pub(super) fn of_policy(resources: &Value) -> Self {
        let rules = |field: &str| resources.items(&[field]).iter().map(Rule::of).collect::<Vec<_>>();
        let own = rules("resourceRules");
        let own = if own.is_empty() { None } else { Some(own) };
        Self { rules: own, excluded: rules("excludeResourceRules"), ..Self::selectors(resources) }
    }

    fn selectors(value: &Value) -> Self {
        let selector = |field: &str| value.at(&[field]).map(label_selector).unwrap_or_default();
        Self {
            rules: None,
            excluded: Vec::new(),
            is_equivalent: value.text(&["matchPolicy"]) == "Equivalent",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// Decides whether a write matches, and in which version it is seen.
    pub(super) async fn matching(&self, registry: &Registry, write: &Attributes) -> Result<Option<Invocation>, Status> {
        if !self.selects_object(write) || self.matched(&self.excluded, registry, write).is_some() {
            return Ok(None);
        }
        let own = || Invocation { resource: Arc::clone(&write.resource) };
        let found = match &self.rules {
            Some(rules) => self.matched(rules, registry, write),
            None => Some(own()),
        };
        let Some(invocation) = found else { return Ok(None) };
        Ok(self.selects_namespace(registry, write).await?.then_some(invocation))
    }

    /// Returns the version of the resource that the first matching rule names.
    fn matched(&self, rules: &[Rule], registry: &Registry, write: &Attributes) -> Option<Invocation> {
        if rules.iter().any(|rule| rule.matches(&write.resource, write)) {
            return Some(Invocation { resource: Arc::clone(&write.resource) });
        }
        if !self.is_equivalent || !rules.iter().any(|rule| rule.may_match(write)) {
            return None;
        }
        // Resources with the same storage prefix are versions of the same resource.
        let resources = registry.resources();
        let same = || resources.all().iter().filter(|resource| resource.prefix == write.resource.prefix);
        let mut found = rules.iter().filter_map(|rule| same().find(|resource| rule.matches(resource, write)));
        found.next().map(|resource| Invocation { resource: Arc::clone(resource) })
    }

    fn selects_object(&self, write: &Attributes) -> bool {
        let selector = &self.objects;
        // Without metadata no selector matches, not even one that requires the absence of a label.
        let selected = |object: &Value| object.at(&["metadata"]).is_some() && selects(selector, object);
        selector.is_empty() || selected(&write.object) || write.old.as_ref().is_some_and(selected)
    }

    async fn selects_namespace(&self, registry: &Registry, write: &Attributes) -> Result<bool, Status> {
        let selector = &self.namespaces;
        if selector.is_empty() || (write.namespace.is_empty() && !write.is_namespace()) {
            return Ok(true);
        }
        if write.is_namespace() {
            let namespace = if write.operation == Operation::Delete { write.old.as_ref() } else { Some(&write.object) };
            return Ok(namespace.is_some_and(|namespace| selects(selector, namespace)));
        }
        Ok(selects(selector, &namespace(registry, &write.namespace).await?))
    }
}

/// Returns a recent state of a namespace.
pub(super) async fn namespace(registry: &Registry, name: &str) -> Result<Value, Status> {
    let missing = || Status::not_found(&GroupResource::new("", "namespaces"), name);
    let resources = registry.resources();
    let namespaces = resources.get("", "v1", "namespaces").ok_or_else(missing)?;
    let found = registry.peek_recent(&Target::object(namespaces, None, name)).await?.ok_or_else(missing)?;
    Ok(found.value())
}

fn selects(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches(|label| object.at(&["metadata", "labels", label]).and_then(Value::as_str))
}

// === impl Rule ===

impl Rule {
    fn of(rule: &Value) -> Self {
        let texts =
            |field: &str| rule.items(&[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
        let resources = rule.items(&["resources"]).iter().filter_map(Value::as_str).map(|name| {
            let (plural, sub) = name.split_once('/').unwrap_or((name, ""));
            (plural.to_owned(), sub.to_owned())
        });
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: resources.collect(),
            scope: match rule.text(&["scope"]) {
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => Scope::Any,
            },
            names: texts("resourceNames"),
        }
    }

    /// Reports whether the rule matches the write, if its object is treated as an object of `resource`.
    fn matches(&self, resource: &ResourceInfo, write: &Attributes) -> bool {
        let subresource = write.subresource.as_deref().unwrap_or_default();
        let is_resource = self
            .resources
            .iter()
            .any(|(plural, sub)| (plural == "*" || *plural == resource.plural) && (sub == "*" || sub == subresource));
        is_resource
            && self.may_match(write)
            && includes(&self.groups, &resource.group)
            && includes(&self.versions, &resource.version)
    }

    /// Reports whether the rule matches the write if its object is one of another resource.
    fn may_match(&self, write: &Attributes) -> bool {
        let in_namespace = !write.namespace.is_empty() && !write.is_namespace();
        let scope = match self.scope {
            Scope::Namespaced => in_namespace,
            Scope::Cluster => !in_namespace,
            Scope::Any => true,
        };
        scope && includes(&self.operations, write.operation.name()) && self.has_name(&write.name)
    }

    fn has_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|other| other == name)
    }
}

fn includes(names: &[String], requested: &str) -> bool {
    names.iter().any(|name| name == "*" || name == requested)
}
