//! Quantities, semantic versions and named formats.

use std::cmp::Ordering;

use windlass_api::{Quantity, QuantityFormat};

use crate::{
    cost::Cost,
    extension::{ExtensionValue, FORMATS, Version},
    fault::EvalFault,
    function::Row,
    library::text,
    value::Value,
};

/// A row for a named format.
macro_rules! format_row {
    ($index:literal $name:literal) => {
        (concat!("format.", $name, "() kubernetes.NamedFormat"), Cost::Flat, |_, _| {
            Ok(Value::extension(ExtensionValue::Format(&FORMATS[$index].1)))
        })
    };
}

pub(super) const TABLE: &[Row] = &[
    ("quantity(string) kubernetes.Quantity", Cost::First, |_, args| {
        let why = |error: windlass_api::QuantityError| EvalFault::error(error.to_string());
        text(args, 0)?.parse().map(|quantity| Value::extension(ExtensionValue::Quantity(quantity))).map_err(why)
    }),
    ("isQuantity(string) bool", Cost::First, |_, args| Ok(Value::Bool(text(args, 0)?.parse::<Quantity>().is_ok()))),
    ("sign(kubernetes.Quantity) int", Cost::Flat, |_, args| {
        let quantity = quantity(&args[0])?;
        Ok(Value::Int(match () {
            () if quantity.is_zero() => 0,
            () if quantity.is_negative() => -1,
            () => 1,
        }))
    }),
    ("kubernetes.Quantity::isGreaterThan(kubernetes.Quantity) bool", Cost::Flat, |_, args| {
        Ok(Value::Bool(quantity(&args[0])? > quantity(&args[1])?))
    }),
    ("kubernetes.Quantity::isLessThan(kubernetes.Quantity) bool", Cost::Flat, |_, args| {
        Ok(Value::Bool(quantity(&args[0])? < quantity(&args[1])?))
    }),
    ("kubernetes.Quantity::compareTo(kubernetes.Quantity) int", Cost::Flat, |_, args| {
        Ok(sign(quantity(&args[0])?.partial_cmp(quantity(&args[1])?).unwrap_or(Ordering::Equal)))
    }),
    ("kubernetes.Quantity::asInteger() int", Cost::Flat, |_, args| {
        whole(quantity(&args[0])?).map(Value::Int).ok_or_else(|| EvalFault::error("cannot convert value to integer"))
    }),
    ("kubernetes.Quantity::isInteger() bool", Cost::Flat, |_, args| {
        Ok(Value::Bool(whole(quantity(&args[0])?).is_some()))
    }),
    ("kubernetes.Quantity::asApproximateFloat() double", Cost::Flat, |_, args| {
        Ok(Value::Double(quantity(&args[0])?.as_f64()))
    }),
    ("kubernetes.Quantity::add(kubernetes.Quantity) kubernetes.Quantity", Cost::Flat, |_, args| {
        computed(args, |a, b| a + b)
    }),
    ("kubernetes.Quantity::add(int) kubernetes.Quantity", Cost::Flat, |_, args| computed(args, |a, b| a + b)),
    ("kubernetes.Quantity::sub(kubernetes.Quantity) kubernetes.Quantity", Cost::Flat, |_, args| {
        computed(args, |a, b| a - b)
    }),
    ("kubernetes.Quantity::sub(int) kubernetes.Quantity", Cost::Flat, |_, args| computed(args, |a, b| a - b)),
    ("semver(string) kubernetes.Semver", Cost::First, |_, args| semver(args)),
    ("semver(string, bool) kubernetes.Semver", Cost::First, |_, args| semver(args)),
    ("isSemver(string) bool", Cost::First, |_, args| Ok(Value::Bool(semver(args).is_ok()))),
    ("isSemver(string, bool) bool", Cost::First, |_, args| Ok(Value::Bool(semver(args).is_ok()))),
    ("kubernetes.Semver::isGreaterThan(kubernetes.Semver) bool", Cost::Flat, |_, args| {
        Ok(Value::Bool(version(&args[0])?.order(version(&args[1])?).is_gt()))
    }),
    ("kubernetes.Semver::isLessThan(kubernetes.Semver) bool", Cost::Flat, |_, args| {
        Ok(Value::Bool(version(&args[0])?.order(version(&args[1])?).is_lt()))
    }),
    ("kubernetes.Semver::compareTo(kubernetes.Semver) int", Cost::Flat, |_, args| {
        Ok(sign(version(&args[0])?.order(version(&args[1])?)))
    }),
    ("kubernetes.Semver::major() int", Cost::Flat, |_, args| number(args, 0)),
    ("kubernetes.Semver::minor() int", Cost::Flat, |_, args| number(args, 1)),
    ("kubernetes.Semver::patch() int", Cost::Flat, |_, args| number(args, 2)),
    ("format.named(string) optional(kubernetes.NamedFormat)", Cost::Flat, |_, args| {
        let name = text(args, 0)?;
        let found = FORMATS.iter().find(|(other, _)| *other == name);
        Ok(found
            .map_or(Value::Optional(None), |(_, format)| Value::some(Value::extension(ExtensionValue::Format(format)))))
    }),
    ("kubernetes.NamedFormat::validate(string) optional(list(string))", Cost::Format, |_, args| {
        let format = match &args[0] {
            Value::Extension(named) if let ExtensionValue::Format(format) = &**named => *format,
            _ => return Err(EvalFault::error("no such overload")),
        };
        let problems = (format.problems)(text(args, 1)?);
        if problems.is_empty() {
            return Ok(Value::Optional(None));
        }
        Ok(Value::some(Value::list(problems.into_iter().map(Value::from).collect())))
    }),
    format_row!(0 "dns1123Label"),
    format_row!(1 "dns1123Subdomain"),
    format_row!(2 "dns1035Label"),
    format_row!(3 "qualifiedName"),
    format_row!(4 "dns1123LabelPrefix"),
    format_row!(5 "dns1123SubdomainPrefix"),
    format_row!(6 "dns1035LabelPrefix"),
    format_row!(7 "labelValue"),
    format_row!(8 "uri"),
    format_row!(9 "uuid"),
    format_row!(10 "byte"),
    format_row!(11 "date"),
    format_row!(12 "datetime"),
];

fn sign<'v>(order: Ordering) -> Value<'v> {
    Value::Int(order as i64)
}

// === quantities ===

fn quantity<'a>(value: &'a Value<'_>) -> Result<&'a Quantity, EvalFault> {
    match value {
        Value::Extension(named) if let ExtensionValue::Quantity(quantity) = &**named => Ok(quantity),
        _ => Err(EvalFault::error("no such overload")),
    }
}

/// Returns the value as an integer, if it is one and fits.
fn whole(quantity: &Quantity) -> Option<i64> {
    let number = quantity.value();
    (Quantity::new(number, QuantityFormat::DecimalSi) == *quantity).then_some(number)
}

fn computed<'v>(args: &[Value<'v>], compute: fn(Quantity, Quantity) -> Quantity) -> Result<Value<'v>, EvalFault> {
    let other = match &args[1] {
        Value::Int(number) => Quantity::new(*number, QuantityFormat::DecimalSi),
        other => quantity(other)?.clone(),
    };
    Ok(Value::extension(ExtensionValue::Quantity(compute(quantity(&args[0])?.clone(), other))))
}

// === versions ===

fn semver<'v>(args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let tolerant = matches!(args.get(1), Some(Value::Bool(true)));
    let text = text(args, 0)?;
    let parsed = if tolerant { Version::parse_tolerant(text) } else { Version::parse(text) };
    parsed.map(|version| Value::extension(ExtensionValue::Semver(version))).map_err(EvalFault::error)
}

fn version<'a>(value: &'a Value<'_>) -> Result<&'a Version, EvalFault> {
    match value {
        Value::Extension(named) if let ExtensionValue::Semver(version) = &**named => Ok(version),
        _ => Err(EvalFault::error("no such overload")),
    }
}

fn number<'v>(args: &[Value<'v>], index: usize) -> Result<Value<'v>, EvalFault> {
    Ok(Value::Int(i64::try_from(version(&args[0])?.numbers[index]).unwrap_or(i64::MAX)))
}
