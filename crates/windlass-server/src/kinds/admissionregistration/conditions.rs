//! Match conditions: CEL expressions that decide whether a webhook is called or a policy is evaluated.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use windlass_cel::Scope;

use crate::kinds::{
    admissionregistration::expressions::{CONDITIONS_BUDGET, Expression, match_condition},
    prelude::*,
};

/// A cache of the compiled conditions of webhooks.
#[derive(Debug, Default)]
pub(crate) struct Conditions(Mutex<HashMap<String, Arc<Expression>>>);

/// The result of match conditions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All conditions are true.
    Matches,
    /// A condition is false.
    Differs,
    /// A condition cannot be evaluated, and no condition is false.
    Failed(String),
}

/// The capacity of the cache. A full cache is cleared.
const KEPT: usize = 1_000;

impl Conditions {
    /// Returns the compiled conditions of a webhook.
    pub(crate) fn of(&self, webhook: &Value) -> Vec<Arc<Expression>> {
        let conditions = webhook.items(&["matchConditions"]).iter();
        conditions.map(|condition| self.compiled(condition.text(&["expression"]))).collect()
    }

    fn compiled(&self, expression: &str) -> Arc<Expression> {
        if let Some(known) = self.0.lock().get(expression) {
            return Arc::clone(known);
        }
        let compiled = Arc::new(match_condition(expression));
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(expression.to_owned(), Arc::clone(&compiled));
        compiled
    }
}

/// Evaluates match conditions.
pub(crate) fn evaluate<'v>(conditions: impl IntoIterator<Item = &'v Expression>, scope: &Scope<'v>) -> Verdict {
    let mut budget = CONDITIONS_BUDGET;
    let mut results = Vec::new();
    // All conditions are evaluated before the first result counts.
    for condition in conditions {
        match condition.evaluate(scope, &mut budget, Scope::condition) {
            Ok(result) => results.push(result),
            Err(out_of_budget) => return Verdict::Failed(out_of_budget.to_string()),
        }
    }
    if results.contains(&Ok(false)) {
        return Verdict::Differs;
    }
    let mut errors: Vec<String> = Vec::new();
    for error in results.into_iter().filter_map(Result::err) {
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    match errors.as_slice() {
        [] => Verdict::Matches,
        [error] => Verdict::Failed(error.clone()),
        several => Verdict::Failed(format!("[{}]", several.join(", "))),
    }
}
