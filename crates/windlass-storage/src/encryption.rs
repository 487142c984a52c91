//! Encryption at rest: a [`Storage`] whose values are encrypted in the storage below it, as kube-apiserver encrypts them.
//!
//! Guaranteed:
//! - The values of the configured resources are never written in plain text. Keys of the storage, with the names of
//!   objects, are not encrypted.
//! - Values that kube-apiserver wrote with the same keys can be read, and the reverse.
//! - A value that was encrypted in another way than the current configuration demands is written again by the next
//!   update, even one that changes nothing. So a key is rotated as in kube-apiserver: add the new key in the first
//!   place, and update all objects.
//! - A value that cannot be decrypted is an error that names its key. It is never taken for another value.
//!
//! Not guaranteed:
//! - KMS providers are not supported.
//! - AES-CBC and secretbox do not bind a value to its key, so a person who can write to the storage below can exchange
//!   the values of two objects. AES-GCM does.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use parking_lot::RwLock;
use windlass_server::{
    StoredResource,
    storage::{Storage, StoredValue},
};

pub use self::configuration::{EncryptionConfiguration, InvalidEncryption};
use self::{
    configuration::{ANY, GroupResource},
    provider::{Chain, Decrypted},
};
use crate::transform::{Failure, Transform, TransformedStorage};

mod configuration;
mod provider;

/// A storage that encrypts its values before they reach another one.
pub type EncryptedStorage = TransformedStorage<Encryption>;

/// The current configuration, and the resources of keys.
pub struct Encryption {
    chains: RwLock<Arc<BTreeMap<GroupResource, Chain>>>,
    /// The built-in resources by the prefixes of their keys, without the common part.
    built_in: BTreeMap<String, GroupResource>,
    /// The resource of every key, for tests.
    #[cfg(test)]
    everything: Option<GroupResource>,
}

/// The part that all keys of objects have in common.
const REGISTRY: &str = "/registry/";

impl EncryptedStorage {
    /// Encrypts the values of `below` as `configuration` demands. `resources` are the built-in resources of the server,
    /// see [`windlass_server::stored_resources`].
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(
        below: Arc<dyn Storage>,
        configuration: &EncryptionConfiguration,
        resources: impl IntoIterator<Item = StoredResource>,
    ) -> Result<Self, InvalidEncryption> {
        Ok(Self::over(below, Encryption::new(configuration, resources)?))
    }

    /// Replaces the configuration, for this and all later reads and writes.
    ///
    /// # Errors
    /// If the configuration is invalid. The previous one stays in force.
    pub fn reconfigure(&self, configuration: &EncryptionConfiguration) -> Result<(), InvalidEncryption> {
        *self.transform().chains.write() = Arc::new(configuration.chains()?);
        Ok(())
    }
}

impl Encryption {
    fn new(
        configuration: &EncryptionConfiguration,
        resources: impl IntoIterator<Item = StoredResource>,
    ) -> Result<Self, InvalidEncryption> {
        let built_in = resources.into_iter().filter_map(|StoredResource { prefix, group, plural, .. }| {
            let place = prefix.strip_prefix(REGISTRY)?.trim_end_matches('/').to_owned();
            Some((place, GroupResource::new(&group, &plural)))
        });
        Ok(Self {
            chains: RwLock::new(Arc::new(configuration.chains()?)),
            built_in: built_in.collect(),
            #[cfg(test)]
            everything: None,
        })
    }

    /// Returns the resource of a key; `None` if it does not belong to an object.
    fn resource(&self, key: &str) -> Option<GroupResource> {
        #[cfg(test)]
        if self.everything.is_some() {
            return self.everything.clone();
        }
        let mut parts = key.strip_prefix(REGISTRY)?.split('/');
        let (first, second) = (parts.next()?, parts.next()?);
        let built_in = self.built_in.get(first).or_else(|| self.built_in.get(&format!("{first}/{second}")));
        // The keys of custom resources begin with their group.
        built_in.cloned().or_else(|| first.contains('.').then(|| GroupResource::new(first, second)))
    }

    /// Calls `with` with the providers of a key, if its resource is configured.
    fn with<T>(&self, key: &str, with: impl FnOnce(&Chain) -> T) -> Option<T> {
        let chains = Arc::clone(&self.chains.read());
        let resource = self.resource(key)?;
        let any = [GroupResource::new(&resource.group, ANY), GroupResource::new(ANY, ANY)];
        let chain = [&resource].into_iter().chain(&any).find_map(|resource| chains.get(resource))?;
        Some(with(chain))
    }
}

impl Transform for Encryption {
    fn encode(&self, key: &str, body: Bytes) -> Result<Bytes, Failure> {
        Ok(self.with(key, |chain| chain.encrypt(key, &body)).unwrap_or(body))
    }

    fn decode(&self, value: StoredValue) -> Result<StoredValue, Failure> {
        match self.with(&value.key, |chain| chain.decrypt(&value.key, &value.body)) {
            None => Ok(value),
            Some(decrypted) => {
                let Decrypted { body, is_stale } = decrypted?;
                Ok(StoredValue { body, is_stale, ..value })
            }
        }
    }
}

impl fmt::Debug for Encryption {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
