//! Validation of objects by their schema, with the real server's messages.
//!
//! An update reports errors only for changed values. This excludes lists without keys, whose items cannot be matched.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Number, Value};
use windlass_api::Cause;

use super::{
    formats,
    schema::{Additional, Bound, List, Schema},
};
use crate::{
    codec::{go_quote, sort_keys},
    kubernetes::KubernetesVersion::{self, V1_34},
    object::{Causes, Errors},
    patch::go_format,
};

/// Validates an object. Messages, but not fields, omit `hidden` at the beginning of paths, as the real server does when
/// it validates only the status.
pub(super) fn validate(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &str,
    hidden: &str,
    causes: &mut Causes,
) {
    Checker { hidden, scores: false }.changed(value, old, schema, path, causes);
    for cause in causes.iter_mut().filter(|cause| cause.field == NO_FIELD && !hidden.is_empty()) {
        hidden.clone_into(&mut cause.field);
    }
    // An error that several alternatives report is listed once.
    let mut reported = HashSet::new();
    causes.retain(|cause| reported.insert((cause.field.clone(), cause.message.clone())));
    let mut before = Causes::default();
    if let Some(old) = old {
        duplicates(old, schema, path, &mut before);
    }
    // An update may keep existing duplicates.
    if before.is_empty() {
        duplicates(value, schema, path, causes);
    }
}

/// Checks that embedded objects have an apiVersion and a kind.
pub(super) fn validate_embedded(
    value: &Value,
    schema: &Schema,
    path: &str,
    kubernetes: KubernetesVersion,
    causes: &mut Causes,
) {
    match value {
        Value::Object(entries) => {
            if schema.embedded {
                for field in ["apiVersion", "kind"] {
                    if entries.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                        let message =
                            if kubernetes < V1_34 { "Required value: must not be empty" } else { "Required value" };
                        causes.push(cause(&join(path, field), "FieldValueRequired", message.to_owned()));
                    }
                }
            }
            for (name, value) in entries {
                if let super::schema::Field::Known(schema) = schema.field(name) {
                    validate_embedded(value, schema, &join(path, name), kubernetes, causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    validate_embedded(item, schema, &format!("{path}[{index}]"), kubernetes, causes);
                }
            }
        }
        _ => {}
    }
}

/// Adds causes to the registry's errors.
pub(super) fn report(causes: impl IntoIterator<Item = Cause>, errors: &mut Errors) {
    for cause in causes {
        errors.add(&crate::object::Path::new(&cause.field), &cause.reason, cause.message);
    }
}

/// The field of errors that do not concern a field.
const NO_FIELD: &str = "<nil>";

/// The number of checks, as the real server counts them. If no alternative fits, the errors of the one with the highest
/// score are reported.
type Score = u64;

struct Checker<'a> {
    hidden: &'a str,
    /// `true` if scores are needed: unchanged values are then checked as well, but their errors are dropped.
    scores: bool,
}

impl Checker<'_> {
    /// Validates a value, unless it is unchanged.
    fn changed(&self, value: &Value, old: Option<&Value>, schema: &Schema, path: &str, causes: &mut Causes) -> Score {
        match old == Some(value) {
            false => self.value(value, old, schema, path, causes),
            true if self.scores => self.value(value, old, schema, path, &mut Causes::default()),
            true => 0,
        }
    }

    /// Runs all checks for a value of this type, even if the schema expects another type.
    fn value(&self, value: &Value, old: Option<&Value>, schema: &Schema, path: &str, causes: &mut Causes) -> Score {
        let typed = !schema.kind.is_empty() || schema.int_or_string || !schema.limits.format.is_empty();
        let fits = self.check_type(value, schema, path, causes);
        if value.is_null() {
            choices(value, schema, path, causes);
            return Score::from(fits);
        }
        // Three checks apply to any value: its presence, alternatives and choices.
        let mut score = 3 + if typed { 1 + Score::from(fits) } else { 0 };
        score += self.combinators(value, old, schema, path, causes);
        match value {
            Value::String(text) => {
                score += 1 + Score::from(formats::is_known(&schema.limits.format));
                self.string(text, schema, path, causes);
            }
            Value::Number(number) => {
                score += 2;
                self.number(number, schema, path, causes);
            }
            Value::Array(items) => score += 2 + self.array(items, old, schema, path, causes),
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        choices(value, schema, path, causes);
        if let Value::Object(entries) = value {
            score += 1 + self.object(entries, old, schema, path, causes);
        }
        score
    }

    /// Returns the form of a path in messages.
    fn named<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(self.hidden).map_or(path, |rest| rest.strip_prefix('.').unwrap_or(rest))
    }

    fn check_type(&self, value: &Value, schema: &Schema, path: &str, causes: &mut Causes) -> bool {
        let found = match value {
            Value::Null if schema.nullable => return true,
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if integral(number) => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let expected = match schema.kind.as_str() {
            _ if schema.int_or_string => "integer,string",
            "" => return true,
            kind => kind,
        };
        let fits = expected.split(',').any(|kind| kind == found || (kind == "number" && found == "integer"));
        if fits {
            return true;
        }
        // If the schema has a format, formats are compared instead of types: strings and lists fit any format, other
        // values have a fixed one.
        let format = schema.limits.format.as_str();
        let is_numeric = expected.contains("integer") || expected == "number";
        let (shown, allowed) = match value {
            Value::String(_) | Value::Array(_) if !format.is_empty() && !is_numeric => return true,
            Value::Null | Value::String(_) | Value::Array(_) => (found, expected),
            _ if format.is_empty() => (found, expected),
            Value::Number(number) if integral(number) && !number.is_f64() => ("int64", format),
            Value::Number(_) => ("float64", format),
            Value::Bool(_) | Value::Object(_) => ("", format),
        };
        if shown == allowed {
            return true;
        }
        let message =
            format!("Invalid value: \"{shown}\": {} in body must be of type {allowed}: \"{shown}\"", self.named(path));
        causes.push(cause(path, "FieldValueTypeInvalid", message));
        if expected == "integer" && found == "number" && schema.limits.repeats_type_errors {
            let format =
                if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
            causes.push(without_field(&format!(
                "Checked value must be of type integer {format} in {}",
                self.named(path)
            )));
        }
        false
    }

    fn object(
        &self,
        entries: &Map<String, Value>,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        causes: &mut Causes,
    ) -> Score {
        let (count, limits, mut score) = (entries.len() as u64, &schema.limits, 0);
        if let Some(min) = limits.min_properties.filter(|min| count < *min) {
            let detail = format!("{} in body should have at least {min} properties", self.named(path));
            causes.push(invalid(path, &count.to_string(), &detail));
        }
        if let Some(max) = limits.max_properties.filter(|max| count > *max) {
            causes.push(too_many(path, count, max));
        }
        for (name, value) in entries {
            let below = join(path, name);
            let old = old.and_then(|old| old.get(name));
            match (schema.properties.get(name), &schema.additional) {
                (Some(schema), _) => score += self.changed(value, old, schema, &below, causes),
                (None, Additional::Schema(schema)) => score += self.changed(value, old, schema, &below, causes),
                (None, Additional::Forbidden) => {
                    let detail = format!("{} in body is a forbidden property", self.named(&below));
                    causes.push(invalid(path, &go_quote(name), &detail));
                }
                (None, Additional::Unspecified | Additional::Allowed) => {}
            }
        }
        for name in &schema.required {
            if !entries.contains_key(name) {
                causes.push(cause(&join(path, name), "FieldValueRequired", "Required value".to_owned()));
            }
        }
        score
    }

    fn array(&self, items: &[Value], old: Option<&Value>, schema: &Schema, path: &str, causes: &mut Causes) -> Score {
        let (count, limits, mut score) = (items.len() as u64, &schema.limits, 0);
        if let Some(min) = limits.min_items.filter(|min| count < *min) {
            let detail = format!("{} in body should have at least {min} items", self.named(path));
            causes.push(invalid(path, &count.to_string(), &detail));
        }
        if let Some(max) = limits.max_items.filter(|max| count > *max) {
            causes.push(too_many(path, count, max));
        }
        let before = old.and_then(Value::as_array);
        if let Some(of_items) = &schema.items {
            let before = match &schema.list {
                List::Map(keys) => before.map(|before| ItemsByKeys::new(before, keys)),
                List::Atomic | List::Set => None,
            };
            for (index, item) in items.iter().enumerate() {
                let old = before.as_ref().and_then(|before| before.find(item));
                score += self.changed(item, old, of_items, &format!("{path}[{index}]"), causes);
            }
        }
        score
    }

    fn string(&self, text: &str, schema: &Schema, path: &str, causes: &mut Causes) {
        let count = text.chars().count() as u64;
        // Only the first of these errors is reported.
        if let Some(max) = schema.limits.max_length.filter(|max| count > *max) {
            let plural = if max == 1 { "" } else { "s" };
            let message = format!("Too long: may not be more than {max} byte{plural}");
            causes.push(cause(path, "FieldValueTooLong", message));
        } else if let Some(min) = schema.limits.min_length.filter(|min| count < *min) {
            let detail = format!("{} in body should be at least {min} chars long", self.named(path));
            causes.push(invalid(path, &go_quote(text), &detail));
        } else if let Some(pattern) = schema.limits.pattern.as_ref().filter(|pattern| !pattern.compiled.is_match(text))
        {
            let detail = format!("{} in body should match '{}'", self.named(path), pattern.text);
            causes.push(invalid(path, &go_quote(text), &detail));
        }
        let format = &schema.limits.format;
        if !formats::fits(format, text) {
            let detail = format!("{} in body must be of type {format}: {}", self.named(path), go_quote(text));
            let message = format!("Invalid value: {}: {detail}", go_quote(text));
            causes.push(cause(path, "FieldValueTypeInvalid", message));
        }
    }

    fn number(&self, number: &Number, schema: &Schema, path: &str, causes: &mut Causes) {
        let limits = &schema.limits;
        let Some(value) = number.as_f64() else { return };
        if limits.format == "int32" && number.as_i64().is_some_and(|integer| i32::try_from(integer).is_err()) {
            let message = format!("Checked value must be of type integer with format int32 in {}", self.named(path));
            causes.push(without_field(&message));
        }
        let mut add_cause = |what: &str| {
            let detail = format!("{} in body should be {what}", self.named(path));
            causes.push(invalid(path, &go_format(&Value::Number(number.clone())), &detail));
        };
        // As in Go, an integer is compared with the integer part of a bound.
        let bound = |bound: Option<Bound>| {
            bound.map(|bound| Bound { at: if number.is_i64() { bound.at.trunc() } else { bound.at }, ..bound })
        };
        if let Some(step) = limits.multiple_of
            && (value / step).fract() != 0.0
        {
            add_cause(&format!("a multiple of {step}"));
        }
        let shown = |at: f64| if number.is_i64() { at.to_string() } else { go_format(&at.into()) };
        match bound(limits.maximum) {
            Some(Bound { at, exclusive: true }) if value >= at => add_cause(&format!("less than {}", shown(at))),
            Some(Bound { at, exclusive: false }) if value > at => {
                add_cause(&format!("less than or equal to {}", shown(at)));
            }
            _ => {}
        }
        match bound(limits.minimum) {
            Some(Bound { at, exclusive: true }) if value <= at => add_cause(&format!("greater than {}", shown(at))),
            Some(Bound { at, exclusive: false }) if value < at => {
                add_cause(&format!("greater than or equal to {}", shown(at)));
            }
            _ => {}
        }
    }

    fn combinators(
        &self,
        value: &Value,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
        causes: &mut Causes,
    ) -> Score {
        let (name, checker) = (self.named(path), Checker { scores: true, ..*self });
        let try_schema = |schema: &Schema| {
            let mut causes = Causes::default();
            (checker.value(value, old, schema, path, &mut causes), causes)
        };
        // The errors of the alternative with the highest score are also reported; of equal scores, the first.
        let best =
            |all: Vec<Outcome>| all.into_iter().reduce(|best, other| if other.0 > best.0 { other } else { best });
        let mut score = 1;
        let mut record = |outcome: Option<Outcome>, causes: &mut Causes| {
            let (found, more) = outcome.unwrap_or_default();
            score += found;
            causes.append(more);
        };
        if !schema.any_of.is_empty() {
            let mut all = Vec::new();
            let fitting = schema.any_of.iter().map(try_schema).find_map(|outcome| {
                let fits = outcome.1.is_empty();
                if fits {
                    Some(outcome)
                } else {
                    all.push(outcome);
                    None
                }
            });
            if fitting.is_none() {
                causes.push(without_field(&format!("\"{name}\" must validate at least one schema (anyOf)")));
            }
            record(fitting.or_else(|| best(all)), causes);
        }
        if !schema.one_of.is_empty() {
            let all = schema.one_of.iter().map(try_schema).collect::<Vec<_>>();
            let only_one = format!("\"{name}\" must validate one and only one schema (oneOf)");
            match all.iter().filter(|(_, causes)| causes.is_empty()).count() {
                1 => record(all.into_iter().find(|(_, causes)| causes.is_empty()), causes),
                0 => {
                    causes.push(without_field(&format!("{only_one}. Found none valid")));
                    record(best(all), causes);
                }
                several => causes.push(without_field(&format!("{only_one}. Found {several} valid alternatives"))),
            }
        }
        if !schema.all_of.is_empty() {
            let all = schema.all_of.iter().map(try_schema).collect::<Vec<_>>();
            let (valid, total) = (all.iter().filter(|(_, causes)| causes.is_empty()).count(), all.len());
            for one in all {
                record(Some(one), causes);
            }
            if valid < total {
                let none = if valid == 0 { ". None validated" } else { "" };
                causes.push(without_field(&format!("\"{name}\" must validate all the schemas (allOf){none}")));
            }
        }
        if schema.not.as_deref().is_some_and(|schema| try_schema(schema).1.is_empty()) {
            causes.push(without_field(&format!("\"{name}\" must not validate the schema (not)")));
        }
        score
    }
}

/// The result of an alternative.
type Outcome = (Score, Causes);

/// Checks that a value is one of the schema's choices.
fn choices(value: &Value, schema: &Schema, path: &str, causes: &mut Causes) {
    let Some(choices) = &schema.limits.choices else { return };
    if (value.is_null() && schema.nullable) || choices.has(value) {
        return;
    }
    causes.push_with(|| {
        let supported = choices.iter().map(|choice| match choice {
            Value::String(text) => go_quote(text),
            other => go_quote(&other.to_string()),
        });
        let supported = supported.collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {}: supported values: {supported}", shown(value));
        cause(path, "FieldValueNotSupported", message)
    });
}

/// Checks that the items of sets and maps are unique.
fn duplicates(value: &Value, schema: &Schema, path: &str, causes: &mut Causes) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                if let super::schema::Field::Known(schema) = schema.field(name) {
                    duplicates(value, schema, &join(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            if let (List::Map(_), Some(invalid_index)) =
                (&schema.list, items.iter().position(|item| !is_item_of_map(item)))
            {
                let field = format!("{path}[{invalid_index}]");
                let detail = "must be an object for an array of list-type map";
                causes.push(invalid(&field, &shown(&items[invalid_index]), detail));
                return;
            }
            let key = |item: &Value| match &schema.list {
                List::Atomic => None,
                List::Set => Some(item.clone()),
                List::Map(keys) => {
                    let fields = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
                    Some(fields.collect::<serde_json::Map<_, _>>().into())
                }
            };
            let mut keys = items.iter().map(key).collect::<Vec<_>>();
            keys.iter_mut().flatten().for_each(sort_keys);
            let mut seen: HashMap<String, usize> = HashMap::new();
            for (index, key) in keys.iter().enumerate() {
                let Some(key) = key else { continue };
                let times = seen.entry(key.to_string()).or_default();
                *times += 1;
                // Each repeated item is reported once, regardless of how often it is repeated.
                if *times == 2 {
                    let message = format!("Duplicate value: {}", shown(key));
                    causes.push(cause(&format!("{path}[{index}]"), "FieldValueDuplicate", message));
                }
            }
            if let Some(schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    duplicates(item, schema, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

// === helpers ===

/// Reports whether a value can be an item of a list of type map.
fn is_item_of_map(item: &Value) -> bool {
    item.is_object() || item.is_null()
}

/// The items of a list by the values of their keys; of equal items, the first.
struct ItemsByKeys<'v> {
    keys: &'v [String],
    items: HashMap<Vec<Option<&'v Value>>, &'v Value>,
}

impl<'v> ItemsByKeys<'v> {
    fn new(items: &'v [Value], keys: &'v [String]) -> Self {
        let mut found = Self { keys, items: HashMap::with_capacity(items.len()) };
        for item in items {
            let key = keys.iter().map(|key| item.get(key)).collect();
            found.items.entry(key).or_insert(item);
        }
        found
    }

    fn find(&self, item: &Value) -> Option<&'v Value> {
        let key: Vec<Option<&Value>> = self.keys.iter().map(|key| item.get(key)).collect();
        self.items.get(&key).copied()
    }
}

/// Reports whether Go treats a JSON number as an integer.
fn integral(number: &Number) -> bool {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    number.is_i64()
        || number.is_f64() && number.as_f64().is_some_and(|float| float.fract() == 0.0 && float.abs() < LIMIT)
}

/// Compares two values. Numbers are compared by value.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), go_quote)
}

fn cause(field: &str, reason: &str, message: String) -> Cause {
    Cause { reason: reason.to_owned(), message, field: field.to_owned() }
}

fn invalid(field: &str, shown: &str, detail: &str) -> Cause {
    cause(field, "FieldValueInvalid", format!("Invalid value: {shown}: {detail}"))
}

fn too_many(field: &str, count: u64, max: u64) -> Cause {
    let plural = if max == 1 { "" } else { "s" };
    cause(field, "FieldValueTooMany", format!("Too many: {count}: must have at most {max} item{plural}"))
}

/// Returns an error that does not concern a field.
fn without_field(detail: &str) -> Cause {
    invalid(NO_FIELD, "\"\"", detail)
}
