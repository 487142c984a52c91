//! The evaluation of several expressions with the same values: composed variables and access checks.
//!
//! A composed variable is an expression with a name. Other expressions use it as `variables.NAME`. It is evaluated on its
//! first use, at most once in a scope.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
};

use serde_json::Value as Json;

use crate::{
    access::{AccessCheck, AccessDecisions, AccessState, AccessValue, ResourceTarget},
    error::{CompileError, EvaluationError, Expected},
    eval::Composed,
    extension::ExtensionValue,
    fault::EvalFault,
    meter::Meter,
    output,
    program::{AUTHORIZER, Environment, Evaluated, LIMIT_PER_CALL, Program, REQUEST_RESOURCE},
    schema::Schema,
    stack::with_large_stack,
    types::{Type, VariableTypes},
    value::Value,
};

/// Variables that are expressions, in order. Each can use the ones before it.
#[derive(Debug, Default)]
pub struct Composition {
    programs: BTreeMap<String, Result<Program, CompileError>>,
    types: VariableTypes,
    depths: BTreeMap<String, usize>,
}

/// The values of the variables in a scope.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The names and values of plain variables.
    pub values: Vec<(&'a str, &'a Json)>,
    /// The composed variables.
    pub composition: Option<&'a Composition>,
    /// The resource of the request, for `authorizer.requestResource`. `None` if there is no authorizer.
    pub request: Option<&'a ResourceTarget>,
    /// The known decisions on access checks.
    pub decisions: Arc<AccessDecisions>,
    /// Stops evaluations that are not cheap. [`Scope::was_stopped`] then returns `true`.
    pub only_cheap: bool,
}

/// A scope for evaluations. It keeps the values of composed variables.
pub struct Scope<'v> {
    values: Vec<(&'v str, Value<'v>)>,
    composition: Option<&'v Composition>,
    composed: RefCell<HashMap<&'v str, Result<Value<'v>, EvalFault>>>,
    /// The cost of composed variables since the last [`Scope::take_composed_cost`].
    composed_cost: Cell<u64>,
    work: Rc<Cell<u64>>,
    access: Rc<AccessState>,
    only_cheap: bool,
    was_stopped: Cell<bool>,
}

/// The maximum depth of an expression with the variables that it uses, for evaluation on the caller's stack.
const SHALLOW: usize = 32;
/// The maximum depth of an expression with the variables that it uses.
const DEEPEST: usize = 4_000;

// === impl Composition ===

impl Composition {
    /// Compiles a variable and adds it. The variable is also added if it does not compile; its uses then fail.
    ///
    /// # Errors
    /// Returns an error if the expression does not compile.
    pub fn add(&mut self, name: &str, source: &str, environment: &Environment) -> Result<(), CompileError> {
        let compiled = self.extend(environment).compile(source, Expected::Any);
        let (compiled, depth) = match compiled {
            Ok(program) => {
                let depth = self.depth(&program);
                (if depth > DEEPEST { Err(too_deep(depth)) } else { Ok(program) }, depth.min(DEEPEST))
            }
            Err(error) => (Err(error), 0),
        };
        // The types of variables that are too deep may be, too.
        let ty = compiled.as_ref().map_or(Type::Dyn, |program| program.ty().declared());
        self.types.insert(name, ty);
        self.depths.insert(name.to_owned(), depth);
        let problem = compiled.as_ref().err().cloned();
        self.programs.insert(name.to_owned(), compiled);
        problem.map_or(Ok(()), Err)
    }

    /// Reports whether there are no variables.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Returns an environment with the variable `variables`, for expressions that use the composed variables.
    #[must_use]
    pub fn extend(&self, environment: &Environment) -> Environment {
        environment.clone().composing(&self.types)
    }

    #[cfg(test)]
    pub(crate) fn shares_types(&self) -> usize {
        self.types.sharers()
    }

    /// Returns the depth of an expression with the variables that it uses.
    fn depth(&self, program: &Program) -> usize {
        let below = program.composed().filter_map(|name| self.depths.get(name)).max();
        program.depth() + below.copied().unwrap_or(0)
    }
}

fn too_deep(depth: usize) -> CompileError {
    CompileError::of_type(&format!("expression is too deep: {depth} levels with its variables, limit {DEEPEST}"))
}

// === impl Inputs ===

impl Inputs<'_> {
    /// Runs evaluations in a new scope. Deep ones run on a thread with a large stack.
    ///
    /// # Errors
    /// Returns an error if no such thread can be started.
    pub fn evaluate<'v, T: Send>(
        &'v self,
        programs: impl IntoIterator<Item = &'v Program>,
        run: impl FnOnce(&Scope<'v>) -> T + Send,
    ) -> Result<T, EvaluationError> {
        let depth = |program: &Program| self.composition.map_or(program.depth(), |all| all.depth(program));
        let depth = programs.into_iter().map(depth).max().unwrap_or(0);
        if depth <= SHALLOW {
            return Ok(run(&Scope::new(self)));
        }
        if depth > DEEPEST {
            return Err(EvaluationError::Failed(too_deep(depth).to_string()));
        }
        with_large_stack(|| run(&Scope::new(self)))
            .map_err(|error| EvaluationError::Failed(format!("no thread to evaluate in: {error}")))
    }
}

// === impl Scope ===

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<'v> Scope<'v> {
    fn new(inputs: &'v Inputs<'_>) -> Self {
        let any = Schema::any_static();
        let mut values: Vec<_> =
            inputs.values.iter().map(|(name, json)| (*name, Value::read(json, any).unwrap_or(Value::Null))).collect();
        if let Some(target) = inputs.request {
            let access = |value| Value::extension(ExtensionValue::Access(value));
            values.push((AUTHORIZER, access(AccessValue::Authorizer { account: None })));
            let target = AccessValue::Resource { account: None, target: target.clone() };
            values.push((REQUEST_RESOURCE, access(target)));
        }
        Self {
            values,
            composition: inputs.composition,
            composed: RefCell::default(),
            composed_cost: Cell::new(0),
            work: Rc::default(),
            access: Rc::new(AccessState::new(Arc::clone(&inputs.decisions))),
            only_cheap: inputs.only_cheap,
            was_stopped: Cell::new(false),
        }
    }

    /// Evaluates a condition.
    pub fn condition(&self, program: &'v Program) -> Evaluated<bool> {
        self.evaluate(program, |value, _| match value {
            Value::Bool(flag) => Ok(*flag),
            _ => Err(EvaluationError::Failed("no such overload".to_owned())),
        })
    }

    /// Evaluates a text. Returns the name of the type for a value of another type, and `Ok(None)` for null.
    pub fn text(&self, program: &'v Program) -> Evaluated<Result<Option<String>, &'static str>> {
        self.evaluate(program, |value, _| {
            Ok(match value {
                Value::Text(text) => Ok(Some((**text).to_owned())),
                Value::Null => Ok(None),
                other => Err(other.type_name()),
            })
        })
    }

    /// Evaluates an expression that constructs an object. The inner error describes a result that is no valid object.
    pub fn object(&self, program: &'v Program) -> Evaluated<Result<Json, String>> {
        self.evaluate(program, |value, meter| Ok(output::object(value, meter)))
    }

    /// Evaluates an expression that constructs a JSON patch. The inner error describes a result that is no valid patch.
    pub fn patch(&self, program: &'v Program) -> Evaluated<Result<Json, String>> {
        self.evaluate(program, |value, meter| Ok(output::patch(value, meter)))
    }

    /// Returns the cost of composed variables since the last call.
    pub fn take_composed_cost(&self) -> u64 {
        self.composed_cost.take()
    }

    /// Returns the access check that stopped an evaluation because it has no decision yet.
    pub fn pending(&self) -> Option<AccessCheck> {
        self.access.pending()
    }

    /// Reports whether an evaluation was stopped because it is not cheap.
    pub fn was_stopped(&self) -> bool {
        self.was_stopped.get()
    }

    fn meter(&self) -> Meter {
        Meter::sharing(LIMIT_PER_CALL, Rc::clone(&self.work), Some(Rc::clone(&self.access)), self.only_cheap)
    }

    /// Records whether an evaluation was stopped.
    fn record(&self, meter: &Meter) {
        if meter.was_stopped() {
            self.was_stopped.set(true);
        }
    }

    fn evaluate<T>(
        &self,
        program: &'v Program,
        read: impl FnOnce(&Value<'v>, &Meter) -> Result<T, EvaluationError>,
    ) -> Evaluated<T> {
        let meter = self.meter();
        let result = program.evaluate_in(&self.values, self, &meter);
        let result = result.map_err(EvaluationError::from).and_then(|value| read(&value, &meter));
        self.record(&meter);
        Evaluated { result, cost: meter.cost() }
    }
}

impl<'v> Composed<'v> for Scope<'v> {
    fn variable(&self, name: &'v str) -> Result<Value<'v>, EvalFault> {
        if let Some(known) = self.composed.borrow().get(name) {
            return known.clone();
        }
        let program = self.composition.and_then(|composition| composition.programs.get(name));
        let program = program.ok_or_else(|| EvalFault::error(format!("no such key: {name}")))?;
        let program = match program {
            Ok(program) => program,
            Err(error) => {
                let why = format!("composited variable {name:?} fails to compile: {error}");
                return Err(EvalFault::error(why));
            }
        };
        let meter = self.meter();
        let value = program.evaluate_in(&self.values, self, &meter);
        self.record(&meter);
        self.composed_cost.set(self.composed_cost.get().saturating_add(meter.cost()));
        let value = match value {
            // These evaluations are repeated as a whole.
            Err(_) if self.pending().is_some() || self.was_stopped() => return Err(EvalFault::Exhausted),
            Err(fault) => Err(EvalFault::error(format!("composited variable {name:?} fails to evaluate: {fault}"))),
            value => value,
        };
        self.composed.borrow_mut().insert(name, value.clone());
        value
    }
}
