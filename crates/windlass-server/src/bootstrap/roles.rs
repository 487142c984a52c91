//! The default roles and bindings.
//!
//! They are reconciled at each start, as by kube-apiserver: missing rules, selectors, subjects, labels and annotations are
//! added, and further ones are kept. An object whose annotation `rbac.authorization.kubernetes.io/autoupdate` is `false`
//! is not changed.

use serde_json::{Value, json};
use windlass_api::{Preconditions, Status};

use super::{create_or_ignore, own_params};
use crate::{
    authz::{
        self, Rule,
        default_roles::{self, Recorded},
        uncovered,
    },
    object::Tree,
    registry::{DeleteParams, Registry, ResponseBody, WebhookCalls},
    resource::{Body, Target},
};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The attempts to reconcile an object that others change at the same time.
const ATTEMPTS: usize = 5;

/// A change that makes an object contain the default.
#[derive(Debug, PartialEq)]
enum Change {
    None,
    Update(Value),
    /// The role of a binding is immutable.
    Replace,
}

/// Creates missing objects, and completes existing ones.
pub(super) async fn ensure_all(registry: &Registry) -> Result<(), Status> {
    for role in default_roles::recorded(registry.resources().kubernetes()) {
        ensure(registry, &role).await?;
    }
    Ok(())
}

async fn ensure(registry: &Registry, role: &Recorded) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(authz::GROUP, "v1", role.plural) else { return Ok(()) };
    let target = Target::object(resource, role.namespace, role.object.text(&["metadata", "name"]));
    let collection = Target::collection(resource, role.namespace);
    for _ in 0..ATTEMPTS {
        let Some(current) = registry.peek(&target).await? else {
            return create_or_ignore(registry, &collection, role.object.clone()).await;
        };
        let result = match change(&current.value(), &role.object) {
            Change::None => return Ok(()),
            Change::Update(changed) => registry.update(&target, Body::Value(changed), own_params()).await.map(drop),
            Change::Replace => {
                let uid = Some(current.value().text(&["metadata", "uid"]).to_owned());
                let preconditions = Preconditions { uid, ..Preconditions::default() };
                let params = DeleteParams { preconditions, webhooks: WebhookCalls::Never, ..DeleteParams::default() };
                match registry.delete(&target, params).await {
                    // It is deleted when its finalizers are removed, and the next start creates it again.
                    Ok(deleted) if matches!(deleted.answer, ResponseBody::Object(_)) => return Ok(()),
                    Ok(_) => return create_or_ignore(registry, &collection, role.object.clone()).await,
                    Err(status) => Err(status),
                }
            }
        };
        match result {
            Err(status) if status.is_conflict() || status.is_not_found() => {}
            result => return result,
        }
    }
    // Others have changed the object meanwhile, and the next start completes it.
    Ok(())
}

/// Compares an object with the default.
fn change(current: &Value, default: &Value) -> Change {
    if current.text(&["metadata", "annotations", AUTO_UPDATE]) == "false" {
        return Change::None;
    }
    let is_binding = default.at(&["roleRef"]).is_some();
    if is_binding
        && ["apiGroup", "kind", "name"].iter().any(|field| is_different(current, default, &["roleRef", field]))
    {
        return Change::Replace;
    }
    let mut changed = current.clone();
    for field in ["annotations", "labels"] {
        add_missing(&mut changed, default, field);
    }
    if is_binding {
        let is_missing = |subject: &&Value| !current.items(&["subjects"]).iter().any(|own| is_same(own, subject));
        append(&mut changed, &["subjects"], default.items(&["subjects"]).iter().filter(is_missing).cloned());
    } else {
        let missing = uncovered(&Rule::all_of(current), &Rule::all_of(default));
        append(&mut changed, &["rules"], missing.iter().map(rule));
        let path = ["aggregationRule", "clusterRoleSelectors"];
        if default.at(&path).is_some() {
            let is_missing = |selector: &&Value| !current.items(&path).contains(selector);
            append(&mut changed, &path, default.items(&path).iter().filter(is_missing).cloned());
        } else if let Some(object) = changed.as_object_mut() {
            object.shift_remove("aggregationRule");
        }
    }
    if changed == *current { Change::None } else { Change::Update(changed) }
}

fn is_different(one: &Value, other: &Value, path: &[&str]) -> bool {
    one.text(path) != other.text(path)
}

fn is_same(one: &Value, other: &Value) -> bool {
    ["kind", "apiGroup", "name", "namespace"].iter().all(|field| !is_different(one, other, &[field]))
}

/// Adds the missing entries of a map in the metadata.
fn add_missing(changed: &mut Value, default: &Value, field: &str) {
    let Some(Value::Object(wanted)) = default.at(&["metadata", field]) else { return };
    let map = &mut changed["metadata"][field];
    if map.is_null() {
        *map = json!({});
    }
    if let Some(map) = map.as_object_mut() {
        for (key, value) in wanted {
            map.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// Adds items to a list, which may be absent.
fn append(changed: &mut Value, path: &[&str], items: impl Iterator<Item = Value>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let list = path.iter().fold(changed, |value, field| &mut value[*field]);
    match list {
        Value::Array(list) => list.extend(items),
        list => *list = items.collect(),
    }
}

fn rule(rule: &Rule) -> Value {
    let mut object = json!({"verbs": rule.verbs});
    let fields = [
        ("apiGroups", &rule.groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.names),
        ("nonResourceURLs", &rule.paths),
    ];
    for (field, values) in fields.into_iter().filter(|(_, values)| !values.is_empty()) {
        object[field] = json!(values);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: Value) -> Value {
        json!({"metadata": {"name": "r", "annotations": {AUTO_UPDATE: "true"}, "labels": {"l": "default"}}, "rules": rules})
    }

    #[test]
    fn missing_permissions_are_added_one_by_one() {
        let default = role(json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "nodes"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
            {"verbs": ["use"], "apiGroups": ["a"], "resources": ["b"], "resourceNames": ["c"]},
        ]));
        let own = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"]});
        let mut current = role(json!([own]));
        current["metadata"]["labels"] = json!({"mine": "x", "l": "mine"});
        current["metadata"]["annotations"] = json!({});
        let Change::Update(changed) = change(&current, &default) else { panic!("no update") };
        assert_eq!(changed["metadata"]["labels"], json!({"mine": "x", "l": "mine"}));
        assert_eq!(changed["metadata"]["annotations"], json!({AUTO_UPDATE: "true"}));
        let expected = json!([
            own,
            {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"]},
            {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]},
            {"verbs": ["get"], "nonResourceURLs": ["/healthz"]},
            {"verbs": ["use"], "apiGroups": ["a"], "resources": ["b"], "resourceNames": ["c"]},
        ]);
        assert_eq!(changed["rules"], expected);
        assert_eq!(change(&changed, &default), Change::None);
        current["metadata"]["annotations"] = json!({AUTO_UPDATE: "false"});
        assert_eq!(change(&current, &default), Change::None);
    }

    #[test]
    fn aggregation_is_completed_or_removed() {
        let selectors =
            |keys: &[&str]| -> Value { keys.iter().map(|key| json!({"matchLabels": {*key: "true"}})).collect() };
        let aggregated = |keys: &[&str]| {
            let mut role = role(Value::Null);
            role["aggregationRule"] = json!({"clusterRoleSelectors": selectors(keys)});
            role
        };
        let Change::Update(changed) = change(&aggregated(&["own"]), &aggregated(&["a", "b"])) else {
            panic!("no update")
        };
        assert_eq!(changed, aggregated(&["own", "a", "b"]));
        assert_eq!(change(&changed, &aggregated(&["b"])), Change::None);
        let Change::Update(changed) = change(&aggregated(&["own"]), &role(json!([]))) else { panic!("no update") };
        assert_eq!(changed, role(Value::Null));
    }

    #[test]
    fn subjects_are_added_and_another_role_replaces_the_binding() {
        let binding = |role: &str, subjects: &[&str]| {
            let subject = |name: &&str| json!({"kind": "Group", "apiGroup": authz::GROUP, "name": *name});
            json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": authz::GROUP, "kind": "ClusterRole", "name": role},
                "subjects": subjects.iter().map(subject).collect::<Vec<_>>()})
        };
        let Change::Update(changed) = change(&binding("r", &["mine", "b"]), &binding("r", &["a", "b"])) else {
            panic!("no update")
        };
        assert_eq!(changed["subjects"], binding("r", &["mine", "b", "a"])["subjects"]);
        assert_eq!(change(&binding("other", &["a"]), &binding("r", &["a"])), Change::Replace);
    }
}
