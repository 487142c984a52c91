//! Fields of messages that have not arrived completely, and the parts of which envelopes and watch events consist.

use std::borrow::Cow;

use crate::{
    Error,
    envelope::Envelope,
    wire::{self, Reader, Span, Writer, narrow},
};

/// The longest start of a field: a tag and a length, each a number of up to ten bytes.
const LONGEST: usize = 20;

/// The start of a field: its number, and the length of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldHeader {
    /// The number of the field.
    pub number: u32,
    /// `true` for strings, bytes and messages; `false` for numbers.
    pub is_bytes: bool,
    /// The number of bytes before the content.
    pub size: usize,
    /// The length of the content. A varint is a part of the header, so its content is empty.
    pub length: u64,
}

/// An event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchEvent<'a> {
    /// The type of the event, such as `ADDED`.
    pub event_type: &'a str,
    /// The object with its envelope. Incomplete if the event is.
    pub object: &'a [u8],
}

// === impl FieldHeader ===

impl FieldHeader {
    /// Reads the header at the start of these bytes; `None` if it is incomplete. `message` names the message in errors.
    pub fn read(message: &'static str, bytes: &[u8]) -> Result<Option<Self>, Error> {
        let start = &bytes[..bytes.len().min(LONGEST)];
        let mut reader = Reader::new(start, Span { start: 0, end: narrow(start.len()) });
        let is_incomplete = |reader: &Reader<'_>| {
            let rest = &start[reader.position() as usize..];
            rest.len() < 10 && rest.iter().all(|byte| *byte >= 0x80)
        };
        let failed = |error: wire::Malformed| Error::Protobuf {
            message,
            field: None,
            offset: error.offset,
            problem: error.problem,
        };
        if is_incomplete(&reader) {
            return Ok(None);
        }
        let (number, wire) = reader.tag().map_err(failed)?;
        let length = match wire {
            wire::VARINT | wire::BYTES if is_incomplete(&reader) => return Ok(None),
            wire::VARINT => reader.varint().map(|_| 0).map_err(failed)?,
            wire::BYTES => reader.varint().map_err(failed)?,
            wire::FIXED64 => 8,
            wire::FIXED32 => 4,
            _ => return Err(failed(reader.wrong_wire(wire))),
        };
        let size = reader.position() as usize;
        Ok(Some(Self { number, is_bytes: wire == wire::BYTES, size, length }))
    }
}

/// Returns the fields of a message, with the content of those that are not numbers. The last one may be incomplete.
fn contents<'a>(message: &'static str, bytes: &'a [u8]) -> impl Iterator<Item = Result<(u32, &'a [u8]), Error>> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let current = rest.take().filter(|current| !current.is_empty())?;
        let header = match FieldHeader::read(message, current) {
            Ok(header) => header?,
            Err(error) => return Some(Err(error)),
        };
        let content = &current[header.size..];
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        rest = content.get(length..);
        Some(Ok((header.number, &content[..length.min(content.len())])))
    })
}

// === impl WatchEvent ===

impl<'a> WatchEvent<'a> {
    /// Reads an event, or its start: a message `WatchEvent` without an envelope, whose object has one.
    pub fn read(event: &'a [u8]) -> Result<Self, Error> {
        let mut read = Self { event_type: "", object: &[] };
        for field in contents("WatchEvent", event) {
            match field? {
                (1, text) => read.event_type = std::str::from_utf8(text).unwrap_or_default(),
                (2, object) => {
                    for field in contents("RawExtension", object) {
                        if let (1, raw) = field? {
                            read.object = raw;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(read)
    }
}

// === Envelopes ===

/// Returns the start of an envelope, up to its message of `length` bytes, which is all that follows.
pub fn envelope_start(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut out = Writer::with_capacity(api_version.len() + kind.len() + 24);
    Envelope::write_head(&mut out, length, api_version, kind);
    out.finish()
}

/// Reads API version and kind of the envelope, and the start of its message, of a value whose end may be missing. `None`
/// if the message has not started.
pub fn envelope_parts(start: &[u8]) -> Result<Option<(Cow<'_, str>, Cow<'_, str>, &[u8])>, Error> {
    let Some(unknown) = start.strip_prefix(crate::envelope::PREFIX) else { return Err(Error::Prefix) };
    let (mut api_version, mut kind) = (Cow::Borrowed(""), Cow::Borrowed(""));
    for field in contents("Unknown", unknown) {
        match field? {
            (1, types) => {
                for field in contents("TypeMeta", types) {
                    match field? {
                        (1, text) => api_version = String::from_utf8_lossy(text),
                        (2, text) => kind = String::from_utf8_lossy(text),
                        _ => {}
                    }
                }
            }
            (2, message) => return Ok(Some((api_version, kind, message))),
            _ => {}
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_when_they_are_complete() {
        let bytes = b"\x0a\x80\x01rest";
        assert_eq!(FieldHeader::read("X", &bytes[..0]).unwrap(), None);
        assert_eq!(FieldHeader::read("X", &bytes[..1]).unwrap(), None);
        assert_eq!(FieldHeader::read("X", &bytes[..2]).unwrap(), None);
        let header = FieldHeader { number: 1, is_bytes: true, size: 3, length: 128 };
        assert_eq!(FieldHeader::read("X", &bytes[..3]).unwrap(), Some(header));
        assert_eq!(FieldHeader::read("X", bytes).unwrap(), Some(header));
        let number = FieldHeader::read("X", b"\x08\xac\x02").unwrap().unwrap();
        assert_eq!((number.is_bytes, number.size, number.length), (false, 3, 0));
        let (fixed, short) = (FieldHeader::read("X", b"\x09").unwrap(), FieldHeader::read("X", b"\x0d").unwrap());
        assert_eq!((fixed.unwrap().length, short.unwrap().length), (8, 4));
        assert!(FieldHeader::read("X", b"\x0b").unwrap_err().to_string().starts_with("cannot decode X at byte"));
        assert!(FieldHeader::read("X", &[0x80; 10]).is_err());
        assert!(FieldHeader::read("X", b"\x00").is_err());
    }

    #[test]
    fn envelope_of_a_message_is_read_by_its_parts() {
        let json = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#;
        let value = crate::to_protobuf(json).unwrap();
        let (version, kind, rest) = envelope_parts(&value).unwrap().unwrap();
        assert_eq!((&*version, &*kind), ("v1", "Pod"));
        let mut own = envelope_start("v1", "Pod", rest.len());
        own.extend_from_slice(rest);
        assert_eq!(crate::to_json(&own).unwrap(), crate::to_json(&value).unwrap());
        for length in 4..value.len() {
            let parts = envelope_parts(&value[..length]).unwrap();
            assert!(parts.is_none_or(|(_, _, start)| rest.starts_with(start)));
        }
    }

    #[test]
    fn watch_event_has_a_type_and_an_object() {
        let event = WatchEvent::read(b"\x0a\x05ADDED\x12\x06\x0a\x04k8s\0").unwrap();
        assert_eq!(event, WatchEvent { event_type: "ADDED", object: b"k8s\0" });
        let start = WatchEvent::read(b"\x0a\x05ADDED\x12\x06\x0a\x04k8").unwrap();
        assert_eq!(start, WatchEvent { event_type: "ADDED", object: b"k8" });
        assert_eq!(WatchEvent::read(b"").unwrap(), WatchEvent { event_type: "", object: b"" });
        assert!(WatchEvent::read(b"\x0b").is_err());
    }
}
