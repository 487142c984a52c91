//! The encoding and decoding of objects.

use bytes::Bytes;
use memchr::memmem;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use windlass_api::{ApiResource, BoxError, Content, Object, Resource, from_json};

/// The encoding and decoding of a resource's objects, for kinds for which serde alone does not suffice.
pub(crate) struct Codec<K> {
    /// The requested content: whole objects or their metadata.
    pub(crate) content: Content,
    pub(crate) encode: fn(&ApiResource, &K) -> serde_json::Result<Bytes>,
    /// Adds the fields that the encoded form omits.
    pub(crate) complete: fn(&ApiResource, &mut K),
    /// `true` if the type has fields that are encoded even if they are not set.
    pub(crate) has_required_fields: bool,
}

impl<K: Object> Codec<K> {
    /// The codec of objects whose encoded form is complete.
    pub(crate) const fn plain(content: Content) -> Self {
        Self {
            content,
            encode: |_, object| serde_json::to_vec(object).map(Bytes::from),
            complete: |_, _| {},
            has_required_fields: false,
        }
    }
}

impl<K: Resource> Codec<K> {
    /// The codec of a kind that is known at compile time.
    pub(crate) const fn typed() -> Self {
        Self { encode: encode_typed, has_required_fields: true, ..Self::plain(Content::Object) }
    }
}

/// Decodes an object from JSON, or from protobuf with its envelope.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, BoxError> {
    if windlass_protobuf::is_protobuf(body) {
        return Ok(windlass_protobuf::decode(body)?);
    }
    Ok(from_json(body)?)
}

/// Decodes an object like [`decode`]. Built-in types have generated decoders of protobuf.
pub(crate) fn decode_object<K: Object>(body: &[u8]) -> Result<K, BoxError> {
    if windlass_protobuf::is_protobuf(body) {
        return Ok(windlass_decoders::decode(body)?);
    }
    Ok(from_json(body)?)
}

/// The size of most encoded objects, in bytes; few are larger.
const USUAL_SIZE: usize = 1024;

/// Encodes an object with `apiVersion` and `kind`. Built-in types write both themselves; custom types may lack them.
fn encode_typed<K: Resource>(resource: &ApiResource, object: &K) -> serde_json::Result<Bytes> {
    // Reserve room for both in front of the object, so that most objects are not moved afterwards.
    let mut bytes = Vec::with_capacity(USUAL_SIZE);
    bytes.extend_from_slice(br#"{"apiVersion":"#);
    serde_json::to_writer(&mut bytes, &resource.api_version())?;
    let version_ends = bytes.len();
    bytes.extend_from_slice(br#","kind":"#);
    serde_json::to_writer(&mut bytes, &resource.kind)?;
    let head_ends = bytes.len();
    serde_json::to_writer(&mut bytes, object)?;

    let own = &bytes[head_ends..];
    // A built-in type starts with `apiVersion` and has both fields.
    if own.starts_with(br#"{"apiVersion":"#) {
        return Ok(Bytes::from(bytes).slice(head_ends..));
    }
    #[derive(Deserialize)]
    struct Types {
        #[serde(rename = "apiVersion")]
        api_version: Option<IgnoredAny>,
        kind: Option<IgnoredAny>,
    }
    let mentions = |key: &[u8]| memmem::find(own, key).is_some();
    // Most objects without their own `apiVersion` and `kind` contain no nested ones either.
    let types = if mentions(br#""apiVersion":"#) || mentions(br#""kind":"#) {
        serde_json::from_slice(own)?
    } else {
        Types { api_version: None, kind: None }
    };
    // The object has at least `metadata`, so a comma after the header is valid JSON.
    bytes[head_ends] = b',';
    match (types.api_version, types.kind) {
        (None, None) => {}
        (None, Some(_)) => drop(bytes.drain(version_ends..head_ends)),
        (Some(_), None) => drop(bytes.drain(1..=version_ends)),
        (Some(_), Some(_)) => drop(bytes.drain(1..=head_ends)),
    }
    Ok(bytes.into())
}

// Implemented by hand, because a derive would require `K: Clone`.
impl<K> Clone for Codec<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Codec<K> {}
