//! Optional values.

use crate::{cost::Cost, fault::EvalFault, function::Row, library::items, meter::Meter, value::Value};

pub(super) const TABLE: &[Row] = &[
    ("optional.of(V) optional(V)", Cost::Flat, |_, args| Ok(Value::some(args[0].clone()))),
    ("optional.ofNonZeroValue(V) optional(V)", Cost::Flat, |_, args| {
        Ok(if is_zero(&args[0]) { Value::Optional(None) } else { Value::some(args[0].clone()) })
    }),
    ("optional.none() optional(V)", Cost::Flat, |_, _| Ok(Value::Optional(None))),
    ("optional(V)::value() V", Cost::Flat, |_, args| match &args[0] {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        Value::Optional(None) => Err(EvalFault::error("optional.none() dereference")),
        _ => Err(EvalFault::error("no such overload")),
    }),
    ("optional(V)::hasValue() bool", Cost::Flat, |_, args| {
        Ok(Value::Bool(matches!(&args[0], Value::Optional(Some(_)))))
    }),
    ("optional(V)::or(optional(V)) optional(V)", Cost::Flat, |_, args| {
        Ok(args[usize::from(matches!(&args[0], Value::Optional(None)))].clone())
    }),
    ("optional(V)::orValue(V) V", Cost::Flat, |_, args| match &args[0] {
        Value::Optional(Some(value)) => Ok((**value).clone()),
        _ => Ok(args[1].clone()),
    }),
    ("_?._(dyn, string) optional(V)", Cost::Flat, found),
    ("_[?_](list(V), int) optional(V)", Cost::Flat, found),
    ("_[?_](optional(list(V)), int) optional(V)", Cost::Flat, found),
    ("_[?_](map(K, V), K) optional(V)", Cost::Flat, found),
    ("_[?_](optional(map(K, V)), K) optional(V)", Cost::Flat, found),
    ("list(V)::first() optional(V)", Cost::Flat, |_, args| Ok(end(items(args, 0)?.into_iter().next()))),
    ("list(V)::last() optional(V)", Cost::Flat, |_, args| Ok(end(items(args, 0)?.into_iter().next_back()))),
    ("optional.unwrap(list(optional(V))) list(V)", Cost::Flat, unwrapped),
    ("list(optional(V))::unwrapOpt() list(V)", Cost::Flat, unwrapped),
];

fn end(value: Option<Value<'_>>) -> Value<'_> {
    value.map_or(Value::Optional(None), Value::some)
}

pub(crate) fn found<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    Ok(end(args[0].find(&args[1])?))
}

fn unwrapped<'v>(meter: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let mut values = Vec::new();
    for item in items(args, 0)? {
        meter.work(1)?;
        match item {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(EvalFault::error(format!("value {} is not optional", other.type_name()))),
        }
    }
    Ok(Value::list(values))
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => true,
        Value::Double(number) => *number == 0.0,
        Value::Text(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(map) => map.len() == 0,
        Value::Optional(value) => value.is_none(),
        _ => false,
    }
}
