//! The expressions of match conditions and admission policies: their variables, their compilation, and the limits of
//! their evaluation.
//!
//! The variables are `object`, `oldObject`, `request`, `namespaceObject`, `authorizer` and, for policies with a parameter
//! kind, `params`. Policies can also compose `variables`.

use std::cell::Cell;

use windlass_cel::{
    AdmissionVariables, CompileError, Composition, Environment, Evaluated, EvaluationError, Expected, Program, Scope,
};

/// The cost limit of all conditions of a webhook or a policy together.
pub(crate) const CONDITIONS_BUDGET: u64 = 2_500_000;
/// The cost limit of all validations of a policy together, of its audit annotations, and of each mutation.
pub(crate) const POLICY_BUDGET: u64 = 10_000_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A compiled expression, or the reason why it cannot be compiled.
#[derive(Debug)]
pub(crate) struct Expression {
    source: String,
    program: Result<Program, String>,
}

/// The reason why no further expressions are evaluated: the budget is used up.
#[derive(Debug)]
pub(crate) struct OutOfBudget;

/// The compiler of a policy's expressions, in order: its variables come first.
#[derive(Debug, Default)]
pub(crate) struct PolicyCompiler {
    has_params: bool,
    /// Expressions may use `variables`.
    composes: bool,
    composition: Composition,
    /// An expression was not compiled for lack of resources.
    is_incomplete: Cell<bool>,
}

/// Returns a compile error in kube-apiserver's words.
fn describe(error: &CompileError, expected: Expected) -> String {
    let expected = match expected {
        Expected::TextOrNull => "one of [string null_type]".to_owned(),
        other => other.to_string(),
    };
    match error.found_type() {
        Some(found) => format!("must evaluate to {expected} but got {found}"),
        None => format!("compilation failed: {error}"),
    }
}

/// Compiles a match condition of a webhook.
pub(crate) fn match_condition(source: &str) -> Expression {
    let available = AdmissionVariables { authorizer: true, ..AdmissionVariables::default() };
    Expression::compile(source, Expected::Bool, &available.environment())
}

/// Returns the compile error of a match condition; `None` if it is valid. Unlike during evaluation, the condition of a
/// policy cannot use composed variables.
pub(super) fn condition_problem(source: &str, params: bool) -> Option<String> {
    let available = AdmissionVariables { params, authorizer: true, ..AdmissionVariables::default() };
    Expression::compile(source, Expected::Bool, &available.environment()).program.err()
}

// === impl Expression ===

impl Expression {
    fn compile(source: &str, expected: Expected, environment: &Environment) -> Self {
        Self::new(source, expected, environment.compile(source, expected))
    }

    fn new(source: &str, expected: Expected, program: Result<Program, CompileError>) -> Self {
        Self { source: source.to_owned(), program: program.map_err(|error| describe(&error, expected)) }
    }

    /// Returns the compiled expression, if it compiles.
    pub(crate) fn program(&self) -> Option<&Program> {
        self.program.as_ref().ok()
    }

    /// Returns the reason why the expression cannot be compiled.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Evaluates the expression, and charges its cost to the budget. The inner error is the message of a failure.
    pub(crate) fn evaluate<'v, T>(
        &'v self,
        scope: &Scope<'v>,
        budget: &mut u64,
        evaluate: impl FnOnce(&Scope<'v>, &'v Program) -> Evaluated<T>,
    ) -> Result<Result<T, String>, OutOfBudget> {
        let program = match &self.program {
            Ok(program) => program,
            Err(problem) => return Ok(Err(format!("compilation error: {problem}"))),
        };
        let Evaluated { result, cost } = evaluate(scope, program);
        for cost in [scope.take_composed_cost(), cost] {
            *budget = budget.checked_sub(cost).ok_or(OutOfBudget)?;
        }
        Ok(result.map_err(|error| self.failed(&error)))
    }

    fn failed(&self, error: &EvaluationError) -> String {
        format!("expression '{}' resulted in error: {error}", self.source)
    }
}

impl std::fmt::Display for OutOfBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(OUT_OF_BUDGET)
    }
}

// === impl PolicyCompiler ===

impl PolicyCompiler {
    /// Creates a compiler without variables.
    pub(crate) fn new(has_params: bool, composes: bool) -> Self {
        Self { has_params, composes, ..Self::default() }
    }

    /// Adds a variable. Returns its compile error.
    pub(crate) fn add_variable(&mut self, name: &str, source: &str) -> Option<String> {
        let available = AdmissionVariables { params: self.has_params, authorizer: true, patches: false };
        let error = self.composition.add(name, source, &available.environment()).err()?;
        self.is_incomplete.set(self.is_incomplete.get() || error.is_temporary());
        Some(describe(&error, Expected::Any))
    }

    /// Compiles an expression that may use the variables.
    pub(crate) fn compile(&self, source: &str, expected: Expected, authorizer: bool) -> Expression {
        let patches = matches!(expected, Expected::Object | Expected::Patch);
        let available = AdmissionVariables { params: self.has_params, authorizer, patches };
        let mut environment = available.environment();
        if self.composes {
            environment = self.composition.extend(&environment);
        }
        let program = environment.compile(source, expected);
        let is_temporary = program.as_ref().is_err_and(CompileError::is_temporary);
        self.is_incomplete.set(self.is_incomplete.get() || is_temporary);
        Expression::new(source, expected, program)
    }

    /// Reports whether an expression was not compiled for lack of resources. It may compile at another time.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete.get()
    }

    /// Returns the variables.
    pub(crate) fn into_composition(self) -> Composition {
        self.composition
    }
}
