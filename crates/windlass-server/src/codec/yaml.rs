//! YAML as the API server reads and writes it: Go's yaml.v2, which implements most of YAML 1.1, not 1.2.
//!
//! `y`, `yes`, `on` and their opposites are booleans, `0644` is octal, `<<` merges, and times stay strings. Only the
//! first of several documents is read. granit-parser parses the structure; this module resolves the scalars. Malformed
//! documents are rejected, but only the most common errors have Go's texts. Tabs as indentation are accepted.

mod aliases;
mod emit;

use std::collections::{HashMap, HashSet};

use base64::{Engine, prelude::BASE64_STANDARD};
use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Number, Value};

use super::{json::MAX_DEPTH, numbers::whole_numbers, quote::quote};

pub(crate) use self::emit::{to_yaml, to_yaml_item};

const TOO_DEEP: &str = "yaml: exceeded max depth";

/// A parsed document.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) value: Value,
    /// One line of text for each duplicate key.
    pub(super) duplicates: Vec<String>,
}

/// Parses the first document of the text. The error is similar to Go's.
pub(super) fn parse(text: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(text).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    // If there may be aliases, a first pass rejects a document that they would make too large. That pass builds
    // nothing.
    let referenced = if text.contains('&') && text.contains('*') { aliases::referenced(text)? } else { HashSet::new() };
    let mut reader = Reader { events: Events::new(text), referenced, anchors: HashMap::new(), duplicates: Vec::new() };
    let mut value = Value::Null;
    while let Some((event, span)) = reader.events.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) => {}
            Event::DocumentEnd | Event::StreamEnd => break,
            event => value = reader.node(&event, span, 0)?.into_value()?,
        }
    }
    whole_numbers(&mut value);
    Ok(Document { value, duplicates: reader.duplicates })
}

/// The parser events of a text.
struct Events<'a>(Parser<'a, granit_parser::StrInput<'a>>);

struct Reader<'a> {
    events: Events<'a>,
    /// The anchors that aliases refer to.
    referenced: HashSet<usize>,
    /// The finished nodes by the id of their anchor; `None` while the node is being read.
    anchors: HashMap<usize, Option<Anchored>>,
    duplicates: Vec<String>,
}

#[derive(Clone)]
struct Anchored {
    value: Value,
    depth: usize,
}

/// A node. Scalars that Go cannot encode as JSON have separate variants.
enum Node {
    Value(Value),
    /// The plain scalar `<<`, which is a merge if it is a key, and a string otherwise.
    Merge,
    NotFinite(&'static str),
}

impl Node {
    fn into_value(self) -> Result<Value, String> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Merge => Ok(Value::from("<<")),
            Self::NotFinite(name) => Err(format!("json: unsupported value: {name}")),
        }
    }
}

impl<'a> Events<'a> {
    fn new(text: &'a str) -> Self {
        // Otherwise the parser emits comments if another crate of the build enables that feature.
        let options = granit_parser::options! { emit_unresolved_aliases: true, emit_comments: false };
        Self(Parser::new_from_str_with_options(text, options))
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, String> {
        self.0.next_event().transpose().map_err(|error| scan_error(&error))
    }
}

impl<'a> Reader<'a> {
    fn expect(&mut self) -> Result<(Event<'a>, Span), String> {
        self.events.next()?.ok_or_else(|| "yaml: unexpected end of stream".to_owned())
    }

    fn node(&mut self, event: &Event<'_>, span: Span, depth: usize) -> Result<Node, String> {
        if depth > MAX_DEPTH {
            return Err(TOO_DEEP.into());
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = resolve(text, *style, tag.as_deref())?;
                self.finish(*anchor, node)
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(*anchor);
                let mut items = Vec::new();
                loop {
                    match self.expect()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.node(&event, span, depth + 1)?.into_value()?),
                    }
                }
                self.finish(*anchor, Node::Value(Value::Array(items)))
            }
            Event::MappingStart(_, anchor, _) => {
                self.begin(*anchor);
                let entries = self.mapping(depth)?;
                self.finish(*anchor, Node::Value(Value::Object(entries)))
            }
            Event::Alias(id) => match self.anchors.get(id) {
                Some(Some(anchored)) => {
                    if depth + anchored.depth > MAX_DEPTH {
                        return Err(TOO_DEEP.into());
                    }
                    Ok(Node::Value(anchored.value.clone()))
                }
                _ => Err("yaml: anchor value contains itself".into()),
            },
            Event::UnresolvedAlias(name) => Err(format!("yaml: unknown anchor '{name}' referenced")),
            _ => Err(format!("yaml: line {}: did not find expected node content", span.start.line())),
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Map<String, Value>, String> {
        let mut entries = Map::new();
        loop {
            let (event, span) = self.expect()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(entries);
            }
            let key = self.node(&event, span, depth + 1)?;
            let (event, span) = self.expect()?;
            let line = span.start.line();
            let value = self.node(&event, span, depth + 1)?.into_value()?;
            match key {
                Node::Merge => self.merge(&mut entries, value, line)?,
                Node::NotFinite(name) => self.insert(&mut entries, dotted(name).to_owned(), value, line),
                Node::Value(key) => {
                    let key = key_text(key, &value)?;
                    self.insert(&mut entries, key, value, line);
                }
            }
        }
    }

    fn insert(&mut self, entries: &mut Map<String, Value>, key: String, value: Value, line: usize) {
        if entries.contains_key(&key) {
            self.duplicates.push(format!("line {line}: key {} already set in map", quote(&key)));
        }
        entries.insert(key, value);
    }

    fn merge(&mut self, entries: &mut Map<String, Value>, value: Value, line: usize) -> Result<(), String> {
        let want = || "yaml: map merge requires map or sequence of maps as the value".to_owned();
        match value {
            Value::Object(merged) => {
                for (key, value) in merged {
                    self.insert(entries, key, value, line);
                }
            }
            // Earlier maps have precedence, so they are applied last.
            Value::Array(maps) => {
                for map in maps.into_iter().rev() {
                    let Value::Object(merged) = map else { return Err(want()) };
                    for (key, value) in merged {
                        self.insert(entries, key, value, line);
                    }
                }
            }
            _ => return Err(want()),
        }
        Ok(())
    }

    fn begin(&mut self, anchor: usize) {
        if self.referenced.contains(&anchor) {
            self.anchors.insert(anchor, None);
        }
    }

    fn finish(&mut self, anchor: usize, node: Node) -> Result<Node, String> {
        if self.referenced.contains(&anchor) {
            let value = match &node {
                Node::Value(value) => value.clone(),
                Node::Merge => Value::from("<<"),
                Node::NotFinite(name) => return Err(format!("json: unsupported value: {name}")),
            };
            let depth = depth(&value);
            self.anchors.insert(anchor, Some(Anchored { value, depth }));
        }
        Ok(node)
    }
}

/// Returns the nesting depth of a value.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| depth(item) + 1).max().unwrap_or_default(),
        Value::Object(entries) => entries.values().map(|value| depth(value) + 1).max().unwrap_or_default(),
        _ => 0,
    }
}

fn scan_error(error: &ScanError) -> String {
    match error.marker().line() {
        0 | 1 => format!("yaml: {}", error.info()),
        line => format!("yaml: line {line}: {}", error.info()),
    }
}

fn key_text(key: Value, value: &Value) -> Result<String, String> {
    match key {
        Value::String(text) => Ok(text),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) => Ok(super::decode::go_float(number.as_f64().unwrap_or_default())
            .filter(|_| number.is_f64())
            .unwrap_or(number)
            .to_string()),
        Value::Null => Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}")),
        Value::Array(_) | Value::Object(_) => Err(format!("yaml: invalid map key: {key}")),
    }
}

fn dotted(name: &'static str) -> &'static str {
    match name {
        "NaN" => ".nan",
        "-Inf" => "-.inf",
        _ => ".inf",
    }
}

/// The type of a plain scalar without a tag.
#[derive(Debug, Clone, PartialEq)]
enum Plain {
    Null,
    Bool(bool),
    Number(Number),
    NotFinite(&'static str),
    Merge,
    Text,
}

fn resolve(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Node, String> {
    let string = || Ok(Node::Value(Value::from(text)));
    let expected = match tag {
        None if style != ScalarStyle::Plain => return string(),
        None => None,
        Some(tag) if tag.handle() == "tag:yaml.org,2002:" => Some(tag.suffix()),
        Some(_) => return string(),
    };
    let plain = match expected {
        Some("binary") => {
            let clean: String = text.split_whitespace().collect();
            let bytes = BASE64_STANDARD
                .decode(clean)
                .map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
            return Ok(Node::Value(Value::String(String::from_utf8_lossy(&bytes).into_owned())));
        }
        None | Some("int" | "float" | "bool" | "null") => plain(text),
        Some(_) => return string(),
    };
    let found = plain.tag();
    let node = match plain {
        Plain::Null => Node::Value(Value::Null),
        Plain::Bool(flag) => Node::Value(Value::Bool(flag)),
        Plain::Number(number) => Node::Value(Value::Number(number)),
        Plain::NotFinite(name) => Node::NotFinite(name),
        Plain::Merge => Node::Merge,
        Plain::Text => Node::Value(Value::from(text)),
    };
    match expected {
        Some(expected) if expected != found && (expected, found) != ("float", "int") => {
            Err(format!("yaml: cannot decode !!{found} `{text}` as a !!{expected}"))
        }
        _ => Ok(node),
    }
}

impl Plain {
    fn tag(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Number(number) if number.is_f64() => "float",
            Self::Number(_) => "int",
            Self::NotFinite(_) => "float",
            Self::Merge => "merge",
            Self::Text => "str",
        }
    }
}

fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Plain::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Plain::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Plain::NotFinite("NaN"),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Plain::NotFinite("+Inf"),
        "-.inf" | "-.Inf" | "-.INF" => return Plain::NotFinite("-Inf"),
        "<<" => return Plain::Merge,
        _ => {}
    }
    let number = match text.as_bytes()[0] {
        b'.' => float(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| if is_float(&digits) { float(&digits) } else { None })
        }
        _ => None,
    };
    number.map_or(Plain::Text, Plain::Number)
}

fn float(text: &str) -> Option<Number> {
    text.parse::<f64>().ok().filter(|number| number.is_finite()).and_then(Number::from_f64)
}

/// Parses an integer like Go's `strconv.ParseInt` with base 0: the prefix decides the base, and a leading zero is
/// octal.
fn integer(text: &str) -> Option<Number> {
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (&lower[..], 10),
    };
    if !digits.starts_with(|digit: char| digit.is_ascii_alphanumeric()) {
        return None;
    }
    if negative {
        return i64::from_str_radix(&format!("-{digits}"), radix).ok().map(Number::from);
    }
    // Go tries unsigned integers only for numbers without a sign.
    match i64::from_str_radix(digits, radix) {
        Ok(number) => Some(Number::from(number)),
        Err(_) if text.starts_with('+') => None,
        Err(_) => u64::from_str_radix(digits, radix).ok().map(Number::from),
    }
}

/// Matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = digits(rest);
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix('.') {
        let places = digits(fraction);
        if whole + places == 0 {
            return false;
        }
        rest = &fraction[places..];
    } else if whole == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(exponent) => {
            let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
    }
}

#[cfg(test)]
mod tests;
