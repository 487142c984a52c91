//! Encryption at rest: a [`Storage`] whose values are encrypted in the storage below it, as kube-apiserver encrypts them.
//!
//! Guaranteed:
//! - Values of the configured resources that are written with the configuration are encrypted. Older values stay as they
//!   are until they are written again. Keys of the storage, with the names of objects, are not encrypted.
//! - Values that kube-apiserver wrote with the same keys can be read, and the reverse.
//! - A value that was encrypted in another way than the current configuration demands is written again by the next
//!   update, even one that changes nothing. So a key is rotated as in kube-apiserver: add the new key in the first
//!   place, and update all objects.
//! - A value that cannot be decrypted is an error that names its key. It is never taken for another value. An encrypted
//!   value of a resource that is not configured is one, too.
//! - A KMS plugin that does not run at the start is no error: it is tried again until it is healthy, and meanwhile reads
//!   and writes of its resources fail. [`EncryptedStorage::check_providers`] reports it.
//!
//! Not guaranteed:
//! - AES-CBC and secretbox do not bind a value to its key, so a person who can write to the storage below can exchange
//!   the values of two objects. AES-GCM and KMS providers do.
//! - A watch delivers its events in order. So an event whose key a slow plugin must decrypt delays the ones after it, for
//!   up to the provider's timeout. This is rare: the plugin decrypts a key once for all values that have it.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt as _, future};
use parking_lot::RwLock;
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};
use windlass_server::{
    StoredResource,
    storage::{Storage, StoredValue},
};

pub use self::configuration::{EncryptionConfiguration, InvalidEncryption};
use self::{
    configuration::{ANY, GroupResource, Providers},
    provider::{Chain, Decrypted, Decryption},
};
use crate::transform::{Decoding, Encrypted, Failure, Transform, TransformedStorage};

mod cipher;
mod configuration;
mod kms;
mod provider;

/// A storage that encrypts its values before they reach another one.
pub type EncryptedStorage = TransformedStorage<Encryption>;

/// The current configuration, and the resources of keys.
pub struct Encryption {
    active: RwLock<Arc<Active>>,
    /// The built-in resources by the prefixes of their keys, without the common part.
    built_in: BTreeMap<String, GroupResource>,
    /// The prefix of the keys in etcd, which ciphers authenticate. `None` for that of the server.
    prefix: Option<Box<str>>,
}

/// A configuration in force, and the tasks that check its KMS providers.
#[derive(Default)]
struct Active {
    providers: Providers,
    _checks: JoinSet<()>,
}

/// The error for KMS providers that cannot be used now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join(", "))]
pub struct UnhealthyProviders(Vec<String>);

/// The error for a configuration that cannot replace another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconfigureError {
    /// The configuration is invalid.
    #[error(transparent)]
    Invalid(#[from] InvalidEncryption),
    /// A KMS provider of the configuration cannot be used now. A later attempt may succeed.
    #[error("health check for new transformers failed: {0}")]
    Unhealthy(#[from] UnhealthyProviders),
}

/// The part that all keys of objects have in common.
const REGISTRY: &str = "/registry/";

/// The minimum time for new KMS providers to become healthy, and the pause between checks, as in kube-apiserver.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

impl EncryptedStorage {
    /// Encrypts the values of `below` as `configuration` demands. `resources` are the built-in resources of the server,
    /// see [`windlass_server::stored_resources`].
    ///
    /// Returns after the first check of the KMS providers, whether it succeeds or not.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub async fn new(
        below: Arc<dyn Storage>,
        configuration: &EncryptionConfiguration,
        resources: impl IntoIterator<Item = StoredResource>,
    ) -> Result<Self, InvalidEncryption> {
        Ok(Self::over(below, Encryption::new(configuration, resources, None).await?))
    }

    /// Like [`Self::new`], for an etcd whose keys have another prefix than `/registry`. AES-GCM and KMS providers
    /// authenticate the keys in etcd, so kube-apiserver can only read the values with the same prefix.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub async fn with_prefix(
        below: Arc<dyn Storage>,
        configuration: &EncryptionConfiguration,
        resources: impl IntoIterator<Item = StoredResource>,
        prefix: &str,
    ) -> Result<Self, InvalidEncryption> {
        Ok(Self::over(below, Encryption::new(configuration, resources, Some(prefix)).await?))
    }

    /// Replaces the configuration, for this and all later reads and writes. Waits until its KMS providers are healthy:
    /// for 10 seconds, or twice the sum of their timeouts.
    ///
    /// # Errors
    /// If the configuration is invalid, or a KMS provider is not healthy. The previous one stays in force.
    pub async fn reconfigure(&self, configuration: &EncryptionConfiguration) -> Result<(), ReconfigureError> {
        let active = Active::start(configuration.providers()?).await;
        let timeouts: Duration = active.providers.kms.iter().map(|kms| kms.timeout()).sum();
        let deadline = Instant::now() + LEAST_PATIENCE.max(2 * timeouts);
        while let Err(unhealthy) = active.check().await {
            if Instant::now() >= deadline {
                return Err(unhealthy.into());
            }
            time::sleep(PAUSE).await;
        }
        *self.transform().active.write() = Arc::new(active);
        Ok(())
    }

    /// Checks that all KMS providers can encrypt new values and decrypt others. Without any, it succeeds. The health check
    /// `kms-providers` of kube-apiserver is the same.
    ///
    /// # Errors
    /// If one of them cannot.
    pub async fn check_providers(&self) -> Result<(), UnhealthyProviders> {
        let active = Arc::clone(&self.transform().active.read());
        active.check().await
    }

    /// Reports whether the configuration has KMS providers.
    #[must_use]
    pub fn has_kms(&self) -> bool {
        !self.transform().active.read().providers.kms.is_empty()
    }
}

impl Active {
    /// Checks the KMS providers, and starts to check them regularly.
    async fn start(providers: Providers) -> Self {
        let first = future::join_all(providers.kms.iter().map(|kms| kms.check())).await;
        let mut checks = JoinSet::new();
        for (kms, first) in providers.kms.iter().zip(first) {
            checks.spawn(Arc::clone(kms).poll(first.is_ok()));
        }
        Self { providers, _checks: checks }
    }

    async fn check(&self) -> Result<(), UnhealthyProviders> {
        let mut unhealthy = Vec::new();
        for (at, kms) in self.providers.kms.iter().enumerate() {
            if let Err(error) = kms.check().await {
                unhealthy.push(format!("kms-provider-{at}: {error}"));
            }
        }
        if unhealthy.is_empty() { Ok(()) } else { Err(UnhealthyProviders(unhealthy)) }
    }
}

impl Encryption {
    async fn new(
        configuration: &EncryptionConfiguration,
        resources: impl IntoIterator<Item = StoredResource>,
        prefix: Option<&str>,
    ) -> Result<Self, InvalidEncryption> {
        let active = Active::start(configuration.providers()?).await;
        Ok(Self::of(active, resources, prefix))
    }

    fn of(active: Active, resources: impl IntoIterator<Item = StoredResource>, prefix: Option<&str>) -> Self {
        let built_in = resources.into_iter().filter_map(|StoredResource { prefix, group, plural, .. }| {
            let place = prefix.strip_prefix(REGISTRY)?.trim_end_matches('/').to_owned();
            Some((place, GroupResource::new(&group, &plural)))
        });
        // As kube-apiserver does, with a slash before it and none after it.
        let prefix = prefix.map(|prefix| prefix.trim_matches('/'));
        let prefix = prefix.map(|prefix| if prefix.is_empty() { "/".to_owned() } else { format!("/{prefix}/") });
        Self {
            active: RwLock::new(Arc::new(active)),
            built_in: built_in.collect(),
            prefix: prefix.filter(|prefix| prefix != REGISTRY).map(String::into_boxed_str),
        }
    }

    /// Returns the resource of a key; `None` if it does not belong to an object.
    fn resource(&self, key: &str) -> Option<GroupResource> {
        let mut parts = key.strip_prefix(REGISTRY)?.split('/');
        let (first, second) = (parts.next()?, parts.next()?);
        let built_in = self.built_in.get(first).or_else(|| self.built_in.get(&format!("{first}/{second}")));
        // The keys of custom resources begin with their group.
        built_in.cloned().or_else(|| first.contains('.').then(|| GroupResource::new(first, second)))
    }

    /// Calls `with` with the providers of a key, if its resource is configured.
    fn with<T>(&self, key: &str, with: impl FnOnce(&Chain) -> T) -> Option<T> {
        let active = Arc::clone(&self.active.read());
        let chains = &active.providers.chains;
        let resource = self.resource(key)?;
        let any = [GroupResource::new(&resource.group, ANY), GroupResource::new(ANY, ANY)];
        let chain = [&resource].into_iter().chain(&any).find_map(|resource| chains.get(resource))?;
        Some(with(chain))
    }

    /// Returns the complete key in etcd, which kube-apiserver authenticates.
    fn place<'a>(&self, key: &'a str) -> Cow<'a, str> {
        match (&self.prefix, key.strip_prefix(REGISTRY)) {
            (Some(prefix), Some(rest)) => Cow::Owned(format!("{prefix}{rest}")),
            _ => Cow::Borrowed(key),
        }
    }
}

impl Transform for Encryption {
    fn encode(&self, key: &str, body: Bytes) -> Result<Bytes, Failure> {
        match self.with(key, |chain| chain.encrypt(&self.place(key), &body)) {
            None => Ok(body),
            Some(encrypted) => Ok(encrypted?),
        }
    }

    fn decode(&self, value: StoredValue) -> Decoding {
        match self.with(&value.key, |chain| chain.decrypt(&self.place(&value.key), &value.body)) {
            // As with kube-apiserver, whose resources have a provider for plain values by default.
            None => Decoding::Done(Encrypted::check(&value.body).map(|()| value).map_err(Failure::from)),
            Some(decryption) => decryption.value_of(value),
        }
    }
}

impl Decryption {
    /// Returns the value with the decrypted body.
    fn value_of(self, value: StoredValue) -> Decoding {
        let with = |value, decrypted: Result<Decrypted, _>| {
            let Decrypted { body, is_stale } = decrypted?;
            Ok(StoredValue { body, is_stale, ..value })
        };
        match self {
            Self::Done(decrypted) => Decoding::Done(with(value, decrypted)),
            Self::Pending(decrypting) => {
                Decoding::Pending(decrypting.map(move |decrypted| with(value, decrypted)).boxed())
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
#[cfg(unix)]
mod tests;
