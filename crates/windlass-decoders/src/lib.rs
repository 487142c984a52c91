//! Decodes objects of the built-in Kubernetes kinds from protobuf into the types of k8s-openapi.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! let json = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings"},"data":{"a":"1"}}"#;
//! let value = windlass_protobuf::to_protobuf(json)?;
//! let decoded: ConfigMap = windlass_decoders::decode(&value)?;
//! assert_eq!(decoded.metadata.name.as_deref(), Some("settings"));
//! # Ok::<_, windlass_protobuf::Error>(())
//! ```
//!
//! [`decode`] returns what [`windlass_protobuf::decode`] returns, in less time. That function decodes into any type, by a
//! table and serde. This crate has a decoder for each built-in type, which writes the fields into the struct while it reads
//! the message.
//!
//! A generated decoder reads what API servers write. A value with an error, or with an encoding that no server uses, is
//! decoded by windlass-protobuf, and so are the values of all other types. Such encodings are repeated or split fields,
//! packed lists, invalid UTF-8, and messages nested more than 32 deep.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! groups      the decoders, generated from the table of windlass-protobuf and the sources of k8s-openapi
//! prelude     the names in the generated code
//! special     the types with their own JSON encoding
//! value       values, and the places in structs into which they are decoded
//! wire        the fields of messages
//! ```
//!
//! `cargo xtask decoders` generates `groups`.

#[macro_use]
mod macros;
mod groups;
mod prelude;
mod special;
mod value;
mod wire;

#[cfg(test)]
mod tests;

use k8s_openapi::Resource;
use serde::de::DeserializeOwned;
use windlass_protobuf::{Error, envelope};

use self::{
    value::{Limits, Value},
    wire::Field,
};

/// The limits of all decoders. windlass-protobuf has at most four levels for one of these, and allows 128.
struct Standard;

impl Limits for Standard {
    const LEVELS: u32 = 32;
}

/// Decodes protobuf with its envelope. Returns what [`windlass_protobuf::decode`] returns.
pub fn decode<T: DeserializeOwned + 'static>(value: &[u8]) -> Result<T, Error> {
    generated(value).map_or_else(|| windlass_protobuf::decode(value), Ok)
}

/// Decodes a value with a generated decoder; `None` if its type has none, or if the value is unusual.
fn generated<T: 'static>(value: &[u8]) -> Option<T> {
    let mut object = None;
    groups::decode(&mut object, value);
    object
}

/// Decodes an object of this kind; `None` if windlass-protobuf has to.
fn decode_kind<K: Value + Resource>(place: &mut Option<K>, value: &[u8]) {
    let Ok((api_version, kind, message)) = envelope(value) else { return };
    if (api_version, kind) != (K::API_VERSION, K::KIND) {
        return;
    }
    if place.insert(K::blank()).read::<Standard>(Field::message(message), 0).is_err() {
        *place = None;
    }
}
