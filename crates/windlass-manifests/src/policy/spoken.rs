//! Checks whether a rule has the same meaning in a policy as in a schema. In a schema, fields have declared types; in a
//! policy, they have the types of JSON.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use windlass_api::escape;
use windlass_cel::{Environment, Expected, Presence, Schema};

/// String formats that have their own types in the rules of a schema.
const FORMATS: [&str; 4] = ["byte", "date", "date-time", "duration"];

/// Returns an error with the reason if a rule about a value of the schema would have another meaning in a policy.
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
                return Err(format!("in a policy, the field {name:?} cannot be written as {escaped}"));
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

/// Returns an error if a value, or an item in it, has another type in a policy.
fn differs(name: &str, schema: &Value, is_compared: bool) -> Result<(), String> {
    if let Some(format) = schema["format"].as_str().filter(|format| FORMATS.contains(format)) {
        return Err(format!("{name} is of format {format}, which is a plain string in a policy"));
    }
    if schema["type"] == "number" {
        return Err(format!("{name} is a number, which becomes an integer in a policy if it has no fraction"));
    }
    if is_compared && has_unordered(schema) {
        return Err(format!("{name} is compared, but its lists are ordered in a policy"));
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            differs(name, &schema[below], false)?;
        }
    }
    Ok(())
}

/// Reports whether the schema contains lists that are sets or maps.
fn has_unordered(schema: &Value) -> bool {
    matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"))
        || schema["properties"].as_object().into_iter().flatten().any(|(_, property)| has_unordered(property))
        || ["items", "additionalProperties"]
            .iter()
            .any(|below| schema[*below].is_object() && has_unordered(&schema[*below]))
}

/// Returns the error in an expression about whole objects, if any.
pub(super) fn problem(expression: &str) -> Option<String> {
    static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
        let any: Arc<Schema> = Schema::any();
        ["object", "oldObject", "namespaceObject", "request", "params", "variables"]
            .into_iter()
            .fold(Environment::new(), |environment, name| environment.with(name, &any, Presence::Certain))
    });
    if names(expression).any(|name| name == "authorizer") {
        // The types of other objects are known only to a cluster.
        return None;
    }
    ENVIRONMENT.compile(expression, Expected::Bool).err().map(|error| error.to_string())
}

/// Returns the names in an expression.
pub(super) fn names(expression: &str) -> impl Iterator<Item = &str> {
    tokens(expression).into_iter().filter_map(|token| token.name)
}

/// A token of an expression, without white space.
struct Token<'a> {
    text: &'a str,
    /// The name, if it is one.
    name: Option<&'a str>,
    /// `true` if an operator is next to it, or next to the path that it ends, and thus compares the whole value.
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

/// Returns the end of a string literal at the start of a text.
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
