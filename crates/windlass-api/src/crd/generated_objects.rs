//! Generated objects that match a schema, for property tests.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use rand::{RngExt as _, SeedableRng as _, rngs::ChaCha20Rng};
use serde_json::{Map, Value, json};

use super::CustomResource;

/// An infinite sequence of objects of one kind. Optional fields are present at random. The same seed generates the same
/// objects.
///
/// The objects satisfy bounds, lengths, counts, enums and formats, but not patterns and CEL rules.
///
/// ```
/// # use windlass_api::crd::{CustomResource, GeneratedObjects};
/// # fn example<Website: CustomResource>() -> Result<(), serde_json::Error> {
/// for object in GeneratedObjects::<Website>::seeded(1).take(100) {
///     let website: Website = serde_json::from_value(object)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GeneratedObjects<K> {
    schema: JSONSchemaProps,
    random: ChaCha20Rng,
    kind: std::marker::PhantomData<fn() -> K>,
}

/// The characters of strings: of one byte, of several bytes, and those that must be escaped.
const LETTERS: [char; 8] = ['a', 'b', 'Z', '0', '-', 'é', '漢', '"'];
/// The maximum length of lists, maps and strings, unless the schema requires more.
const LONGEST: i64 = 4;

impl<K: CustomResource> GeneratedObjects<K> {
    /// Creates the sequence of a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let version = K::definition().spec.versions.into_iter().next();
        let schema = version.and_then(|version| version.schema?.open_api_v3_schema).unwrap_or_default();
        Self { schema, random: ChaCha20Rng::seed_from_u64(seed), kind: std::marker::PhantomData }
    }
}

impl<K: CustomResource> Iterator for GeneratedObjects<K> {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let resource = K::api_resource();
        let metadata = json!({"name": "made-up", "labels": {"a": "b"}, "annotations": {"c": "d"}});
        let mut object = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata});
        if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), value(&self.schema, &mut self.random)) {
            object.extend(fields);
        }
        Some(object)
    }
}

fn value(schema: &JSONSchemaProps, random: &mut ChaCha20Rng) -> Value {
    if schema.nullable == Some(true) && random.random_ratio(1, 4) {
        return Value::Null;
    }
    if let Some(values) = schema.enum_.as_deref().filter(|values| !values.is_empty()) {
        return values[random.random_range(0..values.len())].0.clone();
    }
    if schema.x_kubernetes_int_or_string == Some(true) {
        // With a pattern it is a quantity, which types decode from strings.
        return if schema.pattern.is_none() && random.random() {
            json!(random.random_range(0..100))
        } else {
            json!("10")
        };
    }
    match schema.type_.as_deref() {
        Some("boolean") => Value::Bool(random.random()),
        Some("integer") => json!(integer(schema, random)),
        Some("number") => {
            let (least, most) = (schema.minimum.unwrap_or(-8.0), schema.maximum.unwrap_or(8.0));
            json!(least + (most - least).max(0.0) * f64::from(random.random_range(1..8_u8)) / 8.0)
        }
        Some("string") => Value::String(text(schema, random)),
        Some("array") => list(schema, random),
        Some("object") => Value::Object(object(schema, random)),
        _ => json!({"any": random.random_range(0..100)}),
    }
}

fn integer(schema: &JSONSchemaProps, random: &mut ChaCha20Rng) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "bounds of integers are integers")]
    let bound = |bound: Option<f64>| bound.map(|bound| bound as i64);
    let least = bound(schema.minimum).map(|least| least + i64::from(schema.exclusive_minimum == Some(true)));
    let most = bound(schema.maximum).map(|most| most - i64::from(schema.exclusive_maximum == Some(true)));
    let (lowest, highest) = if schema.format.as_deref() == Some("int64") {
        (i64::MIN, i64::MAX)
    } else {
        (i32::MIN.into(), i32::MAX.into())
    };
    let (least, most) = (least.unwrap_or(lowest), most.unwrap_or(highest));
    // Boundary values are most likely to reveal errors.
    match random.random_range(0..4_u8) {
        0 => least,
        1 => most.max(least),
        _ => random.random_range(least..=most.max(least)),
    }
}

fn text(schema: &JSONSchemaProps, random: &mut ChaCha20Rng) -> String {
    match schema.format.as_deref() {
        Some("date-time") => return format!("2026-01-02T03:04:{:02}Z", random.random_range(0..60_u8)),
        Some("date") => return "2026-01-02".to_owned(),
        Some("byte") => return ["", "AA==", "d2luZGxhc3M="][random.random_range(0..3)].to_owned(),
        Some("duration") => return format!("{}s", random.random_range(0..60_u8)),
        _ => {}
    }
    let length = count(schema.min_length, schema.max_length, random);
    (0..length).map(|_| LETTERS[random.random_range(0..LETTERS.len())]).collect()
}

fn list(schema: &JSONSchemaProps, random: &mut ChaCha20Rng) -> Value {
    let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items else { return json!([]) };
    let length = count(schema.min_items, schema.max_items, random);
    let mut items = (0..length).map(|_| value(item, random)).collect::<Vec<_>>();
    if schema.x_kubernetes_list_type.as_deref() == Some("set") {
        let mut kept = Vec::new();
        items.retain(|item| {
            !kept.contains(item) && {
                kept.push(item.clone());
                true
            }
        });
    }
    Value::Array(items)
}

fn object(schema: &JSONSchemaProps, random: &mut ChaCha20Rng) -> Map<String, Value> {
    let mut fields = Map::new();
    // Choose one of several forms. Its required fields are set, and those of the other forms are not.
    let one_of = schema.one_of.as_deref().filter(|forms| !forms.is_empty());
    let form = one_of.map(|forms| &forms[random.random_range(0..forms.len())]);
    let in_forms = |name: &String| {
        one_of.into_iter().flatten().any(|form| form.required.as_ref().is_some_and(|names| names.contains(name)))
    };
    for (name, property) in schema.properties.iter().flatten() {
        let is_required = |schema: &JSONSchemaProps| schema.required.as_ref().is_some_and(|names| names.contains(name));
        let is_there = match form {
            _ if is_required(schema) => true,
            Some(form) if in_forms(name) => is_required(form),
            _ => random.random(),
        };
        if !is_there {
            continue;
        }
        let said = form.and_then(|form| form.properties.as_ref()?.get(name)).filter(|said| said.enum_.is_some());
        fields.insert(name.clone(), value(said.unwrap_or(property), random));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &schema.additional_properties {
        for index in 0..count(schema.min_properties, schema.max_properties, random) {
            fields.insert(format!("key-{index}"), value(values, random));
        }
    }
    fields
}

fn count(least: Option<i64>, most: Option<i64>, random: &mut ChaCha20Rng) -> i64 {
    let least = least.unwrap_or(0);
    let most = most.unwrap_or(least.max(LONGEST)).max(least);
    random.random_range(least..=most.min(least + LONGEST))
}
