//! The envelope of a value: `k8s\0`, then a `runtime.Unknown` with the kind and the message.

use crate::{
    Error,
    wire::{BYTES, Malformed, Reader, Span, Writer, narrow},
};

pub(crate) const PREFIX: &[u8] = b"k8s\0";

/// The numbers of the fields of `Unknown` and of its `TypeMeta`.
const TYPE_META: u32 = 1;
const RAW: u32 = 2;
const CONTENT_ENCODING: u32 = 3;
const CONTENT_TYPE: u32 = 4;
const API_VERSION: u32 = 1;
const KIND: u32 = 2;

/// The content type of a message without this field.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

#[derive(Debug, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// The position of the message.
    pub(crate) raw: Span,
}

impl<'a> Envelope<'a> {
    pub(crate) fn read(value: &'a [u8]) -> Result<Self, Error> {
        if !value.starts_with(PREFIX) {
            return Err(Error::Prefix);
        }
        if value.len() > u32::MAX as usize {
            return Err(Error::TooLong { length: value.len() });
        }
        let mut envelope = Self { raw: Span { start: 4, end: 4 }, ..Self::default() };
        let mut reader = Reader::new(value, Span { start: 4, end: narrow(value.len()) });
        while !reader.is_at_end() {
            let (number, wire) = reader.tag().map_err(|error| malformed("Unknown", None, error))?;
            let field = match number {
                TYPE_META => "typeMeta",
                RAW => "raw",
                CONTENT_ENCODING => "contentEncoding",
                CONTENT_TYPE => "contentType",
                _ => {
                    reader.skip(wire).map_err(|error| malformed("Unknown", None, error))?;
                    continue;
                }
            };
            let span = bytes(&mut reader, wire).map_err(|error| malformed("Unknown", Some(field), error))?;
            match number {
                TYPE_META => envelope.read_type(value, span)?,
                RAW => envelope.raw = span,
                _ => {
                    let text = text(value, span).map_err(|error| malformed("Unknown", Some(field), error))?;
                    if !(text.is_empty() || number == CONTENT_TYPE && text == PROTOBUF) {
                        let problem = format!("the unsupported content {text:?}");
                        let error = Malformed { offset: span.start as usize, problem: problem.into() };
                        return Err(malformed("Unknown", Some(field), error));
                    }
                }
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, value: &'a [u8], span: Span) -> Result<(), Error> {
        let mut reader = Reader::new(value, span);
        while !reader.is_at_end() {
            let (number, wire) = reader.tag().map_err(|error| malformed("TypeMeta", None, error))?;
            let (field, target) = match number {
                API_VERSION => ("apiVersion", &mut self.api_version),
                KIND => ("kind", &mut self.kind),
                _ => {
                    reader.skip(wire).map_err(|error| malformed("TypeMeta", None, error))?;
                    continue;
                }
            };
            let read = bytes(&mut reader, wire).and_then(|span| text(value, span));
            *target = read.map_err(|error| malformed("TypeMeta", Some(field), error))?;
        }
        Ok(())
    }

    /// Writes the fields after the message: empty content encoding and type.
    pub(crate) fn write_end(out: &mut Writer) {
        out.bytes(CONTENT_TYPE, b"");
        out.bytes(CONTENT_ENCODING, b"");
    }

    /// Writes what precedes the message, which was written since `length`.
    pub(crate) fn write_start(out: &mut Writer, length: usize, api_version: &str, kind: &str) {
        let length = out.length() - length;
        Self::write_head(out, length, api_version, kind);
    }

    /// Writes what precedes a message of `length` bytes.
    pub(crate) fn write_head(out: &mut Writer, length: usize, api_version: &str, kind: &str) {
        out.head(RAW, length);
        let length = out.length();
        out.bytes(KIND, kind.as_bytes());
        out.bytes(API_VERSION, api_version.as_bytes());
        out.close(TYPE_META, length);
        out.raw(PREFIX);
    }
}

fn bytes(reader: &mut Reader<'_>, wire: u8) -> Result<Span, Malformed> {
    if wire == BYTES { reader.bytes() } else { Err(reader.wrong_wire(wire)) }
}

fn text(value: &[u8], span: Span) -> Result<&str, Malformed> {
    std::str::from_utf8(span.of(value)).map_err(|error| Malformed {
        offset: span.start as usize + error.valid_up_to(),
        problem: "invalid UTF-8".into(),
    })
}

fn malformed(message: &'static str, field: Option<&'static str>, error: Malformed) -> Error {
    Error::Protobuf { message, field, offset: error.offset, problem: error.problem }
}
