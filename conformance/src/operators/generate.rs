//! Generation of objects that match the structure of a schema. CEL rules and `not` are ignored, so objects may violate
//! them.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::text;
use crate::seeded_random::SeededRandom;

/// The number of values after which only required fields are added.
const MOST: usize = 300;
/// The length up to which texts are extended to reach a minimum length.
const LONGEST: usize = 2000;

/// A generator of values.
pub(super) struct Generator<'a> {
    pub(super) random: &'a SeededRandom,
    /// The percentage of optional fields.
    pub(super) density: usize,
    /// The number of generated values.
    pub(super) made: Cell<usize>,
}

impl<'a> Generator<'a> {
    pub(super) fn new(random: &'a SeededRandom, density: usize) -> Self {
        Self { random, density, made: Cell::new(0) }
    }

    /// Returns a generated value for a schema.
    pub(super) fn value(&self, schema: &Value) -> Value {
        self.made.set(self.made.get() + 1);
        if schema["nullable"] == true && self.random.chance(5) {
            return Value::Null;
        }
        if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty()) {
            return self.random.pick(values).clone();
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return if self.random.chance(50) { json!(self.integer(schema)) } else { json!(self.text(schema)) };
        }
        match schema["type"].as_str() {
            Some("string") => json!(self.text(schema)),
            Some("number") if self.random.chance(30) => json!(number(schema)),
            Some("integer" | "number") => json!(self.integer(schema)),
            Some("boolean") => json!(self.random.chance(50)),
            Some("array") => self.array(schema),
            Some("object") => self.object(schema),
            _ => self.random.pick(&[json!({"free": [1, "a"]}), json!("free"), json!(7)]).clone(),
        }
    }

    fn optional(&self) -> bool {
        self.made.get() < MOST && self.random.chance(self.density)
    }

    fn text(&self, schema: &Value) -> String {
        let (least, most) = bounds(schema, "minLength", "maxLength");
        let least = least.min(LONGEST);
        if let Some(found) = schema["format"].as_str().and_then(text::of_format) {
            return found.to_owned();
        }
        let mut patterns = vec![schema];
        patterns.extend(schema["allOf"].as_array().into_iter().flatten());
        let pattern = patterns.iter().find_map(|schema| schema["pattern"].as_str());
        if let Some(found) = pattern.and_then(|pattern| text::matching(pattern, (least, most), self.random)) {
            return found;
        }
        let word: &&str = self.random.pick(&["a", "10m", "example.com", "1", "Always"]);
        let word: String = word.chars().take(most).collect();
        format!("{word}{}", "x".repeat(least.saturating_sub(word.len())))
    }

    fn integer(&self, schema: &Value) -> i64 {
        let exclusive = |key: &str| i64::from(schema[key] == true);
        let least = schema["minimum"].as_i64().map(|bound| bound + exclusive("exclusiveMinimum"));
        let most = schema["maximum"].as_i64().map(|bound| bound - exclusive("exclusiveMaximum"));
        let step = schema["multipleOf"].as_i64().unwrap_or(1);
        let wanted = i64::try_from(self.random.below(5)).unwrap_or_default() * step;
        wanted.max(least.unwrap_or(i64::MIN)).min(most.unwrap_or(i64::MAX))
    }

    fn array(&self, schema: &Value) -> Value {
        let (least, most) = bounds(schema, "minItems", "maxItems");
        let wanted = if self.made.get() < MOST { self.random.below(3) } else { 0 };
        let mut items = Vec::<Value>::new();
        // There may be too few keys for all items.
        for _ in 0..20 {
            if items.len() >= wanted.max(least).min(most) {
                break;
            }
            let item = self.value(&schema["items"]);
            if !items.iter().any(|other| collide(schema, other, &item)) {
                items.push(item);
            }
        }
        Value::Array(items)
    }

    fn object(&self, schema: &Value) -> Value {
        let mut object = Map::new();
        if schema["x-kubernetes-embedded-resource"] == true {
            object = Map::from_iter([
                ("apiVersion".to_owned(), json!("v1")),
                ("kind".to_owned(), json!("ConfigMap")),
                ("metadata".to_owned(), json!({"name": "inner"})),
            ]);
        }
        let mut required = names(&schema["required"]);
        let mut absent = Vec::new();
        self.choose(schema, &mut required, &mut absent);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let needed = required.iter().any(|required| required == name);
            let admitted = !absent.contains(name) && !object.contains_key(name);
            if admitted && (needed || self.optional()) {
                object.insert(name.clone(), self.value(property));
            }
        }
        let additional = &schema["additionalProperties"];
        if additional.is_object() {
            let (least, most) = bounds(schema, "minProperties", "maxProperties");
            let wanted = if self.optional() { 2 } else { 0 };
            for key in ["a", "example.com/b", "c"].iter().take(least.max(wanted).min(most)) {
                object.insert((*key).to_owned(), self.value(additional));
            }
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true && self.optional() {
            object.insert("unknownButKept".to_owned(), json!({"a": [1, null], "b": ""}));
        }
        Value::Object(object)
    }

    /// Selects one branch of several alternatives: adds its required fields, and excludes fields that only others
    /// require.
    fn choose(&self, schema: &Value, required: &mut Vec<String>, absent: &mut Vec<String>) {
        for key in ["oneOf", "anyOf"] {
            let Some(branches) = schema[key].as_array().filter(|branches| !branches.is_empty()) else { continue };
            let chosen = self.random.pick(branches);
            required.extend(names(&chosen["required"]));
            let others = branches.iter().flat_map(|branch| names(&branch["required"]));
            absent.extend(others.filter(|name| !required.contains(name)));
        }
        for branch in schema["allOf"].as_array().into_iter().flatten() {
            self.choose(branch, required, absent);
        }
    }
}

/// Returns a number with a fraction, if the maximum allows it.
fn number(schema: &Value) -> f64 {
    let most = schema["maximum"].as_f64().unwrap_or(f64::MAX);
    (schema["minimum"].as_f64().unwrap_or(0.0) + 0.5).min(most)
}

/// Reports whether two items conflict in one list.
pub(super) fn collide(schema: &Value, one: &Value, other: &Value) -> bool {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => one == other,
        Some("map") => names(&schema["x-kubernetes-list-map-keys"]).iter().all(|key| one[key] == other[key]),
        _ => schema["uniqueItems"] == true && one == other,
    }
}

/// Returns the strings of a list.
pub(super) fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Returns the lower and upper bound.
fn bounds(schema: &Value, least: &str, most: &str) -> (usize, usize) {
    let bound = |key: &str| schema[key].as_u64().and_then(|bound| usize::try_from(bound).ok());
    (bound(least).unwrap_or(0), bound(most).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_objects_have_required_fields_and_unique_keys() {
        let schema = json!({"type": "object", "required": ["list"], "properties": {
            "list": {"type": "array", "minItems": 2, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                     "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}}}},
            "maybe": {"type": "string"}}});
        let random = SeededRandom::of(1, 1);
        let value = Generator::new(&random, 0).value(&schema);
        assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["list"]);
        let items = value["list"].as_array().unwrap();
        assert!(items.len() == 2 && items[0]["k"] != items[1]["k"], "{value}");
        let full = Generator::new(&random, 100).value(&schema);
        assert!(full["maybe"].is_string(), "{full}");
    }

    #[test]
    fn one_of_several_branches_is_generated() {
        let branches = json!([{"required": ["a"]}, {"required": ["b"]}]);
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {"a": text, "b": text}, "oneOf": branches});
        for number in 0..8 {
            let random = SeededRandom::of(1, number);
            let value = Generator::new(&random, 100).value(&schema);
            assert_eq!(value.as_object().unwrap().len(), 1, "{value}");
        }
    }
}
