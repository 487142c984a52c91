//! Protobuf, as Kubernetes has it: `k8s\0`, a `runtime.Unknown`, and in it the message of a type of the table.
//!
//! Reader and writer are driven by the table's field numbers. What is read are the values that the JSON decoder gives, so
//! that both go through the same encoding rules; what is written are the bytes that Go writes for the same object: fields in
//! the order of their numbers, zero values written unless they are behind a pointer.
//!
//! Unknown fields are skipped, as protobuf wants it. Broken input is an error with the text of Go's generated code; nesting
//! and the number of elements are bounded. A singular message that comes twice replaces the first one, where Go would
//! merge them; no encoder writes that.

mod read;
mod wire;
mod write;

use serde_json::Value;

pub(super) use self::read::decode;
use self::wire::{Reader, Writer};
use super::{
    Plan,
    types::{Field, Kind, MessageTarget, Struct, Type},
};

/// What every body begins with.
const PREFIX: &[u8] = b"k8s\0";

/// What every body that we write ends with: two fields of the outer message that are always empty.
const SUFFIX: &[u8] = b"\x1a\0\"\0";

/// The outer message.
#[derive(Debug, Default)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, String> {
        if body.is_empty() {
            return Err("empty data".into());
        }
        let Some(data) = body.strip_prefix(PREFIX) else {
            return Err("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".into());
        };
        if data.is_empty() {
            return Err("empty body".into());
        }
        let mut envelope = Self::default();
        let mut reader = Reader { data, owner: "Unknown" };
        while let Some((number, wire)) = reader.tag()? {
            match number {
                1 => {
                    let mut meta = Reader { data: reader.bytes(wire, "TypeMeta")?, owner: "TypeMeta" };
                    while let Some((number, wire)) = meta.tag()? {
                        match number {
                            1 => envelope.api_version = text(meta.bytes(wire, "APIVersion")?),
                            2 => envelope.kind = text(meta.bytes(wire, "Kind")?),
                            _ => meta.skip(wire)?,
                        }
                    }
                }
                2 => envelope.raw = reader.bytes(wire, "Raw")?,
                _ => reader.skip(wire)?,
            }
        }
        Ok(envelope)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// === writing ===

/// A document in protobuf, if there is a message for its kind.
pub(crate) fn to_protobuf(document: &Value) -> Option<Vec<u8>> {
    let shape = plan_of(document)?.shape();
    if shape.messages.is_empty() {
        return None;
    }
    let mut writer = Writer::before(SUFFIX.len());
    writer.document(shape, document, SUFFIX.len());
    let mut bytes = writer.finish();
    bytes.extend_from_slice(SUFFIX);
    Some(bytes)
}

/// A watch event in a frame of its own: the length in four bytes, then the message. `object` is a whole document.
pub(crate) fn protobuf_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(1, object);
    writer.close(2, 0);
    writer.bytes(1, kind.as_bytes());
    let length = u32::try_from(writer.end()).unwrap_or(u32::MAX);
    writer.raw(&length.to_be_bytes());
    writer.finish()
}

/// A list in protobuf, item by item. The length of the whole stands at its beginning, so the items are written before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProtobufList {
    list: &'static Struct,
    item: &'static Struct,
    /// Of the field with the items: the last one.
    number: u32,
}

impl ProtobufList {
    /// The kind of a list, if there are messages for it and for its items. `list` is the document without them.
    pub(crate) fn of(list: &Value) -> Option<Self> {
        let list = plan_of(list)?.shape();
        let last = list.messages.last()?;
        let MessageTarget::Field(index) = last.target else { return None };
        match &list.fields[index] {
            Field { name: "items", ty: Type { kind: Kind::Slice(element), .. }, .. } => {
                Some(Self { list, item: element.as_struct()?, number: last.number })
            }
            _ => None,
        }
    }

    /// Appends an item.
    pub(crate) fn push(&self, item: &Value, out: &mut Vec<u8>) {
        let mut writer = Writer::default();
        writer.message(self.item, item);
        writer.close(self.number, 0);
        out.append(&mut writer.finish());
    }

    /// What stands in front of items that take `length` bytes, and behind them. `list` is the document without them.
    pub(crate) fn frame(&self, list: &Value, length: usize) -> (Vec<u8>, &'static [u8]) {
        let mut writer = Writer::before(length + SUFFIX.len());
        writer.document(self.list, list, SUFFIX.len());
        (writer.finish(), SUFFIX)
    }
}

/// What describes a document: the plan of its kind. Kinds of `meta/v1` go by several names.
fn plan_of(document: &Value) -> Option<&'static Plan> {
    let kind = document["kind"].as_str()?;
    match document["apiVersion"].as_str()?.rsplit_once('/') {
        None if kind == "Status" => super::plan("meta.k8s.io", "v1", kind),
        None => super::plan("", document["apiVersion"].as_str()?, kind),
        Some(("meta.k8s.io", _)) => super::plan("meta.k8s.io", "v1", kind),
        Some((group, version)) => super::plan(group, version, kind),
    }
}

impl Writer {
    /// A document in its envelope, up to `end`.
    fn document(&mut self, shape: &'static Struct, document: &Value, end: usize) {
        self.message(shape, document);
        self.close(2, end);
        let end = self.end();
        for (number, name) in [(2, "kind"), (1, "apiVersion")] {
            self.bytes(number, document[name].as_str().unwrap_or_default().as_bytes());
        }
        self.close(1, end);
        self.raw(PREFIX);
    }
}
