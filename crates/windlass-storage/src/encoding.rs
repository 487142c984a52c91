//! Values as kube-apiserver stores them: protobuf for the built-in kinds, and JSON for the others.

use std::sync::Arc;

use bytes::Bytes;
use windlass_server::{
    BodyStyle, KubernetesVersion, body_from_json, body_to_json, is_body,
    storage::{Storage, StoredValue},
};

use crate::transform::{Failure, Transform, TransformedStorage};

/// A storage whose values kube-apiserver has written, or reads.
pub type EncodedStorage = TransformedStorage<Encoding>;

/// The encoding of a storage's values.
///
/// Guaranteed: values in protobuf, in JSON and in the server's own encoding are read. A value in another encoding than
/// that of new values is written again by the next update, even one that changes nothing.
///
/// Not guaranteed: that objects of another API version than the one that the server stores are converted. kube-apiserver
/// of the same version stores the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    writes: Writes,
    kubernetes: KubernetesVersion,
}

/// The encoding of new values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// That of the server, which is the fastest.
    Own,
    /// That of kube-apiserver.
    Kubernetes,
}

/// The encoding of a value, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Own,
    Protobuf,
    Json,
}

/// The prefix of all keys of objects.
const REGISTRY: &str = "/registry/";

impl EncodedStorage {
    /// Writes values as kube-apiserver of this version does, so that both can use `below`.
    #[must_use]
    pub fn shared(below: Arc<dyn Storage>, kubernetes: KubernetesVersion) -> Self {
        Self::over(below, Encoding { writes: Writes::Kubernetes, kubernetes })
    }

    /// Reads values that kube-apiserver of this version has written, and writes those of the server.
    #[must_use]
    pub fn imported(below: Arc<dyn Storage>, kubernetes: KubernetesVersion) -> Self {
        Self::over(below, Encoding { writes: Writes::Own, kubernetes })
    }
}

impl Transform for Encoding {
    fn encode(&self, key: &str, body: Bytes) -> Result<Bytes, Failure> {
        if self.writes == Writes::Own || !is_body(&body) {
            return Ok(body);
        }
        let mut json = body_to_json(body)?;
        if is_stored_as_json(key) {
            // As Go's encoder does.
            json.push(b'\n');
            return Ok(json.into());
        }
        Ok(windlass_protobuf::to_protobuf_for(&json, self.kubernetes.minor())?.into())
    }

    fn decode(&self, value: StoredValue) -> Result<StoredValue, Failure> {
        let found = Found::of(&value.body);
        let body = match found {
            Found::Own => value.body,
            Found::Protobuf => {
                let json = windlass_protobuf::to_json_for(&value.body, self.kubernetes.minor())?;
                body_from_json(&json, BodyStyle::BuiltIn)?
            }
            Found::Json => body_from_json(&value.body, style(&value.key))?,
        };
        let is_current = match self.writes {
            Writes::Own => found == Found::Own,
            Writes::Kubernetes if is_stored_as_json(&value.key) => found == Found::Json,
            Writes::Kubernetes => found == Found::Protobuf,
        };
        Ok(StoredValue { body, is_stale: value.is_stale || !is_current, ..value })
    }
}

impl Found {
    fn of(body: &[u8]) -> Self {
        if windlass_protobuf::is_protobuf(body) {
            Self::Protobuf
        } else if is_body(body) {
            Self::Own
        } else {
            Self::Json
        }
    }
}

/// Reports whether kube-apiserver stores the objects of a key as JSON: those of API groups with their own servers. Their
/// groups are in the keys.
fn is_stored_as_json(key: &str) -> bool {
    let place = key.strip_prefix(REGISTRY).and_then(|rest| rest.split('/').next());
    place.is_some_and(|place| place.contains('.'))
}

fn style(key: &str) -> BodyStyle {
    let built_in = ["apiextensions.k8s.io/", "apiregistration.k8s.io/"];
    let is_custom = is_stored_as_json(key)
        && key.strip_prefix(REGISTRY).is_some_and(|rest| !built_in.iter().any(|group| rest.starts_with(group)));
    if is_custom { BodyStyle::Custom } else { BodyStyle::BuiltIn }
}
