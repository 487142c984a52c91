//! The functions of templates: those of Go, and the most used ones of kwok and of the library that it uses (sprig).

use std::{cmp::Ordering, fmt::Write};

use serde_json::{Map, Value};

use super::MOST_OUTPUT;

/// A function that a template calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Function {
    And,
    Or,
    /// A function of the environment.
    Own(&'static str),
    /// A function of [`TABLE`], by its index.
    General(usize),
}

/// An argument of a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Argument<'v> {
    pub(super) value: &'v Value,
    pub(super) is_true: bool,
}

type Arguments<'a> = &'a [Argument<'a>];
type Outcome = Result<Value, String>;

/// The functions that only depend on their arguments.
const TABLE: &[(&str, fn(Arguments<'_>) -> Outcome)] = &[
    ("not", |given| exact(given).map(|[one]| Value::Bool(!one.is_true))),
    ("eq", equal),
    ("ne", |given| {
        let [a, b] = exact(given)?;
        are_equal(a.value, b.value).map(|equal| Value::Bool(!equal))
    }),
    ("lt", |given| compared(given, Ordering::is_lt)),
    ("le", |given| compared(given, Ordering::is_le)),
    ("gt", |given| compared(given, Ordering::is_gt)),
    ("ge", |given| compared(given, Ordering::is_ge)),
    ("index", index),
    ("len", length),
    ("print", |given| Ok(Value::String(joined(given)))),
    ("println", |given| {
        let texts: Vec<_> = given.iter().map(|one| printed(one.value)).collect();
        Ok(Value::String(texts.join(" ") + "\n"))
    }),
    ("printf", formatted),
    ("Quote", |given| exact(given).map(|[one]| Value::String(kwok_quoted(one.value)))),
    ("YAML", yaml),
    ("dict", |given| Ok(dict(given))),
    ("list", |given| Ok(Value::Array(given.iter().map(|one| one.value.clone()).collect()))),
    ("default", |given| match given {
        [fallback] => Ok(fallback.value.clone()),
        [fallback, one] => Ok(if one.is_true { one } else { fallback }.value.clone()),
        _ => Err(expected("1 or 2 arguments", given)),
    }),
    ("empty", |given| exact(given).map(|[one]| Value::Bool(!one.is_true))),
    ("coalesce", |given| Ok(given.iter().find(|one| one.is_true).map(|one| one.value.clone()).unwrap_or_default())),
    ("ternary", |given| {
        let [yes, no, which] = exact(given)?;
        match which.value {
            Value::Bool(which) => Ok(if *which { yes } else { no }.value.clone()),
            other => Err(format!("{} is not a boolean", kind(other))),
        }
    }),
    ("hasKey", |given| {
        let [map, key] = exact(given)?;
        Ok(Value::Bool(object(map.value)?.contains_key(&*printed(key.value))))
    }),
    ("get", |given| {
        let [map, key] = exact(given)?;
        let found = object(map.value)?.get(&*printed(key.value)).cloned();
        Ok(found.unwrap_or_else(|| Value::String(String::new())))
    }),
    ("toString", |given| exact(given).map(|[one]| Value::String(printed(one.value)))),
    ("toJson", |given| exact(given).map(|[one]| Value::String(one.value.to_string()))),
    ("quote", |given| {
        let texts: Vec<_> =
            given.iter().filter(|one| !one.value.is_null()).map(|one| quoted(&printed(one.value))).collect();
        Ok(Value::String(texts.join(" ")))
    }),
    ("upper", |given| text(given, str::to_uppercase)),
    ("lower", |given| text(given, str::to_lowercase)),
    ("trim", |given| text(given, |text| text.trim().to_owned())),
    ("trimPrefix", |given| texts(given, |[prefix, text]| Ok(text.strip_prefix(prefix).unwrap_or(text).into()))),
    ("trimSuffix", |given| texts(given, |[suffix, text]| Ok(text.strip_suffix(suffix).unwrap_or(text).into()))),
    ("contains", |given| texts(given, |[part, text]| Ok(text.contains(part).into()))),
    ("hasPrefix", |given| texts(given, |[prefix, text]| Ok(text.starts_with(prefix).into()))),
    ("hasSuffix", |given| texts(given, |[suffix, text]| Ok(text.ends_with(suffix).into()))),
    ("replace", |given| {
        texts(given, |[old, new, text]| {
            if text.matches(old).count().saturating_mul(new.len()) > MOST_OUTPUT {
                return Err(format!("the result is larger than {MOST_OUTPUT} bytes"));
            }
            Ok(text.replace(old, new).into())
        })
    }),
    ("join", |given| {
        let [separator, list] = exact(given)?;
        let separator = printed(separator.value);
        match list.value {
            Value::Array(items) if items.len().saturating_mul(separator.len()) > MOST_OUTPUT => {
                Err(format!("the result is larger than {MOST_OUTPUT} bytes"))
            }
            Value::Array(items) => {
                Ok(Value::String(items.iter().map(printed).collect::<Vec<_>>().join(separator.as_str())))
            }
            other => Ok(Value::String(printed(other))),
        }
    }),
    ("int", |given| exact(given).map(|[one]| Value::from(integer(one.value).unwrap_or(0)))),
    ("add", |given| folded(given, i64::checked_add)),
    ("sub", |given| binary(given, i64::checked_sub)),
    ("mul", |given| folded(given, i64::checked_mul)),
    ("div", |given| binary(given, i64::checked_div)),
    ("mod", |given| binary(given, i64::checked_rem)),
    ("max", |given| folded(given, |a, b| Some(a.max(b)))),
    ("min", |given| folded(given, |a, b| Some(a.min(b)))),
];

impl Function {
    /// Returns the function of a name. `own` are the names of the functions of the environment.
    pub(super) fn named(name: &str, own: &[&'static str]) -> Option<Self> {
        match name {
            "and" => return Some(Self::And),
            "or" => return Some(Self::Or),
            _ => {}
        }
        let own = own.iter().find(|known| **known == name).map(|name| Self::Own(name));
        own.or_else(|| TABLE.iter().position(|(known, _)| *known == name).map(Self::General))
    }

    /// Returns the name of the function.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
            Self::Own(name) => name,
            Self::General(index) => TABLE[index].0,
        }
    }
}

/// Calls a function that is not one of the environment.
pub(super) fn call(function: Function, given: Arguments<'_>) -> Outcome {
    match function {
        Function::General(index) => TABLE[index].1(given),
        other => Err(format!("{:?} has no value here", other.name())),
    }
}

/// Returns a value as Go prints it.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(inner).collect::<Vec<_>>().join(" ")),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(key, value)| format!("{key}:{}", inner(value))).collect();
            fields.sort_unstable();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

fn inner(value: &Value) -> String {
    if value.is_null() { "<nil>".to_owned() } else { printed(value) }
}

/// Returns `true` unless the value is empty, zero or missing.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_true) => *is_true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Returns the kind of a value, for errors.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "a missing value",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

fn expected(count: &str, given: Arguments<'_>) -> String {
    format!("expected {count}, found {}", given.len())
}

fn exact<const N: usize>(given: Arguments<'_>) -> Result<[Argument<'_>; N], String> {
    given.try_into().map_err(|_| expected(&format!("{N} argument{}", if N == 1 { "" } else { "s" }), given))
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("{} is not a map", kind(value)))
}

fn equal(given: Arguments<'_>) -> Outcome {
    let [first, others @ ..] = given else { return Err(expected("2 arguments", given)) };
    if others.is_empty() {
        return Err(expected("2 arguments", given));
    }
    for other in others {
        if are_equal(first.value, other.value)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn are_equal(a: &Value, b: &Value) -> Result<bool, String> {
    match (a, b) {
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => {
            Err(format!("{} and {} cannot be compared", kind(a), kind(b)))
        }
        (Value::Null, _) | (_, Value::Null) => Ok(a.is_null() && b.is_null()),
        _ => order(a, b).map(Ordering::is_eq),
    }
}

fn compared(given: Arguments<'_>, holds: fn(Ordering) -> bool) -> Outcome {
    let [a, b] = exact(given)?;
    order(a.value, b.value).map(|order| Value::Bool(holds(order)))
}

/// Compares two scalars. A number is compared with a string by its text, because Go's templates get the numbers of an
/// object as text.
fn order(a: &Value, b: &Value) -> Result<Ordering, String> {
    let order = match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::String(b)) => Some(a.to_string().cmp(b)),
        (Value::String(a), Value::Number(b)) => Some(a.cmp(&b.to_string())),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => a.as_f64().partial_cmp(&b.as_f64()),
        },
        _ => None,
    };
    order.ok_or_else(|| format!("{} and {} cannot be compared", kind(a), kind(b)))
}

fn index(given: Arguments<'_>) -> Outcome {
    let [first, keys @ ..] = given else { return Err(expected("1 argument or more", given)) };
    let mut value = first.value;
    for key in keys {
        value = match (value, key.value) {
            (Value::Object(fields), Value::String(key)) => fields.get(key).unwrap_or(&Value::Null),
            (Value::Array(items), Value::Number(number)) => {
                let at = number.as_u64().and_then(|at| usize::try_from(at).ok());
                let found = at.and_then(|at| items.get(at));
                found.ok_or_else(|| format!("the index {number} is out of range: the list has {}", items.len()))?
            }
            (value, key) => return Err(format!("{} has no index that is {}", kind(value), kind(key))),
        };
    }
    Ok(value.clone())
}

fn length(given: Arguments<'_>) -> Outcome {
    let [one] = exact(given)?;
    match one.value {
        Value::String(text) => Ok(text.len().into()),
        Value::Array(items) => Ok(items.len().into()),
        Value::Object(fields) => Ok(fields.len().into()),
        other => Err(format!("{} has no length", kind(other))),
    }
}

/// Joins values, with spaces between those that are not strings.
fn joined(given: Arguments<'_>) -> String {
    let mut text = String::new();
    let mut was_string = true;
    for one in given {
        let is_string = one.value.is_string();
        if !was_string && !is_string {
            text.push(' ');
        }
        text.push_str(&printed(one.value));
        was_string = is_string;
    }
    text
}

/// Formats values with the verbs `%s`, `%v`, `%d`, `%q`, `%t` and `%%`, and a width.
fn formatted(given: Arguments<'_>) -> Outcome {
    let [format, arguments @ ..] = given else { return Err(expected("1 argument or more", given)) };
    let Value::String(format) = format.value else { return Err("the format is not a string".to_owned()) };
    let (mut text, mut rest, mut arguments) = (String::new(), format.as_str(), arguments.iter());
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        let flags = after.trim_start_matches(['-', '0']);
        let (is_left, has_zeros) = (after.starts_with('-'), after.starts_with('0'));
        let verb_at = flags.find(|character: char| !character.is_ascii_digit()).unwrap_or(flags.len());
        let width: usize = flags[..verb_at].parse().unwrap_or(0);
        let Some(verb) = flags[verb_at..].chars().next() else { return Err("the format ends with \"%\"".to_owned()) };
        if width > 1_000 {
            return Err(format!("the width {width} is larger than 1000"));
        }
        rest = &flags[verb_at + verb.len_utf8()..];
        if verb == '%' {
            text.push('%');
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("the verb %{verb} has no argument"))?.value;
        let piece = match (verb, value) {
            ('v' | 's', value) => printed(value),
            ('d', Value::Number(number)) if number.is_i64() || number.is_u64() => number.to_string(),
            ('t', Value::Bool(is_true)) => is_true.to_string(),
            ('q', Value::String(value)) => quoted(value),
            ('d' | 't' | 'q', value) => return Err(format!("the verb %{verb} does not format {}", kind(value))),
            _ => return Err(format!("the verb %{verb} is not supported")),
        };
        // Writing to a string cannot fail.
        let _ = match (is_left, has_zeros) {
            (true, _) => write!(text, "{piece:<width$}"),
            (false, true) => write!(text, "{piece:0>width$}"),
            (false, false) => write!(text, "{piece:>width$}"),
        };
    }
    if arguments.next().is_some() {
        return Err("the format has fewer verbs than arguments".to_owned());
    }
    text.push_str(rest);
    Ok(Value::String(text))
}

/// Returns a string in double quotes, with the escapes of JSON, which YAML understands.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Quotes a string, and the JSON of other values.
fn kwok_quoted(value: &Value) -> String {
    match value {
        Value::String(_) => value.to_string(),
        other => quoted(&other.to_string()),
    }
}

/// Returns a value as YAML. With an indent, it begins on a new line and has two spaces per level.
fn yaml(given: Arguments<'_>) -> Outcome {
    let (value, indent) = match given {
        [value] => (value.value, 0),
        [value, indent] => {
            (value.value, integer(indent.value).and_then(|indent| u8::try_from(indent).ok()).unwrap_or(0))
        }
        _ => return Err(expected("1 or 2 arguments", given)),
    };
    let mut text = String::new();
    write_yaml(&mut text, value, usize::from(indent) * 2)?;
    if indent > 0 {
        text.insert(0, '\n');
    }
    Ok(Value::String(text))
}

fn write_yaml(text: &mut String, value: &Value, indent: usize) -> Result<(), String> {
    if text.len() > MOST_OUTPUT {
        return Err(format!("the result is larger than {MOST_OUTPUT} bytes"));
    }
    let is_block = |value: &Value| (value.is_object() || value.is_array()) && is_true(value);
    let pad = " ".repeat(indent);
    let mut entry = |key: &str, value: &Value| {
        text.push_str(&pad);
        text.push_str(key);
        if is_block(value) {
            text.push('\n');
            write_yaml(text, value, indent + 2)
        } else {
            text.push_str(&format!(" {value}\n"));
            Ok(())
        }
    };
    match value {
        Value::Object(fields) if is_block(value) => {
            fields.iter().try_for_each(|(key, value)| entry(&format!("{}:", quoted(key)), value))
        }
        Value::Array(items) if is_block(value) => items.iter().try_for_each(|value| entry("-", value)),
        scalar => {
            text.push_str(&format!("{pad}{scalar}\n"));
            Ok(())
        }
    }
}

fn dict(given: Arguments<'_>) -> Value {
    let mut fields = Map::new();
    for pair in given.chunks(2) {
        let value = pair.get(1).map_or_else(|| Value::String(String::new()), |value| value.value.clone());
        fields.insert(printed(pair[0].value), value);
    }
    Value::Object(fields)
}

fn text(given: Arguments<'_>, change: fn(&str) -> String) -> Outcome {
    texts(given, |[text]| Ok(change(text).into()))
}

fn texts<const N: usize>(given: Arguments<'_>, change: impl FnOnce([&str; N]) -> Outcome) -> Outcome {
    let texts = exact::<N>(given)?.map(|one| match one.value {
        Value::Null => String::new(),
        value => printed(value),
    });
    change(texts.each_ref().map(String::as_str))
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)),
        Value::String(text) => text.parse().ok(),
        Value::Bool(is_true) => Some((*is_true).into()),
        _ => None,
    }
}

fn integers(given: Arguments<'_>) -> Result<Vec<i64>, String> {
    given.iter().map(|one| integer(one.value).ok_or_else(|| format!("{} is not a number", kind(one.value)))).collect()
}

fn folded(given: Arguments<'_>, step: fn(i64, i64) -> Option<i64>) -> Outcome {
    let numbers = integers(given)?;
    let [first, others @ ..] = &*numbers else { return Err(expected("1 argument or more", given)) };
    let result = others.iter().try_fold(*first, |sum, number| step(sum, *number));
    result.map(Value::from).ok_or_else(|| "the result is out of range".to_owned())
}

fn binary(given: Arguments<'_>, step: fn(i64, i64) -> Option<i64>) -> Outcome {
    if given.len() != 2 {
        return Err(expected("2 arguments", given));
    }
    folded(given, step)
}
