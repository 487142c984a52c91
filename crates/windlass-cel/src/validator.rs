//! Validation of objects by the rules of their schema.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::Value as Json;
use windlass_api::Cause;

use crate::{
    cause::{invalid, quoted},
    error::{CompileError, EvaluationError, Expected},
    library::Dialect,
    program::{LIMIT_PER_CALL, Program},
    rules::{Rule, has_rules, normal_path, properties, rules},
    schema::Schema,
};

/// The cost limit of all rules for one object.
const LIMIT_PER_OBJECT: u64 = 10_000_000;
/// The maximum length of a message from an expression.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// The compiled rules of a resource's schema.
#[derive(Debug)]
pub struct Rules {
    root: Node,
    shows_types: bool,
}

/// The result of validating an object.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The errors.
    pub causes: Vec<Cause>,
    /// Errors in unchanged values, which are tolerated and reported as warnings.
    pub warnings: Vec<String>,
}

/// The rules of one part of a schema and of its descendants.
#[derive(Debug)]
struct Node {
    kind: String,
    rules: Vec<Compiled>,
    properties: BTreeMap<String, Self>,
    entries: Option<Box<Self>>,
    items: Option<Box<Self>>,
    /// The key fields of the items, if the list is a map.
    keys: Option<Vec<String>>,
}

#[derive(Debug)]
struct Compiled {
    program: Result<Program, CompileError>,
    message: String,
    expression: Option<Program>,
    /// The rule or its message, which identifies the rule in errors.
    name: String,
    reason: Reason,
    /// The reported field, relative to the value.
    field: String,
    /// The rule uses the previous value.
    is_transition: bool,
    /// The rule is evaluated even without a previous value.
    optional_old: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

/// The previous state of a value.
#[derive(Clone, Copy)]
struct Previous<'a> {
    /// The previous value for `oldSelf`.
    value: Option<&'a Json>,
    /// The value is unchanged, or its nearest ancestor with a known previous value is. Errors become warnings.
    unchanged: bool,
}

struct Run<'a> {
    verdict: &'a mut Verdict,
    budget: u64,
    /// Errors show the type of a value instead of the value.
    shows_types: bool,
}

/// Validation has stopped: the budget is used up, or a rule exceeded its limit.
struct Stopped;

// === impl Rules ===

impl Rules {
    /// Compiles the rules of a resource's schema. Returns `None` if it has no rules. A rule that does not compile
    /// causes an error for every object.
    pub fn compile(schema: &Json) -> Option<Self> {
        Self::compile_in(Dialect::default(), schema)
    }

    /// Compiles the rules of a part of a resource's schema.
    pub fn of_value(schema: &Json) -> Option<Self> {
        Self::of_value_in(Dialect::default(), schema)
    }

    /// Does the same as [`Self::compile`] for rules in this dialect.
    pub fn compile_in(dialect: Dialect, schema: &Json) -> Option<Self> {
        Node::compile(schema, true, dialect).map(Self::new)
    }

    /// Does the same as [`Self::of_value`] for rules in this dialect.
    pub fn of_value_in(dialect: Dialect, schema: &Json) -> Option<Self> {
        Node::compile(schema, false, dialect).map(Self::new)
    }

    const fn new(root: Node) -> Self {
        Self { root, shows_types: false }
    }

    /// Sets whether errors show the type of an invalid value instead of the value, as in Kubernetes before 1.35.
    /// Defaults to `false`.
    #[must_use]
    pub const fn show_types(mut self, shows_types: bool) -> Self {
        self.shows_types = shows_types;
        self
    }

    fn run<'a>(&self, verdict: &'a mut Verdict) -> Run<'a> {
        Run { verdict, budget: LIMIT_PER_OBJECT, shows_types: self.shows_types }
    }

    /// Validates a value at a path.
    pub fn validate_at(&self, path: &str, value: &Json) -> Verdict {
        let mut verdict = Verdict::default();
        let mut run = self.run(&mut verdict);
        // The verdict contains the error if validation stopped early.
        _ = self.root.validate(value, Previous { value: None, unchanged: false }, path, &mut run);
        verdict
    }

    /// Validates an object, and its changes if there is a previous state.
    ///
    /// ```
    /// use windlass_cel::Rules;
    ///
    /// let rules = Rules::compile(&serde_json::json!({"type": "object", "properties": {"spec": {
    ///     "type": "object",
    ///     "properties": {"size": {"type": "integer"}},
    ///     "x-kubernetes-validations": [{"rule": "self.size >= oldSelf.size", "message": "only grows"}],
    /// }}}))
    /// .expect("there is a rule");
    /// let of_size = |size: i64| serde_json::json!({"spec": {"size": size}});
    /// assert!(rules.validate(&of_size(3), None).causes.is_empty());
    /// let verdict = rules.validate(&of_size(1), Some(&of_size(3)));
    /// assert_eq!(verdict.causes[0].message, "Invalid value: only grows");
    /// assert_eq!(verdict.causes[0].field, "spec");
    /// ```
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> Verdict {
        let mut verdict = Verdict::default();
        let mut run = self.run(&mut verdict);
        let previous = Previous { value: old, unchanged: old == Some(object) };
        // The verdict contains the error if validation stopped early.
        _ = self.root.validate(object, previous, "", &mut run);
        verdict
    }
}

// === impl Node ===

impl Node {
    fn compile(schema: &Json, is_root: bool, dialect: Dialect) -> Option<Self> {
        if !has_rules(schema) {
            return None;
        }
        let declared = || if is_root { Schema::of_resource(schema) } else { Schema::of_value(schema) };
        let compiled = rules(schema).next().and_then(|_| declared());
        let own = compiled
            .iter()
            .flat_map(|compiled| rules(schema).map(move |rule| Compiled::new(rule, compiled, schema, dialect)));
        let list = schema.get("x-kubernetes-list-type").and_then(Json::as_str);
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Json::as_array).filter(|_| list == Some("map"));
        let below = |key: &str| schema.get(key).and_then(|schema| Self::compile(schema, false, dialect)).map(Box::new);
        Some(Self {
            kind: schema.get("type").and_then(Json::as_str).unwrap_or_default().to_owned(),
            rules: own.collect(),
            properties: properties(schema)
                .filter_map(|(name, schema)| Some((name.to_owned(), Self::compile(schema, false, dialect)?)))
                .collect(),
            entries: below("additionalProperties"),
            items: below("items"),
            keys: keys.map(|keys| keys.iter().filter_map(Json::as_str).map(str::to_owned).collect()),
        })
    }

    fn validate(&self, value: &Json, previous: Previous<'_>, path: &str, run: &mut Run<'_>) -> Result<(), Stopped> {
        // The schema of the parent decides whether null is allowed.
        if value.is_null() {
            return Ok(());
        }
        let previous = Previous { value: previous.value.filter(|old| !old.is_null()), ..previous };
        for rule in &self.rules {
            run.check(rule, &self.kind, value, previous, path)?;
        }
        match value {
            Json::Object(fields) => {
                for (name, field) in fields {
                    let old = previous.value.and_then(|old| old.get(name));
                    let known = previous.value.is_some();
                    let previous =
                        Previous { value: old, unchanged: if known { old == Some(field) } else { previous.unchanged } };
                    if let Some(node) = &self.entries {
                        node.validate(field, previous, &format!("{path}[{name}]"), run)?;
                    }
                    if let Some(node) = self.properties.get(name) {
                        node.validate(field, previous, &join(path, name), run)?;
                    }
                }
            }
            Json::Array(items) => {
                let Some(node) = &self.items else { return Ok(()) };
                // The previous items by their key values. Of items with equal keys, the first.
                let mut earlier: HashMap<Vec<Option<&Json>>, &Json> = HashMap::new();
                let keys = self.keys.as_deref();
                let values =
                    |item| keys.iter().copied().flatten().map(move |key| Json::get(item, key)).collect::<Vec<_>>();
                if keys.is_some() {
                    for old in previous.value.and_then(Json::as_array).into_iter().flatten() {
                        earlier.entry(values(old)).or_insert(old);
                    }
                }
                for (index, item) in items.iter().enumerate() {
                    let old = if earlier.is_empty() { None } else { earlier.get(&values(item)).copied() };
                    let unchanged = if old.is_some() { old == Some(item) } else { previous.unchanged };
                    node.validate(item, Previous { value: old, unchanged }, &format!("{path}[{index}]"), run)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

// === impl Compiled ===

impl Compiled {
    fn new(rule: Rule<'_>, compiled: &Arc<Schema>, schema: &Json, dialect: Dialect) -> Self {
        let environment = rule.environment(compiled, dialect);
        let program = environment.compile(rule.rule(), Expected::Bool);
        let trimmed = rule.message().trim();
        let expression = Some(rule.message_expression()).filter(|text| !text.is_empty());
        Self {
            is_transition: program.as_ref().is_ok_and(|program| program.uses("oldSelf")),
            program,
            message: trimmed.to_owned(),
            expression: expression.and_then(|text| environment.compile(text, Expected::Text).ok()),
            name: if trimmed.is_empty() { rule.rule().trim() } else { trimmed }.to_owned(),
            reason: match rule.reason() {
                Some("FieldValueForbidden") => Reason::Forbidden,
                Some("FieldValueRequired") => Reason::Required,
                Some("FieldValueDuplicate") => Reason::Duplicate,
                _ => Reason::Invalid,
            },
            field: normal_path(rule.field_path(), schema).unwrap_or_default(),
            optional_old: rule.0.get("optionalOldSelf") == Some(&Json::Bool(true)),
        }
    }
}

// === impl Run ===

impl Run<'_> {
    fn check(
        &mut self,
        rule: &Compiled,
        kind: &str,
        value: &Json,
        previous: Previous<'_>,
        path: &str,
    ) -> Result<(), Stopped> {
        let field = if path.is_empty() { "<nil>" } else { path };
        // In some errors kube-apiserver prints the type instead of the value.
        let of_kind = |why: &str| invalid(field, &quoted(kind), why);
        const OUT_OF_BUDGET: &str =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        if self.budget == 0 {
            self.verdict.causes.push(of_kind(OUT_OF_BUDGET));
            return Err(Stopped);
        }
        let program = match &rule.program {
            Ok(program) => program,
            Err(error) => {
                self.verdict.causes.push(of_kind(&format!("rule compile error: compilation failed: {error}")));
                return Ok(());
            }
        };
        if rule.is_transition && previous.value.is_none() && !rule.optional_old {
            return Ok(());
        }
        let values = [("self", Some(value)), ("oldSelf", previous.value)];
        let outcome = program.condition(&values, LIMIT_PER_CALL);
        let Some(rest) = self.budget.checked_sub(outcome.cost) else {
            self.verdict.causes.push(of_kind(OUT_OF_BUDGET));
            return Err(Stopped);
        };
        self.budget = rest;
        match outcome.result {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error @ EvaluationError::Exhausted) => {
                let why = "no further validation rules will be run due to call cost exceeds limit for rule";
                self.verdict.causes.push(of_kind(&format!("'{error}': {why}: {}", rule.name)));
                return Err(Stopped);
            }
            Err(error) if error.to_string().starts_with("no such overload") => {
                let why = "call arguments did not match a supported operator, function or macro signature for rule";
                self.verdict.causes.push(of_kind(&format!("'{error}': {why}: {}", rule.name)));
                return Ok(());
            }
            Err(error) => {
                self.verdict.causes.push(of_kind(&format!("{error} evaluating rule: {}", rule.name)));
                return Ok(());
            }
        }
        let field = match (path.is_empty(), rule.field.as_str()) {
            (true, "") => "<nil>".to_owned(),
            (_, "") => path.to_owned(),
            (true, below) => below.to_owned(),
            (false, below) => format!("{path}.{below}"),
        };
        let (detail, stopped) = self.detail(rule, &values);
        let detail = match detail {
            Ok(detail) => detail,
            Err(why) => {
                self.complain(invalid(&field, &quoted(kind), why), rule, previous);
                return Err(Stopped);
            }
        };
        let shown = match kind {
            _ if self.shows_types => Some(quoted(kind)),
            "object" | "array" => None,
            _ => Some(shown(value)),
        };
        let with = |what: &str| format!("{what}: {detail}");
        let (reason, message) = match (rule.reason, shown) {
            (Reason::Invalid, None) => ("FieldValueInvalid", with("Invalid value")),
            (Reason::Invalid, Some(value)) => ("FieldValueInvalid", with(&format!("Invalid value: {value}"))),
            (Reason::Forbidden, _) => ("FieldValueForbidden", with("Forbidden")),
            (Reason::Required, _) => ("FieldValueRequired", with("Required value")),
            (Reason::Duplicate, None) => ("FieldValueDuplicate", "Duplicate value".to_owned()),
            (Reason::Duplicate, Some(value)) => ("FieldValueDuplicate", format!("Duplicate value: {value}")),
        };
        self.complain(Cause { reason: reason.to_owned(), message, field }, rule, previous);
        if stopped { Err(Stopped) } else { Ok(()) }
    }

    fn complain(&mut self, cause: Cause, rule: &Compiled, previous: Previous<'_>) {
        if previous.unchanged && !rule.is_transition {
            self.verdict.warnings.push(format!("{}: {}", cause.field, cause.message));
        } else {
            self.verdict.causes.push(cause);
        }
    }

    /// Returns the message of an error, and whether the budget is used up. Instead of a message, it may return the
    /// reason why validation must stop.
    fn detail(&mut self, rule: &Compiled, values: &[(&str, Option<&Json>)]) -> (Result<String, &'static str>, bool) {
        let fallback = || {
            if rule.message.is_empty() { format!("failed rule: {}", rule.name) } else { rule.message.clone() }
        };
        let Some(expression) = &rule.expression else { return (Ok(fallback()), false) };
        let outcome = expression.text(values, LIMIT_PER_CALL);
        let Some(rest) = self.budget.checked_sub(outcome.cost) else {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                       rules will be run";
            return (Err(why), true);
        };
        self.budget = rest;
        match outcome.result {
            Ok(text) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
                (Ok(if usable { text.to_owned() } else { fallback() }), false)
            }
            Err(EvaluationError::Exhausted) => (
                Err("no further validation rules will be run due to call cost exceeds limit for messageExpression"),
                true,
            ),
            Err(EvaluationError::Failed(_)) => (Ok(fallback()), false),
        }
    }
}

fn shown(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
