//! Text functions: the standard library, version 2 of the strings extension, and Kubernetes' regular expressions.
//!
//! Positions are in characters.

use std::fmt::Write as _;

use crate::{
    cost::{Cost, Recoding},
    extension::ExtensionValue,
    fault::EvalFault,
    function::Row,
    library::{int, items, text},
    meter::Meter,
    value::Value,
};

pub(super) const TABLE: &[Row] = &[
    ("string::contains(string) bool", Cost::Contains, |_, args| {
        Ok(Value::Bool(text(args, 0)?.contains(text(args, 1)?)))
    }),
    ("string::startsWith(string) bool", Cost::Second, |_, args| {
        Ok(Value::Bool(text(args, 0)?.starts_with(text(args, 1)?)))
    }),
    ("string::endsWith(string) bool", Cost::Second, |_, args| {
        Ok(Value::Bool(text(args, 0)?.ends_with(text(args, 1)?)))
    }),
    ("string::matches(string) bool", Cost::Pattern { finds: false }, matches),
    ("matches(string, string) bool", Cost::Pattern { finds: false }, matches),
    ("string::find(string) string", Cost::Pattern { finds: true }, |meter, args| {
        let pattern = meter.pattern(text(args, 1)?)?;
        Ok(Value::text(pattern.find(text(args, 0)?).map_or("", |found| found.as_str())))
    }),
    ("string::findAll(string) list(string)", Cost::Pattern { finds: true }, |meter, args| find_all(meter, args, -1)),
    ("string::findAll(string, int) list(string)", Cost::Pattern { finds: true }, |meter, args| {
        find_all(meter, args, int(args, 2)?)
    }),
    ("string::charAt(int) string", Cost::Flat, |_, args| {
        let (text, index) = (text(args, 0)?, position(args, 1)?);
        match text.chars().nth(index) {
            Some(found) => Ok(found.to_string().into()),
            None if index == text.chars().count() => Ok(Value::text("")),
            None => Err(EvalFault::error(format!("index out of range: {index}"))),
        }
    }),
    ("string::indexOf(string) int", Cost::Items, |_, args| index_of(args, 0)),
    ("string::indexOf(string, int) int", Cost::Items, |_, args| index_of(args, position(args, 2)?)),
    ("string::lastIndexOf(string) int", Cost::Items, |_, args| last_index_of(args, usize::MAX)),
    ("string::lastIndexOf(string, int) int", Cost::Items, |_, args| last_index_of(args, position(args, 2)?)),
    ("list(string)::join() string", Cost::Join, join),
    ("list(string)::join(string) string", Cost::Join, join),
    ("string::lowerAscii() string", Cost::Same, |_, args| Ok(text(args, 0)?.to_ascii_lowercase().into())),
    ("string::upperAscii() string", Cost::Same, |_, args| Ok(text(args, 0)?.to_ascii_uppercase().into())),
    ("string::trim() string", Cost::Same, |_, args| Ok(Value::text(text(args, 0)?.trim()))),
    ("string::replace(string, string) string", Cost::Replace, |meter, args| replace(meter, args, -1)),
    ("string::replace(string, string, int) string", Cost::Replace, |meter, args| replace(meter, args, int(args, 3)?)),
    ("string::split(string) list(string)", Cost::Split, |meter, args| split(meter, args, -1)),
    ("string::split(string, int) list(string)", Cost::Split, |meter, args| split(meter, args, int(args, 2)?)),
    ("string::substring(int) string", Cost::Same, |_, args| substring(args, None)),
    ("string::substring(int, int) string", Cost::Same, |_, args| substring(args, Some(position(args, 2)?))),
    ("string::format(list(dyn)) string", Cost::First, format),
    ("strings.quote(string) string", Cost::Recode(Recoding::Quote), |_, args| Ok(quoted(text(args, 0)?).into())),
];

fn matches<'v>(meter: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    Ok(Value::Bool(meter.pattern(text(args, 1)?)?.is_match(text(args, 0)?)))
}

fn find_all<'v>(meter: &Meter, args: &[Value<'v>], most: i64) -> Result<Value<'v>, EvalFault> {
    let pattern = meter.pattern(text(args, 1)?)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    for part in pattern.find_iter(text(args, 0)?).take(most) {
        meter.work(1 + part.len() as u64)?;
        found.push(Value::text(part.as_str()));
    }
    Ok(Value::list(found))
}

/// Returns a position argument.
fn position(args: &[Value<'_>], index: usize) -> Result<usize, EvalFault> {
    let number = int(args, index)?;
    usize::try_from(number).map_err(|_| EvalFault::error(format!("index out of range: {number}")))
}

/// Returns the byte offset of a character, or the length of the text for the position after the last one.
fn offset(text: &str, index: usize) -> Option<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn character(text: &str, offset: usize) -> Value<'static> {
    Value::Int(i64::try_from(text[..offset].chars().count()).unwrap_or(i64::MAX))
}

fn index_of<'v>(args: &[Value<'v>], from: usize) -> Result<Value<'v>, EvalFault> {
    let (text, part) = (text(args, 0)?, text(args, 1)?);
    let Some(start) = offset(text, from) else {
        return Err(EvalFault::error(format!("index out of range: {from}")));
    };
    Ok(text[start..].find(part).map_or(Value::Int(-1), |at| character(text, start + at)))
}

fn last_index_of<'v>(args: &[Value<'v>], from: usize) -> Result<Value<'v>, EvalFault> {
    let (text, part) = (text(args, 0)?, text(args, 1)?);
    let end = match offset(text, from) {
        Some(start) => text.len().min(start.saturating_add(part.len())),
        None if from == usize::MAX => text.len(),
        None => return Err(EvalFault::error(format!("index out of range: {from}"))),
    };
    let end = (end..=text.len()).find(|&end| text.is_char_boundary(end)).unwrap_or(text.len());
    Ok(text[..end].rfind(part).map_or(Value::Int(-1), |at| character(text, at)))
}

fn join<'v>(meter: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let separator = if args.len() > 1 { text(args, 1)? } else { "" };
    let mut joined = String::new();
    for (index, item) in items(args, 0)?.iter().enumerate() {
        let Value::Text(item) = item else { return Err(EvalFault::error("no such overload")) };
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(item);
        meter.work((item.len() + separator.len()) as u64 / 8)?;
    }
    Ok(joined.into())
}

fn replace<'v>(meter: &Meter, args: &[Value<'v>], most: i64) -> Result<Value<'v>, EvalFault> {
    let (text, from, to) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let often = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() }.min(most);
    meter.work((often as u64).saturating_mul(to.len() as u64) / 8)?;
    Ok(text.replacen(from, to, often).into())
}

fn split<'v>(meter: &Meter, args: &[Value<'v>], most: i64) -> Result<Value<'v>, EvalFault> {
    let (text, separator) = (text(args, 0)?, text(args, 1)?);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    meter.work(text.len() as u64)?;
    let mut parts = Vec::new();
    let mut rest = text;
    if most == 0 {
        return Ok(Value::list(parts));
    }
    loop {
        let (end, next) = match (parts.len() + 1 < most, separator.is_empty()) {
            (false, _) => (None, 0),
            // An empty separator splits between all characters.
            (true, true) => (rest.char_indices().nth(1).map(|(at, _)| at), 0),
            (true, false) => (rest.find(separator), separator.len()),
        };
        let Some(end) = end else {
            if !(separator.is_empty() && rest.is_empty()) {
                parts.push(Value::text(rest));
            }
            break;
        };
        parts.push(Value::text(&rest[..end]));
        rest = &rest[end + next..];
    }
    Ok(Value::list(parts))
}

fn substring<'v>(args: &[Value<'v>], end: Option<usize>) -> Result<Value<'v>, EvalFault> {
    let (text, start) = (text(args, 0)?, position(args, 1)?);
    if let Some(end) = end.filter(|end| *end < start) {
        return Err(EvalFault::error(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let out_of_range = |index: usize| EvalFault::error(format!("index out of range: {index}"));
    let from = offset(text, start).ok_or_else(|| out_of_range(start))?;
    let to = end.map_or(Ok(text.len()), |end| offset(text, end).ok_or_else(|| out_of_range(end)))?;
    Ok(Value::text(&text[from..to]))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\u{b}' => quoted.push_str("\\v"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '"' | '\\' => quoted.extend(['\\', c]),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Returns a value converted to text; `None` if it cannot be converted.
pub(super) fn printed(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Text(text) => (**text).to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => double(*number),
        Value::Timestamp(time) => time.to_string(),
        Value::Duration(nanoseconds) => seconds(*nanoseconds),
        Value::Extension(named) => match &**named {
            ExtensionValue::Ip(ip) => ip.to_string(),
            ExtensionValue::Cidr(cidr) => cidr.to_string(),
            _ => return None,
        },
        _ => return None,
    })
}

/// Formats a number in Go's shortest form.
fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if number != 0.0 && !(1e-4..1e6).contains(&number.abs()) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |rest| ("-", rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    number.to_string()
}

fn seconds(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (whole, rest) = (nanoseconds.unsigned_abs() / 1_000_000_000, nanoseconds.unsigned_abs() % 1_000_000_000);
    let fraction = format!("{rest:09}");
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}s"),
        fraction => format!("{sign}{whole}.{fraction}s"),
    }
}

// === format ===

fn format<'v>(meter: &Meter, args: &[Value<'v>]) -> Result<Value<'v>, EvalFault> {
    let (pattern, values) = (text(args, 0)?, items(args, 1)?);
    let mut values = values.iter();
    let mut out = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut clause = rest.next();
        if clause == Some('%') {
            out.push('%');
            continue;
        }
        let mut places = None;
        if clause == Some('.') {
            let mut digits = String::new();
            clause = rest.next();
            while let Some(digit) = clause.filter(char::is_ascii_digit) {
                digits.push(digit);
                clause = rest.next();
            }
            // Further digits would be zeros, so the number of digits is limited.
            places = Some(digits.parse::<usize>().unwrap_or(0).min(1_000));
        }
        let Some(clause) = clause else { return Err(EvalFault::error("unexpected end of string")) };
        let index = args[1].size() - values.len() as u64;
        let Some(value) = values.next() else {
            return Err(EvalFault::error(format!("index {index} out of range")));
        };
        formatted(&mut out, clause, places, value, meter)?;
        meter.work(out.len() as u64 / 64)?;
    }
    Ok(out.into())
}

fn formatted(
    out: &mut String,
    clause: char,
    places: Option<usize>,
    value: &Value<'_>,
    meter: &Meter,
) -> Result<(), EvalFault> {
    let wrong = |what: &str| {
        EvalFault::error(format!(
            "error during formatting: {what} clause was given a value of type {}",
            value.type_name()
        ))
    };
    let digits = places.unwrap_or(6);
    match (clause, value) {
        ('s', value) => return shown(out, value, 0, meter),
        ('d', Value::Int(number)) => out.push_str(&number.to_string()),
        ('d', Value::Uint(number)) => out.push_str(&number.to_string()),
        ('d', _) => return Err(wrong("decimal")),
        ('f', Value::Double(number)) => _ = write!(out, "{number:.digits$}"),
        ('f', Value::Int(number)) => _ = write!(out, "{number}.{:0<digits$}", ""),
        ('f', _) => return Err(wrong("fixed-point")),
        ('e', Value::Double(number)) => {
            let text = format!("{number:.digits$e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |rest| ("⁻", rest));
            let raised = format!("{exponent:0>2}")
                .chars()
                .filter_map(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(c.to_digit(10)? as usize))
                .collect::<String>();
            _ = write!(out, "{mantissa}×10{sign}{raised}");
        }
        ('e', _) => return Err(wrong("scientific")),
        ('b', Value::Bool(flag)) => out.push(if *flag { '1' } else { '0' }),
        ('b', Value::Int(number)) => signed(out, *number, |n| format!("{n:b}")),
        ('b', Value::Uint(number)) => _ = write!(out, "{number:b}"),
        ('b', _) => return Err(wrong("binary")),
        ('o', Value::Int(number)) => signed(out, *number, |n| format!("{n:o}")),
        ('o', Value::Uint(number)) => _ = write!(out, "{number:o}"),
        ('o', _) => return Err(wrong("octal")),
        ('x' | 'X', value) => {
            let bytes = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let mut hex = String::new();
            match value {
                Value::Int(number) => signed(&mut hex, *number, |n| format!("{n:x}")),
                Value::Uint(number) => _ = write!(hex, "{number:x}"),
                Value::Text(text) => hex = bytes(text.as_bytes()),
                Value::Bytes(all) => hex = bytes(all),
                _ => return Err(wrong("hex")),
            }
            out.push_str(&if clause == 'X' { hex.to_uppercase() } else { hex });
        }
        (clause, _) => {
            return Err(EvalFault::error(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{clause}\""
            )));
        }
    }
    Ok(())
}

fn signed(out: &mut String, number: i64, digits: fn(u64) -> String) {
    if number < 0 {
        out.push('-');
    }
    out.push_str(&digits(number.unsigned_abs()));
}

/// Appends the text of a value, with nested values.
fn shown(out: &mut String, value: &Value<'_>, depth: usize, meter: &Meter) -> Result<(), EvalFault> {
    /// The maximum nesting of formatted values.
    const DEEPEST: usize = 64;
    meter.work(1)?;
    if depth > DEEPEST {
        return Err(EvalFault::error("value is nested too deeply"));
    }
    let inside = depth > 0;
    match value {
        Value::Null => out.push_str("null"),
        Value::Type(name) => out.push_str(name),
        Value::Bytes(bytes) if inside => out.push_str(&format!("b{}", quoted(&String::from_utf8_lossy(bytes)))),
        Value::Bytes(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Text(text) if inside => out.push_str(&quoted(text)),
        Value::Double(number) if inside => out.push_str(&format!("{number:.6}")),
        Value::Duration(length) if inside => out.push_str(&format!("duration(\"{}\")", seconds(*length))),
        Value::Timestamp(time) if inside => out.push_str(&format!("timestamp(\"{time}\")")),
        Value::List(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                shown(out, &item?, depth + 1, meter)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            let mut keys = map.keys();
            keys.sort_by(|a, b| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
            for (index, key) in keys.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                shown(out, key, depth + 1, meter)?;
                out.push(':');
                if let Some(value) = value.find(key)? {
                    shown(out, &value, depth + 1, meter)?;
                }
            }
            out.push('}');
        }
        value => {
            let Some(text) = printed(value) else {
                const TAKEN: &str =
                    "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
                let why = format!("error during formatting: string clause can only be used on {TAKEN}");
                return Err(EvalFault::error(format!("{why}, was given {}", value.type_name())));
            };
            out.push_str(&text);
        }
    }
    Ok(())
}
