//! Quantities, semantic versions and named formats.

use std::cmp::Ordering;

use windlass_api::{Quantity, QuantityFormat};

use super::named::FORMATS;
use crate::{
    cost::Cost,
    eval::Fault,
    function::Row,
    library::{Named, text},
    value::Value,
};

/// A row for a named format.
macro_rules! format_row {
    ($index:literal $name:literal) => {
        (concat!("format.", $name, "() kubernetes.NamedFormat"), Cost::Flat, |_, _| {
            Ok(Value::named(Named::Format(&FORMATS[$index].1)))
        })
    };
}

pub(super) const TABLE: &[Row] = &[
    ("quantity(string) kubernetes.Quantity", Cost::First, |_, args| {
        let why = |error: windlass_api::QuantityError| Fault::error(error.to_string());
        text(args, 0)?.parse().map(|quantity| Value::named(Named::Quantity(quantity))).map_err(why)
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
        whole(quantity(&args[0])?).map(Value::Int).ok_or_else(|| Fault::error("cannot convert value to integer"))
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
        Ok(found.map_or(Value::Optional(None), |(_, format)| Value::some(Value::named(Named::Format(format)))))
    }),
    ("kubernetes.NamedFormat::validate(string) optional(list(string))", Cost::Format, |_, args| {
        let format = match &args[0] {
            Value::Named(named) if let Named::Format(format) = &**named => *format,
            _ => return Err(Fault::error("no such overload")),
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

fn quantity<'a>(value: &'a Value<'_>) -> Result<&'a Quantity, Fault> {
    match value {
        Value::Named(named) if let Named::Quantity(quantity) = &**named => Ok(quantity),
        _ => Err(Fault::error("no such overload")),
    }
}

/// Returns the value as an integer, if it is one and fits.
fn whole(quantity: &Quantity) -> Option<i64> {
    let number = quantity.value();
    (Quantity::new(number, QuantityFormat::DecimalSi) == *quantity).then_some(number)
}

fn computed<'v>(args: &[Value<'v>], compute: fn(Quantity, Quantity) -> Quantity) -> Result<Value<'v>, Fault> {
    let other = match &args[1] {
        Value::Int(number) => Quantity::new(*number, QuantityFormat::DecimalSi),
        other => quantity(other)?.clone(),
    };
    Ok(Value::named(Named::Quantity(compute(quantity(&args[0])?.clone(), other))))
}

// === versions ===

/// A semantic version.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Version {
    numbers: [u64; 3],
    pre: Vec<String>,
    build: String,
}

impl Version {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("Version string empty");
        }
        let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
        let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
        let parts = core.split('.').collect::<Vec<_>>();
        let [major, minor, patch] = parts[..] else { return Err("No Major.Minor.Patch elements found") };
        let pre = pre.map_or_else(Vec::new, |pre| pre.split('.').map(str::to_owned).collect());
        let is_identifier =
            |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let is_padded =
            |text: &str| text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        if pre.iter().any(|part| !is_identifier(part) || is_padded(part))
            || build.is_some_and(|build| !build.split('.').all(is_identifier))
        {
            return Err("Invalid character(s) found");
        }
        let numbers = [numeric(major)?, numeric(minor)?, numeric(patch)?];
        Ok(Self { numbers, pre, build: build.unwrap_or_default().to_owned() })
    }

    /// Parses a version with tolerated deviations: a leading `v`, fewer numbers, leading zeros.
    fn parse_tolerant(text: &str) -> Result<Self, &'static str> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts = text.splitn(3, '.').map(unpadded).collect::<Vec<_>>();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data");
        }
        parts.resize(parts.len().max(3), "0".to_owned());
        Self::parse(&parts.join("."))
    }

    /// Compares by precedence. Build metadata is ignored.
    fn order(&self, other: &Self) -> Ordering {
        let by_part = |(a, b): (&String, &String)| match (a.parse::<u64>(), b.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a.cmp(b),
        };
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => {
                let differing = self.pre.iter().zip(&other.pre).map(by_part).find(|order| order.is_ne());
                differing.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
            }
        })
    }
}

fn numeric(text: &str) -> Result<u64, &'static str> {
    if text.len() > 1 && text.starts_with('0') {
        return Err("Version number must not contain leading zeroes");
    }
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten().ok_or("Invalid character(s) found")
}

fn unpadded(part: &str) -> String {
    let rest = part.trim_start_matches('0');
    if part.len() > 1 && rest.len() < part.len() && !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("0{rest}");
    }
    if part.len() > 1 { rest.to_owned() } else { part.to_owned() }
}

fn semver<'v>(args: &[Value<'v>]) -> Result<Value<'v>, Fault> {
    let tolerant = matches!(args.get(1), Some(Value::Bool(true)));
    let text = text(args, 0)?;
    let parsed = if tolerant { Version::parse_tolerant(text) } else { Version::parse(text) };
    parsed.map(|version| Value::named(Named::Semver(version))).map_err(Fault::error)
}

fn version<'a>(value: &'a Value<'_>) -> Result<&'a Version, Fault> {
    match value {
        Value::Named(named) if let Named::Semver(version) = &**named => Ok(version),
        _ => Err(Fault::error("no such overload")),
    }
}

fn number<'v>(args: &[Value<'v>], index: usize) -> Result<Value<'v>, Fault> {
    Ok(Value::Int(i64::try_from(version(&args[0])?.numbers[index]).unwrap_or(i64::MAX)))
}
