//! Transfer of changes from a typed object to the original object.

use serde_json::{Map, Value};

/// Applies the difference between `before` and `after` to `came`, and leaves the rest of `came` unchanged.
///
/// `before` and `after` are encodings of the typed object. Fields that the type does not know occur only in `came`.
/// Fields that the type adds on encoding occur in both encodings. List items are matched by position: first the common
/// items at the beginning and the end, then the remaining items if their number is equal. Other items are taken from
/// `came` if `before` contained an equal item.
pub(super) fn carried_over(came: Value, before: &Value, after: &Value) -> Value {
    match (came, before, after) {
        (came, before, after) if before == after => came,
        (Value::Object(came), Value::Object(before), Value::Object(after)) => {
            Value::Object(object(came, before, after))
        }
        (Value::Array(came), Value::Array(before), Value::Array(after)) if came.len() == before.len() => {
            Value::Array(list(came, before, after))
        }
        (_, _, after) => after.clone(),
    }
}

fn object(mut came: Map<String, Value>, before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    for gone in before.keys().filter(|key| !after.contains_key(*key)) {
        came.shift_remove(gone);
    }
    for (key, after) in after {
        match (came.get_mut(key), before.get(key)) {
            (Some(place), Some(before)) => *place = carried_over(place.take(), before, after),
            // The encoding has added this value, and the mutator has not changed it.
            (None, Some(before)) if before == after => {}
            _ => {
                came.insert(key.clone(), after.clone());
            }
        }
    }
    came
}

fn list(came: Vec<Value>, before: &[Value], after: &[Value]) -> Vec<Value> {
    let start = before.iter().zip(after).take_while(|(before, after)| before == after).count();
    let end = before[start..].iter().rev().zip(after[start..].iter().rev()).take_while(|(b, a)| b == a).count();
    let (old, new) = (&before[start..before.len() - end], &after[start..after.len() - end]);
    let mut came = came;
    let tail = came.split_off(came.len() - end);
    let middle = came.split_off(start);
    if old.len() == new.len() {
        came.extend(middle.into_iter().zip(old.iter().zip(new)).map(|(came, (old, new))| carried_over(came, old, new)));
    } else {
        let known = |new: &Value| old.iter().position(|old| old == new).map(|place| middle[place].clone());
        came.extend(new.iter().map(|new| known(new).unwrap_or_else(|| new.clone())));
    }
    came.extend(tail);
    came
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overlay_keeps_unknown_and_skips_added_fields() {
        let came = json!({"spec": {"replicas": 1, "new": {"x": 1}}, "later": true});
        let before = json!({"spec": {"replicas": 1}, "status": {}});
        let after = json!({"spec": {"replicas": 3}, "status": {}});
        let expected = json!({"spec": {"replicas": 3, "new": {"x": 1}}, "later": true});
        assert_eq!(carried_over(came.clone(), &before, &after), expected);
        assert_eq!(carried_over(came.clone(), &before, &before), came);
        let removed = carried_over(came, &before, &json!({"status": {}}));
        assert_eq!(removed, json!({"later": true}), "a removed field is removed with its content");
    }

    #[test]
    fn list_items_keep_unknown_fields() {
        let came = json!([{"name": "a", "new": 1}, {"name": "b", "new": 2}, {"name": "c", "new": 3}]);
        let before = json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]);
        let changed = json!([{"name": "a"}, {"name": "b", "image": "i"}, {"name": "c"}]);
        let expected = json!([{"name": "a", "new": 1}, {"name": "b", "new": 2, "image": "i"}, {"name": "c", "new": 3}]);
        assert_eq!(carried_over(came.clone(), &before, &changed), expected);
        let shorter = carried_over(came.clone(), &before, &json!([{"name": "c"}]));
        assert_eq!(shorter, json!([{"name": "c", "new": 3}]));
        let moved = carried_over(came, &before, &json!([{"name": "z"}, {"name": "b"}, {"name": "a"}, {"name": "y"}]));
        assert_eq!(moved, json!([{"name": "z"}, {"name": "b", "new": 2}, {"name": "a", "new": 1}, {"name": "y"}]));
    }
}
