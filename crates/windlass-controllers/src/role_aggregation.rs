//! ClusterRoleAggregation: fills roles that aggregate the rules of others, such as `admin`, `edit` and `view`.
//!
//! Guaranteed: an aggregated role has exactly the rules of the roles that its selectors match, each once, in the order
//! of selectors and names. A role does not aggregate itself.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use parking_lot::Mutex;
use windlass_api::{LabelSelector, ObjectExt, ObjectRef};
use windlass_cache::Cached;
use windlass_runtime::{Action, Context, Controller, Manager};

use crate::error::{ReconcileError, await_newer_state};

/// The field manager of the rules.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    let gathering = Gathering::default();
    manager.add(
        Controller::<ClusterRole>::new()
            .named("clusterrole-aggregation")
            .watches(move |role: &ClusterRole| gathering.after(role))
            .reconcile(async |role: Arc<ClusterRole>, cx: Context| await_newer_state(reconcile(&role, &cx).await)),
    );
}

/// The aggregated roles. They are few, so any changed role queues all of them.
#[derive(Debug, Default)]
struct Gathering(Mutex<BTreeSet<String>>);

impl Gathering {
    /// Returns the roles to reconcile after a role has changed.
    fn after(&self, role: &ClusterRole) -> Vec<ObjectRef<ClusterRole>> {
        let mut names = self.0.lock();
        if role.aggregation_rule.is_some() {
            names.insert(role.name().to_owned());
        } else {
            names.remove(role.name());
        }
        names.iter().map(|name| ObjectRef::new(name.as_str())).collect()
    }
}

async fn reconcile(role: &ClusterRole, cx: &Context) -> Result<Action, ReconcileError> {
    if role.aggregation_rule.is_some() {
        let roles = cx.store::<ClusterRole>().list();
        let roles = roles.iter().map(Cached::get).collect::<Result<Vec<_>, _>>()?;
        let rules = gathered(role, roles)?;
        if rules != *role.rules.as_deref().unwrap_or_default() {
            let mut wanted = ClusterRole { rules: Some(rules), ..ClusterRole::default() };
            wanted.metadata.name = Some(role.name().to_owned());
            cx.client().apply(&wanted).field_manager(MANAGER).force().await?;
        }
    }
    Ok(Action::await_change())
}

/// Returns the rules that a role aggregates from others.
fn gathered(role: &ClusterRole, mut others: Vec<Arc<ClusterRole>>) -> Result<Vec<PolicyRule>, ReconcileError> {
    others.retain(|other| other.name() != role.name());
    others.sort_by(|a, b| a.name().cmp(b.name()));
    let selectors = role.aggregation_rule.iter().flat_map(|rule| rule.cluster_role_selectors.iter().flatten());
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let selector = LabelSelector::try_from(selector)?;
        let matching = others.iter().filter(|other| selector.matches_map(other.labels()));
        for rule in matching.flat_map(|other| other.rules.iter().flatten()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn role(name: &str, labels: Value, content: Value) -> Arc<ClusterRole> {
        let mut role = json!({"metadata": {"name": name, "labels": labels}});
        for (key, value) in content.as_object().unwrap() {
            role[key] = value.clone();
        }
        Arc::new(serde_json::from_value(role).unwrap())
    }

    fn rule(resource: &str) -> Value {
        json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]})
    }

    #[test]
    fn rules_are_aggregated_by_selector_without_duplicates() {
        let selectors = json!([{"matchLabels": {"to": "view"}}, {"matchLabels": {"to": "more"}}]);
        let view = role(
            "view",
            json!({"to": "view"}),
            json!({"aggregationRule": {"clusterRoleSelectors": selectors}, "rules": [rule("own")]}),
        );
        let others = vec![
            role("b", json!({"to": "view"}), json!({"rules": [rule("pods"), rule("nodes")]})),
            role("a", json!({"to": "view"}), json!({"rules": [rule("secrets"), rule("pods")]})),
            role("0", json!({"to": "more"}), json!({"rules": [rule("maps"), rule("nodes")]})),
            role("c", json!({}), json!({"rules": [rule("leases")]})),
            view.clone(),
        ];
        let rules = gathered(&view, others).unwrap();
        let resources: Vec<_> = rules.iter().flat_map(|rule| rule.resources.iter().flatten()).collect();
        assert_eq!(resources, ["secrets", "pods", "nodes", "maps"]);
    }

    #[test]
    fn changed_role_triggers_aggregating_roles() {
        let gathering = Gathering::default();
        let names = |role: &ClusterRole| gathering.after(role).iter().map(ToString::to_string).collect::<Vec<_>>();
        let plain = role("plain", json!({}), json!({}));
        assert!(names(&plain).is_empty());
        let view = role("view", json!({}), json!({"aggregationRule": {}}));
        assert_eq!(names(&view), ["view"]);
        assert_eq!(names(&plain), ["view"]);
        assert!(names(&role("view", json!({}), json!({}))).is_empty());
    }
}
