//! etcd, in the layout of gRPC's resolver for etcd: one key `PREFIX/NAMESPACE/SERVICE/ADDRESS` per instance, with the
//! value `{"Op":0,"Addr":ADDRESS,"Metadata":…}`. A gRPC client connects to a service by
//! `etcd:///PREFIX/NAMESPACE/SERVICE`.
//!
//! Requests use etcd's JSON gateway and the existing HTTP client, because three calls do not justify a gRPC stack.
//!
//! The keys have no lease. With a lease, all services would vanish if this program is down for longer than the lease,
//! although they are healthy. Without it, outdated keys may remain until the first check after the next start.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::{Client, ObjectKey};

use crate::{Entry, Instance, Registry, RegistryError, wire::Wire};

/// The maximum number of changes per transaction; etcd's default limit is 128.
const AT_ONCE: usize = 100;

/// An etcd registry.
#[derive(Clone, Debug)]
pub struct Etcd {
    wire: Wire,
    prefix: String,
}

/// The value of a key, with the field names of Go.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Update {
    op: u8,
    addr: String,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<KeyValue>,
    /// The error message, set instead of the other fields.
    message: Option<String>,
    /// The header, present in every valid response.
    header: Option<Value>,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    /// Omitted if empty.
    #[serde(default)]
    value: String,
}

impl Etcd {
    /// Creates a registry. `client` connects to etcd's address; all keys start with `prefix`.
    #[must_use]
    pub fn new(client: Client, prefix: &str) -> Self {
        Self { wire: Wire::new(client), prefix: prefix.trim_matches('/').to_owned() }
    }

    /// Returns the key prefix of a service's instances.
    fn folder(&self, key: &ObjectKey) -> String {
        format!("{}/{key}/", self.prefix)
    }

    /// Returns the keys with this prefix, and their values.
    async fn range(&self, folder: &str) -> Result<BTreeMap<String, Vec<u8>>, RegistryError> {
        let found: Range = self.call("/v3/kv/range", &folder_range(folder)).await?;
        let decoded = |text: &str| STANDARD.decode(text).map_err(|error| garbage("reading keys", &error));
        let pair = |pair: &KeyValue| {
            let key = String::from_utf8(decoded(&pair.key)?).map_err(|error| garbage("reading keys", &error))?;
            Ok((key, decoded(&pair.value)?))
        };
        found.kvs.iter().map(pair).collect()
    }

    async fn call(&self, path: &str, body: &Value) -> Result<Range, RegistryError> {
        let (status, answer) = self.wire.post::<Range>(path, body).await?;
        match answer {
            Range { message: Some(why), .. } => Err(RegistryError::Refused { what: format!("POST {path}"), why }),
            Range { header: None, .. } => Err(garbage(path, &format!("{status}, and no header"))),
            answer => Ok(answer),
        }
    }
}

impl Registry for Etcd {
    fn entries(&self) -> BoxFuture<'_, Result<BTreeMap<ObjectKey, Entry>, RegistryError>> {
        Box::pin(async {
            let mut entries = BTreeMap::<_, Entry>::new();
            let folder = format!("{}/", self.prefix);
            for (key, value) in self.range(&folder).await? {
                let mut parts = key[folder.len()..].splitn(3, '/');
                let (Some(namespace), Some(name), Some(address)) = (parts.next(), parts.next(), parts.next()) else {
                    continue; // Not of this layout, and so not ours.
                };
                let key = ObjectKey::new(name).within(namespace);
                // An invalid value becomes an empty instance, which differs from the desired one and is written again.
                entries.entry(key).or_default().instances.insert(read(address, &value).unwrap_or_default());
            }
            Ok(entries)
        })
    }

    fn shows(&self, entry: &Entry) -> Option<Entry> {
        (!entry.instances.is_empty()).then(|| entry.clone())
    }

    fn put<'a>(&'a self, key: &'a ObjectKey, entry: &'a Entry) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move {
            let folder = self.folder(key);
            let found = self.range(&folder).await?;
            let wanted: BTreeMap<_, _> = entry
                .instances
                .iter()
                .map(|instance| (format!("{folder}{}", instance.address()), value(instance)))
                .collect();
            let surplus: BTreeSet<_> = found.keys().filter(|key| !wanted.contains_key(*key)).collect();
            let deletes = surplus.into_iter().map(|key| json!({"requestDeleteRange": {"key": STANDARD.encode(key)}}));
            let missing = wanted.iter().filter(|(key, value)| found.get(*key) != Some(*value));
            let puts = missing.map(
                |(key, value)| json!({"requestPut": {"key": STANDARD.encode(key), "value": STANDARD.encode(value)}}),
            );
            // New instances are written first, so that there is always at least one.
            let changes: Vec<_> = puts.chain(deletes).collect();
            for changes in changes.chunks(AT_ONCE) {
                self.call("/v3/kv/txn", &json!({"success": changes})).await?;
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move {
            self.call("/v3/kv/deleterange", &folder_range(&self.folder(key))).await?;
            Ok(())
        })
    }
}

/// Returns the range of all keys with a prefix that ends with a slash. The range ends before the next character.
fn folder_range(folder: &str) -> Value {
    let end = format!("{}0", folder.trim_end_matches('/'));
    json!({"key": STANDARD.encode(folder), "range_end": STANDARD.encode(end)})
}

fn value(instance: &Instance) -> Vec<u8> {
    let metadata = Some(instance.metadata.clone()).filter(|metadata| !metadata.is_empty());
    let update = Update { op: 0, addr: instance.address(), metadata };
    json!(update).to_string().into_bytes()
}

fn read(address: &str, value: &[u8]) -> Option<Instance> {
    let update: Update = serde_json::from_slice(value).ok()?;
    let instance = Instance::at(&update.addr, update.metadata.unwrap_or_default())?;
    (update.op == 0 && update.addr == address).then_some(instance)
}

fn garbage(what: &str, why: &impl ToString) -> RegistryError {
    RegistryError::Garbage { what: what.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_has_the_format_of_the_grpc_resolver() {
        let mut instance = Instance::at("10.0.0.1:80", BTreeMap::new()).unwrap();
        assert_eq!(value(&instance), br#"{"Op":0,"Addr":"10.0.0.1:80","Metadata":null}"#);
        instance.metadata.insert("version".into(), "v2".into());
        assert_eq!(read("10.0.0.1:80", &value(&instance)), Some(instance));
        for nonsense in [&b""[..], b"moo", br#"{"Op":0,"Addr":"10.0.0.2:80"}"#, br#"{"Op":1,"Addr":"10.0.0.1:80"}"#] {
            assert_eq!(read("10.0.0.1:80", nonsense), None);
        }
    }

    #[test]
    fn folder_excludes_keys_with_a_similar_prefix() {
        let range = folder_range("k/shop/web/");
        let end = String::from_utf8(STANDARD.decode(range["range_end"].as_str().unwrap()).unwrap()).unwrap();
        let within = |key: &str| key >= "k/shop/web/" && key < end.as_str();
        assert!(within("k/shop/web/10.0.0.1:80") && within("k/shop/web/[fd00::1]:80"));
        assert!(!within("k/shop/web-2/10.0.0.1:80") && !within("k/shop/web2/10.0.0.1:80"));
    }
}
