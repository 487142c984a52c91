//! Whether a rule means in a policy what it means in a schema. There, fields have types; in a policy they are what JSON makes of them.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use windlass_api::escape;
use windlass_cel::{Environment, Expected, Presence, Schema};

/// Formats of strings that are values of their own in a schema's rules.
const FORMATS: [&str; 4] = ["byte", "date", "date-time", "duration"];

/// Why a rule about a value of the schema would not mean the same, if so.
pub(super) fn alike(rule: &str, schema: &Value) -> Result<(), String> {
    let tokens = tokens(rule);
    let named = |name: &str| tokens.iter().any(|token| token.name == Some(name));
    let compared = |name: &str| tokens.iter().any(|token| token.name == Some(name) && token.is_compared);
    differs("self", schema, compared("self") || compared("oldSelf"))?;
    let mut below = vec![schema];
    while let Some(schema) = below.pop() {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let escaped = escape(name).unwrap_or_default();
            if escaped != *name && named(&escaped) {
                return Err(format!("a policy does not call the field {name:?} {escaped}"));
            }
            if named(name) {
                differs(name, property, compared(name))?;
            }
            below.push(property);
        }
        below.extend([&schema["items"], &schema["additionalProperties"]].into_iter().filter(|below| below.is_object()));
    }
    Ok(())
}

/// Whether a value, or what it is a list or map of, is another thing in a policy.
fn differs(name: &str, schema: &Value, is_compared: bool) -> Result<(), String> {
    if let Some(format) = schema["format"].as_str().filter(|format| FORMATS.contains(format)) {
        return Err(format!("{name} is of format {format}, which is a mere string in a policy"));
    }
    if schema["type"] == "number" {
        return Err(format!("{name} is a number, which is an integer in a policy when it has no fraction"));
    }
    if is_compared && has_unordered(schema) {
        return Err(format!("{name} is compared, and its lists are in order in a policy"));
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            differs(name, &schema[below], false)?;
        }
    }
    Ok(())
}

/// Whether there are lists in it that are sets or maps.
fn has_unordered(schema: &Value) -> bool {
    matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"))
        || schema["properties"].as_object().into_iter().flatten().any(|(_, property)| has_unordered(property))
        || ["items", "additionalProperties"]
            .iter()
            .any(|below| schema[*below].is_object() && has_unordered(&schema[*below]))
}

/// What an expression about whole objects is wrong in.
pub(super) fn problem(expression: &str) -> Option<String> {
    static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
        let any: Arc<Schema> = Schema::any();
        ["object", "oldObject", "namespaceObject", "request", "params", "variables"]
            .into_iter()
            .fold(Environment::new(), |environment, name| environment.with(name, &any, Presence::Certain))
    });
    if names(expression).any(|name| name == "authorizer") {
        // Only a cluster knows what it can be asked.
        return None;
    }
    ENVIRONMENT.compile(expression, Expected::Bool).err().map(|error| error.to_string())
}

/// The names in an expression, of whatever.
pub(super) fn names(expression: &str) -> impl Iterator<Item = &str> {
    tokens(expression).into_iter().filter_map(|token| token.name)
}

/// A part of an expression that is no space.
struct Token<'a> {
    text: &'a str,
    /// If it is one.
    name: Option<&'a str>,
    /// An operator stands beside it, or beside the path that it ends, which compares it whole.
    is_compared: bool,
}

fn tokens(expression: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::<Token<'_>>::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            '"' | '\'' => closing(rest, first),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            '=' | '!' if rest[1..].starts_with('=') => 2,
            _ => first.len_utf8(),
        };
        let text = &rest[..end];
        let name = Some(text).filter(|_| is_word(first) && !first.is_ascii_digit());
        tokens.push(Token { text, name, is_compared: false });
        rest = rest[end..].trim_start();
    }
    let is_operator =
        |token: Option<&Token<'_>>| token.is_some_and(|token| ["==", "!=", "+", "in"].contains(&token.text));
    for place in 0..tokens.len() {
        let mut begin = place;
        while begin >= 2 && tokens[begin - 1].text == "." && tokens[begin - 2].name.is_some() {
            begin -= 2;
        }
        let is_whole = tokens.get(place + 1).is_none_or(|next| !matches!(next.text, "." | "[" | "("));
        let beside = [begin.checked_sub(1), Some(place + 1)];
        tokens[place].is_compared =
            is_whole && beside.into_iter().flatten().any(|beside| is_operator(tokens.get(beside)));
    }
    tokens
}

/// Where a string that begins a text ends.
fn closing(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return place + 1,
            _ => {}
        }
    }
    text.len()
}
