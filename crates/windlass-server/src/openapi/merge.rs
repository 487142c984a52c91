//! Adds the paths of other API servers to the document of version 2.
//!
//! As in kube-apiserver, a path that exists already is kept, equal definitions are shared, and a definition whose name is
//! taken by a different one gets a new name. Parts with equal definitions share the new name, too. The kinds for which a
//! definition is annotated do not count as a difference.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::discovery::document_hash;

const DEFINITIONS: &str = "#/definitions/";
/// The key of the kinds for which a definition is annotated.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// The paths of one group version in the document of another server, with the definitions that they need.
#[derive(Debug)]
pub(crate) struct ForeignPaths {
    /// The JSON of both. It needs far less memory than a parsed value.
    text: String,
    hash: String,
}

/// The names of foreign definitions in a document, by their own names and texts.
#[derive(Debug, Default)]
pub(super) struct NewNames(HashMap<(String, String), String>);

/// The parsed form of [`ForeignPaths`].
#[derive(Default)]
struct Parts {
    paths: Map<String, Value>,
    definitions: Map<String, Value>,
}

// === impl ForeignPaths ===

impl ForeignPaths {
    /// Selects the paths below a prefix, such as `/apis/metrics.k8s.io/v1beta1/`. Returns `None` if there are none.
    pub(crate) fn below(prefix: &str, document: Value) -> Option<Self> {
        let Parts { paths, mut definitions } = Parts::of(document);
        let paths: Map<_, _> = paths.into_iter().filter(|(path, _)| path.starts_with(prefix)).collect();
        if paths.is_empty() {
            return None;
        }
        let mut needed = BTreeSet::new();
        let mut found = Vec::new();
        paths.values().for_each(|item| references(item, &mut found));
        while let Some(name) = found.pop() {
            if let Some(definition) = definitions.get(&name)
                && needed.insert(name)
            {
                references(definition, &mut found);
            }
        }
        definitions.retain(|name, _| needed.contains(name));
        let both = Map::from_iter([("paths".to_owned(), paths.into()), ("definitions".to_owned(), definitions.into())]);
        let text = Value::Object(both).to_string();
        let hash = document_hash(&[text.as_bytes()]);
        Some(Self { text, hash })
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    /// Adds the paths and definitions to a document. `new_names` are those of the parts that were added before.
    pub(super) fn add_to(&self, document: &mut Value, new_names: &mut NewNames) {
        // The text was a value before, so it can be parsed.
        let Parts { paths, mut definitions } = serde_json::from_str(&self.text).map(Parts::of).unwrap_or_default();
        let Some(existing) = document["definitions"].as_object_mut() else { return };
        let mut names = BTreeMap::new();
        for (name, definition) in &definitions {
            let is_taken = |name: &str| existing.contains_key(name) || definitions.contains_key(name);
            // The definition of an earlier part may differ from its text there, because it references new names.
            let known = new_names.0.entry((name.clone(), definition.to_string()));
            let known = known.or_insert_with(|| match existing.get(name) {
                Some(existing) if !are_equal(existing, definition) => new_name(name, is_taken),
                _ => name.clone(),
            });
            if known != name {
                names.insert(name.clone(), known.clone());
            }
        }
        for (old, new) in &names {
            if let Some(definition) = definitions.remove(old) {
                definitions.insert(new.clone(), definition);
            }
        }
        for (name, mut definition) in definitions {
            if let Some(existing) = existing.get_mut(&name) {
                add_kinds(existing, &definition);
            } else {
                rename(&mut definition, &names);
                existing.insert(name, definition);
            }
        }
        let Some(existing) = document["paths"].as_object_mut() else { return };
        for (path, mut item) in paths {
            if !existing.contains_key(&path) {
                rename(&mut item, &names);
                existing.insert(path, item);
            }
        }
    }
}

// === impl Parts ===

impl Parts {
    fn of(mut document: Value) -> Self {
        let mut part = |name: &str| match document.get_mut(name).map(Value::take) {
            Some(Value::Object(part)) => part,
            _ => Map::new(),
        };
        Self { paths: part("paths"), definitions: part("definitions") }
    }
}

/// Collects the names of the definitions that a value references.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if let Some(name) = object.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix(DEFINITIONS)) {
                found.push(name.to_owned());
            }
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Replaces the names of referenced definitions.
fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(at)) = object.get_mut("$ref")
                && let Some(new) = at.strip_prefix(DEFINITIONS).and_then(|name| names.get(name))
            {
                *at = format!("{DEFINITIONS}{new}");
            }
            object.values_mut().for_each(|value| rename(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| rename(value, names)),
        _ => {}
    }
}

/// Reports whether two definitions differ in their kinds at most.
fn are_equal(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else { return one == other };
    let without = |object: &Map<String, Value>| object.len() - usize::from(object.contains_key(KINDS));
    without(one) == without(other)
        && one.iter().filter(|(key, _)| *key != KINDS).all(|(key, value)| other.get(key) == Some(value))
}

/// Adds the kinds of an equal definition.
fn add_kinds(existing: &mut Value, other: &Value) {
    let Some(Value::Array(added)) = other.get(KINDS) else { return };
    let Some(existing) = existing.as_object_mut() else { return };
    if let Value::Array(kinds) = existing.entry(KINDS).or_insert_with(|| Value::Array(Vec::new())) {
        let mut known: HashSet<String> = kinds.iter().map(Value::to_string).collect();
        let is_new = |kind: &&Value| known.insert(kind.to_string());
        kinds.extend(added.iter().filter(is_new).cloned());
    }
}

/// Returns the name with the first free suffix: `_v2`, `_v3` and so on.
fn new_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut number = 2_u64;
    loop {
        let new = format!("{name}_v{number}");
        if !is_taken(&new) {
            return new;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reference(name: &str) -> Value {
        json!({"$ref": format!("{DEFINITIONS}{name}")})
    }

    #[test]
    fn only_the_paths_of_the_group_version_are_selected() {
        let document = json!({
            "paths": {"/apis/a.example/v1/": reference("A"), "/apis/a.example/v10/x": reference("B"), "/apis/": {}},
            "definitions": {"A": {"properties": {"c": reference("C")}}, "B": {}, "C": {"items": reference("A")}},
        });
        let selected = ForeignPaths::below("/apis/a.example/v1/", document.clone()).unwrap();
        let mut merged = json!({"paths": {}, "definitions": {}});
        selected.add_to(&mut merged, &mut NewNames::default());
        let definitions = json!({"A": document["definitions"]["A"], "C": document["definitions"]["C"]});
        assert_eq!(merged, json!({"paths": {"/apis/a.example/v1/": reference("A")}, "definitions": definitions}));
        assert!(ForeignPaths::below("/apis/none.example/v1/", document).is_none());
    }

    #[test]
    fn different_definition_of_a_name_gets_a_new_name() {
        let kind = |group: &str| json!([{"group": group, "kind": "DeleteOptions", "version": "v1"}]);
        let mut document = json!({
            "paths": {"/a": {"get": "ours"}},
            "definitions": {"Same": {"type": "object", KINDS: kind("ours")}, "Other": {"type": "string"}, "Other_v2": {}},
        });
        let foreign = ForeignPaths::below(
            "/",
            json!({
                "paths": {"/a": {"get": "theirs"}, "/b": [reference("Same"), reference("Other"), reference("New")]},
                "definitions": {
                    "Same": {"type": "object", KINDS: kind("theirs")}, "Other": {"type": "integer"},
                    "New": {"items": reference("Other")},
                },
            }),
        );
        let foreign = foreign.unwrap();
        let mut names = NewNames::default();
        foreign.add_to(&mut document, &mut names);
        // An equal part adds nothing.
        foreign.add_to(&mut document, &mut names);
        let kinds = [kind("ours")[0].clone(), kind("theirs")[0].clone()];
        assert_eq!(
            document,
            json!({
                "paths": {"/a": {"get": "ours"}, "/b": [reference("Same"), reference("Other_v3"), reference("New")]},
                "definitions": {
                    "Same": {"type": "object", KINDS: kinds}, "Other": {"type": "string"}, "Other_v2": {},
                    "Other_v3": {"type": "integer"}, "New": {"items": reference("Other_v3")},
                },
            })
        );
    }

    #[test]
    fn document_that_is_not_one_adds_nothing() {
        for document in [json!(null), json!([]), json!({"paths": [], "definitions": 1})] {
            assert!(ForeignPaths::below("/", document).is_none());
        }
        let foreign = ForeignPaths::below("/", json!({"paths": {"/b": reference("Missing")}, "definitions": "none"}));
        let mut document = json!({"paths": {}, "definitions": {}});
        foreign.unwrap().add_to(&mut document, &mut NewNames::default());
        assert_eq!(document["paths"]["/b"], reference("Missing"));
    }
}
