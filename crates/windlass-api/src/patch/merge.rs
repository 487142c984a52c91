//! JSON merge patches (RFC 7386) from two or three states of an object.

use serde_json::{Map, Value};

use super::DiffError;

/// Returns the merge patch that changes `from` into `to`: the differences, and null for removed fields. Lists are
/// replaced as a whole.
///
/// ```
/// use windlass_api::patch::merge_diff;
/// use serde_json::json;
///
/// let from = json!({"a": 1, "b": {"c": 2, "d": 3}});
/// assert_eq!(merge_diff(&from, &json!({"a": 1, "b": {"c": 4}})), json!({"b": {"c": 4, "d": null}}));
/// ```
#[must_use]
pub fn merge_diff(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for (key, value) in to {
        match (from.get(key), value) {
            (Some(before), after) if before == after => {}
            (Some(before @ Value::Object(_)), Value::Object(_)) => {
                patch.insert(key.clone(), merge_diff(before, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    let gone = from.keys().filter(|key| !to.contains_key(*key));
    patch.extend(gone.map(|key| (key.clone(), Value::Null)));
    Value::Object(patch)
}

/// Returns the three-way merge patch that brings the user's changes into an object that others have also changed.
///
/// The patch sets the differences between `current` and `modified`. It removes the fields that are in `original`, the
/// user's last desired state, but not in `modified`. All other fields of `current` are retained. Returns an error if a
/// field would be both set and removed.
pub fn merge_three_way(original: &Value, modified: &Value, current: &Value) -> Result<Value, DiffError> {
    let additions = only(merge_diff(current, modified), Part::Additions);
    let deletions = only(merge_diff(original, modified), Part::Deletions);
    let mut patch = deletions;
    overlay(&mut patch, additions, "")?;
    Ok(patch)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Additions,
    Deletions,
}

/// Returns only the additions or only the deletions of a merge patch.
fn only(patch: Value, part: Part) -> Value {
    let Value::Object(fields) = patch else { return patch };
    let kept = fields.into_iter().filter_map(|(key, value)| match value {
        Value::Null => (part == Part::Deletions).then_some((key, Value::Null)),
        Value::Object(ref inner) if !inner.is_empty() => {
            let kept = only(value, part);
            kept.as_object().is_some_and(|kept| !kept.is_empty()).then_some((key, kept))
        }
        // Setting an empty object is a change.
        other => (part == Part::Additions).then_some((key, other)),
    });
    Value::Object(kept.collect())
}

/// Combines additions and deletions.
fn overlay(deletions: &mut Value, additions: Value, path: &str) -> Result<(), DiffError> {
    let (Value::Object(target), Value::Object(additions)) = (deletions, additions) else { return Ok(()) };
    for (key, value) in additions {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (target.get_mut(&key), value) {
            (Some(inner @ Value::Object(_)), value @ Value::Object(_)) => overlay(inner, value, &path)?,
            (Some(_), _) => return Err(DiffError::Conflict { path }),
            (None, value) => {
                target.insert(key, value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merge_patch_contains_only_differences() {
        for (from, to, patch) in [
            (json!({"a": 1}), json!({"a": 1}), json!({})),
            (json!({"a": 1}), json!({"a": 2, "b": {}}), json!({"a": 2, "b": {}})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), json!({"a": {"c": null}})),
            (json!({"a": [1, 2]}), json!({"a": [2]}), json!({"a": [2]})),
            (json!({"a": {"b": 1}}), json!({"a": "x"}), json!({"a": "x"})),
        ] {
            assert_eq!(merge_diff(&from, &to), patch, "{from} → {to}");
        }
    }

    #[test]
    fn foreign_fields_stay_and_dropped_fields_are_removed() {
        let original = json!({"labels": {"mine": "1", "old": "1"}, "n": 1});
        let modified = json!({"labels": {"mine": "2"}, "n": 1});
        let current = json!({"labels": {"mine": "1", "old": "1", "theirs": "1"}, "n": 5, "status": {}});
        let patch = merge_three_way(&original, &modified, &current).unwrap();
        assert_eq!(patch, json!({"labels": {"old": null, "mine": "2"}, "n": 1}));
    }
}
