//! Converts Kubernetes objects between JSON and CBOR (RFC 8949), in the profile of kube-apiserver and client-go.
//!
//! kube-apiserver serves `application/cbor`, and watches as `application/cbor-seq` (RFC 8742), if its feature gate
//! `CBORServingAndStorage` is enabled.
//!
//! ```
//! let json = br#"{"apiVersion":"example.com/v1","kind":"Website","spec":{"replicas":3}}"#;
//! let cbor = windlass_cbor::from_json(json)?;
//! assert!(windlass_cbor::is_cbor(&cbor));
//! assert_eq!(windlass_cbor::to_json(&cbor)?, json);
//! # Ok::<_, windlass_cbor::Error>(())
//! ```
//!
//! [`Decoder`] converts a response while it arrives: its input are chunks, cut anywhere, and its output is JSON. It does
//! no I/O.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! decode   CBOR → JSON, a state machine over chunks
//! encode   JSON → CBOR, and the parts of documents
//! number   floats and times
//! head     the first bytes of data items
//! error    the errors
//! ```
//!
//! Guaranteed:
//!
//! - Any input results in a value or in an [`Error`] that names the place in the input.
//! - Time is linear in the length of the input, apart from the sorting of hashes of keys. The output is bounded by a
//!   constant multiple of the input. A [`Decoder`] holds the nesting (at most [`MAX_DEPTH`] levels), eight bytes for each
//!   key of the open maps (at most [`MAX_KEYS`]), and a key of at most 1 MiB.
//! - Decoding accepts what Kubernetes accepts: text in byte strings and text strings, definite and indefinite lengths, any
//!   tag. Byte strings with the tags 21 to 23, also around them, become base64url, base64 and base16. Times (tags 0 and 1)
//!   become text in RFC 3339.
//! - Decoding rejects what Kubernetes rejects: duplicate keys, keys that are not strings, invalid UTF-8 in text strings,
//!   integers that do not fit into 64 bits with a sign, big integers, NaN, infinities, `undefined` and other simple values.
//! - Encoding writes what Go writes for unstructured objects: strings as byte strings, definite lengths, the shortest
//!   integers, and the shortest floats without loss, apart from subnormal ones. The order of keys stays, as if Go did not
//!   sort them.
//!
//! Different from Go:
//!
//! - Invalid UTF-8 in byte strings without a tag is an error. Go replaces it when it writes JSON.
//! - The text of a time with tag 0 is not parsed, and `null` is not accepted as an empty key.
//! - Fields of bytes, such as the data of a Secret, are encoded as text in base64. Go writes the bytes with tag 22; it
//!   decodes both.
//! - Two keys with equal hashes of 64 bits (with a random key, so that they cannot be chosen) count as duplicates.

mod decode;
mod encode;
mod number;
mod head;
mod error;

pub use self::{
    decode::{Decoder, Floats, MAX_DEPTH, MAX_KEYS, to_json},
    encode::{append_json, append_list, append_map, append_text, from_json},
    error::{Error, Problem},
};

/// The media type of one object or list.
pub const MEDIA_TYPE: &str = "application/cbor";

/// The media type of a watch: a CBOR sequence.
pub const SEQUENCE_MEDIA_TYPE: &str = "application/cbor-seq";

/// The media type of a patch for server-side apply.
pub const APPLY_MEDIA_TYPE: &str = "application/apply-patch+cbor";

/// The bytes that start each document of Kubernetes: the tag of self-described CBOR.
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// Reports whether a document starts with the tag of self-described CBOR. JSON never does.
#[must_use]
pub fn is_cbor(document: &[u8]) -> bool {
    document.starts_with(&SELF_DESCRIBED)
}
