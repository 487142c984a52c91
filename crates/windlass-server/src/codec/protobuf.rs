//! The Kubernetes protobuf encoding: `k8s\0`, then a `runtime.Unknown` that contains the message of a type of the
//! table.
//!
//! The reader and the writer use the table's field numbers. The reader returns the same values as the JSON decoder, so
//! that both use the same encoding rules. The writer produces the same bytes as Go for the same object: fields in the
//! order of their numbers, and zero values unless the field is a pointer.
//!
//! Unknown fields are skipped, as in any protobuf decoder. Malformed input is an error with the text of Go's generated
//! code. Nesting and the number of elements are bounded. A repeated singular message replaces the first one, where Go
//! would merge them; no encoder writes that.

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

/// The prefix of every body.
const PREFIX: &[u8] = b"k8s\0";

/// The suffix of every body that the server writes: two fields of the outer message that are always empty.
const SUFFIX: &[u8] = b"\x1a\0\"\0";

/// The outer message, `runtime.Unknown`.
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

/// Encodes a document in protobuf; returns `None` if its kind has no message.
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

/// The number of bytes with the length of a [`protobuf_frame`].
pub(crate) const FRAME_PREFIX: usize = 4;

/// Encodes a watch event as a frame: the length in four bytes, then the message. `object` is an encoded document.
pub(crate) fn protobuf_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes(1, object);
    writer.close(2, 0);
    writer.bytes(1, kind.as_bytes());
    let length = u32::try_from(writer.end()).unwrap_or(u32::MAX);
    writer.raw(&length.to_be_bytes());
    writer.finish()
}

/// An incremental encoder for a list. The length of the whole message comes first, so the items are encoded before the
/// list's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProtobufList {
    list: &'static Struct,
    item: &'static Struct,
    /// The number of the field with the items, which is the last one.
    number: u32,
}

impl ProtobufList {
    /// Returns the encoder for a list; `None` if it or its items have no message. `list` is the document without the
    /// items.
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

    /// Returns the bytes before and after `length` bytes of items. `list` is the document without the items.
    pub(crate) fn frame(&self, list: &Value, length: usize) -> (Vec<u8>, &'static [u8]) {
        let mut writer = Writer::before(length + SUFFIX.len());
        writer.document(self.list, list, SUFFIX.len());
        (writer.finish(), SUFFIX)
    }
}

/// Returns the plan of a document's kind. The kinds of `meta/v1` have several names.
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
    /// Writes a document in its envelope, before `end`.
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
