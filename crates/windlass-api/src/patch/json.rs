//! JSON patches (RFC 6902) from two states of an object.

use std::borrow::Cow;

use serde_json::{Value, json};

/// Returns the operations that change `from` into `to`, in the order of execution. Empty if both are equal.
///
/// Items of lists have no identity. The common items at the start and end of two lists are retained, and the rest is
/// compared by index.
///
/// ```
/// use serde_json::json;
/// use windlass_api::patch::json_diff;
///
/// let from = json!({"a": 1, "list": ["x", "y"]});
/// assert_eq!(json_diff(&from, &json!({"a": 1, "list": ["y"], "b/c": 2})), [
///     json!({"op": "remove", "path": "/list/0"}),
///     json!({"op": "add", "path": "/b~1c", "value": 2}),
/// ]);
/// ```
#[must_use]
pub fn json_diff(from: &Value, to: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    diff(&mut String::new(), from, to, &mut operations);
    operations
}

/// Appends the operations. `path` is unchanged on return.
fn diff(path: &mut String, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            for (key, before) in from {
                below(path, key, |path| match to.get(key) {
                    Some(after) => diff(path, before, after, operations),
                    None => operations.push(json!({"op": "remove", "path": path})),
                });
            }
            for (key, after) in to.iter().filter(|(key, _)| !from.contains_key(*key)) {
                below(path, key, |path| operations.push(json!({"op": "add", "path": path, "value": after})));
            }
        }
        (Value::Array(from), Value::Array(to)) => {
            let start = from.iter().zip(to).take_while(|(before, after)| before == after).count();
            let (from, to) = (&from[start..], &to[start..]);
            let end = from.iter().rev().zip(to.iter().rev()).take_while(|(before, after)| before == after).count();
            let (from, to) = (&from[..from.len() - end], &to[..to.len() - end]);
            for (place, (before, after)) in from.iter().zip(to).enumerate() {
                below(path, &(start + place).to_string(), |path| diff(path, before, after, operations));
            }
            let both = from.len().min(to.len());
            // In reverse, so that the indices of earlier items stay valid.
            for place in (both..from.len()).rev() {
                below(path, &(start + place).to_string(), |path| {
                    operations.push(json!({"op": "remove", "path": path}));
                });
            }
            for (place, after) in to.iter().enumerate().skip(both) {
                below(path, &(start + place).to_string(), |path| {
                    operations.push(json!({"op": "add", "path": path, "value": after}));
                });
            }
        }
        _ => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

/// Calls `act` with `token` appended to `path`.
fn below(path: &mut String, token: &str, act: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&escaped(token));
    act(path);
    path.truncate(length);
}

/// Escapes a token of a JSON pointer (RFC 6901).
fn escaped(token: &str) -> Cow<'_, str> {
    if token.contains(['~', '/']) { token.replace('~', "~0").replace('/', "~1").into() } else { token.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entropy;

    /// Applies the operations that a diff can contain.
    fn applied(mut value: Value, operations: &[Value]) -> Value {
        for operation in operations {
            let (path, argument) = (operation["path"].as_str().unwrap(), operation["value"].clone());
            if operation["op"] == "replace" {
                *value.pointer_mut(path).unwrap() = argument;
                continue;
            }
            let (parent, token) = path.rsplit_once('/').unwrap();
            let (parent, token) = (value.pointer_mut(parent).unwrap(), token.replace("~1", "/").replace("~0", "~"));
            match (operation["op"].as_str().unwrap(), parent) {
                ("add", Value::Array(list)) => list.insert(token.parse().unwrap(), argument),
                ("add", parent) => assert!(parent.as_object_mut().unwrap().insert(token, argument).is_none()),
                ("remove", Value::Array(list)) => drop(list.remove(token.parse().unwrap())),
                ("remove", parent) => assert!(parent.as_object_mut().unwrap().remove(&token).is_some()),
                other => panic!("{other:?}"),
            }
        }
        value
    }

    fn random(entropy: &Entropy, depth: u64) -> Value {
        match entropy.below(if depth == 0 { 3 } else { 5 }) {
            0 => Value::Null,
            1 => json!(entropy.below(3)),
            2 => json!(["", "a"][usize::try_from(entropy.below(2)).unwrap()]),
            3 => (0..entropy.below(5)).map(|_| random(entropy, depth - 1)).collect(),
            _ => {
                let keys = ["a", "b/c", "~d", "e"].into_iter().filter(|_| entropy.below(2) == 0);
                Value::Object(keys.map(|key| (key.to_owned(), random(entropy, depth - 1))).collect())
            }
        }
    }

    #[test]
    fn applied_diff_gives_the_target_for_any_values() {
        let entropy = Entropy::seeded(6902);
        for _ in 0..5_000 {
            let (from, to) = (random(&entropy, 4), random(&entropy, 4));
            let operations = json_diff(&from, &to);
            assert_eq!(applied(from.clone(), &operations), to, "{from} → {to}: {operations:?}");
        }
    }

    #[test]
    fn diff_changes_only_different_values() {
        let pod = |image: &str| json!({"metadata": {"name": "p"}, "containers": [{"name": "a"}, {"image": image}]});
        let expected = json!({"op": "replace", "path": "/containers/1/image", "value": "2"});
        assert_eq!(json_diff(&pod("1"), &pod("2")), [expected]);
        assert!(json_diff(&pod("1"), &pod("1")).is_empty());
        let inserted = json_diff(&json!([1, 2, 3]), &json!([1, 9, 2, 3]));
        assert_eq!(inserted, [json!({"op": "add", "path": "/1", "value": 9})]);
    }
}
