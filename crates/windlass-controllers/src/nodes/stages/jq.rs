//! The queries of stages: the part of jq that selects and compares values of an object.
//!
//! Supported are paths with `[]`, `?`, `|`, `//`, `and`, `or`, comparisons, literals, `[query]`, and the functions
//! `select`, `map`, `any`, `all`, `has`, `not`, `length`, `tostring`, `startswith`, `endswith` and `empty`.

mod parser;

use std::{borrow::Cow, cmp::Ordering};

use serde_json::Value;

/// The maximum number of values of a query.
const MOST_VALUES: usize = 10_000;

/// A parsed query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Query(Expression);

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Identity,
    Literal(Value),
    /// `.name`, `."name"`, `["name"]` of the values of an expression.
    Field(Box<Self>, String),
    /// `[0]`
    Index(Box<Self>, i64),
    /// `[]`
    Each(Box<Self>),
    /// `?`
    Try(Box<Self>),
    /// `[query]`
    Collect(Box<Self>),
    Pipe(Box<Self>, Box<Self>),
    Alternative(Box<Self>, Box<Self>),
    Logic(Box<Self>, Logic, Box<Self>),
    Compare(Box<Self>, Comparison, Box<Self>),
    Call(Function, Option<Box<Self>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logic {
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Select,
    Map,
    Any,
    All,
    Has,
    Not,
    Length,
    ToString,
    StartsWith,
    EndsWith,
    Empty,
}

/// The query does not fit the value, for example because a number has no fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mismatch;

type Values<'v> = Vec<Cow<'v, Value>>;

impl Query {
    /// Parses a query. The error names the position of what is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        parser::parse(text).map(Self)
    }

    /// Returns the values that the query selects, without nulls. A query that does not fit the object selects none.
    pub(super) fn select<'v>(&self, object: &'v Value) -> Values<'v> {
        let mut values = self.0.evaluate(&Cow::Borrowed(object)).unwrap_or_default();
        values.retain(|value| !value.is_null());
        values
    }
}

impl Expression {
    fn evaluate<'v>(&self, input: &Cow<'v, Value>) -> Result<Values<'v>, Mismatch> {
        let values: Values<'v> = match self {
            Self::Identity => vec![input.clone()],
            Self::Literal(value) => vec![Cow::Owned(value.clone())],
            Self::Field(of, name) => each(of, input, |value| field(value, name).map(one))?,
            Self::Index(of, index) => each(of, input, |value| item(value, *index).map(one))?,
            Self::Each(of) => each(of, input, elements)?,
            Self::Try(of) => of.evaluate(input).unwrap_or_default(),
            Self::Collect(of) => {
                let values = of.evaluate(input)?;
                one(Cow::Owned(Value::Array(values.into_iter().map(Cow::into_owned).collect())))
            }
            Self::Pipe(first, second) => each(first, input, |value| second.evaluate(&value))?,
            Self::Alternative(first, second) => {
                let mut values = first.evaluate(input).unwrap_or_default();
                values.retain(|value| is_true(value));
                if values.is_empty() { second.evaluate(input)? } else { values }
            }
            Self::Logic(first, logic, second) => each(first, input, |value| {
                if is_true(&value) == (*logic == Logic::Or) {
                    return Ok(one(boolean(*logic == Logic::Or)));
                }
                each(second, input, |value| Ok(one(boolean(is_true(&value)))))
            })?,
            Self::Compare(first, comparison, second) => {
                each(first, input, |a| each(second, input, |b| Ok(one(boolean(comparison.holds(&a, &b)?)))))?
            }
            Self::Call(function, argument) => function.evaluate(input, argument.as_deref())?,
        };
        if values.len() > MOST_VALUES { Err(Mismatch) } else { Ok(values) }
    }
}

impl Function {
    fn evaluate<'v>(self, input: &Cow<'v, Value>, argument: Option<&Expression>) -> Result<Values<'v>, Mismatch> {
        let argument = argument.unwrap_or(&Expression::Identity);
        let texts = |holds: fn(&str, &str) -> bool| {
            let text = input.as_str().ok_or(Mismatch)?;
            each(argument, input, |part| Ok(one(boolean(holds(text, part.as_str().ok_or(Mismatch)?)))))
        };
        match self {
            Self::Empty => Ok(Vec::new()),
            Self::Not => Ok(one(boolean(!is_true(input)))),
            Self::Select => {
                let found = argument.evaluate(input)?;
                Ok(found.iter().filter(|value| is_true(value)).map(|_| input.clone()).collect())
            }
            Self::Map => {
                let mut values = Vec::new();
                for element in elements(input.clone())? {
                    values.extend(argument.evaluate(&element)?.into_iter().map(Cow::into_owned));
                }
                Ok(one(Cow::Owned(Value::Array(values))))
            }
            Self::Any | Self::All => {
                let until = self == Self::Any;
                for element in elements(input.clone())? {
                    if argument.evaluate(&element)?.iter().any(|value| is_true(value) == until) {
                        return Ok(one(boolean(until)));
                    }
                }
                Ok(one(boolean(!until)))
            }
            Self::Has => each(argument, input, |key| {
                let has = match (&**input, &*key) {
                    (Value::Object(fields), Value::String(key)) => fields.contains_key(key),
                    (Value::Array(items), Value::Number(index)) => {
                        index.as_u64().is_some_and(|index| index < items.len() as u64)
                    }
                    _ => return Err(Mismatch),
                };
                Ok(one(boolean(has)))
            }),
            Self::Length => match &**input {
                Value::Null => Ok(one(Cow::Owned(0.into()))),
                Value::String(text) => Ok(one(Cow::Owned(text.chars().count().into()))),
                Value::Array(items) => Ok(one(Cow::Owned(items.len().into()))),
                Value::Object(fields) => Ok(one(Cow::Owned(fields.len().into()))),
                Value::Bool(_) | Value::Number(_) => Err(Mismatch),
            },
            Self::ToString => match &**input {
                Value::String(_) => Ok(one(input.clone())),
                other => Ok(one(Cow::Owned(Value::String(other.to_string())))),
            },
            Self::StartsWith => texts(|text, part| text.starts_with(part)),
            Self::EndsWith => texts(|text, part| text.ends_with(part)),
        }
    }
}

impl Comparison {
    fn holds(self, a: &Value, b: &Value) -> Result<bool, Mismatch> {
        let order = || order(a, b);
        Ok(match self {
            Self::Equal => are_equal(a, b),
            Self::NotEqual => !are_equal(a, b),
            Self::Less => order()?.is_lt(),
            Self::LessOrEqual => order()?.is_le(),
            Self::Greater => order()?.is_gt(),
            Self::GreaterOrEqual => order()?.is_ge(),
        })
    }
}

fn one(value: Cow<'_, Value>) -> Values<'_> {
    vec![value]
}

fn boolean<'v>(value: bool) -> Cow<'v, Value> {
    Cow::Owned(Value::Bool(value))
}

fn each<'v>(
    of: &Expression,
    input: &Cow<'v, Value>,
    mut then: impl FnMut(Cow<'v, Value>) -> Result<Values<'v>, Mismatch>,
) -> Result<Values<'v>, Mismatch> {
    let mut values = Vec::new();
    for value in of.evaluate(input)? {
        values.extend(then(value)?);
        if values.len() > MOST_VALUES {
            return Err(Mismatch);
        }
    }
    Ok(values)
}

fn field<'v>(value: Cow<'v, Value>, name: &str) -> Result<Cow<'v, Value>, Mismatch> {
    match value {
        Cow::Borrowed(Value::Object(fields)) => Ok(fields.get(name).map(Cow::Borrowed).unwrap_or_default()),
        Cow::Owned(Value::Object(mut fields)) => Ok(fields.shift_remove(name).map(Cow::Owned).unwrap_or_default()),
        value if value.is_null() => Ok(value),
        _ => Err(Mismatch),
    }
}

fn item(value: Cow<'_, Value>, index: i64) -> Result<Cow<'_, Value>, Mismatch> {
    let at = |length: usize| {
        let at = if index < 0 { i64::try_from(length).ok()? + index } else { index };
        usize::try_from(at).ok().filter(|at| *at < length)
    };
    match value {
        Cow::Borrowed(Value::Array(items)) => {
            Ok(at(items.len()).map(|at| Cow::Borrowed(&items[at])).unwrap_or_default())
        }
        Cow::Owned(Value::Array(mut items)) => {
            Ok(at(items.len()).map(|at| Cow::Owned(items.swap_remove(at))).unwrap_or_default())
        }
        value if value.is_null() => Ok(value),
        _ => Err(Mismatch),
    }
}

fn elements(value: Cow<'_, Value>) -> Result<Values<'_>, Mismatch> {
    match value {
        Cow::Borrowed(Value::Array(items)) => Ok(items.iter().map(Cow::Borrowed).collect()),
        Cow::Borrowed(Value::Object(fields)) => Ok(fields.values().map(Cow::Borrowed).collect()),
        Cow::Owned(Value::Array(items)) => Ok(items.into_iter().map(Cow::Owned).collect()),
        Cow::Owned(Value::Object(fields)) => Ok(fields.into_iter().map(|(_, value)| Cow::Owned(value)).collect()),
        _ => Err(Mismatch),
    }
}

fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn are_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

/// Orders scalars as jq does. Lists and maps are not ordered.
fn order(a: &Value, b: &Value) -> Result<Ordering, Mismatch> {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(is_true) => 1 + i32::from(*is_true),
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()).ok_or(Mismatch),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => Err(Mismatch),
        _ => Ok(rank(a).cmp(&rank(b))),
    }
}

#[cfg(test)]
mod tests;
