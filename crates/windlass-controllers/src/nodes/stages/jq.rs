//! The queries of stages: the part of jq that selects and compares values of an object.
//!
//! Supported are paths with `[]`, `?`, `|`, `//`, `and`, `or`, comparisons, literals, `[query]`, and the functions
//! `select`, `map`, `any`, `all`, `has`, `not`, `length`, `tostring`, `startswith`, `endswith` and `empty`.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::Value;

/// The maximum nesting of a query.
const MOST_NESTED: usize = 32;
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

/// The functions, and the number of arguments that each may have.
const FUNCTIONS: [(&str, Function, &[usize]); 11] = [
    ("select", Function::Select, &[1]),
    ("map", Function::Map, &[1]),
    ("any", Function::Any, &[0, 1]),
    ("all", Function::All, &[0, 1]),
    ("has", Function::Has, &[1]),
    ("not", Function::Not, &[0]),
    ("length", Function::Length, &[0]),
    ("tostring", Function::ToString, &[0]),
    ("startswith", Function::StartsWith, &[1]),
    ("endswith", Function::EndsWith, &[1]),
    ("empty", Function::Empty, &[0]),
];

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// The query does not fit the value, for example because a number has no fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mismatch;

type Values<'v> = Vec<Cow<'v, Value>>;

impl Query {
    /// Parses a query. The error names the position of what is not supported.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let expression = parser.pipe()?;
        if parser.peek().is_some() {
            return Err(parser.unexpected());
        }
        Ok(Self(expression))
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

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        self.peek();
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    /// Takes a word such as `and`.
    fn take_word(&mut self, word: &str) -> bool {
        self.peek();
        let is_next = name(self.rest()) == word;
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(format!("expected {token:?} at {}", self.position())) }
    }

    fn position(&mut self) -> String {
        match self.peek() {
            Some(character) => format!("{character:?}, character {}", self.text[..self.at].chars().count() + 1),
            None => "the end of the query".to_owned(),
        }
    }

    fn unexpected(&mut self) -> String {
        format!("unsupported or unexpected syntax at {}", self.position())
    }

    fn pipe(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(format!("the query has more than {MOST_NESTED} nested parts"));
        }
        let mut expression = self.alternative()?;
        while !self.rest().trim_start().starts_with("||") && self.take("|") {
            expression = Expression::Pipe(Box::new(expression), Box::new(self.alternative()?));
        }
        self.depth -= 1;
        Ok(expression)
    }

    fn alternative(&mut self) -> Result<Expression, String> {
        let first = self.or()?;
        if self.take("//") {
            self.depth += 1;
            if self.depth > MOST_NESTED {
                return Err(format!("the query has more than {MOST_NESTED} nested parts"));
            }
            let second = self.alternative()?;
            self.depth -= 1;
            return Ok(Expression::Alternative(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn or(&mut self) -> Result<Expression, String> {
        let mut expression = self.and()?;
        while self.take_word("or") {
            expression = Expression::Logic(Box::new(expression), Logic::Or, Box::new(self.and()?));
        }
        Ok(expression)
    }

    fn and(&mut self) -> Result<Expression, String> {
        let mut expression = self.comparison()?;
        while self.take_word("and") {
            expression = Expression::Logic(Box::new(expression), Logic::And, Box::new(self.comparison()?));
        }
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, String> {
        let first = self.postfix()?;
        let found = COMPARISONS.into_iter().find(|(token, _)| self.take(token));
        let Some((_, comparison)) = found else { return Ok(first) };
        Ok(Expression::Compare(Box::new(first), comparison, Box::new(self.postfix()?)))
    }

    fn postfix(&mut self) -> Result<Expression, String> {
        let mut expression = self.term()?;
        for _ in 0..MOST_NESTED {
            expression = if self.take("?") {
                Expression::Try(Box::new(expression))
            } else if self.take("[") {
                self.suffix(expression)?
            } else if self.take(".") {
                if self.take("[") { self.suffix(expression)? } else { self.field(expression)? }
            } else {
                return Ok(expression);
            };
        }
        Err(format!("the path has more than {MOST_NESTED} parts"))
    }

    /// Parses a suffix after `[`.
    fn suffix(&mut self, of: Expression) -> Result<Expression, String> {
        let of = Box::new(of);
        if self.take("]") {
            return Ok(Expression::Each(of));
        }
        let expression = match self.peek() {
            Some('"') => Expression::Field(of, self.string()?),
            Some('-' | '0'..='9') => {
                let number = self.number()?;
                let index = number.as_i64().ok_or_else(|| format!("{number} is not an index"))?;
                Expression::Index(of, index)
            }
            _ => return Err(self.unexpected()),
        };
        self.expect("]")?;
        Ok(expression)
    }

    /// Parses a field after `.`.
    fn field(&mut self, of: Expression) -> Result<Expression, String> {
        if self.rest().starts_with('"') {
            return Ok(Expression::Field(Box::new(of), self.string()?));
        }
        let name = name(self.rest());
        if name.is_empty() {
            return Err(self.unexpected());
        }
        self.at += name.len();
        Ok(Expression::Field(Box::new(of), name.to_owned()))
    }

    fn term(&mut self) -> Result<Expression, String> {
        match self.peek() {
            Some('.') if self.rest().starts_with("..") => Err(self.unexpected()),
            Some('.') => {
                self.at += 1;
                let is_field =
                    self.rest().starts_with(|next: char| next == '"' || next == '_' || next.is_ascii_alphabetic());
                if is_field { self.field(Expression::Identity) } else { Ok(Expression::Identity) }
            }
            Some('(') => {
                self.at += 1;
                let expression = self.pipe()?;
                self.expect(")")?;
                Ok(expression)
            }
            Some('[') => {
                self.at += 1;
                let expression = self.pipe()?;
                self.expect("]")?;
                Ok(Expression::Collect(Box::new(expression)))
            }
            Some('"') => Ok(Expression::Literal(Value::String(self.string()?))),
            Some('-' | '0'..='9') => Ok(Expression::Literal(self.number()?)),
            _ => self.call(),
        }
    }

    fn call(&mut self) -> Result<Expression, String> {
        let word = name(self.rest());
        match word {
            "" => return Err(self.unexpected()),
            "true" | "false" | "null" => {
                self.at += word.len();
                return Ok(Expression::Literal(match word {
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    _ => Value::Null,
                }));
            }
            _ => {}
        }
        let known = FUNCTIONS.into_iter().find(|(known, ..)| *known == word);
        let Some((_, function, counts)) = known else { return Err(format!("the function {word:?} is not supported")) };
        self.at += word.len();
        let argument = if self.take("(") {
            let argument = self.pipe()?;
            self.expect(")")?;
            Some(Box::new(argument))
        } else {
            None
        };
        if !counts.contains(&usize::from(argument.is_some())) {
            let needed = if argument.is_some() { "has no" } else { "needs an" };
            return Err(format!("the function {word:?} {needed} argument"));
        }
        Ok(Expression::Call(function, argument))
    }

    fn string(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let mut is_escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, character)| {
            let is_end = *character == '"' && !is_escaped;
            is_escaped = *character == '\\' && !is_escaped;
            is_end
        });
        let Some((end, _)) = end else { return Err("a string is not closed".to_owned()) };
        let text = &rest[..=end];
        if text.contains("\\(") {
            return Err("interpolation in strings is not supported".to_owned());
        }
        self.at += text.len();
        serde_json::from_str(text).map_err(|error| format!("the string {text} is invalid: {error}"))
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let is_part = |(index, character): (usize, char)| {
            character.is_ascii_digit() || matches!(character, '.' | 'e' | 'E') || (index == 0 && character == '-')
        };
        let end = rest.char_indices().find(|at| !is_part(*at)).map_or(rest.len(), |(index, _)| index);
        self.at += end;
        serde_json::from_str(&rest[..end]).map_err(|_| format!("{:?} is not a number", &rest[..end]))
    }
}

/// Returns the word at the start of `text`.
fn name(text: &str) -> &str {
    let end = text.find(|next: char| !(next == '_' || next.is_ascii_alphanumeric())).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {
                "labels": {"a.b/c": "d"},
                "ownerReferences": [{"kind": "Job"}, {"kind": "Other"}],
                "generation": 3,
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
            },
        })
    }

    #[test]
    fn query_selects_values() {
        for (query, expected) in [
            (".", json!([pod()])),
            (".status.phase", json!(["Running"])),
            (".status.none.deeper", json!([])),
            (".metadata.labels[\"a.b/c\"]", json!(["d"])),
            (".metadata.labels.\"a.b/c\"", json!(["d"])),
            (".status.conditions.[] | select( .type == \"Ready\" ) | .status", json!(["True"])),
            (".status.conditions[] | select(.type == \"Ready\" and .status != \"True\") | .type", json!([])),
            (".metadata.ownerReferences.[].kind", json!(["Job", "Other"])),
            (".metadata.ownerReferences[-1].kind", json!(["Other"])),
            // A value that does not fit selects nothing, as in kwok.
            (".metadata.finalizers.[]", json!([])),
            (".status.phase.x", json!([])),
            (".status.phase.x?, 1", json!(null)),
            ("(.status.phase.x? // \"none\")", json!(["none"])),
            (".metadata.finalizers // [] | length", json!(null)),
            (".status.conditions | length", json!([2])),
            (".status.conditions | any(.status == \"True\")", json!([true])),
            (".status.conditions | all(.status == \"True\") | not", json!([true])),
            (".status.conditions | map(.type)", json!([["Ready", "Other"]])),
            ("[.status.conditions[].status] | any", json!([true])),
            (".metadata | has(\"labels\")", json!([true])),
            (".metadata.generation >= 3 or false", json!([true])),
            (".metadata.generation | tostring", json!(["3"])),
            (".status.phase | startswith(\"Run\")", json!([true])),
            (".status.phase | endswith(\"Run\")", json!([false])),
            ("empty", json!([])),
        ] {
            let parsed = Query::parse(query);
            if expected.is_null() {
                assert!(parsed.is_err(), "{query}: {parsed:?}");
                continue;
            }
            let pod = pod();
            let found: Vec<_> = parsed.unwrap().select(&pod).into_iter().map(Cow::into_owned).collect();
            assert_eq!(Value::Array(found), expected, "{query}");
        }
    }

    #[test]
    fn unsupported_syntax_is_named() {
        for (query, message) in [
            ("", "the end of the query"),
            (".a as $x | $x", "'a', character 4"),
            ("..", "'.', character 1"),
            (".a[1:2]", "expected \"]\" at ':'"),
            (".a | test(\"x\")", "the function \"test\" is not supported"),
            ("select", "needs an argument"),
            ("length(1)", "has no argument"),
            ("\"a", "not closed"),
            ("\"\\(1)\"", "interpolation"),
            (".a + 1", "'+', character 4"),
            ("(.a", "expected \")\""),
            (&"(".repeat(1_000), "nested"),
            (&"1//".repeat(1_000), "nested"),
            (&".a".repeat(100), "more than 32 parts"),
        ] {
            let error = Query::parse(query).unwrap_err();
            assert!(error.contains(message), "{query}: {error}");
        }
    }
}
