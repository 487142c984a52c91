//! Evaluation of expressions, with limits on cost, time and memory.

use std::collections::BTreeMap;

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

use crate::{
    check::CheckedExpr,
    cost::{NEW_LIST, NEW_MAP, NEW_OBJECT, Operand, Range},
    fault::EvalFault,
    library::truth,
    meter::Meter,
    parse::ACCUMULATOR,
    types::Type,
    value::{List, Map, Struct, Text, Value, shown},
};

/// The state of one evaluation.
struct Evaluation<'s, 'v> {
    checked: &'v CheckedExpr,
    meter: &'s Meter,
    composed: &'s dyn Composed<'v>,
    /// The variables, innermost last. The value of an accumulator may be an error, from which later steps can recover.
    variables: Vec<(&'v str, Result<Value<'v>, EvalFault>)>,
}

/// The composed variables of an evaluation.
pub(crate) trait Composed<'v> {
    /// Returns the value of a variable.
    fn variable(&self, name: &'v str) -> Result<Value<'v>, EvalFault>;
}

/// No composed variables.
pub(crate) struct NoVariables;

impl<'v> Composed<'v> for NoVariables {
    fn variable(&self, name: &'v str) -> Result<Value<'v>, EvalFault> {
        Err(EvalFault::error(format!("no such key: {name}")))
    }
}

/// Evaluates an expression with values for its variables.
pub(crate) fn evaluate<'v>(
    expr: &'v IdedExpr,
    checked: &'v CheckedExpr,
    variables: &[(&'v str, Value<'v>)],
    composed: &dyn Composed<'v>,
    meter: &Meter,
) -> Result<Value<'v>, EvalFault> {
    let variables = variables.iter().map(|(name, value)| (*name, Ok(value.clone()))).collect();
    Evaluation { checked, meter, composed, variables }.value(expr)
}

// === impl Evaluation ===

impl<'v> Evaluation<'_, 'v> {
    fn value(&mut self, expr: &'v IdedExpr) -> Result<Value<'v>, EvalFault> {
        match &expr.expr {
            Expr::Literal(literal) => Ok(constant(literal)),
            Expr::Ident(name) => {
                self.meter.charge(1)?;
                self.variable(name)
            }
            Expr::Select(select) => {
                if let Some(name) = self.checked.type_at(expr.id) {
                    return Ok(Value::Type(name));
                }
                if let Some(name) = self.checked.variable_at(expr.id) {
                    self.meter.charge(1)?;
                    return self.variable(name);
                }
                if self.checked.is_composed(expr.id) {
                    self.meter.charge(if select.test { 1 } else { 2 })?;
                    let value = self.composed.variable(&select.field)?;
                    return Ok(if select.test { Value::Bool(true) } else { value });
                }
                let operand = self.value(&select.operand)?;
                let name = Value::Text(Text::Borrowed(&select.field));
                let found = operand.find(&name);
                // A presence test costs only its operand.
                if select.test {
                    return Ok(Value::Bool(found?.is_some()));
                }
                self.meter.charge(1)?;
                match (found?, &operand) {
                    (found, Value::Optional(_)) => Ok(found.map_or(Value::Optional(None), Value::some)),
                    (Some(found), _) => Ok(found),
                    (None, _) => Err(EvalFault::missing(&operand, &name)),
                }
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                ("_&&_", [a, b]) => self.either(a, b, false),
                ("_||_", [a, b]) => self.either(a, b, true),
                ("_?_:_", [condition, yes, no]) => {
                    let branch = if truth(&self.value(condition)?)? { yes } else { no };
                    self.value(branch)
                }
                ("@not_strictly_false", [condition]) => match self.value(condition) {
                    Err(EvalFault::Exhausted) => Err(EvalFault::Exhausted),
                    value => Ok(Value::Bool(!matches!(value, Ok(Value::Bool(false))))),
                },
                _ => self.call(expr),
            },
            Expr::List(list) => {
                self.meter.charge(NEW_LIST)?;
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, item) in list.elements.iter().enumerate() {
                    match (self.value(item)?, list.optional_indices.contains(&index)) {
                        (Value::Optional(None), true) => {}
                        (Value::Optional(Some(value)), true) => items.push((*value).clone()),
                        (value, _) => items.push(value),
                    }
                }
                Ok(Value::list(items))
            }
            Expr::Map(map) => {
                self.meter.charge(NEW_MAP)?;
                let mut entries = BTreeMap::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let key = self.value(&entry.key)?;
                    let value = match (self.value(&entry.value)?, entry.optional) {
                        (Value::Optional(None), true) => continue,
                        (Value::Optional(Some(value)), true) => (*value).clone(),
                        (value, _) => value,
                    };
                    let unsupported = || EvalFault::error(format!("unsupported key type: {}", key.type_name()));
                    if entries.insert(key.key().ok_or_else(unsupported)?, value).is_some() {
                        return Err(EvalFault::error(format!("Failed with repeated key: {}", shown(&key))));
                    }
                }
                Ok(Value::Map(Map::new(entries)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(object) => {
                self.meter.charge(NEW_OBJECT)?;
                let mut fields = BTreeMap::new();
                for entry in &object.entries {
                    let EntryExpr::StructField(field) = &entry.expr else { continue };
                    let value = match (self.value(&field.value)?, field.optional) {
                        (Value::Optional(None), true) => continue,
                        (Value::Optional(Some(value)), true) => (*value).clone(),
                        (value, _) => value,
                    };
                    fields.insert(field.field.as_str(), value);
                }
                Ok(Value::Struct(Struct { name: &object.type_name, fields }.into()))
            }
            Expr::Unspecified => Err(EvalFault::error("no expression")),
        }
    }

    /// Returns the value of a variable. The value of an accumulator for a list or map is moved out, so that it can grow
    /// in place; each step uses its accumulator only once.
    fn variable(&mut self, name: &str) -> Result<Value<'v>, EvalFault> {
        if let Some((_, value)) = self.variables.iter_mut().rev().find(|(other, _)| *other == name) {
            if name == ACCUMULATOR && matches!(value, Ok(Value::List(_) | Value::Map(_))) {
                return std::mem::replace(value, Ok(Value::Null));
            }
            return value.clone();
        }
        let ty = crate::check::type_named(name).map(|(name, _)| Value::Type(name));
        ty.ok_or_else(|| EvalFault::error(format!("no such attribute(s): {name}")))
    }

    /// Evaluates `&&` and `||`. An error on one side is ignored if the other side decides.
    fn either(&mut self, a: &'v IdedExpr, b: &'v IdedExpr, decisive: bool) -> Result<Value<'v>, EvalFault> {
        let a = self.value(a).and_then(|value| truth(&value));
        if a == Ok(decisive) || a == Err(EvalFault::Exhausted) {
            return a.map(Value::Bool);
        }
        let b = self.value(b).and_then(|value| truth(&value));
        match (a, b) {
            (_, Ok(b)) if b == decisive => Ok(Value::Bool(b)),
            (_, Err(EvalFault::Exhausted)) => Err(EvalFault::Exhausted),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(_), Ok(b)) => Ok(Value::Bool(b)),
        }
    }

    fn call(&mut self, expr: &'v IdedExpr) -> Result<Value<'v>, EvalFault> {
        let Expr::Call(call) = &expr.expr else { return Err(EvalFault::error("not a call")) };
        if self.checked.is_composed(expr.id)
            && let [_, name] = call.args.as_slice()
            && let Expr::Literal(LiteralValue::String(name)) = &name.expr
        {
            self.meter.charge(2)?;
            return self.composed.variable(name.inner()).map(Value::some);
        }
        let resolved = self.checked.call(expr.id);
        let target = call.target.as_deref().filter(|_| resolved.on_target);
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in target.into_iter().chain(&call.args) {
            // The fallback of an optional is evaluated only if necessary.
            if matches!(call.func_name.as_str(), "or" | "orValue")
                && let [Value::Optional(Some(value))] = args.as_slice()
            {
                self.meter.charge(1)?;
                return Ok(if call.func_name == "or" { args.remove(0) } else { (**value).clone() });
            }
            args.push(self.value(arg)?);
        }
        let Some(overload) = resolved.overloads.iter().find(|overload| overload.takes(&args)) else {
            return Err(EvalFault::no_overload(resolved.function, &args.iter().collect::<Vec<_>>()));
        };
        let operands = args.iter().map(operand).collect::<Vec<_>>();
        let (cost, result) = overload.cost.of(&operands);
        self.meter.charge(cost.most)?;
        // Counts the size of a new text, so that its memory is within the limit.
        if let (Type::String, Some(size)) = (&overload.result, result) {
            self.meter.work(size.most / 64)?;
        }
        match (resolved.function, args.as_mut_slice()) {
            ("_+_", [Value::List(a), Value::List(b)]) => {
                let (a, b) = (std::mem::replace(a, List::new(Vec::new())), b.clone());
                Ok(Value::List(a.plus(b, self.meter)?))
            }
            ("cel.@mapInsert", [Value::Map(map), key, value]) => {
                let map = std::mem::replace(map, Map::new(BTreeMap::new()));
                Ok(Value::Map(map.insert(key, value.clone())?))
            }
            _ => (overload.native)(self.meter, &args),
        }
    }

    fn comprehension(&mut self, of: &'v ComprehensionExpr) -> Result<Value<'v>, EvalFault> {
        let range = self.value(&of.iter_range)?;
        let start = self.value(&of.accu_init);
        if matches!(start, Err(EvalFault::Exhausted)) {
            return start;
        }
        let depth = self.variables.len();
        self.variables.push((&of.accu_var, start));
        let outcome = self.steps(of, &range, depth).and_then(|()| self.value(&of.result));
        self.variables.truncate(depth);
        outcome
    }

    /// Iterates over the items of a list, or over the keys of a map.
    fn steps(&mut self, of: &'v ComprehensionExpr, range: &Value<'v>, accumulator: usize) -> Result<(), EvalFault> {
        let (names, count) = match range {
            Value::List(list) => (Vec::new(), list.len()),
            Value::Map(map) => (map.keys(), map.len()),
            other => {
                let ty = other.go_type();
                return Err(EvalFault::error(format!("got 'types.{ty}', expected iterable type")));
            }
        };
        self.meter.work(names.len() as u64)?;
        for index in 0..count {
            self.meter.work(1)?;
            let name = names.get(index).cloned().unwrap_or(Value::Null);
            let (first, second) = match (range, of.iter_var2.is_some()) {
                (Value::List(list), false) => (list.get(index).unwrap_or(Ok(Value::Null)), None),
                (Value::List(list), true) => {
                    (Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX))), list.get(index))
                }
                (_, false) => (Ok(name), None),
                (map, true) => {
                    let value = map.find(&name).transpose();
                    (Ok(name), value)
                }
            };
            self.variables.push((&of.iter_var, first));
            if let (Some(name), Some(second)) = (&of.iter_var2, second) {
                self.variables.push((name, second));
            }
            let goes_on = self.value(&of.loop_cond).and_then(|value| truth(&value));
            let step = if goes_on == Ok(true) { Some(self.value(&of.loop_step)) } else { None };
            self.variables.truncate(accumulator + 1);
            match (goes_on?, step) {
                (true, Some(Err(EvalFault::Exhausted))) => return Err(EvalFault::Exhausted),
                (true, Some(step)) => self.variables[accumulator].1 = step,
                _ => break,
            }
        }
        Ok(())
    }
}

/// Returns the properties of a value on which the cost of a call depends.
fn operand(value: &Value<'_>) -> Operand {
    let (first, is_list) = match value {
        Value::List(list) => (list.get(0).and_then(Result::ok), true),
        _ => (None, false),
    };
    let items = first.as_ref().map(|item| Range::exactly(item.size()));
    Operand {
        size: Range::exactly(value.size()),
        texts: items.filter(|_| matches!(first, Some(Value::Text(_) | Value::Bytes(_)))),
        is_list,
        items: is_list.then(|| items.unwrap_or(Range::exactly(0))),
        number: if let Value::Int(number) = value { Some(*number) } else { None },
        is_small: matches!(value, Value::Extension(_)),
    }
}

fn constant(literal: &LiteralValue) -> Value<'_> {
    match literal {
        LiteralValue::Boolean(flag) => Value::Bool(*flag.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(bytes.inner().into()),
        LiteralValue::Double(number) => Value::Double(*number.inner()),
        LiteralValue::Int(number) => Value::Int(*number.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => Value::Text(Text::Borrowed(text.inner())),
        LiteralValue::UInt(number) => Value::Uint(*number.inner()),
    }
}
