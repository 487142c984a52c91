//! Decoding of JSON and protobuf into user types. If the decoder fails or panics, the error names the field.

use std::sync::Arc;

use serde::de::{DeserializeOwned, Error as _};

use windlass_views::ViewError;

use crate::packing::Damaged;

mod error_path;

/// The reason why a body could not be decoded.
#[derive(Debug, Clone)]
pub(crate) struct DecodeFailure {
    /// The path of the field, such as `spec.containers[0]`; `None` if the whole document does not fit or the field is
    /// unknown.
    pub(crate) field: Option<String>,
    pub(crate) source: Arc<serde_json::Error>,
}

/// Decodes JSON, or protobuf with its envelope.
pub(crate) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, DecodeFailure> {
    if windlass_protobuf::is_protobuf(json) {
        return protobuf(|| windlass_protobuf::decode(json));
    }
    match crate::panics::catch_panic(|| windlass_api::from_json(json)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(DecodeFailure { field: error_path::of(json, &error), source: Arc::new(error) }),
        Err(panic) => Err(serde_json::Error::custom(format_args!("the decoder panicked: {panic}")).into()),
    }
}

/// Decodes an object like [`decode`]. Built-in types have generated decoders of protobuf.
pub(crate) fn decode_object<K: DeserializeOwned + 'static>(body: &[u8]) -> Result<K, DecodeFailure> {
    if windlass_protobuf::is_protobuf(body) {
        return protobuf(|| windlass_decoders::decode(body));
    }
    decode(body)
}

/// Decodes the value at a path of an object in protobuf.
pub(crate) fn decode_at<T: DeserializeOwned>(protobuf_value: &[u8], path: &[&str]) -> Result<Option<T>, DecodeFailure> {
    protobuf(|| windlass_protobuf::value_at(protobuf_value, path))
}

/// Converts an object in protobuf to JSON.
pub(crate) fn to_json(protobuf_value: &[u8]) -> Result<Vec<u8>, DecodeFailure> {
    protobuf(|| windlass_protobuf::to_json(protobuf_value))
}

/// Runs a decoder of protobuf. Its error names the message and the field.
fn protobuf<T>(decode: impl FnOnce() -> Result<T, windlass_protobuf::Error>) -> Result<T, DecodeFailure> {
    match crate::panics::catch_panic(decode) {
        Ok(decoded) => decoded.map_err(|error| serde_json::Error::custom(error).into()),
        Err(panic) => Err(serde_json::Error::custom(format_args!("the decoder panicked: {panic}")).into()),
    }
}

impl DecodeFailure {
    /// Extends the field path: this value is at `path` within a larger object.
    pub(crate) fn within(mut self, path: &[&str]) -> Self {
        let mut field = path.join(".");
        if let Some(inner) = self.field {
            if !field.is_empty() && !inner.starts_with('[') {
                field.push('.');
            }
            field.push_str(&inner);
        }
        self.field = Some(field).filter(|field| !field.is_empty());
        self
    }
}

impl From<serde_json::Error> for DecodeFailure {
    fn from(error: serde_json::Error) -> Self {
        Self { field: None, source: Arc::new(error) }
    }
}

impl From<ViewError> for DecodeFailure {
    fn from(error: ViewError) -> Self {
        let source = Arc::new(serde_json::Error::custom(error.reason()));
        Self { field: error.field().map(str::to_owned), source }
    }
}

impl From<Damaged> for DecodeFailure {
    fn from(damaged: Damaged) -> Self {
        serde_json::Error::custom(damaged).into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{Pod, PodSpec};

    use super::*;

    fn field<T: DeserializeOwned>(json: &str, path: &[&str]) -> Option<String> {
        decode::<T>(json.as_bytes()).err().expect("decoding fails").within(path).field
    }

    #[test]
    fn decode_error_names_the_field() {
        assert_eq!(field::<Pod>(r#"{"spec":{"containers":7}}"#, &[]).unwrap(), "spec.containers");
        let image = r#"{"spec":{"containers":[{"name":"a"},{"name":"b","image":[]}]}}"#;
        assert_eq!(field::<Pod>(image, &[]).unwrap(), "spec.containers[1].image");
        assert_eq!(field::<PodSpec>(r#"{"containers":7}"#, &["spec"]).unwrap(), "spec.containers");
        assert_eq!(field::<Vec<u8>>("[1,-1]", &["spec", "ports"]).unwrap(), "spec.ports[1]");
        assert_eq!(field::<u8>("-1", &["spec", "replicas"]).unwrap(), "spec.replicas");
        assert_eq!(field::<BTreeMap<String, u8>>("7", &[]), None);
    }

    /// A type whose decoder panics or fails.
    #[derive(Debug)]
    struct Odd;

    impl<'de> serde::Deserialize<'de> for Odd {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let is_worse = bool::deserialize(deserializer)?;
            assert!(!is_worse, "expected panic of the test");
            Err(D::Error::custom("no"))
        }
    }

    #[test]
    fn a_decoder_that_panics_is_an_error() {
        let failure = decode::<Odd>(b"true").unwrap_err();
        assert_eq!(failure.source.to_string(), "the decoder panicked: expected panic of the test");
        assert_eq!(decode::<Odd>(b"false").unwrap_err().source.to_string(), "no");
    }
}
