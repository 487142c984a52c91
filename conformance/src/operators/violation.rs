//! Generation of objects that violate a structural schema: valid objects with one invalid value.

use serde_json::{Value, json};

use super::generate::{collide, names};
use crate::seeded_random::SeededRandom;

/// The maximum length of generated texts and lists.
const LONGEST: u64 = 5000;

/// The kind of violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ViolationKind {
    Type,
    Null,
    Required,
    Enum,
    Pattern,
    Format,
    Range,
    Length,
    Count,
    Unknown,
    Keys,
    Whole,
}

/// A violation and its place.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) kind: ViolationKind,
    /// The place as a JSON pointer.
    place: String,
    /// The new value. `None` removes the value.
    value: Option<Value>,
}

impl Violation {
    /// Returns the object with the violation.
    pub(super) fn of(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let (parent, name) = self.place.rsplit_once('/').unwrap_or_default();
        let name = name.replace("~1", "/").replace("~0", "~");
        match (object.pointer_mut(parent), &self.value) {
            (Some(Value::Object(fields)), Some(value)) => drop(fields.insert(name, value.clone())),
            (Some(Value::Object(fields)), None) => drop(fields.shift_remove(&name)),
            (Some(Value::Array(items)), Some(value)) => {
                if let Some(item) = name.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                    *item = value.clone();
                }
            }
            _ => {}
        }
        object
    }
}

/// Returns up to `wanted` violations of as many different kinds as possible.
pub(super) fn violations(schema: &Value, object: &Value, random: &SeededRandom, wanted: usize) -> Vec<Violation> {
    let mut all = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if !matches!(&**name, "apiVersion" | "kind" | "metadata")
            && let Some(value) = object.get(name)
        {
            collect(property, value, &format!("/{name}"), random, &mut all);
        }
    }
    for name in names(&schema["required"]) {
        all.push(Violation { kind: ViolationKind::Required, place: format!("/{name}"), value: None });
    }
    random.shuffle(&mut all);
    // Takes one violation of each kind in turn.
    let mut chosen = Vec::new();
    while chosen.len() < wanted && !all.is_empty() {
        let mut seen = Vec::new();
        all.retain(|violation: &Violation| {
            let new = chosen.len() < wanted && !seen.contains(&violation.kind);
            if new {
                seen.push(violation.kind);
                chosen.push(violation.clone());
            }
            !new
        });
    }
    chosen
}

/// Collects all violations at a place and below.
fn collect(schema: &Value, value: &Value, place: &str, random: &SeededRandom, all: &mut Vec<Violation>) {
    let mut put = |kind, at: &str, value| {
        all.push(Violation { kind, place: format!("{place}{at}"), value: Some(value) });
    };
    let odd = [json!("odd"), json!(3), json!(true), json!({"a": 1}), json!([1]), json!(1.5)];
    put(ViolationKind::Type, "", random.pick(&odd).clone());
    if schema["nullable"] != true {
        put(ViolationKind::Null, "", Value::Null);
    }
    if !schema["enum"].is_null() {
        put(ViolationKind::Enum, "", json!("Odd"));
    }
    for key in ["oneOf", "anyOf", "not"] {
        if !schema[key].is_null() {
            put(ViolationKind::Whole, "", if value.is_object() { json!({}) } else { json!("-?") });
        }
    }
    match value {
        Value::String(_) => {
            if !schema["pattern"].is_null() {
                put(ViolationKind::Pattern, "", json!(*random.pick(&["", " ?", "É", "-a_", "a b"])));
            }
            if !schema["format"].is_null() {
                put(ViolationKind::Format, "", json!(*random.pick(&["", "odd", "2020-13-01T00:00:00Z", "?"])));
            }
            if let Some(least) = schema["minLength"].as_u64().filter(|least| *least > 0) {
                put(ViolationKind::Length, "", json!("a".repeat(usize::try_from(least - 1).unwrap_or_default())));
            }
            if let Some(most) = schema["maxLength"].as_u64().filter(|most| *most < LONGEST) {
                put(ViolationKind::Length, "", json!("a".repeat(usize::try_from(most + 1).unwrap_or_default())));
            }
        }
        Value::Number(_) => {
            if let Some(least) = schema["minimum"].as_i64() {
                put(ViolationKind::Range, "", json!(least.saturating_sub(1)));
            }
            if let Some(most) = schema["maximum"].as_i64() {
                put(ViolationKind::Range, "", json!(most.saturating_add(1)));
            }
            let large = [json!(2_147_483_648_u64), json!(9_223_372_036_854_775_808_u64), json!(1e40)];
            put(ViolationKind::Format, "", random.pick(&large).clone());
        }
        Value::Array(items) => {
            violate_list(schema, items, &mut put);
            for (index, item) in items.iter().enumerate() {
                collect(&schema["items"], item, &format!("{place}/{index}"), random, all);
            }
        }
        Value::Object(fields) => {
            put(ViolationKind::Unknown, "/odd", json!({"a": 1}));
            for name in names(&schema["required"]).into_iter().filter(|name| fields.contains_key(name)) {
                all.push(Violation { kind: ViolationKind::Required, place: format!("{place}/{name}"), value: None });
            }
            for (name, field) in fields {
                let properties = &schema["properties"][name];
                let inner = if properties.is_null() { &schema["additionalProperties"] } else { properties };
                if inner.is_object() {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    collect(inner, field, &format!("{place}/{name}"), random, all);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn violate_list(schema: &Value, items: &[Value], put: &mut impl FnMut(ViolationKind, &str, Value)) {
    let Some(first) = items.first() else { return };
    if schema["minItems"].as_u64().is_some_and(|least| least > 0) {
        put(ViolationKind::Count, "", json!([]));
    }
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| *most < 300) {
        put(ViolationKind::Count, "", (0..=most).map(|_| first.clone()).collect());
    }
    if collide(schema, first, first) {
        put(ViolationKind::Keys, "", items.iter().chain([first]).cloned().collect());
    }
    for key in names(&schema["x-kubernetes-list-map-keys"]) {
        let mut without = first.clone();
        if without.as_object_mut().and_then(|fields| fields.shift_remove(&key)).is_some() {
            put(ViolationKind::Keys, "/0", without);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_break_an_object_changes_it() {
        let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {
            "type": "object", "required": ["size"], "properties": {
                "size": {"type": "integer", "minimum": 1},
                "name": {"type": "string", "pattern": "^a$", "maxLength": 3},
                "a/b": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}}}});
        let object = json!({"spec": {"size": 1, "name": "a", "a/b": ["x"]}});
        let random = SeededRandom::of(1, 1);
        let all = violations(&schema, &object, &random, 100);
        assert!(all.iter().all(|violation| violation.of(&object) != object), "{all:?}");
        for kind in [
            ViolationKind::Required,
            ViolationKind::Range,
            ViolationKind::Pattern,
            ViolationKind::Length,
            ViolationKind::Keys,
        ] {
            assert!(all.iter().any(|violation| violation.kind == kind), "{kind:?} in {all:?}");
        }
        let few = violations(&schema, &object, &random, 4);
        let mut kinds: Vec<_> = few.iter().map(|violation| violation.kind).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), 4, "the first ones differ: {few:?}");
    }
}
