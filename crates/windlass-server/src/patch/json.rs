//! JSON patch, RFC 6902, with the habits of the library that the API server uses: negative indices count from the end,
//! `replace` and `copy` do not mind a missing key, and the first segment of a path is ignored.

use serde_json::{Map, Value};
use windlass_api::{FieldValidation, Status};

use super::{depth, unprocessable};
use crate::codec::{self, Decoded, MAX_DEPTH};

const MAX_OPERATIONS: usize = 10_000;
/// How many bytes all `copy` operations of a patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;

pub(super) fn apply(body: &[u8], current: &Value, validation: FieldValidation) -> Result<Decoded, Status> {
    let strict = validation != FieldValidation::Ignore;
    let failed = |message: String| {
        Status::bad_request(if strict { format!("error decoding patch: {message}") } else { message })
    };
    let patch = codec::decode_untyped(body, validation).map_err(failed)?;
    let mut warnings = patch.warnings;
    let target = if strict { "[]handlers.jsonPatchOp" } else { "jsonpatch.Patch" };
    let operations = match patch.value {
        Value::Array(operations) => operations,
        Value::Null => Vec::new(),
        other => return Err(failed(mismatch(&other, target))),
    };
    if strict {
        check(&operations, &mut warnings).map_err(failed)?;
    }
    if operations.len() > MAX_OPERATIONS {
        let limit = "The allowed maximum operations in a JSON patch is";
        let message = format!("Request entity too large: {limit} {MAX_OPERATIONS}, got {}", operations.len());
        return Err(Status::failure(413, "RequestEntityTooLarge", message));
    }
    let mut document = Document { root: current.clone(), copied: 0 };
    if let Value::Object(entries) = &mut document.root {
        entries.sort_keys();
    }
    for operation in &operations {
        let none = Map::new();
        let operation = match operation {
            Value::Object(operation) => operation,
            // In Go's lenient reading a null operation is an empty one; anything else is no patch.
            Value::Null => &none,
            other => return Err(failed(mismatch(other, "jsonpatch.Operation"))),
        };
        // The answer does not say which operation it was, nor what was wrong with it.
        document.operate(operation).ok_or_else(unprocessable)?;
    }
    Ok(Decoded { value: document.root, warnings })
}

/// What strict decoding into Go's struct of an operation would find; the warnings about duplicates are there already.
fn check(operations: &[Value], warnings: &mut Vec<String>) -> Result<(), String> {
    for warning in warnings.iter_mut() {
        *warning = format!("json patch {warning}");
    }
    for (index, operation) in operations.iter().enumerate() {
        let Value::Object(fields) = operation else {
            if operation.is_null() {
                continue;
            }
            return Err(mismatch(operation, "handlers.jsonPatchOp"));
        };
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("value", _) | ("op" | "path" | "from", Value::String(_) | Value::Null) => {}
                ("op" | "path" | "from", other) => {
                    let word = word(other);
                    return Err(format!(
                        "json: cannot unmarshal {word} into Go struct field jsonPatchOp.{name} of type string"
                    ));
                }
                _ => {
                    let path = codec::go_quote(&format!("[{index}].{name}"));
                    warnings.push(format!("json patch unknown field {path}"));
                }
            }
        }
    }
    Ok(())
}

fn mismatch(value: &Value, target: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {target}", word(value))
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

struct Document {
    root: Value,
    copied: usize,
}

/// The container that a path leads to, its last segment, and how deep that lies.
struct Place<'a> {
    container: &'a mut Value,
    key: String,
    depth: usize,
}

impl Document {
    /// `None`: the operation does not apply.
    fn operate(&mut self, operation: &Map<String, Value>) -> Option<()> {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let value = || operation.get("value").cloned().unwrap_or_default();
        let path = || text("path");
        match text("op")? {
            "add" => self.find(path()?)?.add(value()),
            "remove" => self.find(path()?)?.remove().map(drop),
            "replace" if path()?.is_empty() => {
                let value = value();
                (value.is_object() || value.is_array()).then(|| self.root = value)
            }
            "replace" => {
                let mut place = self.find(path()?)?;
                place.get()?;
                place.set(value())
            }
            "move" => {
                let mut from = self.find(text("from")?)?;
                from.get()?;
                let value = from.remove()?;
                self.find(path()?)?.add(value)
            }
            "copy" => {
                let value = self.find(text("from")?)?.get()?;
                if !value.is_null() {
                    self.copied += value.to_string().len();
                }
                if self.copied > MAX_COPIED {
                    return None;
                }
                self.find(path()?)?.add(value)
            }
            "test" if path()?.is_empty() => (self.root == value()).then_some(()),
            "test" => (self.find(path()?)?.get()? == value()).then_some(()),
            _ => None,
        }
    }

    fn find(&mut self, path: &str) -> Option<Place<'_>> {
        // What stands before the first slash is ignored.
        let (_, path) = path.split_once('/')?;
        let mut segments: Vec<String> = path.split('/').map(unescape).collect();
        let key = segments.pop()?;
        let depth = segments.len() + 1;
        let mut container = &mut self.root;
        for segment in segments {
            container = match container {
                Value::Object(entries) => entries.get_mut(&segment)?,
                Value::Array(items) => {
                    let index = position(&segment, items.len())?;
                    items.get_mut(index)?
                }
                _ => return None,
            };
            // Go's library writes back what it has looked into with its keys in order.
            if let Value::Object(entries) = container {
                entries.sort_keys();
            }
        }
        matches!(container, Value::Object(_) | Value::Array(_)).then_some(Place { container, key, depth })
    }
}

impl Place<'_> {
    /// The value there; a missing key of an object reads as null.
    fn get(&self) -> Option<Value> {
        match &*self.container {
            Value::Object(entries) => Some(entries.get(&self.key).cloned().unwrap_or_default()),
            Value::Array(items) => items.get(position(&self.key, items.len())?).cloned(),
            _ => None,
        }
    }

    fn set(&mut self, value: Value) -> Option<()> {
        self.check_depth(&value)?;
        match self.container {
            Value::Object(entries) => insert(entries, std::mem::take(&mut self.key), value),
            Value::Array(items) => {
                let index = position(&self.key, items.len())?;
                *items.get_mut(index)? = value;
            }
            _ => return None,
        }
        Some(())
    }

    fn add(&mut self, value: Value) -> Option<()> {
        self.check_depth(&value)?;
        match self.container {
            Value::Object(entries) => insert(entries, std::mem::take(&mut self.key), value),
            Value::Array(items) if self.key == "-" => items.push(value),
            Value::Array(items) => {
                // There is one place more than there are items.
                let index = position(&self.key, items.len() + 1)?;
                items.insert(index, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(&mut self) -> Option<Value> {
        match self.container {
            Value::Object(entries) => entries.shift_remove(&self.key),
            Value::Array(items) => {
                let index = position(&self.key, items.len())?;
                Some(items.remove(index))
            }
            _ => None,
        }
    }

    /// Many small operations must not build what no stack can hold.
    fn check_depth(&self, value: &Value) -> Option<()> {
        (self.depth + depth(value) <= MAX_DEPTH).then_some(())
    }
}

fn insert(entries: &mut Map<String, Value>, key: String, value: Value) {
    let is_new = entries.insert(key, value).is_none();
    if is_new {
        entries.sort_keys();
    }
}

/// An index below `count`; negative ones count from the end.
fn position(text: &str, count: usize) -> Option<usize> {
    let index: i64 = text.parse().ok()?;
    let index = if index < 0 { index + i64::try_from(count).ok()? } else { index };
    usize::try_from(index).ok().filter(|index| *index < count)
}

/// `~1` is a slash and `~0` a tilde.
fn unescape(segment: &str) -> String {
    let mut text = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(at) = rest.find('~') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('1') {
            text.push('/');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('0') {
            text.push('~');
            rest = after;
        } else {
            text.push('~');
        }
    }
    text.push_str(rest);
    text
}
