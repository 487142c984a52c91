//! The columns of custom resources: `additionalPrinterColumns`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::cells::{name, parse_timestamp, time_since};
use crate::resource::{Column, CustomColumn};

/// Returns the name column, then the columns of the CRD, or the age if it has none.
pub(super) fn columns(custom: &[CustomColumn]) -> Arc<[Column]> {
    if custom.is_empty() {
        return [Column::name(), Column::age("date")].into();
    }
    std::iter::once(Column::name()).chain(custom.iter().map(|custom| custom.column.clone())).collect()
}

/// Returns the cells for [`columns`].
pub(super) fn cells(custom: &[CustomColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    if custom.is_empty() {
        cells.push(date(&object["metadata"]["creationTimestamp"], now));
    }
    cells.extend(custom.iter().map(|custom| {
        // Only the first of several results is shown.
        custom.path.find(object).first().map_or(Value::Null, |value| cell(value, &custom.column.kind, now))
    }));
    cells
}

/// Returns a value as a cell of this type, or null if the value has another type.
fn cell(value: &Value, kind: &str, now: Timestamp) -> Value {
    match (kind, value) {
        ("integer", Value::Number(number)) => {
            #[allow(clippy::cast_possible_truncation, reason = "Go truncates as well")]
            let integer = number.as_i64().or_else(|| number.as_f64().map(|float| float as i64));
            integer.map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(number)) => number_cell(number),
        ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => value.clone(),
        ("string", Value::Number(number)) => number_cell(number).to_string().into(),
        ("string", Value::Bool(flag)) => flag.to_string().into(),
        ("string", Value::Array(_) | Value::Object(_)) => value.to_string().into(),
        ("date", Value::String(_)) => date(value, now),
        _ => Value::Null,
    }
}

/// Returns the cell of a number. Go prints floats without a fraction as integers.
fn number_cell(number: &serde_json::Number) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "only taken when it is exact")]
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => Value::from(float as i64),
        _ => Value::Number(number.clone()),
    }
}

/// Returns the time since a date: null if there is none, `<invalid>` for any other value.
fn date(value: &Value, now: Timestamp) -> Value {
    match (value, parse_timestamp(value)) {
        (Value::String(_), Some(then)) => time_since(Some(then), now).into(),
        (Value::String(_), None) => "<invalid>".into(),
        _ => Value::Null,
    }
}
