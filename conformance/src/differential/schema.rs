//! Generation of object content from the recorded schemas.

use std::{collections::HashMap, fs};

use serde_json::{Map, Value, json};

use crate::{matrix::Kind, seeded_random::SeededRandom, suite::root};

const FILE: &str = "../crates/windlass-api/data/openapi.tsv";
/// The maximum depth of generated values.
const DEEPEST: usize = 4;

/// The schemas by name.
#[derive(Debug)]
pub(super) struct Schemas(HashMap<String, Value>);

const TEXTS: [&str; 20] = [
    "",
    "a",
    "x",
    "Bad_",
    "a.b",
    "a/b",
    "-",
    "example.com/a",
    "a b",
    "é",
    "True",
    "1",
    "0",
    "Always",
    "None",
    "TCP",
    "In",
    "192.0.2.1",
    "{repeat n 64}",
    "{id}",
];
const QUANTITIES: [&str; 9] = ["1", "100m", "-1", "0.5", "1Gi", "1e3", "0", "1.5Gi", "x"];

/// Returns the name of a kind's schema.
pub(super) fn schema_of(kind: &Kind) -> String {
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("core", &kind.api_version));
    let group = group.split('.').next().unwrap_or(group);
    format!("io.k8s.api.{group}.{version}.{}", kind.kind)
}

impl Schemas {
    pub(super) fn read() -> Self {
        let text = fs::read_to_string(root().join(FILE)).unwrap_or_else(|error| panic!("{FILE}: {error}"));
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        Self(lines.filter_map(|(name, schema)| Some((name.to_owned(), serde_json::from_str(schema).ok()?))).collect())
    }

    /// Returns a schema by name.
    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Resolves a reference. Returns the schema, and its name if it was a reference.
    pub(super) fn resolve<'a>(&'a self, schema: &'a Value) -> (&'a Value, &'a str) {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        let name = reference.and_then(|reference| reference.rsplit('/').next()).unwrap_or_default();
        (self.named(name).unwrap_or(schema), name)
    }

    /// Returns a generated value for the schema.
    pub(super) fn value(&self, schema: &Value, random: &SeededRandom, depth: usize) -> Value {
        let (schema, name) = self.resolve(schema);
        match name.rsplit('.').next().unwrap_or_default() {
            "Quantity" => return json!(random.pick(&QUANTITIES)),
            "IntOrString" => {
                return random.pick(&[json!(1), json!("25%"), json!(-1), json!("x"), json!(70000)]).clone();
            }
            "Time" => {
                return random
                    .pick(&[json!("2020-01-01T00:00:00Z"), json!("2020-01-01T01:00:00+01:00"), Value::Null, json!("x")])
                    .clone();
            }
            "MicroTime" => {
                return random
                    .pick(&[json!("2020-01-01T00:00:00.000000Z"), Value::Null, json!("2020-01-01T00:00:00Z")])
                    .clone();
            }
            "ObjectMeta" => return json!({"labels": {"a": random.pick(&TEXTS)}}),
            _ => {}
        }
        if let Some(values) = schema["enum"].as_array().filter(|values| !values.is_empty() && random.chance(80)) {
            return random.pick(values).clone();
        }
        match schema["type"].as_str().unwrap_or_default() {
            "string" if schema["format"] == "byte" => random.pick(&[json!("AAE="), json!(""), json!("?")]).clone(),
            "string" => json!(random.pick(&TEXTS)),
            "integer" => {
                random.pick(&[json!(0), json!(1), json!(-1), json!(80), json!(70000), json!(2_147_483_648_u64)]).clone()
            }
            "number" => random.pick(&[json!(0), json!(1.5), json!(-1)]).clone(),
            "boolean" => json!(random.chance(50)),
            "array" if depth < DEEPEST => {
                (0..random.below(3)).map(|_| self.value(&schema["items"], random, depth + 1)).collect()
            }
            "array" => json!([]),
            _ if depth >= DEEPEST => json!({}),
            _ => self.object(schema, random, depth),
        }
    }

    fn object(&self, schema: &Value, random: &SeededRandom, depth: usize) -> Value {
        let mut object = Map::new();
        if let Some(properties) = schema["properties"].as_object() {
            let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
            let some = 150 / properties.len().max(1) + 5;
            for (name, property) in properties {
                let needed = required.iter().any(|required| required == name);
                if random.chance(if needed { 90 } else { some.min(60) }) {
                    object.insert(name.clone(), self.value(property, random, depth + 1));
                }
            }
        } else if !schema["additionalProperties"].is_null() {
            for key in ["a", "cpu", "Bad key!"].iter().take(random.below(3)) {
                object.insert((*key).to_owned(), self.value(&schema["additionalProperties"], random, depth + 1));
            }
        }
        Value::Object(object)
    }
}
