//! Match conditions: CEL expressions that decide whether a webhook is called.
//!
//! The variables are `object`, `oldObject` and `request`. `namespaceObject` is always null, as in kube-apiserver.
//! `authorizer` is not supported; a condition that uses it is rejected.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use windlass_cel::{CompileError, Environment, EvaluationError, Expected, LIMIT_PER_CALL, Presence, Program, Schema};

use crate::kinds::prelude::*;

/// A cache of compiled conditions.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<HashMap<String, Arc<Result<Program, CompileError>>>>);

/// The result of a webhook's conditions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All conditions are true.
    Matches,
    /// A condition is false.
    Differs,
    /// A condition cannot be evaluated, and no condition is false.
    Failed(String),
}

/// The cost limit of all conditions of a webhook together.
const LIMIT: u64 = 2_500_000;
/// The capacity of the cache. A full cache is cleared.
const KEPT: usize = 1_000;

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let any = Schema::any();
    let text = || Schema::of_value(&json!({"type": "string"})).unwrap_or_else(Schema::any);
    let texts = |name: &str, fields: [&'static str; 3]| Schema::object(name, fields.map(|field| (field, text())));
    let list = json!({"type": "array", "items": {"type": "string"}});
    let of = |schema: &Value| Schema::of_value(schema).unwrap_or_else(Schema::any);
    let kind = texts("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let resource = texts("kubernetes.GroupVersionResource", ["group", "version", "resource"]);
    let user = [
        ("username", text()),
        ("uid", text()),
        ("groups", of(&list)),
        ("extra", of(&json!({"type": "object", "additionalProperties": list}))),
    ];
    let request = [
        ("kind", Arc::clone(&kind)),
        ("resource", Arc::clone(&resource)),
        ("subResource", text()),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", Schema::object("kubernetes.UserInfo", user)),
        ("dryRun", of(&json!({"type": "boolean"}))),
        ("options", Schema::any()),
    ];
    Environment::new()
        .with("object", &any, Presence::Certain)
        .with("oldObject", &any, Presence::Certain)
        .with("namespaceObject", &any, Presence::Certain)
        .with("request", &Schema::object("kubernetes.AdmissionRequest", request), Presence::Certain)
});

/// Returns the compile error of a condition; `None` if it is valid.
pub(crate) fn problem(expression: &str) -> Option<String> {
    let error = ENVIRONMENT.compile(expression, Expected::Bool).err()?;
    Some(match error.found_type() {
        Some(found) => format!("must evaluate to bool but got {found}"),
        None => format!("compilation failed: {error}"),
    })
}

impl Conditions {
    /// Evaluates the conditions of a webhook for a request.
    pub(crate) fn evaluate(&self, webhook: &Value, request: &Value) -> Verdict {
        let mut budget = LIMIT;
        let mut errors = Vec::new();
        for condition in webhook.items(&["matchConditions"]) {
            let expression = condition.text(&["expression"]);
            let result = match &*self.compiled(expression) {
                Ok(program) => {
                    let part = |name: &'static str| (name, Some(&request[name]));
                    let values = [
                        part("object"),
                        part("oldObject"),
                        ("namespaceObject", Some(&Value::Null)),
                        ("request", Some(request)),
                    ];
                    let outcome = program.condition(&values, LIMIT_PER_CALL.min(budget));
                    budget = budget.saturating_sub(outcome.cost);
                    outcome.result
                }
                Err(error) => Err(EvaluationError::Failed(format!("compilation failed: {error}"))),
            };
            match result {
                Ok(true) => {}
                Ok(false) => return Verdict::Differs,
                Err(EvaluationError::Exhausted) => {
                    let why =
                        "validation failed due to running out of cost budget, no further validation rules will be run";
                    return Verdict::Failed(why.to_owned());
                }
                Err(error) => errors.push(format!("expression '{expression}' resulted in error: {error}")),
            }
        }
        match errors.as_slice() {
            [] => Verdict::Matches,
            [error] => Verdict::Failed(error.clone()),
            several => Verdict::Failed(format!("[{}]", several.join(", "))),
        }
    }

    fn compiled(&self, expression: &str) -> Arc<Result<Program, CompileError>> {
        if let Some(known) = self.0.lock().get(expression) {
            return Arc::clone(known);
        }
        let compiled = Arc::new(ENVIRONMENT.compile(expression, Expected::Bool));
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(expression.to_owned(), Arc::clone(&compiled));
        compiled
    }
}
