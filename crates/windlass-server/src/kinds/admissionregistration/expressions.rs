//! The expressions of match conditions and admission policies: their variables, their compilation, and the limits of
//! their evaluation.
//!
//! The variables are `object`, `oldObject`, `request`, `namespaceObject`, `authorizer` and, for policies with a parameter
//! kind, `params`. Policies can also compose `variables`.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use windlass_cel::{
    CompileError, Composition, Environment, Evaluated, EvaluationError, Expected, Presence, Program, Schema, Scope,
};

/// The cost limit of all conditions of a webhook or a policy together.
pub(crate) const CONDITIONS_BUDGET: u64 = 2_500_000;
/// The cost limit of all validations of a policy together, of its audit annotations, and of each mutation.
pub(crate) const POLICY_BUDGET: u64 = 10_000_000;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The variables that an expression may use besides the ones that all have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Available {
    pub(crate) params: bool,
    pub(crate) authorizer: bool,
    /// The expression may construct objects and patches.
    pub(crate) patches: bool,
}

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
}

struct Environments {
    base: Environment,
    with_params: Environment,
}

static ENVIRONMENTS: LazyLock<Environments> = LazyLock::new(|| {
    let any = Schema::any();
    let base = Environment::new()
        .with("object", &any, Presence::Certain)
        .with("oldObject", &any, Presence::Certain)
        .with("namespaceObject", &namespace_schema(), Presence::Certain)
        .with("request", &request_schema(), Presence::Certain);
    Environments { with_params: base.clone().with("params", &any, Presence::Certain), base }
});

fn of(schema: &Value) -> Arc<Schema> {
    Schema::of_value(schema).unwrap_or_else(Schema::any)
}

fn text() -> Arc<Schema> {
    of(&json!({"type": "string"}))
}

fn texts() -> Arc<Schema> {
    of(&json!({"type": "array", "items": {"type": "string"}}))
}

fn text_map() -> Arc<Schema> {
    of(&json!({"type": "object", "additionalProperties": {"type": "string"}}))
}

/// Returns an object schema whose fields are all texts.
fn object_of_texts<const N: usize>(name: &str, fields: [&'static str; N]) -> Arc<Schema> {
    Schema::object(name, fields.map(|field| (field, text())))
}

fn request_schema() -> Arc<Schema> {
    let kind = object_of_texts("kubernetes.GroupVersionKind", ["group", "version", "kind"]);
    let resource = object_of_texts("kubernetes.GroupVersionResource", ["group", "version", "resource"]);
    let extra = json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}});
    let user = [("username", text()), ("uid", text()), ("groups", texts()), ("extra", of(&extra))];
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
    Schema::object("kubernetes.AdmissionRequest", request)
}

/// Returns the schema of a namespace. It omits some fields, as kube-apiserver does.
fn namespace_schema() -> Arc<Schema> {
    let time = || of(&json!({"type": "string", "format": "date-time"}));
    let number = || of(&json!({"type": "integer"}));
    let metadata = [
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", text_map()),
        ("annotations", text_map()),
        ("UID", text()),
        ("creationTimestamp", time()),
        ("deletionGracePeriodSeconds", number()),
        ("deletionTimestamp", time()),
        ("generation", number()),
        ("resourceVersion", text()),
        ("finalizers", texts()),
    ];
    let condition =
        [("status", text()), ("type", text()), ("lastTransitionTime", time()), ("message", text()), ("reason", text())];
    let conditions = Schema::list(&Schema::object("kubernetes.NamespaceCondition", condition));
    let status = [("conditions", conditions), ("phase", text())];
    let namespace = [
        ("metadata", Schema::object("kubernetes.NamespaceMetadata", metadata)),
        ("spec", Schema::object("kubernetes.NamespaceSpec", [("finalizers", texts())])),
        ("status", Schema::object("kubernetes.NamespaceStatus", status)),
    ];
    Schema::object("kubernetes.Namespace", namespace)
}

/// Returns the environment of an expression outside of a composition.
fn environment(available: Available) -> Environment {
    let environments = &*ENVIRONMENTS;
    let mut environment = if available.params { &environments.with_params } else { &environments.base }.clone();
    if available.authorizer {
        environment = environment.with_authorizer();
    }
    if available.patches { environment.with_patches() } else { environment }
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
    let available = Available { authorizer: true, ..Available::default() };
    Expression::compile(source, Expected::Bool, &environment(available))
}

/// Returns the compile error of a match condition; `None` if it is valid. Unlike during evaluation, the condition of a
/// policy cannot use composed variables.
pub(super) fn condition_problem(source: &str, params: bool) -> Option<String> {
    let available = Available { params, authorizer: true, ..Available::default() };
    Expression::compile(source, Expected::Bool, &environment(available)).program.err()
}

// === impl Expression ===

impl Expression {
    fn compile(source: &str, expected: Expected, environment: &Environment) -> Self {
        let program = environment.compile(source, expected).map_err(|error| describe(&error, expected));
        Self { source: source.to_owned(), program }
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
        Self { has_params, composes, composition: Composition::default() }
    }

    /// Adds a variable. Returns its compile error.
    pub(crate) fn add_variable(&mut self, name: &str, source: &str) -> Option<String> {
        let available = Available { params: self.has_params, authorizer: true, patches: false };
        let added = self.composition.add(name, source, &environment(available));
        added.err().map(|error| describe(&error, Expected::Any))
    }

    /// Compiles an expression that may use the variables.
    pub(crate) fn compile(&self, source: &str, expected: Expected, authorizer: bool) -> Expression {
        let patches = matches!(expected, Expected::Object | Expected::Patch);
        let environment = environment(Available { params: self.has_params, authorizer, patches });
        if self.composes {
            return Expression::compile(source, expected, &self.composition.extend(&environment));
        }
        Expression::compile(source, expected, &environment)
    }

    /// Returns the variables.
    pub(crate) fn into_composition(self) -> Composition {
        self.composition
    }
}
