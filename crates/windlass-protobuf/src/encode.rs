//! JSON → protobuf. Writes messages from their end to their start, so that each length is known when it is written.

use std::borrow::Cow;

use crate::{
    Error, json,
    table::{Field, Form, Item, Message},
    tape::{Index, Kind, Node, Tape},
    wire::Writer,
};

mod special;

/// The deepest nesting of messages. Only types that contain themselves, such as schemas, nest deeper than a dozen.
const MAX_DEPTH: usize = 128;

/// The position of the root, which is never a member of an object.
const ABSENT: Index = 0;

/// The error of a value, whose path is completed on the way to the root. It is small, because all functions return it.
#[derive(Debug)]
struct Fault(Box<Details>);

#[derive(Debug)]
struct Details {
    /// The names and positions around the value, the innermost first.
    path: Vec<String>,
    problem: Cow<'static, str>,
}

type Result = std::result::Result<(), Fault>;

struct Encoder<'a, 'w> {
    tape: &'a Tape<'a>,
    out: &'w mut Writer,
    /// Fields that Kubernetes 1.`minor` does not have are not written.
    minor: u32,
    /// A stack of the values of the open messages, lists and maps.
    slots: Vec<Index>,
}

/// Writes the message of an object, which is a node of the document.
pub(crate) fn encode(
    message: &'static Message,
    tape: &Tape<'_>,
    object: Index,
    minor: u32,
    out: &mut Writer,
) -> std::result::Result<(), Error> {
    let mut encoder = Encoder { tape, out, minor, slots: Vec::with_capacity(128) };
    encoder.message(message, Some(object), 0).map_err(Fault::into_error)
}

impl<'a> Encoder<'a, '_> {
    /// Writes the fields of a message; without an object, those of Go's zero value.
    fn message(&mut self, message: &'static Message, object: Option<Index>, depth: usize) -> Result {
        if depth > MAX_DEPTH {
            return Err(Fault::new("more than 128 nested messages"));
        }
        let base = self.slots.len();
        self.slots.resize(base + message.keys.len(), ABSENT);
        if let Some(object) = object {
            let node = self.tape.node(object);
            if node.kind != Kind::Object {
                return Err(wrong("an object", node));
            }
            let mut expected = 0;
            for (key, value) in self.tape.entries(object) {
                if let Some(slot) = message.slot_of(&self.tape.string(key), expected) {
                    self.slots[base + slot] = value;
                    expected = slot + 1;
                }
            }
        }
        self.fields(message, base, depth)?;
        self.slots.truncate(base);
        Ok(())
    }

    /// Writes the fields of a message, whose values start at `base`.
    fn fields(&mut self, message: &'static Message, base: usize, depth: usize) -> Result {
        for index in message.by_number.iter().rev() {
            let field = &message.fields[usize::from(*index)];
            if !field.minors.contains(&self.minor) {
                continue;
            }
            if let (Form::Embedded, Item::Message(inner)) = (field.form, field.item) {
                let length = self.out.length();
                self.fields(inner.get(), base + field.slot, depth)?;
                self.out.close(field.number, length);
            } else {
                let value = self.slots[base + field.slot];
                self.field(field, value, depth).map_err(|fault| fault.inside(field.name))?;
            }
        }
        Ok(())
    }

    /// Writes all occurrences of a field; none for an absent pointer, list or map.
    fn field(&mut self, field: &'static Field, value: Index, depth: usize) -> Result {
        let is_null = value == ABSENT || self.tape.node(value).kind == Kind::Null;
        match field.form {
            Form::Pointer | Form::List | Form::Map if is_null => Ok(()),
            Form::List => self.list(field, value, depth),
            Form::Map => self.map(field, value, depth),
            _ if is_null && field.item.is_nil_without_value() => Ok(()),
            _ => self.value(field.number, field.item, if is_null { None } else { Some(value) }, depth),
        }
    }

    fn list(&mut self, field: &'static Field, list: Index, depth: usize) -> Result {
        let node = self.tape.node(list);
        if node.kind != Kind::Array {
            return Err(wrong("an array", node));
        }
        let base = self.slots.len();
        self.slots.extend(self.tape.items(list));
        for at in (base..self.slots.len()).rev() {
            let item = self.present(self.slots[at]);
            self.value(field.number, field.item, item, depth).map_err(|fault| fault.inside_element(at - base))?;
        }
        self.slots.truncate(base);
        Ok(())
    }

    /// Writes the entries of a map in the order of its keys. The last one of equal keys counts.
    fn map(&mut self, field: &'static Field, map: Index, depth: usize) -> Result {
        let node = self.tape.node(map);
        if node.kind != Kind::Object {
            return Err(wrong("an object", node));
        }
        let base = self.slots.len();
        let mut last: Option<&str> = None;
        // Keys are usually sorted.
        let mut is_sorted = true;
        for (key, value) in self.tape.entries(map) {
            let text = self.tape.text(key);
            is_sorted &= key.kind == Kind::Plain && last.is_none_or(|last| last < text);
            last = Some(text);
            self.slots.push(value);
        }
        if is_sorted {
            for at in (base..self.slots.len()).rev() {
                // A key is the node before its value.
                let value = self.slots[at];
                let key = self.tape.text(self.tape.node(value - 1));
                self.entry(field, key, value, depth)?;
            }
        } else {
            let mut entries: Vec<(Cow<'_, str>, Index)> =
                self.tape.entries(map).map(|(key, value)| (self.tape.string(key), value)).collect();
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            let mut written: Option<&str> = None;
            for (key, value) in entries.iter().rev() {
                if written != Some(key) {
                    self.entry(field, key, *value, depth)?;
                }
                written = Some(key);
            }
        }
        self.slots.truncate(base);
        Ok(())
    }

    fn entry(&mut self, field: &'static Field, key: &str, value: Index, depth: usize) -> Result {
        let length = self.out.length();
        let value = self.present(value);
        // Null bytes have no value. All other items have Go's zero value.
        if value.is_some() || field.item != Item::Bytes {
            self.value(2, field.item, value, depth).map_err(|fault| fault.inside_entry(key))?;
        }
        self.out.bytes(1, key.as_bytes());
        self.out.close(field.number, length);
        Ok(())
    }

    /// Returns a value that is not null.
    fn present(&self, value: Index) -> Option<Index> {
        (self.tape.node(value).kind != Kind::Null).then_some(value)
    }

    /// Writes one value; `None` is Go's zero value.
    fn value(&mut self, number: u32, item: Item, value: Option<Index>, depth: usize) -> Result {
        let node = value.map(|value| self.tape.node(value));
        match item {
            Item::String => self.string(number, node)?,
            Item::Bool => {
                let value = match node.map(|node| (node.kind, node)) {
                    None | Some((Kind::False, _)) => 0,
                    Some((Kind::True, _)) => 1,
                    Some((_, node)) => return Err(wrong("a boolean", node)),
                };
                self.out.number(number, value);
            }
            Item::Int32 => {
                let value = node.map_or(Ok(0), |node| self.integer::<i32>(node))?;
                // Negative numbers are extended to 64 bits.
                self.out.number(number, i64::from(value).cast_unsigned());
            }
            Item::Int64 => {
                let value = node.map_or(Ok(0), |node| self.integer::<i64>(node))?;
                self.out.number(number, value.cast_unsigned());
            }
            Item::Float64 => {
                let value = node.map_or(Ok(0.0), |node| self.float(node))?;
                self.out.float(number, value);
            }
            Item::Bytes => {
                let Some(node) = node else {
                    self.out.bytes(number, b"");
                    return Ok(());
                };
                let text = self.text(node)?;
                let bytes = json::decode_bytes(&text).ok_or_else(|| Fault::new("expected base64"))?;
                self.out.bytes(number, &bytes);
            }
            Item::Message(inner) => {
                let length = self.out.length();
                self.message(inner.get(), value, depth + 1)?;
                self.out.close(number, length);
            }
            Item::Special(special, inner) => {
                let length = self.out.length();
                self.special(special, inner.get(), value, depth + 1)?;
                self.out.close(number, length);
            }
        }
        Ok(())
    }

    fn string(&mut self, number: u32, node: Option<Node>) -> Result {
        let text = node.map_or(Ok(Cow::Borrowed("")), |node| self.text(node))?;
        self.out.bytes(number, text.as_bytes());
        Ok(())
    }

    fn text(&self, node: Node) -> std::result::Result<Cow<'a, str>, Fault> {
        match node.kind {
            Kind::Plain | Kind::Escaped => Ok(self.tape.string(node)),
            _ => Err(wrong("a string", node)),
        }
    }

    fn integer<T: std::str::FromStr>(&self, node: Node) -> std::result::Result<T, Fault> {
        if node.kind != Kind::Number {
            return Err(wrong("an integer", node));
        }
        let text = self.tape.text(node);
        text.parse()
            .map_err(|_| Fault::new(format!("expected an integer of {} bits, found {text}", size_of::<T>() * 8)))
    }

    fn float(&self, node: Node) -> std::result::Result<f64, Fault> {
        if node.kind != Kind::Number {
            return Err(wrong("a number", node));
        }
        let text = self.tape.text(node);
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| Fault::new(format!("expected a number of 64 bits, found {text}")))
    }
}

fn wrong(expected: &str, found: Node) -> Fault {
    Fault::new(format!("expected {expected}, found {}", found.kind.name()))
}

// === impl Fault ===

impl Fault {
    fn new(problem: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Details { path: Vec::new(), problem: problem.into() }))
    }

    fn inside(mut self, name: &str) -> Self {
        self.0.path.push(format!(".{name}"));
        self
    }

    fn inside_element(mut self, index: usize) -> Self {
        self.0.path.push(format!("[{index}]"));
        self
    }

    fn inside_entry(mut self, key: &str) -> Self {
        self.0.path.push(format!("[{key:?}]"));
        self
    }

    fn into_error(self) -> Error {
        let path: String = self.0.path.iter().rev().map(String::as_str).collect();
        Error::Value { path: path.trim_start_matches('.').to_owned(), problem: self.0.problem }
    }
}
