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
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use parking_lot::RwLock;
use windlass_server::{
    StoredResource,
    storage::{
        Change, CommitError, Committed, EventStream, Expect, Range, RangeQuery, Revision, Storage, StorageError,
        StorageEvent, StoredValue,
    },
};

pub use self::configuration::{EncryptionConfiguration, InvalidEncryption};
use self::{
    configuration::{ANY, GroupResource},
    provider::{Chain, Decrypted},
};

mod configuration;
mod provider;

/// A storage that encrypts its values before they reach another one.
pub struct EncryptedStorage {
    below: Arc<dyn Storage>,
    transform: Arc<Transform>,
}

/// The current configuration, and the resources of keys.
struct Transform {
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
        let built_in = resources.into_iter().filter_map(|StoredResource { prefix, group, plural, .. }| {
            let place = prefix.strip_prefix(REGISTRY)?.trim_end_matches('/').to_owned();
            Some((place, GroupResource::new(&group, &plural)))
        });
        let chains = RwLock::new(Arc::new(configuration.chains()?));
        let transform = Transform {
            chains,
            built_in: built_in.collect(),
            #[cfg(test)]
            everything: None,
        };
        Ok(Self { below, transform: Arc::new(transform) })
    }

    /// Replaces the configuration, for this and all later reads and writes.
    ///
    /// # Errors
    /// If the configuration is invalid. The previous one stays in force.
    pub fn reconfigure(&self, configuration: &EncryptionConfiguration) -> Result<(), InvalidEncryption> {
        *self.transform.chains.write() = Arc::new(configuration.chains()?);
        Ok(())
    }
}

impl Transform {
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

    fn encrypt(&self, key: &str, body: Bytes) -> Bytes {
        self.with(key, |chain| chain.encrypt(key, &body)).unwrap_or(body)
    }

    fn decrypt(&self, value: StoredValue) -> Result<StoredValue, StorageError> {
        let decrypted = self.with(&value.key, |chain| chain.decrypt(&value.key, &value.body));
        match decrypted {
            None => Ok(value),
            Some(Ok(Decrypted { body, is_stale })) => Ok(StoredValue { body, is_stale, ..value }),
            Some(Err(error)) => Err(StorageError::Unreadable { key: value.key.to_string(), source: Box::new(error) }),
        }
    }

    fn decrypt_all(&self, values: Vec<StoredValue>) -> Result<Vec<StoredValue>, StorageError> {
        values.into_iter().map(|value| self.decrypt(value)).collect()
    }

    fn decrypt_some(&self, value: Option<StoredValue>) -> Result<Option<StoredValue>, StorageError> {
        value.map(|value| self.decrypt(value)).transpose()
    }

    fn decrypt_event(&self, event: StorageEvent) -> Result<StorageEvent, StorageError> {
        let current = self.decrypt_some(event.current)?;
        let previous = self.decrypt_some(event.previous)?;
        Ok(StorageEvent { current, previous, ..event })
    }
}

impl Storage for EncryptedStorage {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.below.revision()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        self.below.check()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        async move {
            let (revision, value) = self.below.get(key, at).await?;
            Ok((revision, self.transform.decrypt_some(value)?))
        }
        .boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move {
            let range = self.below.range(query).await?;
            Ok(Range { values: self.transform.decrypt_all(range.values)?, ..range })
        }
        .boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        async move {
            let (change, plain) = match change {
                Change::Put(body) => (Change::Put(self.transform.encrypt(key, body.clone())), Some(body)),
                Change::PutFor(body, lifetime) => {
                    (Change::PutFor(self.transform.encrypt(key, body.clone()), lifetime), Some(body))
                }
                Change::Delete => (Change::Delete, None),
            };
            match self.below.commit(key, expect, change).await {
                Ok(committed) => {
                    let previous = self.transform.decrypt_some(committed.previous)?;
                    let value = committed.value.zip(plain).map(|(value, body)| StoredValue { body, ..value });
                    Ok(Committed { value, previous, ..committed })
                }
                Err(CommitError::Conflict { current }) => {
                    Err(CommitError::Conflict { current: self.transform.decrypt_some(current)? })
                }
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let transform = Arc::clone(&self.transform);
            let events = self.below.watch(prefix, after).await?;
            Ok(events.map(move |event| event.and_then(|event| transform.decrypt_event(event))).boxed())
        }
        .boxed()
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        self.below.compact(upto)
    }
}

impl fmt::Debug for EncryptedStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptedStorage").field("below", &self.below).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
