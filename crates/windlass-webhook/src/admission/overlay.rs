//! A change to an object as its type has it, carried over to the object as it came.

use serde_json::{Map, Value};

/// Makes of `came` what makes `after` of `before`, and leaves all the rest of it alone.
///
/// `before` and `after` are what a type has of the object: fields that it does not know are in `came` alone, and what it
/// adds when it is encoded is in both. Items of lists have no names: what both lists have in common at their beginnings and
/// ends belongs together, and so does the rest if it has the same length; other items are taken from `came` if `before` had
/// the same.
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
            // The type has made it of nothing, and nobody has touched it.
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
    fn what_the_type_does_not_know_stays_and_what_it_adds_by_itself_is_not_added() {
        let came = json!({"spec": {"replicas": 1, "new": {"x": 1}}, "later": true});
        let before = json!({"spec": {"replicas": 1}, "status": {}});
        let after = json!({"spec": {"replicas": 3}, "status": {}});
        let expected = json!({"spec": {"replicas": 3, "new": {"x": 1}}, "later": true});
        assert_eq!(carried_over(came.clone(), &before, &after), expected);
        assert_eq!(carried_over(came.clone(), &before, &before), came);
        let removed = carried_over(came, &before, &json!({"status": {}}));
        assert_eq!(removed, json!({"later": true}), "what is removed goes with all that is in it");
    }

    #[test]
    fn items_of_lists_keep_what_the_type_does_not_know() {
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
