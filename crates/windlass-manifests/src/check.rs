//! Checks for errors that a cluster would report, with their place in the types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::Value;
use windlass_api::{JsonPath, crd::CrdError};
use windlass_cel::{RuleError, check_rules, compile_pattern};

use crate::{
    policy::Policy,
    problem::Problem,
    webhook::{Purpose, Webhook},
};

/// The schema keywords that are only valid for some types, with these types.
const KEYWORDS: [(&str, &[&str]); 16] = [
    ("minimum", &["integer", "number"]),
    ("maximum", &["integer", "number"]),
    ("multipleOf", &["integer", "number"]),
    ("minLength", &["string"]),
    ("maxLength", &["string"]),
    ("pattern", &["string"]),
    ("minItems", &["array"]),
    ("maxItems", &["array"]),
    ("items", &["array"]),
    ("x-kubernetes-list-type", &["array"]),
    ("x-kubernetes-list-map-keys", &["array"]),
    ("minProperties", &["object"]),
    ("maxProperties", &["object"]),
    ("properties", &["object"]),
    ("additionalProperties", &["object"]),
    ("x-kubernetes-map-type", &["object"]),
];

/// Checks the CustomResourceDefinitions, webhooks and policies of a project.
pub(crate) fn check(
    project: &str,
    definitions: &[Result<CustomResourceDefinition, CrdError>],
    webhooks: &[Webhook],
    policies: &[Policy],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut names = Vec::new();
    for definition in definitions {
        match definition {
            Ok(definition) => {
                let name = definition.metadata.name.clone().unwrap_or_default();
                if names.contains(&name) {
                    problems.push(Problem::new(
                        &name,
                        "it is defined twice: combine the versions of a kind in one definition",
                    ));
                }
                names.push(name);
                for version in &definition.spec.versions {
                    check_version(&definition.spec.names.kind, version, &mut problems);
                }
            }
            Err(error) => problems.push(Problem::new(project, error.to_string())),
        }
    }
    check_webhooks(webhooks, &mut problems);
    problems.extend(policies.iter().flat_map(Policy::problems));
    problems
}

// === CustomResourceDefinitions ===

/// A place in a schema.
#[derive(Clone)]
struct Place {
    /// The kind and version: `Website v1`.
    kind: String,
    /// The field: `spec.list[].name`.
    field: String,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let field = if self.field.is_empty() { name.to_owned() } else { format!("{}.{name}", self.field) };
        Self { field, ..self.clone() }
    }

    fn behind(&self, what: &str) -> Self {
        Self { field: format!("{}{what}", self.field), ..self.clone() }
    }

    fn problem(&self, why: impl Into<String>) -> Problem {
        let place = if self.field.is_empty() { self.kind.clone() } else { format!("{}: {}", self.kind, self.field) };
        Problem::new(place, why)
    }
}

fn check_version(kind: &str, version: &CustomResourceDefinitionVersion, problems: &mut Vec<Problem>) {
    let place = Place { kind: format!("{kind} {}", version.name), field: String::new() };
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = match schema.map(serde_json::to_value) {
        Some(Ok(schema)) => schema,
        Some(Err(error)) => return problems.push(place.problem(error.to_string())),
        None => return problems.push(place.problem("it has no schema")),
    };
    let before = problems.len();
    check_schema(&schema, &place, problems);
    if problems.len() == before {
        // Rules are checked only against a valid schema.
        for cause in check_rules(&schema, "") {
            let Some(wrong) = RuleError::of(&cause) else {
                problems.push(place.problem(format!("{}: {}", cause.field, cause.message)));
                continue;
            };
            // Cost errors do not contain the rule.
            let rule = wrong.rule.unwrap_or_else(|| rule_at(&schema, &cause.field));
            let place = if wrong.field.is_empty() { place.clone() } else { place.field(&wrong.field) };
            problems
                .push(Problem { rule: Some(rule.clone()), ..place.problem(format!("rule {rule:?}: {}", wrong.why)) });
        }
    }
    check_paths(version, &schema, &place, problems);
}

fn check_schema(schema: &Value, place: &Place, problems: &mut Vec<Problem>) {
    if let Some(why) = schema["$ref"].as_str() {
        return problems.push(place.problem(why));
    }
    let kind = schema["type"].as_str();
    let is_flag = |key: &str| schema[key] == Value::Bool(true);
    let is_open = is_flag("x-kubernetes-int-or-string") || is_flag("x-kubernetes-preserve-unknown-fields");
    match kind {
        None if !is_open => problems.push(place.problem("it has no type")),
        Some("array") if schema["items"].is_null() => {
            problems.push(place.problem("the items of the list have no schema"));
        }
        _ => {}
    }
    for (keyword, kinds) in KEYWORDS {
        if let Some(kind) = kind.filter(|kind| !schema[keyword].is_null() && !kinds.contains(kind)) {
            problems.push(
                place.problem(format!("`{keyword}` does not apply to type {kind}, only to {}", kinds.join(" and "))),
            );
        }
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(error) = compile_pattern(pattern)
    {
        problems.push(place.problem(format!("pattern {pattern:?}: {error}")));
    }
    for key in ["default", "example"] {
        if let Some(value) = schema.get(key)
            && let Err(why) = fits(value, schema)
        {
            problems.push(place.problem(format!("{key} {value}: {why}")));
        }
    }
    for value in schema["enum"].as_array().into_iter().flatten() {
        if let Err(why) = is_of_type(value, schema) {
            problems.push(place.problem(format!("enum value {value}: {why}")));
        }
    }
    check_keys(schema, place, problems);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check_schema(property, &place.field(name), problems);
    }
    if schema["items"].is_object() {
        check_schema(&schema["items"], &place.behind("[]"), problems);
    }
    if schema["additionalProperties"].is_object() {
        check_schema(&schema["additionalProperties"], &place.behind("{}"), problems);
    }
}

/// Checks that the key fields of lists are required in the items.
fn check_keys(schema: &Value, place: &Place, problems: &mut Vec<Problem>) {
    let item = &schema["items"];
    for key in schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let property = &item["properties"][key];
        let is_required = item["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key));
        if property.is_null() {
            problems.push(place.problem(format!("map key {key:?} is not a field of the items")));
        } else if !is_required && property["default"].is_null() {
            problems.push(place.problem(format!("map key {key:?} is neither required nor has a default")));
        }
    }
}

/// Checks a value against a schema: types, enums, bounds and required fields.
fn fits(value: &Value, schema: &Value) -> Result<(), String> {
    is_of_type(value, schema)?;
    if let Some(values) = schema["enum"].as_array().filter(|values| !values.contains(value)) {
        let values = values.iter().map(Value::to_string).collect::<Vec<_>>();
        return Err(format!("it is not one of {}", values.join(", ")));
    }
    let length = match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or_default();
            if schema["minimum"].as_f64().is_some_and(|bound| number < bound) {
                return Err("it is less than the minimum".to_owned());
            }
            if schema["maximum"].as_f64().is_some_and(|bound| number > bound) {
                return Err("it is more than the maximum".to_owned());
            }
            None
        }
        Value::String(text) => {
            let is_found = |pattern: &str| compile_pattern(pattern).map_or(true, |pattern| pattern.is_match(text));
            if schema["pattern"].as_str().is_some_and(|pattern| !is_found(pattern)) {
                return Err("it does not match the pattern".to_owned());
            }
            Some((text.chars().count(), "Length"))
        }
        Value::Array(items) => {
            items.iter().try_for_each(|item| fits(item, &schema["items"]))?;
            Some((items.len(), "Items"))
        }
        Value::Object(fields) => {
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(name) && schema["properties"][name]["default"].is_null() {
                    return Err(format!("{name} is missing"));
                }
            }
            for (name, field) in fields {
                let below = [&schema["properties"][name], &schema["additionalProperties"]];
                match below.into_iter().find(|schema| schema.is_object()) {
                    Some(schema) => fits(field, schema).map_err(|why| format!("{name}: {why}"))?,
                    None if schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true) => {}
                    None => return Err(format!("unknown field {name}")),
                }
            }
            Some((fields.len(), "Properties"))
        }
        Value::Null | Value::Bool(_) => None,
    };
    let Some((length, what)) = length else { return Ok(()) };
    let length = length as u64;
    let bound = |key: String| schema[key].as_u64();
    if bound(format!("min{what}")).is_some_and(|bound| length < bound) {
        return Err(format!("it has fewer than min{what}"));
    }
    if bound(format!("max{what}")).is_some_and(|bound| length > bound) {
        return Err(format!("it has more than max{what}"));
    }
    Ok(())
}

fn is_of_type(value: &Value, schema: &Value) -> Result<(), String> {
    let is_it = match (schema["type"].as_str(), value) {
        (_, Value::Null) => schema["nullable"] == Value::Bool(true),
        (None, _) => true,
        (Some("integer"), Value::Number(number)) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
        (Some(kind), value) => matches!(
            (kind, value),
            ("number", Value::Number(_))
                | ("string", Value::String(_))
                | ("boolean", Value::Bool(_))
                | ("array", Value::Array(_))
                | ("object", Value::Object(_))
        ),
    };
    if is_it { Ok(()) } else { Err(format!("it is not of type {}", schema["type"].as_str().unwrap_or_default())) }
}

/// Returns the rule at a path in the schema: `.properties[spec].x-kubernetes-validations[0].rule`.
fn rule_at(schema: &Value, path: &str) -> String {
    let (mut schema, mut rest) = (schema, path);
    loop {
        (schema, rest) =
            if let Some((name, after)) = rest.strip_prefix(".properties[").and_then(|rest| rest.split_once(']')) {
                (&schema["properties"][name], after)
            } else if let Some(after) = rest.strip_prefix(".items") {
                (&schema["items"], after)
            } else if let Some(after) = rest.strip_prefix(".additionalProperties") {
                (&schema["additionalProperties"], after)
            } else {
                break;
            };
    }
    let index = rest.split_once('[').and_then(|(_, rest)| rest.split_once(']')?.0.parse::<usize>().ok());
    let rule = index.map(|index| &schema["x-kubernetes-validations"][index]["rule"]).and_then(Value::as_str);
    rule.unwrap_or_default().to_owned()
}

/// Checks that columns, selectable fields and the scale refer to existing fields.
fn check_paths(version: &CustomResourceDefinitionVersion, schema: &Value, place: &Place, problems: &mut Vec<Problem>) {
    for column in version.additional_printer_columns.iter().flatten() {
        if let Err(error) = JsonPath::parse(&column.json_path) {
            problems.push(place.problem(format!("column {}: path {:?}: {error}", column.name, column.json_path)));
        }
    }
    for field in version.selectable_fields.iter().flatten() {
        let path = &field.json_path;
        match at(schema, path).and_then(|schema| schema["type"].as_str()) {
            Some("string" | "integer" | "boolean") => {}
            Some(kind) => {
                let why = format!("selectable field {path}: it is of type {kind}, not string, integer or boolean");
                problems.push(place.problem(why));
            }
            None => problems.push(place.problem(format!("selectable field {path}: the schema has no such field"))),
        }
    }
    let scale = version.subresources.as_ref().and_then(|subresources| subresources.scale.as_ref());
    for (path, root, wanted) in scale.into_iter().flat_map(|scale| {
        [
            (Some(&scale.spec_replicas_path), ".spec.", "integer"),
            (Some(&scale.status_replicas_path), ".status.", "integer"),
            (scale.label_selector_path.as_ref(), ".", "string"),
        ]
    }) {
        let Some(path) = path else { continue };
        if !path.starts_with(root) {
            problems.push(place.problem(format!("scale {path}: it must be below {}", root.trim_end_matches('.'))));
        } else if at(schema, path).and_then(|schema| schema["type"].as_str()) != Some(wanted) {
            problems.push(place.problem(format!("scale {path}: the schema has no such field of type {wanted}")));
        }
    }
}

/// Returns the schema at a path such as `.spec.replicas`.
fn at<'s>(schema: &'s Value, path: &str) -> Option<&'s Value> {
    path.strip_prefix('.')?.split('.').try_fold(schema, |schema, name| schema["properties"].get(name))
}

// === Webhooks ===

fn check_webhooks(webhooks: &[Webhook], problems: &mut Vec<Problem>) {
    for (index, Webhook { purpose, webhook }) in webhooks.iter().enumerate() {
        let mut problem = |why: &str| problems.push(Problem::new(format!("webhook {}", webhook.name), why));
        if webhook.name.split('.').filter(|part| !part.is_empty()).count() < 3 {
            problem("its name must contain at least two dots");
        }
        if webhook.timeout_seconds.is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            problem("its timeout must be 1 to 30 s");
        }
        if webhook.client_config.url.as_ref().is_some_and(|url| !url.starts_with("https://")) {
            problem("its URL must use https");
        }
        if *purpose == Purpose::Validating && webhook.reinvocation_policy.is_some() {
            problem("only webhooks that change objects can be called again");
        }
        for condition in webhook.match_conditions.iter().flatten() {
            if condition.expression.trim().is_empty() || condition.name.is_empty() {
                problem("a condition needs a name and an expression");
            }
        }
        let same = |other: &Webhook| other.purpose == *purpose && other.webhook.name == webhook.name;
        if webhooks[..index].iter().any(same) {
            problem("another webhook has the same name");
        }
    }
}
