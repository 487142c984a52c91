//! The Kubernetes protobuf encoding: `k8s\0`, then a `runtime.Unknown` that contains the message of a type of the
//! table.
//!
//! The reader and the writer use the table's field numbers. The reader returns the same values as the JSON decoder, so
//! that both use the same encoding rules. The writer reads JSON that this server has encoded, without building a tree
//! (`parse`). It produces the same bytes as Go for the same object: fields in the order of their numbers, and zero values
//! unless the field is a pointer.
//!
//! Unknown fields are skipped, as in any protobuf decoder. Malformed input is an error with the text of Go's generated
//! code. Nesting and the number of elements are bounded. A repeated singular message replaces the first one, where Go
//! would merge them; no encoder writes that.

mod parse;
mod read;
mod wire;
mod write;

pub(super) use self::read::decode;
use self::{
    parse::{Malformed, Part, Parts, type_meta},
    wire::{Reader, Writer},
};
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
    // Faster for valid text, which is almost all of it.
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), str::to_owned)
}

// === writing ===

/// The panic message for JSON that the server cannot have written.
const WRITTEN_HERE: &str = "the server encoded this JSON";

/// Encodes a document in JSON as protobuf; returns `None` if its kind has no message.
pub(crate) fn to_protobuf(json: &[u8]) -> Option<Vec<u8>> {
    try_to_protobuf(json).expect(WRITTEN_HERE)
}

pub(super) fn try_to_protobuf(json: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
    let Some(document) = Document::of(json)? else { return Ok(None) };
    let mut writer = Writer::with_capacity(json.len());
    document.write(&mut writer);
    Ok(Some(writer.written().to_vec()))
}

/// The number of bytes with the length of a [`protobuf_frame`].
pub(crate) const FRAME_PREFIX: usize = 4;

/// Encodes a watch event as a frame: the length in four bytes, then the message. `object` is a document in JSON. Returns
/// `None` if its kind has no message.
pub(crate) fn protobuf_frame(kind: &str, object: &[u8]) -> Option<Vec<u8>> {
    let document = Document::of(object).expect(WRITTEN_HERE)?;
    let mut writer = Writer::with_capacity(object.len());
    document.write(&mut writer);
    writer.close(1, 0);
    writer.close(2, 0);
    writer.bytes(1, kind.as_bytes());
    let length = u32::try_from(writer.end()).unwrap_or(u32::MAX);
    writer.raw(&length.to_be_bytes());
    Some(writer.written().to_vec())
}

/// An incremental encoder for a list. The length of the whole message comes first, so the items are encoded before the
/// list's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProtobufList {
    item: &'static Struct,
    /// The number of the field with the items, which is the last one.
    number: u32,
}

impl ProtobufList {
    /// Returns the encoder for a list; `None` if it or its items have no message. `list` is the document in JSON without
    /// the items.
    pub(crate) fn of(list: &[u8]) -> Option<Self> {
        let list = Document::of(list).expect(WRITTEN_HERE)?.shape;
        let last = list.messages.last()?;
        let MessageTarget::Field(index) = last.target else { return None };
        match &list.fields[index] {
            Field { name: "items", ty: Type { kind: Kind::Slice(element), .. }, .. } => {
                Some(Self { item: element.as_struct()?, number: last.number })
            }
            _ => None,
        }
    }

    /// Appends an item in JSON.
    pub(crate) fn push(&self, item: &[u8], out: &mut Vec<u8>) {
        let (parts, root) = Parts::parse(item, self.item).expect(WRITTEN_HERE);
        let mut writer = Writer::with_capacity(item.len());
        writer.message(self.item, &parts, root);
        writer.close(self.number, 0);
        out.extend_from_slice(writer.written());
    }

    /// Returns the bytes before and after `length` bytes of items. `list` is the document in JSON without the items, as
    /// in [`Self::of`].
    pub(crate) fn frame(list: &[u8], length: usize) -> (Vec<u8>, &'static [u8]) {
        let mut writer = Writer::before(length + SUFFIX.len());
        if let Some(document) = Document::of(list).expect(WRITTEN_HERE) {
            document.write_before(SUFFIX.len(), &mut writer);
        }
        (writer.written().to_vec(), SUFFIX)
    }
}

/// A parsed document that has a message.
struct Document<'a> {
    kind: String,
    api_version: String,
    shape: &'static Struct,
    parts: Parts<'a>,
    root: Part,
}

impl<'a> Document<'a> {
    /// Parses JSON. Returns `None` if the kind of the document has no message.
    fn of(json: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let Some((kind, api_version)) = type_meta(json)? else { return Ok(None) };
        match plan_of(&kind, &api_version).map(Plan::shape) {
            Some(shape) if !shape.messages.is_empty() => {
                let (parts, root) = Parts::parse(json, shape)?;
                Ok(Some(Self { kind, api_version, shape, parts, root }))
            }
            _ => Ok(None),
        }
    }

    fn write(&self, writer: &mut Writer) {
        writer.raw(SUFFIX);
        self.write_before(SUFFIX.len(), writer);
    }

    /// Writes the document in its envelope, before `end`.
    fn write_before(&self, end: usize, writer: &mut Writer) {
        writer.message(self.shape, &self.parts, self.root);
        writer.close(2, end);
        let end = writer.end();
        writer.bytes(2, self.kind.as_bytes());
        writer.bytes(1, self.api_version.as_bytes());
        writer.close(1, end);
        writer.raw(PREFIX);
    }
}

/// Returns the plan of a document's kind. The kinds of `meta/v1` have several names.
fn plan_of(kind: &str, api_version: &str) -> Option<&'static Plan> {
    match api_version.rsplit_once('/') {
        None if kind == "Status" => super::plan("meta.k8s.io", "v1", kind),
        None => super::plan("", api_version, kind),
        Some(("meta.k8s.io", _)) => super::plan("meta.k8s.io", "v1", kind),
        Some((group, version)) => super::plan(group, version, kind),
    }
}
