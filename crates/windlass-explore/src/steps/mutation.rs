//! The objects that steps apply, and the steps that change one of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_api::GroupVersionKind;

use super::{Action, Step, Target, manifest::Document};
use crate::plan::Mutation;

/// An object that steps apply and do not delete.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// The index of the step that creates it.
    created: usize,
    /// The document with the changes of later steps.
    document: Document,
    /// The changes that later steps have merged into the object.
    patches: Value,
}

/// The group, the kind, the namespace and the name.
type Key = (String, String, String, String);

fn key(document: &Document) -> Key {
    let Document { kind, namespace, name, .. } = document;
    let namespace = namespace.as_deref().unwrap_or("default");
    (kind.group.to_string(), kind.kind.to_string(), namespace.to_owned(), name.clone())
}

/// Returns the objects that exist after the steps, with the state that the steps have given them, if `selects` selects
/// their kind.
pub(crate) fn applied(steps: &[Step], selects: impl Fn(&GroupVersionKind) -> bool) -> Vec<Applied> {
    let mut applied: BTreeMap<Key, Applied> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        match &step.action {
            Action::Apply(documents) => {
                for document in documents.iter().filter(|document| selects(&document.kind)) {
                    let new = || Applied { created: index, document: document.clone(), patches: Value::Null };
                    let known = applied.entry(key(document)).or_insert_with(new);
                    // Fields that were patched remain, unless they are applied now.
                    let mut content = known.patches.clone();
                    merge(&mut content, &document.content);
                    known.document = Document { content, ..document.clone() };
                }
            }
            Action::Patch(documents) => {
                for document in documents {
                    if let Some(known) = applied.get_mut(&key(document)) {
                        merge(&mut known.document.content, &document.content);
                        merge(&mut known.patches, &document.content);
                    }
                }
            }
            Action::Delete(documents) => {
                for document in documents {
                    applied.remove(&key(document));
                }
            }
            Action::PatchStatus(_) | Action::Wait(_) | Action::Execute(_) | Action::Mutate(_) | Action::Revert(_) => {}
        }
    }
    applied.into_values().collect()
}

impl Applied {
    pub(crate) const fn kind(&self) -> &GroupVersionKind {
        &self.document.kind
    }

    /// Returns the namespace in the document, `default` without one.
    pub(crate) fn namespace(&self) -> &str {
        self.document.namespace.as_deref().unwrap_or("default")
    }

    pub(crate) fn name(&self) -> &str {
        &self.document.name
    }

    /// Returns the object as the steps have declared it.
    pub(crate) const fn manifest(&self) -> &Value {
        &self.document.content
    }

    /// Returns the step that makes the change, and the one that reverts it.
    pub(crate) fn mutated(&self, mutation: &Mutation) -> [Step; 2] {
        let target = Box::new(Target { document: self.document.clone(), mutation: mutation.clone() });
        let (mutate, revert) = (Action::Mutate(target.clone()), Action::Revert(target));
        [Step { name: "mutate".to_owned(), action: mutate }, Step { name: "revert".to_owned(), action: revert }]
    }
}

/// Returns steps that create the object with another manifest, and do not change it later. Later steps do not wait for
/// conditions either, because these may depend on the manifest.
pub(crate) fn with_manifest(steps: &[Step], object: &Applied, manifest: &Value) -> Vec<Step> {
    let of_object = key(&object.document);
    let mut fresh = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let others = |documents: &[Document]| {
            documents.iter().filter(|document| key(document) != of_object).cloned().collect::<Vec<_>>()
        };
        let action = match &step.action {
            action if index < object.created => action.clone(),
            Action::Apply(documents) if index == object.created => {
                let mut created = documents.clone();
                for document in created.iter_mut().filter(|document| key(document) == of_object) {
                    document.content = manifest.clone();
                }
                Action::Apply(created)
            }
            Action::Apply(documents) => Action::Apply(others(documents)),
            Action::Patch(documents) => Action::Patch(others(documents)),
            Action::Wait(_) => continue,
            action => action.clone(),
        };
        if !matches!(&action, Action::Apply(documents) | Action::Patch(documents) if documents.is_empty()) {
            fresh.push(Step { name: step.name.clone(), action });
        }
    }
    fresh
}

/// Merges a JSON merge patch into a value.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Value::Object(fields) = value else { return };
    for (name, patch) in patch {
        if patch.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), patch);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn site(fields: &str) -> String {
        format!("{{apiVersion: example.dev/v1, kind: Site, metadata: {{name: a}}, {fields}}}")
    }

    fn steps() -> Vec<Step> {
        let other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}";
        let both = format!("{}\n---\n{other}\n", site("spec: {n: 1, x: 1}"));
        vec![
            Step::apply("first", &site("spec: {n: 9, old: true}")).unwrap(),
            Step::wait("wait", &site("condition: 'true'")).unwrap(),
            Step::delete("delete", &site("spec: {}")).unwrap(),
            Step::apply("create", &both).unwrap(),
            Step::wait("ready", &site("condition: 'true'")).unwrap(),
            Step::patch("patch", &site("spec: {p: 1, q: {r: 1}, x: null}")).unwrap(),
            Step::apply("apply", &site("spec: {n: 2, p: 2}")).unwrap(),
            Step::patch_status("status", &site("status: {ready: true}")).unwrap(),
        ]
    }

    fn sites(steps: &[Step]) -> Vec<Applied> {
        applied(steps, |kind| kind.kind == "Site")
    }

    #[test]
    fn later_steps_change_the_applied_object() {
        let sites = sites(&steps());
        let [site] = &sites[..] else { panic!("{sites:?}") };
        assert_eq!((site.created, site.namespace(), site.name()), (3, "default", "a"));
        assert_eq!(site.manifest()["spec"], json!({"n": 2, "p": 2, "q": {"r": 1}}));
    }

    #[test]
    fn deleted_objects_are_not_applied() {
        assert_eq!(sites(&steps()[..3]).len(), 0);
    }

    #[test]
    fn fresh_steps_create_the_object_with_its_manifest() {
        let steps = steps();
        let object = &sites(&steps)[0];
        let fresh = with_manifest(&steps, object, &json!({"spec": {"n": 7}}));
        let names: Vec<_> = fresh.iter().map(Step::name).collect();
        assert_eq!(names, ["first", "wait", "delete", "create", "status"], "later changes and waits are left out");
        let Action::Apply(created) = &fresh[3].action else { panic!("{:?}", fresh[3]) };
        assert_eq!(created[0].content, json!({"spec": {"n": 7}}));
        assert_eq!((created.len(), created[1].name.as_str()), (2, "b"), "other objects stay");
    }
}
