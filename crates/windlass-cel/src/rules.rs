//! Validation of the rules in a schema: the errors that kube-apiserver returns when a CRD is written.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use windlass_api::Cause;

use crate::{
    cause::{invalid, quoted},
    error::Expected,
    library::Dialect,
    program::{Environment, Presence, Program},
    schema::Schema,
};

/// The limit on the estimated cost of one rule.
const MOST_PER_RULE: u64 = 10_000_000;
/// The limit on the estimated cost of all rules of a schema.
const MOST_PER_SCHEMA: u64 = 100_000_000;
/// The number of expensive rules that are listed if all rules together cost too much.
const TOLD: usize = 4;

/// An entry of `x-kubernetes-validations`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a>(pub(crate) &'a Json);

impl<'a> Rule<'a> {
    fn text(self, key: &str) -> &'a str {
        self.0.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    pub(crate) fn rule(self) -> &'a str {
        self.text("rule")
    }

    pub(crate) fn message(self) -> &'a str {
        self.text("message")
    }

    pub(crate) fn message_expression(self) -> &'a str {
        self.text("messageExpression")
    }

    pub(crate) fn field_path(self) -> &'a str {
        self.text("fieldPath")
    }

    pub(crate) fn reason(self) -> Option<&'a str> {
        self.0.get("reason").and_then(Json::as_str)
    }

    fn optional_old_self(self) -> Option<bool> {
        self.0.get("optionalOldSelf").and_then(Json::as_bool)
    }

    /// Returns the variables of the rule.
    pub(crate) fn environment(self, schema: &Arc<Schema>, dialect: Dialect) -> Environment {
        let presence = if self.optional_old_self() == Some(true) { Presence::Optional } else { Presence::Certain };
        let variables = Environment::new().with("self", schema, Presence::Certain).with("oldSelf", schema, presence);
        variables.dialect(dialect)
    }

    /// Formats the rule as kube-apiserver does.
    fn shown(self) -> String {
        let shown = json!({
            "Rule": self.rule(),
            "Message": self.message(),
            "MessageExpression": self.message_expression(),
            "Reason": self.reason(),
            "FieldPath": self.field_path(),
            "OptionalOldSelf": self.optional_old_self(),
        });
        shown.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

/// Returns the rules of one part of a schema.
pub(crate) fn rules(schema: &Json) -> impl Iterator<Item = Rule<'_>> {
    schema.get("x-kubernetes-validations").and_then(Json::as_array).into_iter().flatten().map(Rule)
}

/// Reports whether a schema or any of its parts has rules.
pub(crate) fn has_rules(schema: &Json) -> bool {
    rules(schema).next().is_some()
        || schema.get("items").is_some_and(has_rules)
        || schema.get("additionalProperties").is_some_and(has_rules)
        || properties(schema).any(|(_, property)| has_rules(property))
}

pub(crate) fn properties(schema: &Json) -> impl Iterator<Item = (&str, &Json)> {
    let properties = schema.get("properties").and_then(Json::as_object);
    properties.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

/// Validates the rules of a resource's schema, which is otherwise structural. Fields are reported below `path`.
pub fn check_rules(schema: &Json, path: &str) -> Vec<Cause> {
    check_rules_in(Dialect::default(), schema, path)
}

/// Does the same as [`check_rules`] for rules in this dialect.
pub fn check_rules_in(dialect: Dialect, schema: &Json, path: &str) -> Vec<Cause> {
    let mut checker = Checker { dialect, forms: Vec::new(), rules: Vec::new(), total: 0, expensive: Vec::new() };
    let root = Place { path: path.to_owned(), is_root: true, cardinality: Some(1), uncorrelatable: None };
    checker.check(schema, &root);
    let Checker { forms: mut causes, rules, total, mut expensive, .. } = checker;
    causes.extend(rules);
    if total > MOST_PER_SCHEMA {
        expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, path) in expensive.into_iter().take(TOLD) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            causes.push(forbidden(&path, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        causes.push(forbidden(path, &too_expensive(what, total, MOST_PER_SCHEMA)));
    }
    causes
}

/// An error of a rule, without the JSON in which kube-apiserver prints the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The field of the rule, `spec.list[]`. Empty for the whole object.
    pub field: String,
    /// The expression, if the error contains it.
    pub rule: Option<String>,
    /// The error message.
    pub why: String,
}

impl RuleError {
    /// Parses an error of [`check_rules`] or of an API server. Returns `None` if it is not about a rule.
    #[must_use]
    pub fn of(cause: &Cause) -> Option<Self> {
        let (path, _) = cause.field.split_once("x-kubernetes-validations")?;
        let (mut field, mut rest) = (String::new(), path.trim_end_matches('.'));
        if let Some(start) = rest.find("openAPIV3Schema") {
            rest = &rest[start + "openAPIV3Schema".len()..];
        }
        while !rest.is_empty() {
            if let Some((name, after)) = rest.strip_prefix(".properties[").and_then(|rest| rest.split_once(']')) {
                field = if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") };
                rest = after;
            } else if let Some(after) = rest.strip_prefix(".items") {
                field.push_str("[]");
                rest = after;
            } else {
                rest = rest.strip_prefix(".additionalProperties")?;
                field.push_str("{}");
            }
        }
        let (rule, why) = match cause.message.strip_prefix("Invalid value: ") {
            Some(shown) => {
                let mut values = serde_json::Deserializer::from_str(shown).into_iter::<Json>();
                match values.next() {
                    Some(Ok(value)) => {
                        let why = shown[values.byte_offset()..].trim_start_matches(": ").to_owned();
                        let rule = value.get("Rule").and_then(Json::as_str).map(str::to_owned);
                        let is_the_rule = cause.field.rsplit_once('.').is_some_and(|(_, end)| end == "rule");
                        (rule.or_else(|| value.as_str().filter(|_| is_the_rule).map(str::to_owned)), why)
                    }
                    _ => (None, cause.message.clone()),
                }
            }
            None => (None, cause.message.clone()),
        };
        Some(Self { field, rule, why })
    }
}

struct Checker {
    dialect: Dialect,
    /// Errors in the form of rules.
    forms: Vec<Cause>,
    /// Errors in the expressions of rules.
    rules: Vec<Cause>,
    total: u64,
    expensive: Vec<(u64, String)>,
}

/// A place in the schema.
#[derive(Clone)]
struct Place {
    path: String,
    is_root: bool,
    /// The maximum number of values at this place. `None` if it is unbounded.
    cardinality: Option<u64>,
    /// The list above this place whose items cannot be matched with their previous values.
    uncorrelatable: Option<String>,
}

impl Checker {
    fn check(&mut self, schema: &Json, place: &Place) {
        let before = self.forms.len();
        let below = |path: String, uncorrelatable: Option<String>| Place {
            path,
            is_root: false,
            cardinality: place.cardinality.and_then(|count| Some(count.saturating_mul(most_children(schema)?))),
            uncorrelatable: place.uncorrelatable.clone().or(uncorrelatable),
        };
        if let Some(entry) = schema.get("additionalProperties").filter(|entry| entry.is_object()) {
            self.check(entry, &below(format!("{}.additionalProperties", place.path), None));
        }
        for (name, property) in properties(schema) {
            self.check(property, &below(format!("{}.properties[{name}]", place.path), None));
        }
        if let Some(item) = schema.get("items") {
            let is_map = schema.get("x-kubernetes-list-type").and_then(Json::as_str) == Some("map");
            let lost = (!is_map).then(|| place.path.clone());
            self.check(item, &below(format!("{}.items", place.path), lost));
        }
        for (index, rule) in rules(schema).enumerate() {
            self.check_form(rule, schema, &format!("{}.x-kubernetes-validations[{index}]", place.path));
        }
        if self.forms.len() > before || rules(schema).next().is_none() {
            return;
        }
        let compiled = if place.is_root { Schema::of_resource(schema) } else { Schema::of_value(schema) };
        let Some(compiled) = compiled else {
            let why = "Internal error: internal error: failed to construct type information for \
                       x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            let field = format!("{}.x-kubernetes-validations", place.path);
            self.rules.push(Cause { reason: "InternalError".to_owned(), message: why.to_owned(), field });
            return;
        };
        for (index, rule) in rules(schema).enumerate() {
            let path = format!("{}.x-kubernetes-validations[{index}]", place.path);
            self.check_rule(rule, &compiled, place, &path);
        }
    }

    /// Validates the parts of a rule other than its expressions.
    fn check_form(&mut self, rule: Rule<'_>, schema: &Json, path: &str) {
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let (trimmed, message) = (rule.rule().trim(), rule.message().trim());
        let at = |field: &str| format!("{path}.{field}");
        if trimmed.is_empty() {
            self.forms.push(required(&at("rule"), "rule is not specified"));
        } else if !rule.message().is_empty() && message.is_empty() {
            self.forms.push(invalid(&at("message"), &quoted(rule.message()), "must be non-empty if specified"));
        } else if breaks(message) {
            self.forms.push(invalid(&at("message"), &quoted(rule.message()), "must not contain line breaks"));
        } else if breaks(trimmed) && message.is_empty() {
            self.forms.push(required(&at("message"), "message must be specified if rule contains line breaks"));
        }
        if !rule.message_expression().is_empty() && rule.message_expression().trim().is_empty() {
            self.forms.push(required(&at("messageExpression"), "messageExpression must be non-empty if specified"));
        }
        const REASONS: [&str; 4] =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if let Some(reason) = rule.reason().filter(|reason| !REASONS.contains(reason)) {
            let known = REASONS.map(quoted).join(", ");
            let message = format!("Unsupported value: {}: supported values: {known}", quoted(reason));
            self.forms.push(Cause { reason: "FieldValueNotSupported".to_owned(), message, field: at("reason") });
        }
        let field_path = rule.field_path();
        if !field_path.is_empty() {
            let mut complain = |why| self.forms.push(invalid(&at("fieldPath"), &quoted(field_path), why));
            if field_path.trim().is_empty() {
                complain("must be non-empty if specified");
            }
            if breaks(field_path) {
                complain("must not contain line breaks");
            }
            if normal_path(field_path, schema).is_none() {
                complain("must be a valid path");
            }
        }
    }

    fn check_rule(&mut self, rule: Rule<'_>, schema: &Arc<Schema>, place: &Place, path: &str) {
        let environment = rule.environment(schema, self.dialect);
        let at = |field: &str| format!("{path}.{field}");
        let program = match environment.compile(rule.rule(), Expected::Bool) {
            Ok(program) => program,
            Err(error) => {
                let detail =
                    if error.is_about_type() { error.to_string() } else { format!("compilation failed: {error}") };
                self.rules.push(invalid(&at("rule"), &rule.shown(), &detail));
                return;
            }
        };
        let copies = place.cardinality.unwrap_or_else(|| schema.most_copies());
        self.charge(&program, copies, "estimated rule cost", at("rule"));
        if !rule.message_expression().is_empty() {
            match environment.compile(rule.message_expression(), Expected::Text) {
                Ok(program) => self.charge(&program, 1, "estimated messageExpression cost", at("messageExpression")),
                Err(error) => {
                    let detail = if error.is_about_type() {
                        error.to_string()
                    } else {
                        format!("messageExpression compilation failed: {error}")
                    };
                    self.rules.push(invalid(&at("messageExpression"), &rule.shown(), &detail));
                }
            }
        }
        if program.uses("oldSelf") {
            if let Some(list) = &place.uncorrelatable {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                self.rules.push(invalid(&at("rule"), &quoted(rule.rule()), &why));
            }
        } else if let Some(flag) = rule.optional_old_self() {
            let why = "may not be set if oldSelf is not used in rule";
            self.rules.push(invalid(&at("optionalOldSelf"), &flag.to_string(), why));
        }
    }

    fn charge(&mut self, program: &Program, copies: u64, what: &str, path: String) {
        let cost = program.most_cost().saturating_mul(copies);
        if cost > MOST_PER_RULE {
            self.rules.push(forbidden(&path, &too_expensive(what, cost, MOST_PER_RULE)));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= MOST_PER_SCHEMA / 100 {
            self.expensive.push((cost, path));
        }
    }
}

/// Returns the maximum number of children of a value; `None` if it is unbounded.
fn most_children(schema: &Json) -> Option<u64> {
    let count = |key: &str| schema.get(key).and_then(Json::as_i64).map(|count| u64::try_from(count).unwrap_or(0));
    match schema.get("type").and_then(Json::as_str) {
        Some("object") if schema.get("additionalProperties").is_some() => count("maxProperties"),
        Some("array") => count("maxItems"),
        _ => Some(1),
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "only a few digits are printed")]
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

fn required(field: &str, detail: &str) -> Cause {
    let message = format!("Required value: {detail}");
    Cause { reason: "FieldValueRequired".to_owned(), message, field: field.to_owned() }
}

fn forbidden(field: &str, detail: &str) -> Cause {
    let message = format!("Forbidden: {detail}");
    Cause { reason: "FieldValueForbidden".to_owned(), message, field: field.to_owned() }
}

/// Returns the normal form of a path to a field of the schema (`.spec.replicas`, `.labels['a.b']`), for errors.
pub(crate) fn normal_path(path: &str, schema: &Json) -> Option<String> {
    let mut shown = String::new();
    let (mut schema, mut rest) = (schema, path);
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix("['") {
            let end = end_of_quoted(after)?;
            name = unescaped(&after[..end])?;
            rest = after[end + 1..].strip_prefix(']')?;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            (name, rest) = (after[..end].to_owned(), &after[end..]);
        }
        if schema.get("properties").is_some() {
            schema = schema.get("properties")?.get(&name)?;
            shown.push_str(if shown.is_empty() { "" } else { "." });
            shown.push_str(&name);
        } else {
            schema = schema.get("additionalProperties").filter(|entry| entry.is_object())?;
            shown.push_str(&format!("[{name}]"));
        }
    }
    Some(shown)
}

/// Returns the end of a text in single quotes.
fn end_of_quoted(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|&at| bytes[at] == b'\'' && (at == 0 || bytes[at - 1] != b'\\'))
}

fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        plain.push(match c {
            '\\' => match rest.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                same @ ('\'' | '\\') => same,
                _ => return None,
            },
            c => c,
        });
    }
    Some(plain)
}
