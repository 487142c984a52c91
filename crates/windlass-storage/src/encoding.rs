//! Values as kube-apiserver stores them: protobuf for the built-in kinds, and JSON for the others.

use std::sync::Arc;

use bytes::Bytes;
use windlass_server::{
    KubernetesVersion, StoredKinds, is_body,
    storage::{Storage, StoredValue},
};

use crate::transform::{Decoding, Encrypted, Failure, Transform, TransformedStorage};

/// A storage whose values kube-apiserver has written, or reads.
pub type EncodedStorage = TransformedStorage<Encoding>;

/// The encoding of a storage's values.
///
/// Guaranteed: values in protobuf, in JSON and in the server's own encoding are read. A value in another encoding than
/// that of new values is written again by the next update, even one that changes nothing.
///
/// Not guaranteed: that objects of another API version than the one that the server stores are converted. kube-apiserver
/// of the same version stores the same one.
#[derive(Debug)]
pub struct Encoding {
    writes: Writes,
    kubernetes: KubernetesVersion,
    kinds: StoredKinds,
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
        Self::over(below, Encoding::shared(kubernetes))
    }

    /// Reads values that kube-apiserver of this version has written, and writes those of the server.
    #[must_use]
    pub fn imported(below: Arc<dyn Storage>, kubernetes: KubernetesVersion) -> Self {
        Self::over(below, Encoding::new(Writes::Own, kubernetes))
    }
}

impl Encoding {
    /// Returns the encoding of kube-apiserver of this version, for values that both read and write.
    #[must_use]
    pub fn shared(kubernetes: KubernetesVersion) -> Self {
        Self::new(Writes::Kubernetes, kubernetes)
    }

    fn new(writes: Writes, kubernetes: KubernetesVersion) -> Self {
        Self { writes, kubernetes, kinds: StoredKinds::new(kubernetes) }
    }
}

impl Transform for Encoding {
    fn encode(&self, key: &str, body: Bytes) -> Result<Bytes, Failure> {
        if self.writes == Writes::Own || !is_body(&body) {
            return Ok(body);
        }
        let mut json = self.kinds.json(body)?;
        if is_stored_as_json(key) {
            // As Go's encoder does.
            json.push(b'\n');
            return Ok(json.into());
        }
        Ok(windlass_protobuf::to_protobuf_for(&json, self.kubernetes.minor())?.into())
    }

    fn decode(&self, value: StoredValue) -> Decoding {
        Decoding::Done(self.decoded(value))
    }
}

impl Encoding {
    fn decoded(&self, value: StoredValue) -> Result<StoredValue, Failure> {
        let found = Found::of(&value.body)?;
        let body = match found {
            Found::Own => value.body,
            Found::Protobuf => {
                let json = windlass_protobuf::to_json_for(&value.body, self.kubernetes.minor())?;
                self.kinds.body(&json)?
            }
            Found::Json => self.kinds.body(&value.body)?,
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
    /// Returns the encoding of a value, or an error if the value is encrypted.
    fn of(body: &[u8]) -> Result<Self, Encrypted> {
        if windlass_protobuf::is_protobuf(body) {
            Ok(Self::Protobuf)
        } else if is_body(body) {
            Ok(Self::Own)
        } else {
            Encrypted::check(body).map(|()| Self::Json)
        }
    }
}

/// Reports whether kube-apiserver stores the objects of a key as JSON: those of API groups with their own servers. Their
/// groups are in the keys.
fn is_stored_as_json(key: &str) -> bool {
    let place = key.strip_prefix(REGISTRY).and_then(|rest| rest.split('/').next());
    place.is_some_and(|place| place.contains('.'))
}

#[cfg(test)]
mod tests {
    use windlass_server::storage::{Change, Expect, MemoryStorage, Revision, next_event};

    use super::*;

    const CONFIG_MAP: (&str, &str) = (
        "/registry/configmaps/default/a",
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default"},"data":{"k":"v"}}"#,
    );
    const CUSTOM: (&str, &str) = (
        "/registry/example.com/sites/default/a",
        r#"{"apiVersion":"example.com/v1","kind":"Site","metadata":{"name":"a"},"spec":{"x":1}}"#,
    );
    const DEFINITION: (&str, &str) = (
        "/registry/apiregistration.k8s.io/apiservices/v1.example.com",
        r#"{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.example.com"},"spec":{"groupPriorityMinimum":1,"versionPriority":1}}"#,
    );

    fn version() -> KubernetesVersion {
        KubernetesVersion::default()
    }

    fn body(json: &str) -> Bytes {
        StoredKinds::new(version()).body(json.as_bytes()).unwrap()
    }

    async fn put(storage: &dyn Storage, key: &str, value: impl Into<Bytes>) {
        storage.commit(key, Expect::Absent, Change::Put(value.into())).await.unwrap();
    }

    async fn get(storage: &dyn Storage, key: &str) -> StoredValue {
        storage.get(key, None).await.unwrap().1.unwrap()
    }

    #[tokio::test]
    async fn shared_values_are_those_of_kube_apiserver() {
        let below: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        let shared = EncodedStorage::shared(Arc::clone(&below), version());
        for (key, json) in [CONFIG_MAP, CUSTOM, DEFINITION] {
            put(&shared, key, body(json)).await;
            let found = get(&shared, key).await;
            assert_eq!((found.body, found.is_stale), (body(json), false), "{key}");
        }
        let stored = get(&*below, CONFIG_MAP.0).await.body;
        assert!(stored.starts_with(b"k8s\0"), "{stored:?}");
        for (key, json) in [CUSTOM, DEFINITION] {
            assert_eq!(get(&*below, key).await.body, format!("{json}\n"), "{key}");
        }
    }

    #[tokio::test]
    async fn imported_values_are_read_and_written_again() {
        let below: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        put(&*below, CONFIG_MAP.0, windlass_protobuf::to_protobuf(CONFIG_MAP.1.as_bytes()).unwrap()).await;
        put(&*below, CUSTOM.0, format!("{}\n", CUSTOM.1)).await;
        let imported = EncodedStorage::imported(Arc::clone(&below), version());
        assert!(imported.is_known_to_be_empty("/none/") && !imported.is_known_to_be_empty(CUSTOM.0));
        for (key, json) in [CONFIG_MAP, CUSTOM] {
            let found = get(&imported, key).await;
            assert_eq!((found.body, found.is_stale), (body(json), true), "{key}");
            let expect = Expect::Unchanged(found.modified);
            let committed = imported.commit(key, expect, Change::Put(body(json))).await.unwrap();
            assert_eq!(committed.previous.unwrap().body, body(json));
            assert_eq!(get(&*below, key).await.body, body(json));
            assert!(!get(&imported, key).await.is_stale);
        }
    }

    #[tokio::test]
    async fn watch_continues_after_a_value_that_cannot_be_decoded() {
        let below: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        let shared = EncodedStorage::shared(Arc::clone(&below), version());
        let mut events = shared.watch("", Revision(1)).await.unwrap();
        put(&*below, "/registry/configmaps/default/bad", Bytes::from_static(b"k8s\0\xff")).await;
        put(&shared, CONFIG_MAP.0, body(CONFIG_MAP.1)).await;
        let first = next_event(&mut events).await.unwrap().unwrap_err().to_string();
        assert!(first.starts_with("unable to transform key \"/registry/configmaps/default/bad\": "), "{first}");
        let second = next_event(&mut events).await.unwrap().unwrap();
        assert_eq!(second.current.unwrap().body, body(CONFIG_MAP.1));
    }

    #[tokio::test]
    async fn values_that_cannot_be_decoded_are_errors() {
        let below: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        for (name, value) in [("a", &b"k8s\0\xff"[..]), ("b", b"{"), ("c", b"")] {
            let key = format!("/registry/configmaps/default/{name}");
            put(&*below, &key, Bytes::from_static(value)).await;
            let shared = EncodedStorage::shared(Arc::clone(&below), version());
            let error = shared.get(&key, None).await.unwrap_err().to_string();
            assert!(error.starts_with(&format!("unable to transform key {key:?}: ")), "{error}");
        }
    }
}
