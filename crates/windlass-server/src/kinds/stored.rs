//! The built-in kinds in a storage that kube-apiserver uses, too.

use std::{collections::HashMap, fmt};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    encoded::{DamagedBody, Encoded, Style},
    kinds::{catalog, gates, row, storage_prefix},
    kubernetes::KubernetesVersion,
};

/// A built-in resource in the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredResource {
    /// The prefix of the keys of its objects.
    pub prefix: String,
    /// The API group.
    pub group: String,
    /// The plural name.
    pub plural: String,
}

/// Returns the built-in resources whose objects are stored, of all supported Kubernetes versions. The objects of a custom
/// resource have keys with the prefix `/registry/GROUP/PLURAL/`.
#[must_use]
pub fn stored_resources() -> Vec<StoredResource> {
    let mut resources: Vec<StoredResource> = Vec::new();
    for version in KubernetesVersion::ALL {
        for entry in catalog(*version).iter().filter(|entry| !entry.storage_hash.is_empty()) {
            let Some(kind) = row(entry) else { continue };
            let prefix = storage_prefix(kind, entry);
            // Events have two groups. They are stored in the first one.
            if resources.iter().all(|resource| resource.prefix != prefix) {
                let (group, plural) = (entry.group.to_owned(), entry.plural.to_owned());
                resources.push(StoredResource { prefix, group, plural });
            }
        }
    }
    resources
}

/// The defaults of the built-in kinds of a Kubernetes version.
///
/// kube-apiserver applies them whenever it reads an object from etcd: an older version may have written it, and protobuf
/// has no kind and API version of nested objects. The server itself stores complete objects.
pub struct StoredKinds(HashMap<&'static str, Vec<Defaults>>);

/// The functions that complete an object of a kind.
struct Defaults {
    api_version: String,
    all: fn(&mut Value),
    newer: Option<fn(&mut Value)>,
}

impl StoredKinds {
    /// Collects the kinds of a version.
    #[must_use]
    pub fn new(kubernetes: KubernetesVersion) -> Self {
        let mut kinds: HashMap<_, Vec<_>> = HashMap::new();
        for entry in catalog(kubernetes) {
            let Some(kind) = row(entry) else { continue };
            let api_version = match entry.group {
                "" => entry.version.to_owned(),
                group => format!("{group}/{}", entry.version),
            };
            let newer = gates::defaults(kubernetes, entry.group, entry.kind);
            kinds.entry(entry.kind).or_default().push(Defaults { api_version, all: kind.default, newer });
        }
        Self(kinds)
    }

    /// Returns the body that the server stores for an object in JSON. The fields must be in the order of the Go types,
    /// and those of custom resources in alphabetical order.
    ///
    /// # Errors
    /// If the text is no JSON object.
    pub fn body(&self, json: &[u8]) -> Result<Bytes, DamagedBody> {
        let mut object: Value = serde_json::from_slice(json).map_err(|_| DamagedBody("it is no JSON"))?;
        if !object.is_object() {
            return Err(DamagedBody("it is no JSON object"));
        }
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let Some(defaults) = self.of(text("apiVersion"), text("kind")) else {
            return Ok(Encoded::new(&object, Style::Custom).storage_bytes());
        };
        (defaults.all)(&mut object);
        if let Some(newer) = defaults.newer {
            newer(&mut object);
        }
        Ok(Encoded::new(&object, Style::BuiltIn).storage_bytes())
    }

    fn of(&self, api_version: &str, kind: &str) -> Option<&Defaults> {
        self.0.get(kind)?.iter().find(|defaults| defaults.api_version == api_version)
    }
}

impl fmt::Debug for StoredKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredKinds").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{encoded::body_to_json, storage::Revision};

    fn completed(json: &str) -> Result<String, DamagedBody> {
        let body = StoredKinds::new(KubernetesVersion::default()).body(json.as_bytes())?;
        Ok(String::from_utf8(body_to_json(body).unwrap()).unwrap())
    }

    #[test]
    fn object_of_a_built_in_kind_is_completed() {
        let claim = r#"{"metadata":{"name":"v"},"spec":{}}"#;
        let json = format!(
            r#"{{"kind":"StatefulSet","apiVersion":"apps/v1","metadata":{{}},"spec":{{"volumeClaimTemplates":[{claim}]}}}}"#
        );
        let text = completed(&json).unwrap();
        assert!(text.contains(r#""kind":"PersistentVolumeClaim","apiVersion":"v1""#), "{text}");
        assert!(text.contains(r#""podManagementPolicy":"OrderedReady""#), "{text}");
    }

    #[test]
    fn custom_resource_stays_as_it_is() {
        let json = r#"{"apiVersion":"example.com/v1","kind":"StatefulSet","metadata":{"name":"a"},"spec":{"b":1}}"#;
        assert_eq!(completed(json).unwrap(), json);
        let body = StoredKinds::new(KubernetesVersion::default()).body(json.as_bytes()).unwrap();
        assert_eq!(Encoded::from_storage(body).unwrap().value(Revision(3))["metadata"]["resourceVersion"], "3");
    }

    #[test]
    fn text_that_is_no_object_is_an_error() {
        assert_eq!(completed("[]").unwrap_err().to_string(), "the stored body is damaged: it is no JSON object");
        assert_eq!(completed("{").unwrap_err().to_string(), "the stored body is damaged: it is no JSON");
        assert!(body_to_json(Bytes::from_static(b"{}")).is_err());
    }
}
