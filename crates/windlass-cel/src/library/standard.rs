//! The standard functions and operators of CEL.

use std::cmp::Ordering;

use crate::{
    cost::{Cost, Recoding},
    fault::EvalFault,
    function::Row,
    library::{conversion, text, time},
    meter::Meter,
    value::{Map, Value},
};

/// The comparison operators of one order.
macro_rules! comparisons {
    ($($name:literal $order:path),*) => {
        &[$(
            (concat!($name, "(bool, bool) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(int, int) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(int, uint) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(int, double) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(uint, uint) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(uint, int) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(uint, double) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(double, double) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(double, int) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(double, uint) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(string, string) bool"), Cost::Compare, |_, args| order(args, $order)),
            (concat!($name, "(bytes, bytes) bool"), Cost::Compare, |_, args| order(args, $order)),
            (concat!($name, "(timestamp, timestamp) bool"), Cost::Flat, |_, args| order(args, $order)),
            (concat!($name, "(duration, duration) bool"), Cost::Flat, |_, args| order(args, $order)),
        )*]
    };
}

const COMPARISONS: &[Row] =
    comparisons!["_<_" Ordering::is_lt, "_<=_" Ordering::is_le, "_>_" Ordering::is_gt, "_>=_" Ordering::is_ge];

pub(super) const TABLE: &[Row] = &join([COMPARISONS, OPERATORS, CONVERSIONS]);

/// Concatenates tables.
const fn join(parts: [&[Row]; 3]) -> [Row; COMPARISONS.len() + OPERATORS.len() + CONVERSIONS.len()] {
    let mut all = [parts[0][0]; COMPARISONS.len() + OPERATORS.len() + CONVERSIONS.len()];
    let (mut part, mut next) = (0, 0);
    while part < parts.len() {
        let mut row = 0;
        while row < parts[part].len() {
            all[next] = parts[part][row];
            (row, next) = (row + 1, next + 1);
        }
        part += 1;
    }
    all
}

const OPERATORS: &[Row] = &[
    // The evaluator implements lazy operators. The rows define their types and costs.
    ("_?_:_(bool, A, A) A", Cost::Flat, |_, args| Ok(args[usize::from(!truth(&args[0])?) + 1].clone())),
    ("_&&_(bool, bool) bool", Cost::Flat, |_, args| Ok(Value::Bool(truth(&args[0])? && truth(&args[1])?))),
    ("_||_(bool, bool) bool", Cost::Flat, |_, args| Ok(Value::Bool(truth(&args[0])? || truth(&args[1])?))),
    ("@not_strictly_false(bool) bool", Cost::Flat, |_, args| Ok(args[0].clone())),
    ("!_(bool) bool", Cost::Flat, |_, args| Ok(Value::Bool(!truth(&args[0])?))),
    ("_==_(A, A) bool", Cost::Equal, |meter, args| Ok(Value::Bool(args[0].equals(&args[1], meter)?))),
    ("_!=_(A, A) bool", Cost::Compare, |meter, args| Ok(Value::Bool(!args[0].equals(&args[1], meter)?))),
    ("@in(A, list(A)) bool", Cost::Within, within),
    ("@in(A, map(A, B)) bool", Cost::Flat, within),
    ("_[_](list(A), int) A", Cost::Flat, index),
    ("_[_](map(A, B), A) B", Cost::Flat, index),
    ("_[_](optional(list(A)), int) optional(A)", Cost::Flat, |_, args| Ok(maybe(args[0].find(&args[1])?))),
    ("_[_](optional(map(K, V)), K) optional(V)", Cost::Flat, |_, args| Ok(maybe(args[0].find(&args[1])?))),
    ("-_(int) int", Cost::Flat, |_, args| whole(args, |a, _| a.checked_neg())),
    ("-_(double) double", Cost::Flat, |_, args| Ok(Value::Double(-double(&args[0])?))),
    ("_+_(int, int) int", Cost::Flat, |_, args| whole(args, i64::checked_add)),
    ("_+_(uint, uint) uint", Cost::Flat, |_, args| unsigned(args, u64::checked_add)),
    ("_+_(double, double) double", Cost::Flat, |_, args| real(args, |a, b| a + b)),
    ("_+_(string, string) string", Cost::Concat, |_, args| Ok((text(args, 0)?.to_owned() + text(args, 1)?).into())),
    ("_+_(bytes, bytes) bytes", Cost::Concat, |_, args| match args {
        [Value::Bytes(a), Value::Bytes(b)] => Ok(Value::Bytes([&**a, &**b].concat().into())),
        _ => Err(EvalFault::error("no such overload")),
    }),
    // The evaluator passes lists without other references, so that they can grow in place.
    ("_+_(list(A), list(A)) list(A)", Cost::Append, |meter, args| match args {
        [Value::List(a), Value::List(b)] => Ok(Value::List(a.clone().plus(b.clone(), meter)?)),
        _ => Err(EvalFault::error("no such overload")),
    }),
    ("_+_(timestamp, duration) timestamp", Cost::Flat, time::add),
    ("_+_(duration, timestamp) timestamp", Cost::Flat, time::add),
    ("_+_(duration, duration) duration", Cost::Flat, time::add),
    ("_-_(int, int) int", Cost::Flat, |_, args| whole(args, i64::checked_sub)),
    ("_-_(uint, uint) uint", Cost::Flat, |_, args| unsigned(args, u64::checked_sub)),
    ("_-_(double, double) double", Cost::Flat, |_, args| real(args, |a, b| a - b)),
    ("_-_(timestamp, timestamp) duration", Cost::Flat, time::subtract),
    ("_-_(timestamp, duration) timestamp", Cost::Flat, time::subtract),
    ("_-_(duration, duration) duration", Cost::Flat, time::subtract),
    ("_*_(int, int) int", Cost::Flat, |_, args| whole(args, i64::checked_mul)),
    ("_*_(uint, uint) uint", Cost::Flat, |_, args| unsigned(args, u64::checked_mul)),
    ("_*_(double, double) double", Cost::Flat, |_, args| real(args, |a, b| a * b)),
    ("_/_(int, int) int", Cost::Flat, |_, args| divided(args, "division by zero", i64::checked_div)),
    ("_/_(uint, uint) uint", Cost::Flat, |_, args| divided_unsigned(args, "division by zero", u64::checked_div)),
    ("_/_(double, double) double", Cost::Flat, |_, args| real(args, |a, b| a / b)),
    ("_%_(int, int) int", Cost::Flat, |_, args| divided(args, "modulus by zero", i64::checked_rem)),
    ("_%_(uint, uint) uint", Cost::Flat, |_, args| divided_unsigned(args, "modulus by zero", u64::checked_rem)),
    ("size(string) int", Cost::Flat, size),
    ("size(bytes) int", Cost::Flat, size),
    ("size(list(A)) int", Cost::Flat, size),
    ("size(map(A, B)) int", Cost::Flat, size),
    ("string::size() int", Cost::Flat, size),
    ("bytes::size() int", Cost::Flat, size),
    ("list(A)::size() int", Cost::Flat, size),
    ("map(A, B)::size() int", Cost::Flat, size),
    ("type(A) type", Cost::Flat, |_, args| Ok(Value::Type(args[0].type_name()))),
    ("dyn(A) dyn", Cost::Flat, same),
    ("cel.@mapInsert(map(K, V), K, V) map(K, V)", Cost::Flat, |meter, args| insert(meter, args)),
    ("cel.@mapInsert(map(K, V), map(K, V)) map(K, V)", Cost::Flat, |meter, args| insert(meter, args)),
];

const CONVERSIONS: &[Row] = &[
    ("bool(bool) bool", Cost::Flat, same),
    ("bool(string) bool", Cost::Flat, |_, args| match text(args, 0)? {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
        _ => conversion("string", "bool"),
    }),
    ("bytes(bytes) bytes", Cost::Flat, same),
    ("bytes(string) bytes", Cost::Recode(Recoding::Encode), |_, args| {
        Ok(Value::Bytes(text(args, 0)?.as_bytes().into()))
    }),
    ("double(double) double", Cost::Flat, same),
    ("double(int) double", Cost::Flat, |_, args| Ok(Value::Double(double(&args[0])?))),
    ("double(uint) double", Cost::Flat, |_, args| Ok(Value::Double(double(&args[0])?))),
    ("double(string) double", Cost::Flat, |_, args| {
        text(args, 0)?.parse().map_or_else(|_| conversion("string", "double"), |number| Ok(Value::Double(number)))
    }),
    ("int(int) int", Cost::Flat, same),
    ("int(uint) int", Cost::Flat, to_int),
    ("int(double) int", Cost::Flat, to_int),
    ("int(string) int", Cost::Flat, to_int),
    ("int(timestamp) int", Cost::Flat, to_int),
    ("int(duration) int", Cost::Flat, to_int),
    ("uint(uint) uint", Cost::Flat, same),
    ("uint(int) uint", Cost::Flat, to_uint),
    ("uint(double) uint", Cost::Flat, to_uint),
    ("uint(string) uint", Cost::Flat, to_uint),
    ("string(string) string", Cost::Flat, same),
    ("string(bool) string", Cost::Flat, to_text),
    ("string(bytes) string", Cost::Recode(Recoding::Decode), |_, args| match args {
        [Value::Bytes(bytes)] => std::str::from_utf8(bytes)
            .map(Value::text)
            .map_err(|_| EvalFault::error("invalid UTF-8 in bytes, cannot convert to string")),
        _ => Err(EvalFault::error("no such overload")),
    }),
    ("string(double) string", Cost::Flat, to_text),
    ("string(int) string", Cost::Flat, to_text),
    ("string(uint) string", Cost::Flat, to_text),
    ("string(timestamp) string", Cost::Flat, to_text),
    ("string(duration) string", Cost::Flat, to_text),
    ("string(net.IP) string", Cost::Flat, to_text),
    ("string(net.CIDR) string", Cost::Flat, to_text),
];

// === implementations ===

#[allow(clippy::unnecessary_wraps, reason = "functions in the table have this type")]
fn same<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    Ok(args[0].clone())
}

/// Returns the boolean of a condition.
pub(crate) fn truth(value: &Value<'_>) -> Result<bool, EvalFault> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn maybe(value: Option<Value<'_>>) -> Value<'_> {
    value.map_or(Value::Optional(None), Value::some)
}

fn order<'v>(args: &[Value<'v>], holds: fn(Ordering) -> bool) -> Result<Value<'v>, EvalFault> {
    // NaN is neither less nor greater than any number.
    let is_nan = |value: &Value<'_>| matches!(value, Value::Double(number) if number.is_nan());
    match args[0].compare(&args[1]) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None if args.iter().any(is_nan) => Ok(Value::Bool(false)),
        None => Err(EvalFault::error("no such overload")),
    }
}

fn within<'v>(meter: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    match &args[1] {
        Value::List(list) => Ok(Value::Bool(list.contains(&args[0], meter)?)),
        map => Ok(Value::Bool(map.find(&args[0])?.is_some())),
    }
}

fn index<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    args[0].find(&args[1])?.ok_or_else(|| EvalFault::missing(&args[0], &args[1]))
}

#[allow(clippy::unnecessary_wraps, reason = "functions in the table have this type")]
fn size<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    Ok(Value::Int(i64::try_from(args[0].size()).unwrap_or(i64::MAX)))
}

fn insert<'v>(meter: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let Value::Map(map) = &args[0] else { return Err(EvalFault::error("no such overload")) };
    if let [_, key, value] = args {
        return Ok(Value::Map(map.clone().insert(key, value.clone())?));
    }
    let mut map = map.clone();
    if let [_, Value::Map(more)] = args {
        for key in more.keys() {
            meter.work(1)?;
            if let Some(value) = args[1].find(&key)? {
                map = Map::insert(map, &key, value)?;
            }
        }
    }
    Ok(Value::Map(map))
}

fn whole<'v>(args: &[Value<'v>], compute: fn(i64, i64) -> Option<i64>) -> Result<Value<'v>, EvalFault> {
    match (&args[0], args.get(1).unwrap_or(&Value::Int(0))) {
        (Value::Int(a), Value::Int(b)) => {
            compute(*a, *b).map(Value::Int).ok_or_else(|| EvalFault::error("integer overflow"))
        }
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn unsigned<'v>(args: &[Value<'v>], compute: fn(u64, u64) -> Option<u64>) -> Result<Value<'v>, EvalFault> {
    match (&args[0], &args[1]) {
        (Value::Uint(a), Value::Uint(b)) => {
            compute(*a, *b).map(Value::Uint).ok_or_else(|| EvalFault::error("unsigned integer overflow"))
        }
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn divided<'v>(
    args: &[Value<'v>],
    by_zero: &str,
    compute: fn(i64, i64) -> Option<i64>,
) -> Result<Value<'v>, EvalFault> {
    if matches!(args[1], Value::Int(0)) { Err(EvalFault::error(by_zero)) } else { whole(args, compute) }
}

fn divided_unsigned<'v>(
    args: &[Value<'v>],
    by_zero: &str,
    compute: fn(u64, u64) -> Option<u64>,
) -> Result<Value<'v>, EvalFault> {
    if matches!(args[1], Value::Uint(0)) { Err(EvalFault::error(by_zero)) } else { unsigned(args, compute) }
}

fn real<'v>(args: &[Value<'v>], compute: fn(f64, f64) -> f64) -> Result<Value<'v>, EvalFault> {
    Ok(Value::Double(compute(double(&args[0])?, double(&args[1])?)))
}

fn double(value: &Value<'_>) -> Result<f64, EvalFault> {
    #[allow(clippy::cast_precision_loss, reason = "the conversion is lossy")]
    match value {
        Value::Double(number) => Ok(*number),
        Value::Int(number) => Ok(*number as f64),
        Value::Uint(number) => Ok(*number as f64),
        _ => Err(EvalFault::error("no such overload")),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "the range was checked before")]
fn to_int<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let overflow = || EvalFault::error("integer overflow");
    Ok(Value::Int(match &args[0] {
        Value::Uint(number) => i64::try_from(*number).map_err(|_| overflow())?,
        Value::Double(number) if *number > i64::MIN as f64 && *number < i64::MAX as f64 => *number as i64,
        Value::Double(_) => return Err(overflow()),
        Value::Text(text) => text.parse().or_else(|_| conversion("string", "int"))?,
        Value::Timestamp(time) => time.as_second(),
        Value::Duration(nanoseconds) => *nanoseconds,
        _ => return Err(EvalFault::error("no such overload")),
    }))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the range was checked before"
)]
fn to_uint<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let overflow = || EvalFault::error("unsigned integer overflow");
    Ok(Value::Uint(match &args[0] {
        Value::Int(number) => u64::try_from(*number).map_err(|_| overflow())?,
        Value::Double(number) if *number >= 0.0 && *number < u64::MAX as f64 => *number as u64,
        Value::Double(_) => return Err(overflow()),
        Value::Text(text) => text.parse().or_else(|_| conversion("string", "uint"))?,
        _ => return Err(EvalFault::error("no such overload")),
    }))
}

fn to_text<'v>(_: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    super::strings::printed(&args[0]).map(Into::into).ok_or_else(|| EvalFault::error("no such overload"))
}
