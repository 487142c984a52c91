//! Mutation of request bodies.

use serde_json::{Value, json};

use super::{schema::Schemas, sequence::Body};
use crate::seeded_random::SeededRandom;

/// A generator of mutated bodies.
pub(super) struct Mutator<'a> {
    pub(super) random: &'a SeededRandom,
    pub(super) schemas: &'a Schemas,
    /// The name of the schema of complete objects.
    pub(super) root: String,
}

/// The position of a value in a document.
type Place = Vec<String>;

impl Mutator<'_> {
    /// Returns a body with one or two changes.
    pub(super) fn mutated(&self, body: &Value) -> Body {
        let mut body = body.clone();
        if self.random.chance(3) {
            return Body::Text(self.spoilt_text(&body));
        }
        for _ in 0..=self.random.below(2) {
            self.mutate(&mut body);
        }
        Body::Json(body)
    }

    /// Returns a part of the body as a patch.
    pub(super) fn part(&self, body: &Value) -> Value {
        let places = places(body);
        let place = self.random.pick(&places);
        let mut part = at(body, place).cloned().unwrap_or_default();
        for name in place.iter().rev() {
            part = match name.parse::<usize>() {
                Ok(_) => json!([part]),
                Err(_) => json!({name: part}),
            };
        }
        part
    }

    /// Returns a generated value for a path of the object.
    pub(super) fn generated(&self, path: &[&str]) -> Value {
        let mut schema = self.schemas.named(&self.root);
        for name in path {
            schema = schema.map(|schema| &self.schemas.resolve(schema).0["properties"][*name]);
        }
        schema
            .filter(|schema| !schema.is_null())
            .map_or_else(|| json!({}), |schema| self.schemas.value(schema, self.random, 0))
    }

    /// Returns a JSON patch for the object.
    pub(super) fn operations(&self, body: &Value) -> Value {
        let places = places(body);
        let operation = || {
            let pointer =
                |place: &Place| place.iter().map(|name| format!("/{}", name.replace('/', "~1"))).collect::<String>();
            let mut path = pointer(self.random.pick(&places));
            if self.random.chance(15) {
                let end: &&str = self.random.pick(&["/none", "/-", "/0", "/", "~"]);
                path.push_str(end);
            }
            let from = pointer(self.random.pick(&places));
            let value = if self.random.chance(50) {
                self.odd()
            } else {
                at(body, self.random.pick::<Place>(&places)).cloned().unwrap_or_default()
            };
            match self.random.below(7) {
                0..=1 => json!({"op": "add", "path": path, "value": value}),
                2 => json!({"op": "remove", "path": path}),
                3 => json!({"op": "replace", "path": path, "value": value}),
                4 => json!({"op": "copy", "from": from, "path": path}),
                5 => json!({"op": "move", "from": from, "path": path}),
                _ => json!({"op": "test", "path": path, "value": value}),
            }
        };
        (0..=self.random.below(2)).map(|_| operation()).collect()
    }

    fn mutate(&self, body: &mut Value) {
        let places = places(body);
        // Name and labels identify the object.
        let others: Vec<_> =
            places.iter().filter(|place| place.first().is_none_or(|name| name != "metadata")).collect();
        let place = if others.is_empty() { &places[0] } else { *self.random.pick(&others) };
        match self.random.below(12) {
            0..=1 => remove(body, place),
            2..=3 => set(body, place, self.odd()),
            4..=7 => self.add_known(body),
            8 => {
                if let Some(Value::Array(items)) = at_mut(body, place)
                    && let Some(first) = items.first().cloned()
                {
                    items.push(first);
                }
            }
            9 => {
                if let Some(Value::Object(fields)) = at_mut(body, place) {
                    fields.insert((*self.random.pick(&["bogus", "Name", "$patch", ""])).to_owned(), self.odd());
                }
            }
            10 => self.mutate_metadata(body),
            _ => {
                if let Some(value) = at_mut(body, place) {
                    *value = json!([value.take()]);
                }
            }
        }
    }

    /// Adds a field from its schema.
    fn add_known(&self, body: &mut Value) {
        let Some(mut schema) = self.schemas.named(&self.root) else { return };
        let mut value = body;
        loop {
            schema = self.schemas.resolve(schema).0;
            if let Value::Array(items) = value {
                if items.is_empty() {
                    return;
                }
                let index = self.random.below(items.len());
                value = &mut items[index];
                schema = &schema["items"];
                continue;
            }
            let (Some(properties), Value::Object(fields)) = (schema["properties"].as_object(), value) else { return };
            let inner: Vec<String> = fields
                .iter()
                .filter(|(name, value)| {
                    properties.contains_key(*name) && *name != "metadata" && (value.is_object() || value.is_array())
                })
                .map(|(name, _)| name.clone())
                .collect();
            if !inner.is_empty() && self.random.chance(75) {
                let name = self.random.pick(&inner);
                schema = &properties[name];
                let Some(next) = fields.get_mut(name) else { return };
                value = next;
                continue;
            }
            let known: Vec<_> =
                properties.keys().filter(|name| !matches!(name.as_str(), "metadata" | "apiVersion" | "kind")).collect();
            if known.is_empty() {
                return;
            }
            let name = *self.random.pick(&known);
            fields.insert(name.clone(), self.schemas.value(&properties[name], self.random, 0));
            return;
        }
    }

    fn mutate_metadata(&self, body: &mut Value) {
        let Some(Value::Object(metadata)) = body.get_mut("metadata") else { return };
        let (name, value) = self
            .random
            .pick(&[
                ("finalizers", json!(["example.com/a"])),
                ("finalizers", json!(["odd"])),
                ("finalizers", json!(["orphan", "foregroundDeletion"])),
                (
                    "ownerReferences",
                    json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true}]),
                ),
                ("ownerReferences", json!([{"kind": "Pod"}])),
                ("annotations", json!({"a": "b"})),
                ("annotations", json!({"Bad key!": "b"})),
                ("annotations", Value::Null),
                ("generateName", json!("g-")),
                ("resourceVersion", json!("1")),
                ("resourceVersion", json!("x")),
                ("uid", json!("x")),
                ("generation", json!(-1)),
                ("generation", json!(7)),
                ("creationTimestamp", Value::Null),
                ("creationTimestamp", json!("x")),
                ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
                ("managedFields", json!([{"manager": "x"}])),
                ("managedFields", json!([{}])),
                ("namespace", json!("elsewhere")),
                ("labels", json!({"case": "{id}", "l": "m"})),
                ("labels", json!({"case": "{id}", "l": 1})),
                ("labels", json!({"case": "{id}", "l": null})),
            ])
            .clone();
        metadata.insert(name.to_owned(), value);
    }

    /// Returns a value that is unlikely to match the schema.
    fn odd(&self) -> Value {
        self.random
            .pick(&[
                Value::Null,
                json!(""),
                json!("x"),
                json!("Bad_"),
                json!("{repeat n 300}"),
                json!(0),
                json!(-1),
                json!(1.5),
                json!(1e3),
                json!(4_294_967_296_u64),
                json!(u64::MAX),
                json!(true),
                json!([]),
                json!({}),
                json!([null]),
                json!([""]),
                json!({"a": null}),
                json!({"a": {"b": []}}),
                json!("1Gi"),
                json!("é\u{1F600}"),
            ])
            .clone()
    }

    /// Returns malformed or unusual JSON.
    fn spoilt_text(&self, body: &Value) -> String {
        let text = body.to_string();
        let inside = &text[1..text.len().max(2) - 1];
        match self.random.below(6) {
            0 => format!("{{{inside},{inside}}}"),
            1 => format!("{{{inside}"),
            2 => format!("{{{inside}}}}}"),
            3 => format!("{{\"bogus\":{}1{},{inside}}}", "[".repeat(60), "]".repeat(60)),
            4 => text.replacen('"', "'", 2),
            _ => format!("[{text}]"),
        }
    }
}

/// Returns all positions in a value, the root first.
fn places(value: &Value) -> Vec<Place> {
    let mut all = vec![Vec::new()];
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let below = places(value).into_iter().map(|mut place| {
            place.insert(0, name.clone());
            place
        });
        all.extend(below);
    }
    all
}

fn at<'v>(value: &'v Value, place: &[String]) -> Option<&'v Value> {
    place.iter().try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

fn at_mut<'v>(value: &'v mut Value, place: &[String]) -> Option<&'v mut Value> {
    place.iter().try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get_mut(name),
        Value::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        _ => None,
    })
}

fn set(value: &mut Value, place: &[String], to: Value) {
    if place.is_empty() {
        return;
    }
    if let Some(at) = at_mut(value, place) {
        *at = to;
    }
}

/// Removes the value at a position; the root cannot be removed.
pub(super) fn remove(value: &mut Value, place: &[String]) {
    let Some((name, around)) = place.split_last() else { return };
    match at_mut(value, around) {
        Some(Value::Object(fields)) => drop(fields.shift_remove(name)),
        Some(Value::Array(items)) => {
            if let Some(index) = name.parse().ok().filter(|index| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

/// Returns all positions in a value except the root, the largest parts first.
pub(super) fn parts(value: &Value) -> Vec<Place> {
    let mut all: Vec<_> = places(value).into_iter().filter(|place| !place.is_empty()).collect();
    all.sort_by_key(Vec::len);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_taken_away() {
        let mut value = json!({"a": [{"b": 1}], "c": 2});
        assert_eq!(places(&value).len(), 5);
        assert_eq!(parts(&value)[0], ["a"]);
        remove(&mut value, &["a".to_owned(), "0".to_owned(), "b".to_owned()]);
        remove(&mut value, &["c".to_owned()]);
        assert_eq!(value, json!({"a": [{}]}));
    }
}
