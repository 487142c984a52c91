//! The metadata of objects, read in place.
//!
//! A reading is certain or absent: [`Metadata::read`] returns `None` for a message that no usual encoder writes, such as
//! one with two `metadata`. Such an object can be converted to JSON.

use std::ops::Range;

use windlass_api::{Meta, ObjectKey, OwnerRef, ResourceVersion, Traits, Uid, jiff::Timestamp};

use crate::{
    Error,
    envelope::Envelope,
    header::{FieldHeader, envelope_parts, envelope_start},
    occurrences::malformed,
    table::{self, Form, Item, Message},
    time::{Precision, Time},
    wire::{self, Malformed, Reader, Span, narrow, varint_length, write_varint},
};

/// The number of the field `metadata` of an object.
const METADATA: u32 = 1;

/// The numbers of the fields of `ObjectMeta`.
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;
const GENERATION: u32 = 7;
const CREATION_TIMESTAMP: u32 = 8;
const DELETION_TIMESTAMP: u32 = 9;
const LABELS: u32 = 11;
const OWNER_REFERENCES: u32 = 13;
const FINALIZERS: u32 = 14;
const MANAGED_FIELDS: u32 = 17;

/// The metadata of an object, without copies. Empty fields are absent, as in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata<'a> {
    /// The kind of the object.
    pub kind: &'a str,
    /// The name.
    pub name: &'a str,
    /// The namespace.
    pub namespace: Option<&'a str>,
    /// The UID.
    pub uid: &'a str,
    /// The resource version.
    pub resource_version: &'a str,
    /// The generation.
    pub generation: Option<i64>,
    /// The creation timestamp, in seconds since 1970.
    pub creation_timestamp: Option<i64>,
    /// The deletion timestamp, in seconds since 1970.
    pub deletion_timestamp: Option<i64>,
    /// The labels, for [`labels`].
    pub labels: &'a [u8],
    /// The owner references, for [`owner_references`].
    pub owner_references: &'a [u8],
    /// The finalizers, for [`finalizers`].
    pub finalizers: &'a [u8],
    /// The position of `managedFields` with the lengths around it.
    managed_fields: Option<ManagedFields>,
}

/// A part of a value, and the messages around it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ManagedFields {
    part: Range<usize>,
    object: Range<usize>,
    metadata: Range<usize>,
}

/// A value whose `managedFields` are left out. See [`Metadata::without_managed_fields`].
#[derive(Clone, Debug)]
pub struct ValueParts<'a> {
    /// The envelope up to the object's length.
    envelope: &'a [u8],
    outer: Length,
    /// The object up to the length of its metadata.
    object: &'a [u8],
    inner: Length,
    /// The metadata before `managedFields`.
    metadata: &'a [u8],
    /// Everything after `managedFields`.
    rest: &'a [u8],
}

/// The encoding of a length.
#[derive(Clone, Copy, Debug)]
struct Length {
    bytes: [u8; 10],
    size: usize,
}

/// An owner reference, without copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerReference<'a> {
    /// The API version of the owner.
    pub api_version: &'a str,
    /// The kind of the owner.
    pub kind: &'a str,
    /// The name of the owner.
    pub name: &'a str,
    /// The UID of the owner.
    pub uid: &'a str,
    /// `true` for the controller.
    pub controller: bool,
    /// `true` if the owner is deleted after the object.
    pub block_owner_deletion: bool,
}

// === impl Metadata ===

impl<'a> Metadata<'a> {
    /// Reads the metadata of a value with its envelope; `None` for an unusual encoding. Returns an error if the value is
    /// malformed outside of the rest of the object, which is not read.
    pub fn read(value: &'a [u8]) -> Result<Option<Self>, Error> {
        let Envelope { api_version, kind, raw } = Envelope::read(value)?;
        let Some(message) = table::message_of(api_version, kind) else {
            return Err(Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
        };
        let Some(object_meta) = metadata_of(message) else { return Ok(None) };
        let failed = |error: Malformed| malformed(message, None, error);
        let mut reader = Reader::new(value, raw);
        let mut found: Option<Span> = None;
        while !reader.is_at_end() {
            let (number, wire) = reader.tag().map_err(failed)?;
            if number != METADATA {
                reader.skip(wire).map_err(failed)?;
            } else if wire != wire::BYTES || found.is_some() {
                return Ok(None);
            } else {
                found = Some(reader.bytes().map_err(failed)?);
            }
        }
        let mut metadata = Self { kind, ..Self::default() };
        let Some(span) = found else { return Ok(Some(metadata)) };
        let Some(managed_fields) =
            metadata.read_fields(value, span).map_err(|error| malformed(object_meta, None, error))?
        else {
            return Ok(None);
        };
        metadata.managed_fields =
            managed_fields.map(|part| ManagedFields { part, object: range(raw), metadata: range(span) });
        Ok(Some(metadata))
    }

    /// Reads the fields. Returns the range of managedFields, or `None` for an unusual encoding.
    #[expect(clippy::option_option, reason = "`None` means that the encoding is unusual")]
    fn read_fields(&mut self, value: &'a [u8], span: Span) -> Result<Option<Option<Range<usize>>>, Malformed> {
        let mut reader = Reader::new(value, span);
        let (mut labels, mut owners, mut finalizers, mut managed_fields) = (None, None, None, None);
        let mut last = 0;
        while !reader.is_at_end() {
            let start = reader.position() as usize;
            let (number, wire) = reader.tag()?;
            // Encoders write fields in this order. So only lists and maps have several occurrences.
            let is_repeated = matches!(number, LABELS..=MANAGED_FIELDS);
            if number < last || number == last && !is_repeated {
                return Ok(None);
            }
            last = number;
            match (number, wire) {
                (GENERATION, wire::VARINT) => {
                    self.generation = Some(reader.varint()?.cast_signed()).filter(|generation| *generation != 0);
                    continue;
                }
                (_, wire::BYTES) if number != GENERATION => {}
                (GENERATION | NAME | NAMESPACE | UID | RESOURCE_VERSION, _) => {
                    return Err(reader.wrong_wire(wire));
                }
                _ => {
                    reader.skip(wire)?;
                    continue;
                }
            }
            let content = reader.bytes()?;
            let text = || std::str::from_utf8(content.of(value)).ok();
            let run = match number {
                NAME | NAMESPACE | UID | RESOURCE_VERSION => {
                    let Some(text) = text() else { return Ok(None) };
                    match number {
                        NAME => self.name = text,
                        NAMESPACE => self.namespace = Some(text).filter(|text| !text.is_empty()),
                        UID => self.uid = text,
                        _ => self.resource_version = text,
                    }
                    continue;
                }
                CREATION_TIMESTAMP | DELETION_TIMESTAMP => {
                    let Some(time) = seconds(value, content)? else { return Ok(None) };
                    let is_creation = number == CREATION_TIMESTAMP;
                    *(if is_creation { &mut self.creation_timestamp } else { &mut self.deletion_timestamp }) = time;
                    continue;
                }
                LABELS => &mut labels,
                OWNER_REFERENCES => &mut owners,
                FINALIZERS => &mut finalizers,
                MANAGED_FIELDS => &mut managed_fields,
                _ => continue,
            };
            run.get_or_insert(start..start).end = content.end as usize;
        }
        let part = |run: Option<Range<usize>>| run.map_or(&[][..], |run| &value[run]);
        (self.labels, self.owner_references, self.finalizers) = (part(labels), part(owners), part(finalizers));
        Ok(Some(managed_fields))
    }

    /// Returns the metadata as a value; `None` for an unusual encoding or a time that is out of range.
    pub fn to_meta(&self) -> Option<Meta> {
        let time = |seconds: Option<i64>| match seconds {
            Some(seconds) => Timestamp::from_second(seconds).ok().map(Some),
            None => Some(None),
        };
        let label = |label: Option<(&str, &str)>| label.map(|(key, value)| (key.into(), value.into()));
        let owner = |owner: Option<OwnerReference<'_>>| {
            owner.map(|owner| OwnerRef {
                api_version: owner.api_version.into(),
                kind: owner.kind.into(),
                name: owner.name.into(),
                uid: owner.uid.into(),
                controller: owner.controller,
                block_owner_deletion: owner.block_owner_deletion,
            })
        };
        let traits = Traits {
            labels: labels(self.labels).map(label).collect::<Option<_>>()?,
            owner_references: owner_references(self.owner_references).map(owner).collect::<Option<_>>()?,
            finalizers: finalizers(self.finalizers).map(|name| name.map(Into::into)).collect::<Option<_>>()?,
        };
        let key = ObjectKey { namespace: self.namespace.map(Into::into), name: self.name.into() };
        let meta = Meta::new(key)
            .with_uid(Uid::new(self.uid))
            .with_resource_version(ResourceVersion::new(self.resource_version))
            .with_generation(self.generation)
            .with_creation_timestamp(time(self.creation_timestamp)?)
            .with_deletion_timestamp(time(self.deletion_timestamp)?)
            .with_traits(traits);
        Some(meta)
    }

    /// Returns the value that was read without `managedFields`, in parts; `None` if the object has none, or the encoding
    /// is unusual.
    pub fn without_managed_fields<'v>(&self, value: &'v [u8]) -> Option<ValueParts<'v>> {
        let ManagedFields { part, object, metadata } = self.managed_fields.as_ref()?;
        let removed = part.len();
        let inner = Length::of(metadata.len() - removed);
        let old_inner = Length::of(metadata.len());
        let before_inner = length_at(value, metadata, &old_inner)?;
        let outer = Length::of(object.len() - removed - (old_inner.bytes().len() - inner.bytes().len()));
        let before_outer = length_at(value, object, &Length::of(object.len()))?;
        Some(ValueParts {
            envelope: &value[..before_outer],
            outer,
            object: &value[object.start..before_inner],
            inner,
            metadata: &value[metadata.start..part.start],
            rest: &value[part.end..],
        })
    }
}

// === impl ValueParts ===

impl ValueParts<'_> {
    /// Returns the parts in their order.
    #[must_use]
    pub fn slices(&self) -> [&[u8]; 6] {
        [self.envelope, self.outer.bytes(), self.object, self.inner.bytes(), self.metadata, self.rest]
    }

    /// Returns a copy of the value.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices().concat()
    }
}

// === impl Length ===

impl Length {
    fn of(length: usize) -> Self {
        let (mut bytes, size) = ([0; 10], varint_length(length as u64));
        write_varint(&mut bytes[..size], length as u64);
        Self { bytes, size }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// Reads the metadata of a value with its envelope, or of its start, if that contains the metadata. Returns `None` if it
/// cannot be read.
pub fn meta(start: &[u8]) -> Option<Meta> {
    match Metadata::read(start) {
        Ok(Some(metadata)) if !metadata.name.is_empty() => return metadata.to_meta(),
        Ok(None) => return Meta::parse(&crate::to_json(start).ok()?).ok(),
        // The start of a value.
        Ok(Some(_)) | Err(_) => {}
    }
    let (api_version, kind, message) = envelope_parts(start).ok()??;
    let header = FieldHeader::read("Unknown", message).ok()??;
    let end = header.size.checked_add(usize::try_from(header.length).ok()?)?;
    let message = message.get(..end).filter(|_| header.number == METADATA)?;
    let value = [&envelope_start(&api_version, &kind, message.len()), message].concat();
    Metadata::read(&value).ok()??.to_meta()
}

/// Returns the message of an object's metadata; `None` if the kind has no metadata of an object.
fn metadata_of(message: &'static Message) -> Option<&'static Message> {
    let field = &message.fields[usize::from(message.index_of(METADATA)?)];
    match (field.name, field.form, field.item) {
        ("metadata", Form::Value, Item::Message(inner)) if inner.get().name == "ObjectMeta" => Some(inner.get()),
        _ => None,
    }
}

/// Returns the position of the length that precedes a content; `None` if it is not in its shortest form.
fn length_at(value: &[u8], content: &Range<usize>, length: &Length) -> Option<usize> {
    let length = length.bytes();
    let at = content.start.checked_sub(length.len())?;
    // A longer form would have another last byte, and its tag is not a continued number.
    (value[at..content.start] == *length && value[..at].last().is_none_or(|tag| *tag < 0x80)).then_some(at)
}

fn range(span: Span) -> Range<usize> {
    span.start as usize..span.end as usize
}

/// Reads the seconds of a time: `Some(None)` for Go's zero time, `None` for an unusual encoding.
#[expect(clippy::option_option, reason = "`None` means that the encoding is unusual")]
fn seconds(value: &[u8], span: Span) -> Result<Option<Option<i64>>, Malformed> {
    if span.of(value).is_empty() {
        return Ok(Some(None));
    }
    let mut reader = Reader::new(value, span);
    let (mut seconds, mut seen) = (0, 0);
    while !reader.is_at_end() {
        match reader.tag()? {
            (number @ (1 | 2), wire::VARINT) if number > seen => {
                let read = reader.varint()?;
                if number == 1 {
                    seconds = read.cast_signed();
                }
                seen = number;
            }
            _ => return Ok(None),
        }
    }
    let time = Time::from_parts(seconds, 0, Precision::Seconds);
    Ok(time.map(|time| Some(seconds).filter(|_| !time.is_zero())))
}

// === Lists and maps ===

/// Returns the labels in [`Metadata::labels`]. An item is `None` for an unusual encoding.
pub fn labels(run: &[u8]) -> impl Iterator<Item = Option<(&str, &str)>> {
    contents(run).map(|content| {
        let (mut key, mut value) = ("", "");
        let mut last = 0;
        for (number, text) in texts(content?) {
            let text = text.filter(|_| number > last)?;
            last = number;
            match number {
                1 => key = text,
                2 => value = text,
                _ => return None,
            }
        }
        Some((key, value))
    })
}

/// Returns the finalizers in [`Metadata::finalizers`]. An item is `None` for an unusual encoding.
pub fn finalizers(run: &[u8]) -> impl Iterator<Item = Option<&str>> {
    contents(run).map(|content| std::str::from_utf8(content?).ok())
}

/// Returns the owners in [`Metadata::owner_references`]. An item is `None` for an unusual encoding.
pub fn owner_references(run: &[u8]) -> impl Iterator<Item = Option<OwnerReference<'_>>> {
    contents(run).map(|content| {
        let content = content?;
        let mut reader = whole(content)?;
        let mut owner = OwnerReference::default();
        let mut last = 0;
        while !reader.is_at_end() {
            let (number, wire) = reader.tag().ok().filter(|(number, _)| *number > last)?;
            last = number;
            match (number, wire) {
                (6, wire::VARINT) => owner.controller = reader.varint().ok()? != 0,
                (7, wire::VARINT) => owner.block_owner_deletion = reader.varint().ok()? != 0,
                (1 | 3 | 4 | 5, wire::BYTES) => {
                    let text = std::str::from_utf8(reader.bytes().ok()?.of(content)).ok()?;
                    *(match number {
                        1 => &mut owner.kind,
                        3 => &mut owner.name,
                        4 => &mut owner.uid,
                        _ => &mut owner.api_version,
                    }) = text;
                }
                _ => return None,
            }
        }
        Some(owner)
    })
}

fn whole(bytes: &[u8]) -> Option<Reader<'_>> {
    Some(Reader::new(bytes, Span { start: 0, end: u32::try_from(bytes.len()).ok()? }))
}

/// Returns the contents of the occurrences of one field.
fn contents(run: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut reader = Some(Reader::new(run, Span { start: 0, end: narrow(run.len()) }));
    std::iter::from_fn(move || {
        let current = reader.as_mut().filter(|reader| !reader.is_at_end())?;
        let content = current.tag().and_then(|_| current.bytes());
        if content.is_err() {
            reader = None;
        }
        Some(content.ok().map(|span| span.of(run)))
    })
}

/// Returns the fields of a message of strings. A text is `None` if it is not a string.
fn texts(message: &[u8]) -> impl Iterator<Item = (u32, Option<&str>)> {
    let mut reader = Some(Reader::new(message, Span { start: 0, end: narrow(message.len()) }));
    std::iter::from_fn(move || {
        let current = reader.as_mut().filter(|reader| !reader.is_at_end())?;
        let (number, text) = match current.tag() {
            Ok((number, wire::BYTES)) => {
                (number, current.bytes().ok().and_then(|span| std::str::from_utf8(span.of(message)).ok()))
            }
            Ok((number, _)) => (number, None),
            Err(_) => (0, None),
        };
        if text.is_none() {
            reader = None;
        }
        Some((number, text))
    })
}
