//! The document that a JSON patch changes.
//!
//! Like in the real server's library, a container is opened when a path first leads through it, and is encoded with
//! sorted keys afterwards. Each container is opened once, so the cost of an operation depends on its change and not on
//! the size of the document.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::codec::MAX_DEPTH;

/// The maximum number of bytes that all `copy` operations of a patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// The maximum number of values that the operations of a patch may visit or move, in addition to their targets.
const MAX_WORK: usize = 20_000_000;

/// The reason why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The operation does not fit the document.
    Inapplicable,
    /// The patch exceeded its work limit.
    TooMuchWork,
}

#[derive(Debug)]
pub(super) struct Document {
    root: Node,
    copied: usize,
    work: Work,
}

/// A value of the document.
#[derive(Debug)]
enum Node {
    /// A value that no path has led through.
    Closed(Value),
    Object(BTreeMap<String, Self>),
    Array(Vec<Self>),
}

/// A counter of visited and moved values.
#[derive(Debug, Default)]
struct Work(usize);

/// The container that a path leads to, the path's last segment, and the nesting depth.
struct Place<'a> {
    container: &'a mut Node,
    key: String,
    depth: usize,
    work: &'a mut Work,
}

type Outcome<T> = Result<T, Failure>;

// === impl Document ===

impl Document {
    pub(super) fn new(current: &Value) -> Self {
        let mut root = Node::Closed(current.clone());
        root.open();
        Self { root, copied: 0, work: Work::default() }
    }

    pub(super) fn into_value(self) -> Value {
        self.root.into_value()
    }

    /// Returns the number of values that were visited or moved so far.
    #[cfg(test)]
    pub(super) fn work(&self) -> usize {
        self.work.0
    }

    pub(super) fn operate(&mut self, operation: &Map<String, Value>) -> Outcome<()> {
        let text = |name: &str| operation.get(name).and_then(Value::as_str).ok_or(Failure::Inapplicable);
        let value = || operation.get("value").unwrap_or(&Value::Null);
        let path = || text("path");
        match text("op")? {
            "add" => self.find(path()?)?.add(Node::Closed(value().clone())),
            "remove" => self.find(path()?)?.remove().map(drop),
            "replace" if path()?.is_empty() => {
                let value = value();
                if !value.is_object() && !value.is_array() {
                    return Err(Failure::Inapplicable);
                }
                self.root = Node::Closed(value.clone());
                Ok(())
            }
            "replace" => {
                let mut place = self.find(path()?)?;
                place.get()?;
                place.set(Node::Closed(value().clone()))
            }
            "move" => {
                let mut from = self.find(text("from")?)?;
                from.get()?;
                let value = from.remove()?;
                self.find(path()?)?.add(value)
            }
            "copy" => {
                let value = self.find(text("from")?)?.get()?.map_or(Value::Null, Node::to_value);
                let length = if value.is_null() { 0 } else { value.to_string().len() };
                self.copied += length;
                if self.copied > MAX_COPIED {
                    return Err(Failure::Inapplicable);
                }
                self.work.add(length)?;
                self.find(path()?)?.add(Node::Closed(value))
            }
            "test" if path()?.is_empty() => applicable(self.root.equals(value())),
            "test" => {
                let place = self.find(path()?)?;
                applicable(place.get()?.map_or(value().is_null(), |found| found.equals(value())))
            }
            _ => Err(Failure::Inapplicable),
        }
    }

    /// Returns the reason why an operation does not fit the document. Returns `None` if it is a test that failed.
    pub(super) fn explain(&mut self, operation: &Map<String, Value>) -> Option<String> {
        const MISSING: &str = "missing value";
        let text = |name: &str| operation.get(name).and_then(Value::as_str).unwrap_or_default();
        let (op, path, from) = (text("op"), text("path"), text("from"));
        let has_container = |document: &mut Self, path: &str| document.find(path).is_ok();
        Some(match op {
            "add" | "remove" if !has_container(self, path) => {
                format!("{op} operation does not apply: doc is missing path: \"{path}\": {MISSING}")
            }
            "add" | "remove" => {
                let why = self.find(path).map(|place| place.explain()).unwrap_or_default();
                format!("error in {op} for path: '{path}': {why}")
            }
            "replace" if !has_container(self, path) => {
                format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
            }
            "replace" => format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"),
            "move" | "copy" if !has_container(self, from) => {
                format!("{op} operation does not apply: doc is missing from path: {from}: {MISSING}")
            }
            "move" | "copy" if !has_container(self, path) => {
                format!("{op} operation does not apply: doc is missing destination path: {path}: {MISSING}")
            }
            "move" => {
                let why = self.find(from).map(|place| (place.key.clone(), place.explain()));
                let (key, why) = why.unwrap_or_default();
                format!("error in move for path: '{key}': {why}")
            }
            "copy" => {
                let why = self.find(from).map(|place| place.explain()).unwrap_or_default();
                format!("error in copy for from: '{from}': {why}")
            }
            "test" if !path.is_empty() && !has_container(self, path) => {
                format!("test operation does not apply: is missing path: {path}: {MISSING}")
            }
            "test" => return None,
            other => format!("Unexpected kind: {other}"),
        })
    }

    fn find(&mut self, path: &str) -> Outcome<Place<'_>> {
        // The text before the first slash is ignored.
        let (_, path) = path.split_once('/').ok_or(Failure::Inapplicable)?;
        let mut segments: Vec<String> = path.split('/').map(unescape).collect();
        let key = segments.pop().ok_or(Failure::Inapplicable)?;
        let depth = segments.len() + 1;
        let mut container = &mut self.root;
        container.open();
        for segment in segments {
            let inner = match container {
                Node::Object(entries) => entries.get_mut(&segment),
                Node::Array(items) => match position(&segment, items.len()) {
                    Some(index) => items.get_mut(index),
                    None => None,
                },
                Node::Closed(_) => None,
            };
            container = inner.ok_or(Failure::Inapplicable)?;
            container.open();
        }
        if matches!(container, Node::Closed(_)) {
            return Err(Failure::Inapplicable);
        }
        Ok(Place { container, key, depth, work: &mut self.work })
    }
}

fn applicable(holds: bool) -> Outcome<()> {
    if holds { Ok(()) } else { Err(Failure::Inapplicable) }
}

// === impl Work ===

impl Work {
    fn add(&mut self, values: usize) -> Outcome<()> {
        self.0 += values;
        if self.0 > MAX_WORK { Err(Failure::TooMuchWork) } else { Ok(()) }
    }
}

// === impl Node ===

impl Node {
    /// Opens a container, so that its entries are accessible.
    fn open(&mut self) {
        let Self::Closed(value) = self else { return };
        *self = match std::mem::take(value) {
            Value::Object(entries) => {
                Self::Object(entries.into_iter().map(|(key, value)| (key, Self::Closed(value))).collect())
            }
            Value::Array(items) => Self::Array(items.into_iter().map(Self::Closed).collect()),
            other => Self::Closed(other),
        };
    }

    fn into_value(self) -> Value {
        match self {
            Self::Closed(value) => value,
            Self::Object(entries) => entries.into_iter().map(|(key, node)| (key, node.into_value())).collect(),
            Self::Array(items) => items.into_iter().map(Self::into_value).collect(),
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Closed(value) => value.clone(),
            Self::Object(entries) => entries.iter().map(|(key, node)| (key.clone(), node.to_value())).collect(),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
        }
    }

    /// Compares a node with a value of the patch. The size of the patch bounds the total time of all comparisons.
    fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::Closed(value), other) => value == other,
            (Self::Object(entries), Value::Object(others)) => {
                entries.len() == others.len()
                    && entries.iter().all(|(key, node)| others.get(key).is_some_and(|other| node.equals(other)))
            }
            (Self::Array(items), Value::Array(others)) => {
                items.len() == others.len() && items.iter().zip(others).all(|(item, other)| item.equals(other))
            }
            _ => false,
        }
    }

    /// Returns the nesting depth.
    fn depth(&self, work: &mut Work) -> Outcome<usize> {
        match self {
            Self::Closed(value) => depth(value, work),
            Self::Object(entries) => deepest(entries.values(), work, Self::depth),
            Self::Array(items) => deepest(items.iter(), work, Self::depth),
        }
    }
}

fn depth(value: &Value, work: &mut Work) -> Outcome<usize> {
    match value {
        Value::Array(items) => deepest(items.iter(), work, depth),
        Value::Object(entries) => deepest(entries.values(), work, depth),
        _ => Ok(0),
    }
}

fn deepest<T>(
    values: impl Iterator<Item = T>,
    work: &mut Work,
    depth: fn(T, &mut Work) -> Outcome<usize>,
) -> Outcome<usize> {
    let mut deepest = 0;
    for value in values {
        work.add(1)?;
        deepest = deepest.max(depth(value, work)?);
    }
    Ok(deepest + 1)
}

// === impl Place ===

impl Place<'_> {
    /// Returns the reason why the container has no such entry.
    fn explain(&self) -> String {
        let key = &self.key;
        match (&*self.container, key.parse::<i64>()) {
            (Node::Array(_), Ok(index)) => format!("Unable to access invalid index: {index}: invalid index referenced"),
            (Node::Array(_), Err(_)) => {
                format!("value was not a proper array index: '{key}': strconv.Atoi: parsing \"{key}\": invalid syntax")
            }
            _ => format!("Unable to remove nonexistent key: {key}: missing value"),
        }
    }

    /// Returns the value; `None` for a missing key of an object, which reads as null.
    fn get(&self) -> Outcome<Option<&Node>> {
        match &*self.container {
            Node::Object(entries) => Ok(entries.get(&self.key)),
            Node::Array(items) => position(&self.key, items.len())
                .and_then(|index| items.get(index))
                .map(Some)
                .ok_or(Failure::Inapplicable),
            Node::Closed(_) => Err(Failure::Inapplicable),
        }
    }

    fn set(&mut self, node: Node) -> Outcome<()> {
        self.check_depth(&node)?;
        match self.container {
            Node::Object(entries) => drop(entries.insert(std::mem::take(&mut self.key), node)),
            Node::Array(items) => {
                let index = position(&self.key, items.len()).ok_or(Failure::Inapplicable)?;
                *items.get_mut(index).ok_or(Failure::Inapplicable)? = node;
            }
            Node::Closed(_) => return Err(Failure::Inapplicable),
        }
        Ok(())
    }

    fn add(&mut self, node: Node) -> Outcome<()> {
        self.check_depth(&node)?;
        match self.container {
            Node::Object(entries) => drop(entries.insert(std::mem::take(&mut self.key), node)),
            Node::Array(items) if self.key == "-" => items.push(node),
            Node::Array(items) => {
                // An item can also be inserted after the last one.
                let index = position(&self.key, items.len() + 1).ok_or(Failure::Inapplicable)?;
                self.work.add(items.len() - index)?;
                items.insert(index, node);
            }
            Node::Closed(_) => return Err(Failure::Inapplicable),
        }
        Ok(())
    }

    fn remove(&mut self) -> Outcome<Node> {
        match self.container {
            Node::Object(entries) => entries.remove(&self.key).ok_or(Failure::Inapplicable),
            Node::Array(items) => {
                let index = position(&self.key, items.len()).ok_or(Failure::Inapplicable)?;
                self.work.add(items.len() - index)?;
                Ok(items.remove(index))
            }
            Node::Closed(_) => Err(Failure::Inapplicable),
        }
    }

    /// Returns an error if the document would be nested too deeply, which could overflow the stack.
    fn check_depth(&mut self, node: &Node) -> Outcome<()> {
        applicable(self.depth + node.depth(self.work)? <= MAX_DEPTH)
    }
}

/// Parses an index below `count`; negative indices count from the end.
fn position(text: &str, count: usize) -> Option<usize> {
    let index: i64 = text.parse().ok()?;
    let index = if index < 0 { index + i64::try_from(count).ok()? } else { index };
    usize::try_from(index).ok().filter(|index| *index < count)
}

/// Decodes the escapes of a segment: `~1` is a slash and `~0` a tilde.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation(operation: Value) -> Map<String, Value> {
        let Value::Object(operation) = operation else { unreachable!("an operation is an object") };
        operation
    }

    #[test]
    fn cost_of_operations_depends_on_changed_values_only() {
        let entries: Map<String, Value> = (0..30_000).map(|number| (format!("k{number}"), json!("v"))).collect();
        let mut document = Document::new(&json!({ "data": entries }));
        for number in 0..10_000 {
            document
                .operate(&operation(json!({"op": "add", "path": format!("/data/n{number}"), "value": "v"})))
                .unwrap();
            document
                .operate(&operation(json!({"op": "move", "from": format!("/data/k{number}"), "path": "/data/k"})))
                .unwrap();
        }
        assert!(document.work() < 1_000, "{}", document.work());
        assert_eq!(document.into_value()["data"].as_object().map(Map::len), Some(30_001));
    }

    #[test]
    fn repeated_moves_of_a_large_list_are_rejected() {
        let mut document = Document::new(&json!({ "a": vec![0; 200_000], "b": {} }));
        let there = operation(json!({"op": "move", "from": "/a", "path": "/b/a"}));
        let back = operation(json!({"op": "move", "from": "/b/a", "path": "/a"}));
        let mut outcomes = (0..10_000).map(|index| document.operate(if index % 2 == 0 { &there } else { &back }));
        assert_eq!(outcomes.find(Result::is_err), Some(Err(Failure::TooMuchWork)));
        let mut document = Document::new(&json!({ "a": vec![0; 200_000] }));
        let insert = operation(json!({"op": "add", "path": "/a/0", "value": 0}));
        let refused = (0..10_000).map(|_| document.operate(&insert)).find(Result::is_err);
        assert_eq!(refused, Some(Err(Failure::TooMuchWork)));
    }
}
