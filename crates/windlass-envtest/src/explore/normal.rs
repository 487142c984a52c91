//! The normal form of a final state, without the parts that differ from run to run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{faulty_transport::TOUCH, scenario::Scenario, state::State};

/// The objects by resource and key. Generated parts of names are replaced by a star, so several objects may have the
/// same key.
pub(crate) type Normal = BTreeMap<(String, String), Vec<Value>>;

/// The replacements of names and UIDs.
#[derive(Default)]
struct Names {
    generated: Vec<(String, String)>,
    uids: BTreeMap<String, String>,
}

/// Returns the normal form of a state.
pub(crate) fn normal(scenario: &Scenario, state: &State) -> Normal {
    let mut names = Names::default();
    let objects = || {
        let kinds = state.0.iter().filter(|(resource, _)| !scenario.ignored.contains(*resource));
        kinds.flat_map(|(resource, objects)| objects.iter().map(move |(key, object)| (resource, key, object)))
    };
    for (resource, key, object) in objects() {
        let metadata = &object["metadata"];
        let (name, prefix) = (text(&metadata["name"]), text(&metadata["generateName"]));
        if !prefix.is_empty() && name.starts_with(prefix) && name.len() > prefix.len() {
            names.generated.push((name.to_owned(), format!("{prefix}*")));
        }
        let key = names.starred(key);
        names.uids.insert(text(&metadata["uid"]).to_owned(), format!("the uid of {resource} {key}"));
    }
    // The longest prefix is replaced first.
    names.generated.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
    let mut normal = Normal::new();
    for (resource, key, object) in objects() {
        let mut object = Value::clone(object);
        for (of, pointer) in &scenario.hidden {
            if of == resource {
                hide(&mut object, pointer);
            }
        }
        let generation = object["metadata"]["generation"].as_i64();
        strip(&mut object);
        names.apply(&mut object, generation);
        normal.entry((resource.clone(), names.starred(key))).or_default().push(object);
    }
    for alike in normal.values_mut() {
        alike.sort_by_cached_key(ToString::to_string);
    }
    normal
}

/// Removes a field. Elements of lists are replaced by a placeholder, so that indexes do not change.
fn hide(object: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    match object.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(&field.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(_)) => {
            if let Some(element) = object.pointer_mut(pointer) {
                *element = "ignored".into();
            }
        }
        _ => {}
    }
}

/// Removes the fields that record the object's history, not its state.
fn strip(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        metadata.remove(field);
    }
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(TOUCH);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

impl Names {
    fn apply(&self, value: &mut Value, generation: Option<i64>) {
        match value {
            Value::String(text) => {
                if let Some(renamed) = self.renamed(text) {
                    *text = renamed;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item, generation)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    if name == "observedGeneration" && field.is_i64() {
                        let is_current = field.as_i64() == generation;
                        *field = if is_current { "the present one" } else { "an older one" }.into();
                    } else if name == "resourceVersion" && field.is_string() {
                        // The resource version in a reference to another object.
                        *field = "a version".into();
                    } else {
                        self.apply(field, generation);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn renamed(&self, text: &str) -> Option<String> {
        if let Some(uid) = self.uids.get(text) {
            return Some(uid.clone());
        }
        if is_uid(text) {
            return Some("the uid of something else".to_owned());
        }
        if text.len() >= 20 && text.parse::<Timestamp>().is_ok() {
            return Some("a time".to_owned());
        }
        let renamed = self.starred(text);
        (renamed != text).then_some(renamed)
    }

    fn starred(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, starred) in &self.generated {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), starred);
            }
        }
        text
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_uid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if dashes.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn run_specific_values_are_ignored() {
        let state = |suffix: &str, uid: &str, time: &str| {
            let name = format!("web-{suffix}");
            let pod = json!({
                "metadata": {"name": name, "generateName": "web-", "uid": uid, "resourceVersion": suffix, "generation": 3,
                    "creationTimestamp": time, "annotations": {TOUCH: "yes"}},
                "status": {"since": time, "observedGeneration": 3, "message": format!("{name} is ready"),
                    "active": [{"name": name, "resourceVersion": suffix}]},
            });
            let config = json!({"metadata": {"name": "a", "ownerReferences": [{"uid": uid, "name": name}]}});
            let mut state = State::default();
            state.0.insert("pods".to_owned(), [(format!("default/{name}"), Arc::new(pod))].into());
            state.0.insert("configmaps".to_owned(), [("default/a".to_owned(), Arc::new(config))].into());
            state
        };
        let scenario = Scenario::new("pods");
        let one = state("abcde", "0c4be7b6-1d63-4a4c-bd8b-9d2b4aa7a3f1", "2026-01-01T00:00:00Z");
        let other = state("vwxyz", "ffffe7b6-1d63-4a4c-bd8b-9d2b4aa7a3f1", "2026-02-02T00:00:00Z");
        let (one, other) = (normal(&scenario, &one), normal(&scenario, &other));
        assert_eq!(one, other);
        let pod = &one[&("pods".to_owned(), "default/web-*".to_owned())][0];
        assert_eq!(
            pod["status"],
            json!({"since": "a time", "observedGeneration": "the present one", "message": "web-* is ready",
                "active": [{"name": "web-*", "resourceVersion": "a version"}]})
        );
        let config = &one[&("configmaps".to_owned(), "default/a".to_owned())][0];
        assert_eq!(config["metadata"]["ownerReferences"][0]["uid"], "the uid of pods default/web-*");
    }
}
