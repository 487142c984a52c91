//! The built-in kinds in a storage that kube-apiserver uses, too.

use std::{collections::HashMap, fmt, ops::RangeInclusive};

use bytes::Bytes;
use serde_json::Value;

use crate::{
    apiextensions::v1beta1,
    encoded::{DamagedBody, Encoded, Style, push_json},
    kinds::{catalog, gates, row, storage_prefix},
    kubernetes::KubernetesVersion,
    storage::Revision,
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

/// The built-in kinds as kube-apiserver of a version stores them.
///
/// kube-apiserver applies defaults whenever it reads an object from etcd: an older version may have written it, and
/// protobuf has no kind and API version of nested objects. The server itself stores complete objects. Some kinds are
/// stored in an older version of their API than the one that the server stores.
pub struct StoredKinds {
    defaults: HashMap<&'static str, Vec<Defaults>>,
    minor: u32,
}

/// A kind that kube-apiserver stores in an older version of its API, with the same fields.
struct Older {
    kind: &'static str,
    /// The version that the server stores.
    served: &'static str,
    /// The version that kube-apiserver stores.
    stored: &'static str,
    /// The minor versions of Kubernetes that do so.
    minors: RangeInclusive<u32>,
}

const fn older(kind: &'static str, served: &'static str, stored: &'static str, minors: RangeInclusive<u32>) -> Older {
    Older { kind, served, stored, minors }
}

const ADMISSION: [&str; 2] = ["admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1beta1"];
const DEVICES: [&str; 2] = ["resource.k8s.io/v1", "resource.k8s.io/v1beta2"];
const NETWORKING: [&str; 2] = ["networking.k8s.io/v1", "networking.k8s.io/v1beta1"];

/// So that the previous minor version can read the objects, too.
const OLDER: &[Older] = &[
    older("MutatingAdmissionPolicy", ADMISSION[0], ADMISSION[1], 36..=36),
    older("MutatingAdmissionPolicyBinding", ADMISSION[0], ADMISSION[1], 36..=36),
    older("DeviceClass", DEVICES[0], DEVICES[1], 34..=34),
    older("ResourceClaim", DEVICES[0], DEVICES[1], 34..=34),
    older("ResourceClaimTemplate", DEVICES[0], DEVICES[1], 34..=34),
    older("ResourceSlice", DEVICES[0], DEVICES[1], 34..=34),
    older("IPAddress", NETWORKING[0], NETWORKING[1], 33..=33),
    older("ServiceCIDR", NETWORKING[0], NETWORKING[1], 33..=33),
    older("VolumeAttributesClass", "storage.k8s.io/v1", "storage.k8s.io/v1beta1", 33..=35),
    older("StorageVersionMigration", "storagemigration.k8s.io/v1", "storagemigration.k8s.io/v1beta1", 37..=37),
];

/// The functions that complete an object of a kind.
struct Defaults {
    group: &'static str,
    api_version: String,
    all: fn(&mut Value),
    newer: Option<fn(&mut Value)>,
    /// The conversion to the version that the server stores, and that version, if it is another one.
    to_stored: Option<(fn(Value) -> Value, String)>,
}

impl StoredKinds {
    /// Collects the kinds of a version.
    #[must_use]
    pub fn new(kubernetes: KubernetesVersion) -> Self {
        let mut kinds: HashMap<_, Vec<_>> = HashMap::new();
        for entry in catalog(kubernetes) {
            let Some(kind) = row(entry) else { continue };
            let api_version = |group: &str, version: &str| match group {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            };
            let newer = gates::defaults(kubernetes, entry.group, entry.kind);
            let to_stored = kind.view.as_ref().map(|view| (view.to_stored, api_version(view.stored.0, view.stored.1)));
            let api_version = api_version(entry.group, entry.version);
            let defaults = Defaults { group: entry.group, api_version, all: kind.default, newer, to_stored };
            kinds.entry(entry.kind).or_default().push(defaults);
        }
        Self { defaults: kinds, minor: kubernetes.minor() }
    }

    /// Returns the body that the server stores for an object in JSON. The fields must be in the order of the Go types,
    /// and those of custom resources in alphabetical order.
    ///
    /// # Errors
    /// If the text is not a JSON object that nests at most 127 deep, or if it is of a built-in kind in a version that the
    /// server cannot convert.
    pub fn body(&self, json: &[u8]) -> Result<Bytes, DamagedBody> {
        let mut object: Value = serde_json::from_slice(json).map_err(|_| DamagedBody("it is not JSON"))?;
        if !object.is_object() {
            return Err(DamagedBody("it is not a JSON object"));
        }
        self.to_served(&mut object);
        let (api_version, kind) = type_of(&object);
        let Some(defaults) = self.of(api_version, kind) else {
            let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
            if self.defaults.get(kind).is_some_and(|versions| versions.iter().any(|known| known.group == group)) {
                return Err(DamagedBody("the server cannot convert its API version"));
            }
            return Ok(Encoded::new(&object, Style::Custom).storage_bytes());
        };
        defaults.complete(&mut object);
        if let Some((to_stored, stored)) = &defaults.to_stored {
            object = to_stored(object);
            object["apiVersion"] = stored.as_str().into();
            if let Some(defaults) = self.of(stored, type_of(&object).1) {
                defaults.complete(&mut object);
            }
        }
        Ok(Encoded::new(&object, Style::BuiltIn).storage_bytes())
    }

    /// Returns the JSON that kube-apiserver stores for a body, if it is one that the server has stored.
    ///
    /// # Errors
    /// If the body is damaged.
    pub fn json(&self, body: Bytes) -> Result<Vec<u8>, DamagedBody> {
        let encoded = Encoded::from_storage(body)?;
        let mut json = Vec::with_capacity(encoded.len_hint());
        encoded.render(Revision(0), &mut json);
        // Parsing all objects because of a few would be slow.
        let head = &json[..json.len().min(HEAD)];
        if self.is_older(head) {
            let mut object = serde_json::from_slice(&json).map_err(|_| DamagedBody("it is not JSON"))?;
            self.to_stored(&mut object);
            json.clear();
            push_json(&object, &mut json);
        }
        Ok(json)
    }

    /// Reports whether an object may be of a kind that is stored in an older version. Its kind and its version are its
    /// first fields.
    fn is_older(&self, head: &[u8]) -> bool {
        let has = |text: &str| head.windows(text.len()).any(|window| window == text.as_bytes());
        let is_definition = has("\"CustomResourceDefinition\"");
        is_definition || OLDER.iter().any(|older| older.minors.contains(&self.minor) && has(older.kind))
    }

    /// Converts an object that kube-apiserver of this or an older version has stored to the version that the server stores.
    fn to_served(&self, object: &mut Value) {
        if has_type(object, v1beta1::V1BETA1, "CustomResourceDefinition") {
            return v1beta1::to_v1(object);
        }
        let is_it =
            |older: &&Older| has_type(object, older.stored, older.kind) && self.of(older.served, older.kind).is_some();
        if let Some(older) = OLDER.iter().find(is_it) {
            object["apiVersion"] = older.served.into();
        }
    }

    fn to_stored(&self, object: &mut Value) {
        if has_type(object, v1beta1::V1, "CustomResourceDefinition") {
            return v1beta1::to_v1beta1(object);
        }
        let of_it = |older: &&Older| older.minors.contains(&self.minor) && has_type(object, older.served, older.kind);
        if let Some(older) = OLDER.iter().find(of_it) {
            object["apiVersion"] = older.stored.into();
        }
    }

    fn of(&self, api_version: &str, kind: &str) -> Option<&Defaults> {
        self.defaults.get(kind)?.iter().find(|defaults| defaults.api_version == api_version)
    }
}

impl Defaults {
    fn complete(&self, object: &mut Value) {
        (self.all)(object);
        if let Some(newer) = self.newer {
            newer(object);
        }
    }
}

/// Returns the API version and the kind of an object.
fn type_of(object: &Value) -> (&str, &str) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    (text("apiVersion"), text("kind"))
}

/// The length of the beginning of an object that has its kind and its version.
const HEAD: usize = 160;

fn has_type(object: &Value, api_version: &str, kind: &str) -> bool {
    object["kind"] == kind && object["apiVersion"] == api_version
}

impl fmt::Debug for StoredKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredKinds").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> StoredKinds {
        StoredKinds::new(KubernetesVersion::V1_36)
    }

    fn text(body: Bytes) -> String {
        let mut json = Vec::new();
        Encoded::from_storage(body).unwrap().render(Revision(0), &mut json);
        String::from_utf8(json).unwrap()
    }

    fn completed(json: &str) -> Result<String, DamagedBody> {
        kinds().body(json.as_bytes()).map(text)
    }

    #[test]
    fn kinds_are_stored_in_the_version_of_kube_apiserver() {
        let stored = |json: &str| {
            let body = kinds().body(json.as_bytes()).unwrap();
            (text(body.clone()), String::from_utf8(kinds().json(body).unwrap()).unwrap())
        };
        let policy = r#"{"kind":"MutatingAdmissionPolicyBinding","apiVersion":"admissionregistration.k8s.io/v1beta1","metadata":{"name":"a"},"spec":{"policyName":"a"}}"#;
        assert_eq!(stored(policy), (policy.replace("/v1beta1", "/v1"), policy.to_owned()));
        let definition = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"a"},"spec":{"group":"a.io","version":"v1","names":{"plural":"as","singular":"a","kind":"A","listKind":"AList"},"scope":"Cluster","versions":[{"name":"v1","served":true,"storage":true}],"conversion":{"strategy":"None"},"preserveUnknownFields":false}}"#;
        let (served, again) = stored(definition);
        assert_eq!(again, definition);
        assert!(served.contains("apiextensions.k8s.io/v1\"") && !served.contains("preserveUnknownFields"), "{served}");
        let older = StoredKinds::new(KubernetesVersion::V1_35);
        let body = older.body(policy.as_bytes()).unwrap();
        assert!(text(body).contains("/v1beta1"), "1.35 has no v1");
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
    fn other_served_versions_are_converted() {
        let json = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"a"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"a"},"maxReplicas":3,"targetCPUUtilizationPercentage":50}}"#;
        let text = completed(json).unwrap();
        assert!(text.contains(r#""apiVersion":"autoscaling/v2""#), "{text}");
        assert!(text.contains(r#""averageUtilization":50"#) && !text.contains("targetCPU"), "{text}");
    }

    #[test]
    fn versions_that_are_not_served_are_errors() {
        let json =
            r#"{"kind":"FlowSchema","apiVersion":"flowcontrol.apiserver.k8s.io/v1beta3","metadata":{"name":"a"}}"#;
        let error = completed(json).unwrap_err().to_string();
        assert_eq!(error, "the stored body is damaged: the server cannot convert its API version");
    }

    #[test]
    fn floats_keep_their_value() {
        let json =
            r#"{"apiVersion":"example.com/v1","kind":"A","metadata":{},"spec":{"x":31.245270191439438,"y":0.1}}"#;
        assert_eq!(completed(json).unwrap(), json);
    }

    #[test]
    fn custom_resource_stays_as_it_is() {
        let json = r#"{"apiVersion":"example.com/v1","kind":"StatefulSet","metadata":{"name":"a"},"spec":{"b":1}}"#;
        assert_eq!(completed(json).unwrap(), json);
        let body = kinds().body(json.as_bytes()).unwrap();
        assert_eq!(Encoded::from_storage(body).unwrap().value(Revision(3))["metadata"]["resourceVersion"], "3");
    }

    #[test]
    fn text_that_is_not_an_object_is_an_error() {
        assert_eq!(completed("[]").unwrap_err().to_string(), "the stored body is damaged: it is not a JSON object");
        assert_eq!(completed("{").unwrap_err().to_string(), "the stored body is damaged: it is not JSON");
        assert!(kinds().json(Bytes::from_static(b"{}")).is_err());
    }
}
