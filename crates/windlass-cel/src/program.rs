//! Checked expressions, for repeated evaluation.

use std::sync::Arc;

use cel::common::ast::IdedExpr;
use serde_json::Value as Json;

use crate::{
    check::{CheckedExpr, bad_pattern, check},
    error::{CompileError, EvaluationError, Expected},
    estimate::estimate,
    eval::{Composed, NoVariables, evaluate},
    fault::EvalFault,
    json::to_json,
    library::Dialect,
    meter::Meter,
    parse::{depth, parse, selects},
    schema::Schema,
    stack::with_large_stack,
    types::{Type, VariableTypes},
    value::Value,
};

/// The cost limit of one evaluation of a rule, as in kube-apiserver.
pub const LIMIT_PER_CALL: u64 = 1_000_000;

/// The variables of expressions, with their schemas, and the dialect.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(String, Arc<Schema>, Presence)>,
    /// Variables without a schema.
    typed: Vec<(&'static str, Type)>,
    dialect: Dialect,
    patches: bool,
}

/// The variable for access checks.
pub(crate) const AUTHORIZER: &str = "authorizer";
/// The variable for access checks on the resource of the request.
pub(crate) const REQUEST_RESOURCE: &str = "authorizer.requestResource";
/// The variable with the composed variables.
const VARIABLES: &str = "variables";

/// Indicates whether a variable always has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The variable always has a value.
    Certain,
    /// The variable is an optional: `oldSelf` of rules with `optionalOldSelf`.
    Optional,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    expr: IdedExpr,
    checked: CheckedExpr,
    environment: Environment,
    ty: Type,
    most_cost: u64,
    depth: usize,
}

/// The maximum depth for evaluation on the caller's stack.
const SHALLOW: usize = 32;

/// The result and the cost of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated<T> {
    /// The value or the error.
    pub result: Result<T, EvaluationError>,
    /// The cost in units of about 50 ns.
    pub cost: u64,
}

// === impl Environment ===

impl Environment {
    /// Creates an environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable. The schema of the first variable determines the estimated sizes.
    #[must_use]
    pub fn with(mut self, name: &str, schema: &Arc<Schema>, presence: Presence) -> Self {
        self.variables.push((name.to_owned(), Arc::clone(schema), presence));
        self
    }

    /// Sets the functions and the syntax of expressions.
    #[must_use]
    pub const fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Adds the variables `authorizer` and `authorizer.requestResource`.
    #[must_use]
    pub fn with_authorizer(mut self) -> Self {
        self.typed.push((AUTHORIZER, Type::Extension("kubernetes.authorization.Authorizer")));
        self.typed.push((REQUEST_RESOURCE, Type::Extension("kubernetes.authorization.ResourceCheck")));
        self
    }

    /// Lets expressions construct objects (`Object{…}`) and patches (`JSONPatch{…}`).
    #[must_use]
    pub const fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// Adds the variable `variables` with composed variables of these types.
    #[must_use]
    pub(crate) fn composing(mut self, types: &VariableTypes) -> Self {
        self.typed.push((VARIABLES, Type::Variables(types.clone())));
        self
    }

    /// Compiles an expression of the expected type.
    pub fn compile(&self, source: &str, expected: Expected) -> Result<Program, CompileError> {
        with_large_stack(|| self.compile_here(source, expected))
            .unwrap_or_else(|error| Err(CompileError::without_thread(&error)))
    }

    fn compile_here(&self, source: &str, expected: Expected) -> Result<Program, CompileError> {
        let (expr, places) = parse(source, self.dialect)?;
        let typed = |(name, schema, presence): &(String, Arc<Schema>, Presence)| {
            let ty = Type::of(schema);
            (name.clone(), if *presence == Presence::Optional { Type::optional(ty) } else { ty })
        };
        let typed = self.variables.iter().map(typed);
        let variables = typed.chain(self.typed.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())));
        let (checked, ty) = check(source, &expr, &places, variables.collect(), self.dialect, self.patches)?;
        match (expected, &ty) {
            (Expected::Any, _)
            | (Expected::Bool, Type::Bool)
            | (Expected::Text | Expected::TextOrNull, Type::String)
            | (Expected::TextOrNull, Type::Null) => {}
            (Expected::Object, Type::Struct(name)) if &**name == "Object" => {}
            (Expected::Patch, Type::List(item)) if matches!(&**item, Type::Struct(name) if &**name == "JSONPatch") => {}
            (Expected::Bool, _) => return Err(CompileError::found(&ty, "cel expression must evaluate to a bool")),
            (Expected::TextOrNull | Expected::Object | Expected::Patch, _) => {
                return Err(CompileError::found(&ty, "cel expression has the wrong type"));
            }
            (Expected::Text, _) => return Err(CompileError::found(&ty, "messageExpression must evaluate to a string")),
        }
        if let Some(problem) = bad_pattern(&expr) {
            return Err(CompileError::of_type(&format!("program instantiation failed: {problem}")));
        }
        let any = Schema::any();
        let schema = self.variables.first().map_or(&any, |(_, schema, _)| schema);
        let most_cost = estimate(&expr, &checked, schema).most;
        let depth = depth(&expr);
        Ok(Program { expr, checked, environment: self.clone(), ty, most_cost, depth })
    }
}

// === impl Program ===

impl Program {
    /// Compiles a rule on `self`, which a structural schema describes. `oldSelf` is its previous value.
    ///
    /// ```
    /// use windlass_cel::Program;
    ///
    /// let schema = serde_json::json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    /// assert!(Program::compile("self.replicas >= 0", &schema).is_ok());
    /// let error = Program::compile("self.replica >= 0", &schema).unwrap_err();
    /// assert_eq!((error.line, error.column, error.message.as_str()), (1, 5, "undefined field 'replica'"));
    /// ```
    ///
    /// # Errors
    /// Returns an error if the rule cannot be parsed, has type errors, or is not a condition, or if the schema does not
    /// allow rules.
    pub fn compile(rule: &str, schema: &Json) -> Result<Self, CompileError> {
        let schema = Schema::of_value(schema)
            .ok_or_else(|| CompileError::of_type("rules cannot be about values of this schema"))?;
        let environment =
            Environment::new().with("self", &schema, Presence::Certain).with("oldSelf", &schema, Presence::Certain);
        environment.compile(rule, Expected::Bool)
    }

    /// Returns the maximum cost of an evaluation with values of the schema.
    pub fn most_cost(&self) -> u64 {
        self.most_cost
    }

    /// Reports whether the expression uses a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.checked.used.contains(variable)
    }

    /// Reports whether the expression selects a field of a variable, as in `claims.email` or `claims.?email`.
    pub fn selects(&self, variable: &str, field: &str) -> bool {
        selects(&self.expr, variable, field)
    }

    /// Evaluates an expression of any type. Returns `None` for a value that JSON cannot represent.
    pub fn value(&self, values: &[(&str, Option<&Json>)], limit: u64) -> Evaluated<Option<Json>> {
        self.evaluate(values, limit, |value| Some(to_json(value)))
    }

    /// Evaluates a condition. A variable without a value is an empty optional, or must not be used.
    pub fn condition(&self, values: &[(&str, Option<&Json>)], limit: u64) -> Evaluated<bool> {
        self.evaluate(values, limit, |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// Evaluates a text expression.
    pub fn text(&self, values: &[(&str, Option<&Json>)], limit: u64) -> Evaluated<String> {
        self.evaluate(values, limit, |value| match value {
            Value::Text(text) => Some((**text).to_owned()),
            _ => None,
        })
    }

    /// Evaluates the expression with values for its variables.
    pub(crate) fn evaluate_in<'v>(
        &'v self,
        variables: &[(&'v str, Value<'v>)],
        composed: &dyn Composed<'v>,
        meter: &Meter,
    ) -> Result<Value<'v>, EvalFault> {
        evaluate(&self.expr, &self.checked, variables, composed, meter)
    }

    pub(crate) fn ty(&self) -> &Type {
        &self.ty
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the names of the composed variables that the expression uses.
    pub(crate) fn composed(&self) -> impl Iterator<Item = &str> {
        self.checked.used_composed.iter().map(String::as_str)
    }

    fn evaluate<T: Send>(
        &self,
        values: &[(&str, Option<&Json>)],
        limit: u64,
        read: fn(&Value<'_>) -> Option<T>,
    ) -> Evaluated<T> {
        if self.depth <= SHALLOW {
            return self.evaluate_here(values, limit, read);
        }
        with_large_stack(|| self.evaluate_here(values, limit, read)).unwrap_or_else(|error| Evaluated {
            result: Err(EvaluationError::Failed(format!("no thread to evaluate in: {error}"))),
            cost: 0,
        })
    }

    fn evaluate_here<T>(
        &self,
        values: &[(&str, Option<&Json>)],
        limit: u64,
        read: fn(&Value<'_>) -> Option<T>,
    ) -> Evaluated<T> {
        let meter = Meter::new(limit);
        let mut variables = Vec::with_capacity(values.len());
        for (name, schema, presence) in &self.environment.variables {
            let json = values.iter().find(|(other, _)| other == name).and_then(|(_, value)| *value);
            let value = match (json.map(|json| Value::read(json, schema)).transpose(), presence) {
                (Err(fault), _) => return Evaluated { result: Err(fault.into()), cost: 0 },
                (Ok(Some(value)), Presence::Certain) => value,
                (Ok(None), Presence::Certain) => continue,
                (Ok(value), Presence::Optional) => value.map_or(Value::Optional(None), Value::some),
            };
            variables.push((name.as_str(), value));
        }
        let result = match self.evaluate_in(&variables, &NoVariables, &meter) {
            Ok(value) => read(&value).ok_or_else(|| EvaluationError::Failed("no such overload".to_owned())),
            Err(fault) => Err(fault.into()),
        };
        Evaluated { result, cost: meter.cost() }
    }
}
