//! A schema of a custom resource, compiled from the CRD's `openAPIV3Schema`.

use std::collections::{BTreeMap, HashMap};

use regex::Regex;
use serde_json::Value;
use windlass_cel::compile_pattern;

use super::{formats, validate::equal};
use crate::{kubernetes::KubernetesVersion, object::Tree};

/// The schema of one value. Compiled once per CRD and version.
#[allow(clippy::struct_excessive_bools, reason = "each is a keyword of the schema language")]
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    /// The type: `object`, `array`, `string`, `integer`, `number` or `boolean`; empty for any.
    pub(super) kind: String,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Self>,
    /// The rule for fields without their own schema.
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Self>>,
    pub(super) required: Vec<String>,
    /// `true` preserves unknown fields.
    pub(super) preserve: bool,
    /// `true` if the value is an API object with apiVersion, kind and metadata.
    pub(super) embedded: bool,
    pub(super) int_or_string: bool,
    pub(super) list: List,
    pub(super) limits: Limits,
    pub(super) all_of: Vec<Self>,
    pub(super) any_of: Vec<Self>,
    pub(super) one_of: Vec<Self>,
    pub(super) not: Option<Box<Self>>,
}

/// The rule for fields without their own schema.
#[derive(Clone, Debug, Default)]
pub(super) enum Additional {
    /// No rule: unknown fields are pruned.
    #[default]
    Unspecified,
    /// Any value is allowed, but fields inside of it are pruned.
    Allowed,
    /// No such fields are allowed.
    Forbidden,
    Schema(Box<Schema>),
}

/// The list type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum List {
    #[default]
    Atomic,
    Set,
    /// A list of objects that are identified by these key fields.
    Map(Vec<String>),
}

/// The limits on a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub(super) format: String,
    /// `true` if a number that is no integer has a second error, about its format.
    pub(super) repeats_type_errors: bool,
    /// The pattern for strings; `None` if there is none or it is invalid.
    pub(super) pattern: Option<Pattern>,
    pub(super) choices: Option<Choices>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
}

/// The allowed values, in the order of the schema.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    values: Vec<Value>,
    /// Indices into `values` by a text that equal values share.
    known: HashMap<String, Vec<usize>>,
}

/// A regular expression with its source.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    pub(super) compiled: Regex,
}

/// One end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) at: f64,
    pub(super) exclusive: bool,
}

impl Schema {
    /// Compiles a schema for a Kubernetes version; invalid parts are ignored.
    pub(super) fn compile(schema: &Value, kubernetes: KubernetesVersion) -> Self {
        let inner = |schema: &Value| Self::compile(schema, kubernetes);
        let one = |key: &str| schema.at(&[key]).map(|schema| Box::new(inner(schema)));
        let many = |key: &str| schema.items(&[key]).iter().map(inner).collect();
        let texts = |key: &str| schema.items(&[key]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            kind: schema.text(&["type"]).to_owned(),
            nullable: schema.flag(&["nullable"]),
            default: schema.at(&["default"]).cloned(),
            properties: schema.entries(&["properties"]).map(|(name, s)| (name.clone(), inner(s))).collect(),
            additional: match schema.at(&["additionalProperties"]) {
                None => Additional::Unspecified,
                Some(Value::Bool(true)) => Additional::Allowed,
                Some(Value::Bool(false)) => Additional::Forbidden,
                Some(schema) => Additional::Schema(Box::new(inner(schema))),
            },
            items: one("items"),
            required: texts("required"),
            preserve: schema.flag(&["x-kubernetes-preserve-unknown-fields"]),
            embedded: schema.flag(&["x-kubernetes-embedded-resource"]),
            int_or_string: schema.flag(&["x-kubernetes-int-or-string"]),
            list: match schema.text(&["x-kubernetes-list-type"]) {
                "set" => List::Set,
                "map" => List::Map(texts("x-kubernetes-list-map-keys")),
                _ => List::Atomic,
            },
            limits: Limits::compile(schema, kubernetes),
            all_of: many("allOf"),
            any_of: many("anyOf"),
            one_of: many("oneOf"),
            not: one("not"),
        }
    }

    /// Returns the schema of a field: its own, or that of additional properties.
    pub(super) fn field(&self, name: &str) -> Field<'_> {
        match (self.properties.get(name), &self.additional) {
            (Some(schema), _) => Field::Known(schema),
            (None, Additional::Schema(schema)) => Field::Known(schema),
            (None, Additional::Allowed | Additional::Forbidden) => Field::Any,
            (None, Additional::Unspecified) => Field::Unknown,
        }
    }

    /// Reports whether the schema has a default.
    pub(super) fn has_default(&self) -> bool {
        self.default.is_some()
    }

    /// Reports whether nulls are removed or replaced by the default.
    pub(super) fn refuses_null(&self) -> bool {
        !self.nullable
    }
}

/// The result of looking up a field in a schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'s> {
    Known(&'s Schema),
    /// The field is allowed, and its content has no schema.
    Any,
    Unknown,
}

impl Choices {
    pub(super) fn new(values: &[Value]) -> Self {
        let mut known: HashMap<String, Vec<usize>> = HashMap::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let candidates = known.entry(lookup_key(value)).or_default();
            if candidates.iter().all(|other| !equal(&values[*other], value)) {
                candidates.push(index);
            }
        }
        Self { values: values.to_vec(), known }
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Value> {
        self.values.iter()
    }

    /// Reports whether the value is one of the choices.
    pub(super) fn has(&self, value: &Value) -> bool {
        let candidates = self.known.get(&lookup_key(value));
        candidates.is_some_and(|candidates| candidates.iter().any(|index| equal(&self.values[*index], value)))
    }
}

/// Returns a text that equal values share: `1` and `1.0` are equal.
fn lookup_key(value: &Value) -> String {
    let mut text = String::new();
    write_lookup_key(value, &mut text);
    text
}

fn write_lookup_key(value: &Value, text: &mut String) {
    match value {
        Value::String(own) => text.extend(["s", own]),
        // Adding zero turns a negative zero into a positive one.
        Value::Number(number) => text.push_str(&format!("n{}", (number.as_f64().unwrap_or_default() + 0.0).to_bits())),
        Value::Array(items) => {
            text.push_str(&format!("a{}[", items.len()));
            for item in items {
                write_lookup_key(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            text.push('{');
            for (name, value) in sorted {
                text.push_str(name);
                write_lookup_key(value, text);
            }
            text.push('}');
        }
        Value::Null | Value::Bool(_) => text.push_str(&value.to_string()),
    }
}

impl Limits {
    fn compile(schema: &Value, kubernetes: KubernetesVersion) -> Self {
        let count = |key: &str| schema.at(&[key]).and_then(Value::as_u64);
        let bound = |key: &str, exclusive: &str| {
            let at = schema.at(&[key]).and_then(Value::as_f64)?;
            Some(Bound { at, exclusive: schema.flag(&[exclusive]) })
        };
        Self {
            repeats_type_errors: kubernetes >= KubernetesVersion::V1_36,
            format: formats::checked(kubernetes, schema.text(&["type"]), schema.text(&["format"])).to_owned(),
            pattern: Some(schema.text(&["pattern"]))
                .filter(|text| !text.is_empty())
                .and_then(|text| Some(Pattern { text: text.to_owned(), compiled: compile_pattern(text).ok()? })),
            choices: schema.at(&["enum"]).and_then(Value::as_array).map(|values| Choices::new(values)),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema.at(&["multipleOf"]).and_then(Value::as_f64),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn enum_lookup_compares_only_values_with_equal_keys() {
        let values: Vec<Value> = (0..60_000).map(|number| json!(format!("c{number}"))).collect();
        let choices = Choices::new(&values);
        assert_eq!((choices.known.len(), choices.iter().count()), (60_000, 60_000));
        assert!(choices.known.values().all(|candidates| candidates.len() == 1));
        assert!(choices.has(&json!("c59999")) && !choices.has(&json!("c60000")));
    }

    #[test]
    fn equal_enum_values_are_found() {
        let choices = Choices::new(&[json!(1), json!(-0.0), json!({"b": 1, "a": [true, null]}), json!("1")]);
        for value in [json!(1.0), json!(0), json!({"a": [true, null], "b": 1}), json!("1")] {
            assert!(choices.has(&value), "{value}");
        }
        for value in [json!(2), json!(null), json!({"a": [true]}), json!(["1"])] {
            assert!(!choices.has(&value), "{value}");
        }
    }
}
