//! Converts objects of the built-in Kubernetes kinds between JSON and protobuf, and decodes protobuf into Rust types.
//!
//! kube-apiserver stores objects of its built-in kinds in etcd in protobuf, and serves them as
//! `application/vnd.kubernetes.protobuf`. Such a value consists of the prefix `k8s\0` and a message `runtime.Unknown`,
//! which contains API version and kind, and the object's message.
//!
//! ```
//! let json = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings"},"data":{"a":"1"}}"#;
//! let value = windlass_protobuf::to_protobuf(json)?;
//! assert!(windlass_protobuf::is_protobuf(&value));
//! assert_eq!(windlass_protobuf::to_json(&value)?, json);
//! # Ok::<_, windlass_protobuf::Error>(())
//! ```
//!
//! [`from_protobuf`] decodes such a value into a type of k8s-openapi or any other type that implements `Deserialize`,
//! without JSON in between. [`value_at`] decodes one field, and [`Metadata`] reads the metadata in place.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! reading     single values of objects, read in place
//! metadata    the metadata of objects, read in place
//! deserialize protobuf → Rust types, with serde
//! decode      protobuf → JSON, written while the messages are read
//! encode      JSON → protobuf
//! header      fields that have not arrived completely, and watch events
//! envelope    the prefix and `runtime.Unknown`
//! occurrences the fields of messages, as spans of the input
//! table       the messages and kinds: data/messages.txt, generated from the Go types
//! json        writes JSON as Go does
//! tape        parses JSON
//! quantity    canonical quantities
//! time        `metav1.Time` and `MicroTime`
//! wire        tags, varints, lengths and strings
//! error       the errors
//! ```
//!
//! Guaranteed:
//!
//! - [`to_protobuf`] returns the bytes that Go returns for the same JSON: the fields in the order of their numbers, the
//!   entries of maps in the order of their keys, and zero values of fields that are not pointers. kube-apiserver compares
//!   these bytes to find out whether an update changes an object.
//! - [`to_json`] returns the bytes that Go's `json.Marshal` returns for the decoded object in Kubernetes 1.36 and 1.37. Older
//!   versions write some more members that are null.
//! - A value of kube-apiserver that is decoded and encoded again has the same bytes, with one exception: the JSON in a bytes
//!   field (`RawExtension`, `fieldsV1`) loses its spaces, and `<`, `>` and `&` are escaped. Go's JSON encoder does the same.
//! - The table has every kind with a protobuf encoding in Kubernetes 1.33 to 1.37. [`to_protobuf_for`] and [`to_json_for`]
//!   omit the fields that an older minor version does not have.
//! - [`from_protobuf`] passes the values of [`to_json`] to the type, in the same order.
//! - Any input results in a value or in an [`Error`] that names the place in the input. Memory is bounded by a constant
//!   multiple of the length of the input, and so is time, apart from the sorting of maps. Messages nest at most 128 deep.
//!   [`from_protobuf`] also counts lists and maps.
//!
//! Not guaranteed, or different from Go:
//!
//! - Objects are not validated and have no defaults applied. Unknown fields of JSON objects and of messages are ignored.
//! - If a JSON object has a key twice, the last value counts. Go merges the values of some types.
//! - Invalid UTF-8 in the kind of a message, and in JSON, is an error. So are negative years and those with more than five
//!   digits, and groups (a deprecated encoding of messages).
//! - An empty `raw` of a `RawExtension` is null in JSON. Go returns an error.
//! - CBOR, which kube-apiserver uses in `fieldsV1` and `RawExtension` if its feature gate is enabled, is an error.
//!
//! After an update of the Go modules in `tools`, `cargo xtask protobuf` generates the table and the test data again.

mod reading;
mod metadata;
mod deserialize;
mod decode;
mod encode;
mod header;
mod envelope;
mod occurrences;
mod table;
mod json;
mod tape;
mod quantity;
mod time;
mod wire;
mod error;

use std::borrow::Cow;

use serde::{Deserialize, de::DeserializeOwned};

use self::{
    envelope::Envelope,
    table::Message,
    tape::{Index, Kind, Tape},
    wire::{Span, Writer, narrow},
};
pub use self::{
    error::Error,
    header::{FieldHeader, WatchEvent, envelope_parts, envelope_start},
    metadata::{Metadata, OwnerReference, ValueParts, finalizers, labels, meta, owner_references},
    reading::{Elements, ListNode, MessageNode, Node, Reading, TimeNode},
    wire::text,
};

/// The newest minor version of Kubernetes in the table.
pub const NEWEST_MINOR: u32 = 37;

/// The message of a kind: converts objects without the envelope.
#[derive(Clone, Copy, Debug)]
pub struct MessageType(&'static Message);

/// Reports whether a value starts with the prefix of protobuf, `k8s\0`.
pub fn is_protobuf(value: &[u8]) -> bool {
    value.starts_with(envelope::PREFIX)
}

/// Reports whether objects of a kind can be converted.
pub fn knows(api_version: &str, kind: &str) -> bool {
    table::message_of(api_version, kind).is_some()
}

/// Returns the API version and the kind of each built-in kind, in no particular order. The kinds that each group version
/// has, such as `DeleteOptions`, are not included.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    table::kinds()
}

/// Returns the API version and the kind of a value.
pub fn type_of(value: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), Error> {
    Envelope::read(value).map(|envelope| (envelope.api_version.into(), envelope.kind.into()))
}

/// Returns the API version, the kind and the message of a value.
pub fn envelope(value: &[u8]) -> Result<(&str, &str, &[u8]), Error> {
    Envelope::read(value).map(|envelope| (envelope.api_version, envelope.kind, envelope.raw.of(value)))
}

/// Returns the text in which Go writes a quantity; `None` if it is not a quantity.
pub fn canonical_quantity(text: &str) -> Option<Cow<'_, str>> {
    quantity::canonical(text).ok()
}

/// Converts a JSON object to protobuf with its envelope, for the newest version of Kubernetes.
pub fn to_protobuf(json: &[u8]) -> Result<Vec<u8>, Error> {
    to_protobuf_for(json, NEWEST_MINOR)
}

/// Converts a JSON object to protobuf with its envelope, for Kubernetes 1.`minor`.
///
/// Go writes zero values of most fields. A server rewrites an object with fields that it does not have, although nothing
/// has changed.
pub fn to_protobuf_for(json: &[u8], minor: u32) -> Result<Vec<u8>, Error> {
    let tape = Tape::parse(json)?;
    let (mut api_version, mut kind) = (Cow::Borrowed(""), Cow::Borrowed(""));
    if tape.node(ROOT).kind == Kind::Object {
        for (key, value) in tape.entries(ROOT) {
            let target = match &*tape.string(key) {
                "apiVersion" => &mut api_version,
                "kind" => &mut kind,
                _ => continue,
            };
            let value = tape.node(value);
            if let Kind::Plain | Kind::Escaped = value.kind {
                *target = tape.string(value);
            }
        }
    }
    let message = message_of(&api_version, &kind)?;
    let mut out = Writer::with_capacity(json.len() + 64);
    Envelope::write_end(&mut out);
    let length = out.length();
    encode::encode(message, &tape, ROOT, minor, &mut out)?;
    Envelope::write_start(&mut out, length, &api_version, &kind);
    Ok(out.finish())
}

/// Converts protobuf with its envelope to a JSON object, for the newest version of Kubernetes.
pub fn to_json(value: &[u8]) -> Result<Vec<u8>, Error> {
    to_json_for(value, NEWEST_MINOR)
}

/// Converts protobuf with its envelope to a JSON object, for Kubernetes 1.`minor`.
///
/// JSON has zero values of some fields. Those that the version does not have are omitted.
pub fn to_json_for(value: &[u8], minor: u32) -> Result<Vec<u8>, Error> {
    let Envelope { api_version, kind, raw } = Envelope::read(value)?;
    let message = message_of(api_version, kind)?;
    let mut out = Vec::with_capacity(value.len() + value.len() / 2 + 64);
    decode::decode(message, &[("kind", kind), ("apiVersion", api_version)], value, raw, minor, &mut out)?;
    Ok(out)
}

/// Deserializes protobuf with its envelope.
///
/// The type gets the values that it would get from the JSON of [`to_json`], but no JSON is written, apart from the one
/// that is in a bytes field (`RawExtension`, `fieldsV1`). Strings are borrowed from the value.
pub fn from_protobuf<'de, T: Deserialize<'de>>(value: &'de [u8]) -> Result<T, Error> {
    let Envelope { api_version, kind, raw } = Envelope::read(value)?;
    let message = message_of(api_version, kind)?;
    let head = [("kind", kind), ("apiVersion", api_version)];
    deserialize::deserialize(message, Some(head), value, raw, NEWEST_MINOR)
}

/// Deserializes protobuf with its envelope. A null that the type does not accept is decoded as the zero value, as by
/// [`windlass_api::from_json`]: only values that fail to decode are converted to JSON.
pub fn decode<T: DeserializeOwned>(value: &[u8]) -> Result<T, Error> {
    from_protobuf(value).or_else(|error| match to_json(value) {
        Ok(json) => windlass_api::from_json(&json).map_err(|_| error),
        Err(_) => Err(error),
    })
}

/// Deserializes the value at a path of nested JSON objects; `None` if it is absent or null. Only the messages on the
/// path are read.
///
/// ```
/// let value = windlass_protobuf::to_protobuf(br#"{"kind":"Pod","apiVersion":"v1","spec":{"nodeName":"n"}}"#)?;
/// assert_eq!(windlass_protobuf::value_at::<String>(&value, &["spec", "nodeName"])?.as_deref(), Some("n"));
/// # Ok::<_, windlass_protobuf::Error>(())
/// ```
pub fn value_at<T: DeserializeOwned>(value: &[u8], path: &[&str]) -> Result<Option<T>, Error> {
    let Envelope { api_version, kind, raw } = Envelope::read(value)?;
    let message = message_of(api_version, kind)?;
    deserialize::value_at(message, value, raw, path, NEWEST_MINOR)
}

fn message_of(api_version: &str, kind: &str) -> Result<&'static Message, Error> {
    let unknown = || Error::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
    table::message_of(api_version, kind).ok_or_else(unknown)
}

/// The root of a document.
const ROOT: Index = 0;

// === impl MessageType ===

impl MessageType {
    /// Returns the message of a kind; `None` if the kind has no protobuf encoding.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        table::message_of(api_version, kind).map(Self)
    }

    /// Returns the name of the message. Kinds of several versions with equal fields have the same message.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Converts a JSON object to a message, for Kubernetes 1.`minor`. API version and kind are not part of it.
    pub fn encode(self, json: &[u8], minor: u32) -> Result<Vec<u8>, Error> {
        let tape = Tape::parse(json)?;
        let mut out = Writer::with_capacity(json.len() + 64);
        encode::encode(self.0, &tape, ROOT, minor, &mut out)?;
        Ok(out.finish())
    }

    /// Deserializes a message. API version and kind are not part of it.
    pub fn deserialize<'de, T: Deserialize<'de>>(self, message: &'de [u8]) -> Result<T, Error> {
        if message.len() > u32::MAX as usize {
            return Err(Error::TooLong { length: message.len() });
        }
        let span = Span { start: 0, end: narrow(message.len()) };
        deserialize::deserialize(self.0, None, message, span, NEWEST_MINOR)
    }

    /// Converts a message to a JSON object without API version and kind, for Kubernetes 1.`minor`.
    pub fn decode(self, message: &[u8], minor: u32) -> Result<Vec<u8>, Error> {
        if message.len() > u32::MAX as usize {
            return Err(Error::TooLong { length: message.len() });
        }
        let mut out = Vec::with_capacity(message.len() + message.len() / 2 + 64);
        let span = Span { start: 0, end: narrow(message.len()) };
        decode::decode(self.0, &[], message, span, minor, &mut out)?;
        Ok(out)
    }
}
