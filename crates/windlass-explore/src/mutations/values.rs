//! Other values for a field, and minimal values for new fields.

use serde_json::{Map, Number, Value, json};

use super::texts;

/// The maximum number of other values of an enumeration.
const CHOICES: usize = 8;
/// The largest bound of a schema that is used as a value. A program with a million replicas is no test.
const BOUND: i64 = 100;
/// The largest port, which is used nevertheless.
const PORT: i64 = 65_535;
/// The maximum depth of minimal values.
const DEPTH: usize = 8;
/// The keys of new entries of maps.
const KEYS: [&str; 2] = ["windlass", "example.com/windlass"];

/// The fields that every embedded object needs.
fn embedded() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "windlass"}})
}

/// Returns other values that a schema accepts for a scalar field.
pub(super) fn others(schema: &Value, current: &Value) -> Vec<Value> {
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().filter(|choice| *choice != current).take(CHOICES).cloned().collect();
    }
    match current {
        Value::Bool(flag) => vec![json!(!flag)],
        Value::Number(number) => numbers(schema, number),
        Value::String(text) => texts::others(schema, Some(text)).into_iter().map(Value::String).collect(),
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

/// Returns values for a new field.
pub(super) fn new(schema: &Value) -> Vec<Value> {
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().take(CHOICES).cloned().collect();
    }
    match kind(schema) {
        "boolean" => vec![json!(true), json!(false)],
        "string" => texts::others(schema, None).into_iter().map(Value::String).collect(),
        "integer" | "number" => {
            let Some(Value::Number(first)) = minimal(schema) else { return Vec::new() };
            let more = numbers(schema, &first).into_iter().take(1);
            std::iter::once(Value::Number(first.clone())).chain(more).collect()
        }
        "array" => {
            let items = minimal_items(schema, 1.max(bound(schema, "minItems").unwrap_or_default()), &[], 0);
            items.map(Value::Array).into_iter().collect()
        }
        _ => minimal(schema).into_iter().collect(),
    }
}

/// Returns a minimal value that a schema accepts; `None` if none is found.
pub(super) fn minimal(schema: &Value) -> Option<Value> {
    minimal_at(schema, 0)
}

fn minimal_at(schema: &Value, depth: usize) -> Option<Value> {
    if depth > DEPTH {
        return None;
    }
    if !schema["default"].is_null() {
        return Some(schema["default"].clone());
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.first().cloned();
    }
    match kind(schema) {
        "boolean" => Some(json!(true)),
        "string" => texts::others(schema, None).into_iter().next().map(Value::String),
        "integer" | "number" => number_near(schema, 1),
        "array" => minimal_items(schema, bound(schema, "minItems").unwrap_or_default(), &[], depth).map(Value::Array),
        "object" => minimal_object(schema, depth).map(Value::Object),
        _ => None,
    }
}

/// Returns one more item for a list, which differs from the others where the schema requires it.
pub(super) fn item(schema: &Value, items: &[Value]) -> Option<Value> {
    minimal_items(schema, 1, items, 0)?.pop()
}

/// Returns a new entry for a map.
pub(super) fn entry(schema: &Value, entries: &Map<String, Value>) -> Option<(String, Value)> {
    let key = KEYS.iter().find(|key| !entries.contains_key(**key))?;
    Some(((*key).to_owned(), minimal(&schema["additionalProperties"])?))
}

/// Returns a number of new items for a list.
fn minimal_items(schema: &Value, number: usize, existing: &[Value], depth: usize) -> Option<Vec<Value>> {
    let items = &schema["items"];
    let first = minimal_at(items, depth + 1)?;
    let mut new: Vec<Value> = Vec::new();
    while new.len() < number {
        let collides = |item: &Value| existing.iter().chain(&new).any(|other| collide(schema, other, item));
        if !collides(&first) {
            new.push(first.clone());
            continue;
        }
        let item = distinct(schema, items, &first).into_iter().find(|item| !collides(item))?;
        new.push(item);
    }
    Some(new)
}

/// Returns items with other keys.
fn distinct(schema: &Value, items: &Value, first: &Value) -> Vec<Value> {
    let others_of = |schema: &Value, value: &Value| {
        let mut values = others(schema, value);
        // Each one has a number, so there are more with the next ones.
        for at in 0..3 {
            let more = values.get(at).map(|value| others(schema, value)).unwrap_or_default();
            values.extend(more);
        }
        values
    };
    if schema["x-kubernetes-list-type"] != "map" {
        return others_of(items, first);
    }
    let keys = names(&schema["x-kubernetes-list-map-keys"]);
    let with_key = |key: &String| {
        let property = &items["properties"][key];
        let values = others_of(property, &first[key]);
        let with = |value: Value| {
            let mut item = first.clone();
            item[key] = value;
            item
        };
        values.into_iter().map(with).collect::<Vec<_>>()
    };
    keys.iter().flat_map(with_key).collect()
}

/// Returns `true` if two items cannot be in one list.
fn collide(schema: &Value, one: &Value, other: &Value) -> bool {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => one == other,
        Some("map") => names(&schema["x-kubernetes-list-map-keys"]).iter().all(|key| one[key] == other[key]),
        _ => false,
    }
}

fn minimal_object(schema: &Value, depth: usize) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    if schema["x-kubernetes-embedded-resource"] == true
        && let Value::Object(fields) = embedded()
    {
        object = fields;
    }
    let mut required = names(&schema["required"]);
    required.extend(alternative(schema));
    let properties = schema["properties"].as_object();
    for name in required {
        if !object.contains_key(&name) {
            let property = properties.and_then(|properties| properties.get(&name));
            let property = property.unwrap_or(&schema["additionalProperties"]);
            object.insert(name, minimal_at(property, depth + 1)?);
        }
    }
    let least = bound(schema, "minProperties").unwrap_or_default();
    for (name, property) in properties.into_iter().flatten() {
        if object.len() < least
            && !object.contains_key(name)
            && let Some(value) = minimal_at(property, depth + 1)
        {
            object.insert(name.clone(), value);
        }
    }
    while object.len() < least {
        let (key, value) = entry(schema, &object)?;
        object.insert(key, value);
    }
    Some(object)
}

/// Returns the fields that the first of several alternatives requires.
fn alternative(schema: &Value) -> Vec<String> {
    let all = schema["allOf"].as_array().into_iter().flatten().flat_map(|one| {
        let mut required = names(&one["required"]);
        required.extend(alternative(one));
        required
    });
    let first = ["oneOf", "anyOf"].iter().filter_map(|name| schema[name].as_array()?.first());
    all.chain(first.flat_map(|one| names(&one["required"]))).collect()
}

/// Returns the fields that only the other alternatives of a minimal object require.
pub(super) fn excluded(schema: &Value) -> Vec<String> {
    let others = schema["oneOf"].as_array().into_iter().flatten().skip(1);
    others.flat_map(|one| names(&one["required"])).collect()
}

/// Returns other numbers: the neighbours, zero, and the bounds of the schema.
fn numbers(schema: &Value, current: &Number) -> Vec<Value> {
    let Some(integer) = current.as_i64() else {
        let Some(float) = current.as_f64() else { return Vec::new() };
        let near = [float + 1.0, float / 2.0].into_iter().filter(|float| in_range(schema, *float));
        return near
            .map(|float| json!(float))
            .filter(|value| Some(value) != Some(&Value::Number(current.clone())))
            .collect();
    };
    let step = step(schema);
    let (least, most) = bounds(schema);
    let is_usable = |bound: &i64| bound.abs() <= BOUND || *bound == PORT;
    let candidates = [integer.saturating_add(step), integer.saturating_sub(step), 0];
    let bounds = [least.filter(is_usable), most.filter(is_usable)];
    let mut found: Vec<Value> = Vec::new();
    for number in candidates.into_iter().chain(bounds.into_iter().flatten()) {
        let fits = number != integer && fits(schema, number);
        if fits && !found.contains(&json!(number)) {
            found.push(json!(number));
        }
    }
    found
}

/// Returns the number that a schema accepts and that is the nearest to another one, as far as the bounds permit it.
fn number_near(schema: &Value, wanted: i64) -> Option<Value> {
    let (least, most) = bounds(schema);
    let step = step(schema);
    let near = wanted.max(least.unwrap_or(i64::MIN)).min(most.unwrap_or(i64::MAX));
    let aligned = near.checked_add((step - near.rem_euclid(step)) % step)?;
    let found = [aligned, aligned.saturating_sub(step)].into_iter().find(|number| fits(schema, *number));
    let float = || {
        let middle = f64::midpoint(schema["minimum"].as_f64()?, schema["maximum"].as_f64()?);
        (kind(schema) == "number" && in_range(schema, middle)).then(|| json!(middle))
    };
    found.map(Value::from).or_else(float)
}

fn fits(schema: &Value, number: i64) -> bool {
    let (least, most) = bounds(schema);
    number % step(schema) == 0
        && least.is_none_or(|least| number >= least)
        && most.is_none_or(|most| number <= most)
        && (schema["format"] != "int32" || i32::try_from(number).is_ok())
}

fn in_range(schema: &Value, number: f64) -> bool {
    let is_exclusive = |name: &str| schema[name] == true;
    let above = schema["minimum"]
        .as_f64()
        .is_none_or(|least| number > least || number >= least && !is_exclusive("exclusiveMinimum"));
    let below = schema["maximum"]
        .as_f64()
        .is_none_or(|most| number < most || number <= most && !is_exclusive("exclusiveMaximum"));
    let aligned = schema["multipleOf"].as_f64().is_none_or(|step| (number / step).fract() == 0.0);
    above && below && aligned
}

/// Returns the smallest and the largest integer.
fn bounds(schema: &Value) -> (Option<i64>, Option<i64>) {
    let integer = |name: &str, round: fn(f64) -> f64| {
        let bound = &schema[name];
        #[allow(clippy::cast_possible_truncation, reason = "the cast saturates")]
        let rounded = || bound.as_f64().map(|bound| round(bound) as i64);
        bound.as_i64().or_else(rounded)
    };
    let exclusive = |name: &str| i64::from(schema[name] == true);
    let least = integer("minimum", f64::ceil).map(|least| least.saturating_add(exclusive("exclusiveMinimum")));
    let most = integer("maximum", f64::floor).map(|most| most.saturating_sub(exclusive("exclusiveMaximum")));
    (least, most)
}

fn step(schema: &Value) -> i64 {
    schema["multipleOf"].as_i64().filter(|step| *step > 0).unwrap_or(1)
}

/// Returns the type of a schema, or that of the values to generate for one without a type.
fn kind(schema: &Value) -> &str {
    if schema["x-kubernetes-int-or-string"] == true {
        // A pattern describes the strings, such as quantities.
        return if schema["pattern"].is_string() { "string" } else { "integer" };
    }
    schema["type"].as_str().unwrap_or_default()
}

fn bound(schema: &Value, name: &str) -> Option<usize> {
    schema[name].as_u64().and_then(|bound| usize::try_from(bound).ok())
}

/// Returns the strings of a list.
fn names(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}
