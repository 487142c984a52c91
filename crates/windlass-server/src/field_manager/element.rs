//! One element of a path to a field.

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

use crate::codec::{go_json, go_quote};

/// An element of a path: a field of an object, or an item of a list.
///
/// The order is that of fieldsV1: names, keys, values, indices. Numbers are ordered by value.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    /// A field: `f:name`.
    Field(Box<str>),
    /// A list item by its key fields, in alphabetical order: `k:{"name":"c"}`.
    Key(Vec<(Box<str>, Value)>),
    /// An item of a set: `v:"x"`.
    Value(Value),
    /// A list index: `i:0`.
    Index(i64),
}

/// Text that is not a valid element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadElement;

impl Element {
    /// Creates the element of an object's field.
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Parses an element of fieldsV1. Returns `None` for an unknown kind of element, which callers skip.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, BadElement> {
        let (kind, content) = match text.as_bytes() {
            [kind, b':', ..] => (*kind, &text[2..]),
            _ => return Err(BadElement),
        };
        match kind {
            b'f' => Ok(Some(Self::field(content))),
            b'v' => serde_json::from_str(content).map(|value| Some(Self::Value(value))).map_err(|_| BadElement),
            b'k' => match serde_json::from_str(content) {
                Ok(Value::Object(fields)) => {
                    let fields = fields.into_iter().map(|(name, value)| (name.into_boxed_str(), value));
                    Ok(Some(Self::key(fields.collect())))
                }
                _ => Err(BadElement),
            },
            b'i' => content.parse().map(|index| Some(Self::Index(index))).map_err(|_| BadElement),
            _ => Ok(None),
        }
    }

    /// Creates the element of a list item with these key fields.
    pub(super) fn key(mut fields: Vec<(Box<str>, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(fields)
    }

    /// Formats the element for fieldsV1.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let mut text = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    text.push_str(&Value::from(&**name).to_string());
                    text.push(':');
                    text.push_str(&go_json(value));
                }
                text.push('}');
                text
            }
            Self::Value(value) => format!("v:{}", go_json(value)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => {
                let fields = a.iter().zip(b).map(|(a, b)| a.0.cmp(&b.0).then_with(|| order(&a.1, &b.1)));
                fields.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

/// Formats the element for conflicts and errors: `.spec`, `[name="c"]`, `[="x"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", format_value(value))).collect();
                write!(f, "[{}]", fields.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", format_value(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(format_value).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => fields.iter().map(|(name, value)| format!("{name}={}", format_value(value))).collect(),
        other => other.to_string(),
    }
}

/// Reports whether two values are equal. Numbers are compared by value, so 1 equals 1.0.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || order_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Compares any two values: numbers, strings, booleans, lists, objects, null.
fn order(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        // Keys and sets contain only scalars. Other values come from clients, and any consistent order is sufficient.
        _ if rank(a) == rank(b) => a.to_string().cmp(&b.to_string()),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn order_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or_default().total_cmp(&b.as_f64().unwrap_or_default()),
    }
}
