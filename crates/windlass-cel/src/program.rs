//! Expressions that were checked, to be evaluated often.

use std::sync::Arc;

use cel::common::ast::IdedExpr;
use serde_json::Value as Json;

use crate::{
    check::{Notes, bad_pattern, check},
    error::{CompileError, EvaluationError, Expected},
    estimate::estimate,
    eval::{Meter, evaluate},
    parse::{depth, parse},
    schema::Schema,
    stack::with_room,
    types::Type,
    value::Value,
};

/// What one evaluation of a rule may cost, as in the real server.
pub const LIMIT_PER_CALL: u64 = 1_000_000;

/// The variables that expressions can use, and what is known of them.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<(String, Arc<Schema>, Presence)>,
}

/// Whether a variable always has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has.
    Certain,
    /// It is an optional: `oldSelf` of rules with `optionalOldSelf`.
    Optional,
}

/// An expression that can be evaluated.
#[derive(Debug)]
pub struct Program {
    expr: IdedExpr,
    notes: Notes,
    environment: Environment,
    most_cost: u64,
    /// It is evaluated where there is room for recursion.
    is_deep: bool,
}

/// Up to this depth the stack of any thread will do.
const SHALLOW: usize = 32;

/// What an evaluation gave, and what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated<T> {
    /// The value, or why there is none.
    pub result: Result<T, EvaluationError>,
    /// In units of cost, of which about twenty are a microsecond.
    pub cost: u64,
}

// === impl Environment ===

impl Environment {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable. Sizes are estimated from what the first one allows.
    #[must_use]
    pub fn with(mut self, name: &str, schema: &Arc<Schema>, presence: Presence) -> Self {
        self.variables.push((name.to_owned(), Arc::clone(schema), presence));
        self
    }

    /// Compiles an expression whose values are of the expected type.
    pub fn compile(&self, source: &str, expected: Expected) -> Result<Program, CompileError> {
        with_room(|| self.compile_here(source, expected))
            .unwrap_or_else(|error| Err(CompileError::of_type(&format!("no thread to compile in: {error}"))))
    }

    fn compile_here(&self, source: &str, expected: Expected) -> Result<Program, CompileError> {
        let (expr, places) = parse(source)?;
        let typed = |(name, schema, presence): &(String, Arc<Schema>, Presence)| {
            let ty = schema.ty();
            (name.clone(), if *presence == Presence::Optional { Type::optional(ty) } else { ty })
        };
        let (notes, ty) = check(source, &expr, &places, &self.variables.iter().map(typed).collect::<Vec<_>>())?;
        match (expected, &ty) {
            (Expected::Bool, Type::Bool) | (Expected::Text, Type::String) => {}
            (Expected::Bool, _) => return Err(CompileError::found(&ty, "cel expression must evaluate to a bool")),
            (Expected::Text, _) => return Err(CompileError::found(&ty, "messageExpression must evaluate to a string")),
        }
        if let Some(problem) = bad_pattern(&expr) {
            return Err(CompileError::of_type(&format!("program instantiation failed: {problem}")));
        }
        let any = Schema::any();
        let schema = self.variables.first().map_or(&any, |(_, schema, _)| schema);
        let most_cost = estimate(&expr, &notes, schema).most;
        let is_deep = depth(&expr) > SHALLOW;
        Ok(Program { expr, notes, environment: self.clone(), most_cost, is_deep })
    }
}

// === impl Program ===

impl Program {
    /// Compiles a rule about `self`, which a structural schema describes; `oldSelf` is what it was before.
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
    /// When it cannot be read, its types do not fit, or it is no condition; when rules cannot be about such values.
    pub fn compile(rule: &str, schema: &Json) -> Result<Self, CompileError> {
        let schema = Schema::of_value(schema)
            .ok_or_else(|| CompileError::of_type("rules cannot be about values of this schema"))?;
        let environment =
            Environment::new().with("self", &schema, Presence::Certain).with("oldSelf", &schema, Presence::Certain);
        environment.compile(rule, Expected::Bool)
    }

    /// The most that an evaluation can cost with values of the schema.
    pub fn most_cost(&self) -> u64 {
        self.most_cost
    }

    /// Whether the expression names a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.notes.used.contains(variable)
    }

    /// Evaluates a condition. A variable without a value is an empty optional, or must not be used.
    pub fn condition(&self, values: &[(&str, Option<&Json>)], limit: u64) -> Evaluated<bool> {
        self.evaluate(values, limit, |value| match value {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        })
    }

    /// Evaluates a text.
    pub fn text(&self, values: &[(&str, Option<&Json>)], limit: u64) -> Evaluated<String> {
        self.evaluate(values, limit, |value| match value {
            Value::Text(text) => Some((**text).to_owned()),
            _ => None,
        })
    }

    fn evaluate<T: Send>(
        &self,
        values: &[(&str, Option<&Json>)],
        limit: u64,
        read: fn(&Value<'_>) -> Option<T>,
    ) -> Evaluated<T> {
        if !self.is_deep {
            return self.evaluate_here(values, limit, read);
        }
        with_room(|| self.evaluate_here(values, limit, read)).unwrap_or_else(|error| Evaluated {
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
        let outcome = evaluate(&self.expr, &self.notes, &variables, &meter);
        let result = match outcome {
            Ok(value) => read(&value).ok_or_else(|| EvaluationError::Failed("no such overload".to_owned())),
            Err(fault) => Err(fault.into()),
        };
        Evaluated { result, cost: meter.cost() }
    }
}
