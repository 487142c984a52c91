//! The stored form of a value: the encrypted key or seed, and the data that it encrypts.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use windlass_api::validation::{dns_label, dns_subdomain};

/// The type of a source that is the key itself.
pub(super) const KEY: i32 = 0;
/// The type of a source from which the key of each value is derived.
pub(super) const SEED: i32 = 1;

/// The longest key id and the longest encrypted source, and the size of all annotations.
const LONGEST_KEY_ID: usize = 1 << 10;
const LONGEST_SOURCE: usize = 1 << 10;
const LARGEST_ANNOTATIONS: usize = 32 << 10;

/// The message `EncryptedObject` of `k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/v2`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct EncryptedObject {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) encrypted_data: Bytes,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    /// The key or the seed, encrypted by the plugin.
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) source: Bytes,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    /// [`KEY`] or [`SEED`].
    #[prost(int32, tag = "5")]
    pub(super) source_type: i32,
}

impl EncryptedObject {
    /// Checks an object that was read. The errors are those of kube-apiserver.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.source_type != KEY && self.source_type != SEED {
            return Err(format!("unknown encryptedDEKSourceType: {}", self.source_type));
        }
        if self.encrypted_data.is_empty() {
            return Err("encrypted data is empty".to_owned());
        }
        self.check_source()
    }

    /// Checks the part that the plugin has returned.
    pub(super) fn check_source(&self) -> Result<(), String> {
        let source = match self.source.len() {
            0 => Err("encrypted DEK source is empty".to_owned()),
            1..=LONGEST_SOURCE => Ok(()),
            size => {
                Err(format!("encrypted DEK source is {size} bytes, which exceeds the max size of {LONGEST_SOURCE}"))
            }
        };
        source.map_err(|error| format!("failed to validate encrypted DEK source: {error}"))?;
        check_key_id(&self.key_id).map_err(|error| format!("failed to validate key id: {error}"))?;
        self.check_annotations().map_err(|error| format!("failed to validate annotations: {error}"))
    }

    fn check_annotations(&self) -> Result<(), String> {
        let mut errors: Vec<String> = self.annotations.keys().filter_map(|name| check_domain(name).err()).collect();
        let size: usize = self.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > LARGEST_ANNOTATIONS {
            let size =
                format!("total size of annotations is {size}, which exceeds the max size of {LARGEST_ANNOTATIONS}");
            errors.push(size);
        }
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }
}

/// Checks a key id, of a value or in the status of a plugin.
pub(super) fn check_key_id(id: &str) -> Result<(), String> {
    match id.len() {
        0 => Err("keyID is empty".to_owned()),
        1..=LONGEST_KEY_ID => Ok(()),
        size => Err(format!("keyID is {size} bytes, which exceeds the max size of {LONGEST_KEY_ID}")),
    }
}

/// Checks the name of an annotation: a domain with at least two labels.
fn check_domain(name: &str) -> Result<(), String> {
    let invalid = |value: &str, why: &str| Err(format!("annotations: Invalid value: {value:?}: {why}"));
    if name.is_empty() {
        return Err("annotations: Required value".to_owned());
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let problems = dns_subdomain(name);
    if !problems.is_empty() {
        return invalid(name, &problems.join(","));
    }
    if !name.contains('.') {
        return invalid(name, "should be a domain with at least two segments separated by dots");
    }
    for label in name.split('.') {
        let problems = dns_label(label);
        if !problems.is_empty() {
            return invalid(label, &problems.join(","));
        }
    }
    Ok(())
}

/// Returns the form of a key id in errors and logs, which may not contain the id itself.
pub(super) fn hash(key_id: &str) -> String {
    if key_id.is_empty() { String::new() } else { format!("sha256:{:x}", Sha256::digest(key_id)) }
}
