//! KMS v2: a plugin encrypts the keys of the values, and never sees the values.
//!
//! Values are encrypted with keys that are derived from a seed, a new one for each value. The plugin encrypts the seed,
//! and each value contains the encrypted seed. So the plugin is called for a new seed and for each seed that is read the
//! first time, but not for each value.
//!
//! As in kube-apiserver:
//! - The status of the plugin is read every minute, and every 10 seconds after a failure. A new key id in it replaces the
//!   seed.
//! - After a failure, the seed encrypts values for up to 3 minutes since the last success. Then writes fail until the
//!   plugin is healthy.
//! - Before the first success, reads and writes fail. After it, values whose seeds are known are always read.

use std::{fmt, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use prost::Message as _;
use tokio::time::Instant;

pub(super) use self::{endpoint::Endpoint, error::KmsError};
use self::{
    key::DataKey,
    keys::{CacheKey, DataKeys},
    object::EncryptedObject,
    plugin::Plugin,
    probe::Probe,
    service::Service,
};
use super::provider::{Decrypted, Decryption};

mod endpoint;
mod error;
mod key;
mod keys;
mod messages;
mod object;
mod plugin;
mod probe;
mod service;

/// A provider: a plugin, and the current seed.
pub(super) struct Kms {
    name: Arc<str>,
    prefix: String,
    service: Arc<dyn Service>,
    seed: RwLock<Option<Arc<Seed>>>,
    keys: DataKeys,
    /// Held during a health check. Reads and writes do not need it.
    probe: tokio::sync::Mutex<Probe>,
}

/// The seed that encrypts values.
#[derive(Clone)]
struct Seed {
    key: Arc<DataKey>,
    /// The object of a value, without its data.
    object: Arc<EncryptedObject>,
    cache_key: CacheKey,
    /// The time until which it may encrypt values.
    expires: Instant,
}

impl Kms {
    pub(super) fn new(name: &str, endpoint: Endpoint, timeout: Duration) -> Self {
        Self::over(name, Arc::new(Plugin::new(endpoint, timeout)))
    }

    fn over(name: &str, service: Arc<dyn Service>) -> Self {
        Self {
            name: name.into(),
            prefix: format!("k8s:enc:kms:v2:{name}:"),
            service,
            seed: RwLock::default(),
            keys: DataKeys::default(),
            probe: tokio::sync::Mutex::default(),
        }
    }

    /// The prefix of the values.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The time for a call.
    pub(super) fn timeout(&self) -> Duration {
        self.service.timeout()
    }

    fn seed(&self) -> Result<Arc<Seed>, KmsError> {
        self.seed.read().clone().ok_or_else(|| KmsError::NoSeed { name: Arc::clone(&self.name) })
    }

    /// Encrypts a value, without a call. `place` is its key in the storage.
    pub(super) fn encrypt(&self, place: &str, body: &[u8]) -> Result<Bytes, KmsError> {
        let seed = self.seed()?;
        let now = Instant::now();
        if now > seed.expires {
            return Err(KmsError::Expired {
                name: Arc::clone(&self.name),
                key_id: object::hash(&seed.object.key_id),
                elapsed: Duration::from_secs((now - seed.expires).as_secs()),
            });
        }
        let object = EncryptedObject { encrypted_data: seed.key.seal(place, body).into(), ..(*seed.object).clone() };
        let mut output = BytesMut::with_capacity(self.prefix.len() + object.encoded_len());
        output.extend_from_slice(self.prefix.as_bytes());
        // Encoding only fails without space, and `BytesMut` grows.
        let _ = object.encode(&mut output);
        Ok(output.freeze())
    }

    /// Decrypts a value without its prefix.
    pub(super) fn decrypt(&self, place: &str, data: Bytes) -> Decryption<KmsError> {
        let found = self.find(data);
        let (object, is_stale, cache_key, key) = match found {
            Ok(found) => found,
            Err(error) => return Decryption::Done(Err(error)),
        };
        let name = Arc::clone(&self.name);
        let open = move |key: &DataKey, place: &str| {
            let opened = key.open(place, &object.encrypted_data);
            let body = opened.map_err(|reason| KmsError::Value { name, reason })?;
            Ok(Decrypted { body: body.into(), is_stale })
        };
        match key {
            Known::Key(key) => Decryption::Done(open(&key, place)),
            Known::Encrypted(encrypted) => {
                let decrypting = self.keys.decrypt(cache_key, &self.name, &self.service, encrypted);
                let place = place.to_owned();
                Decryption::Pending(Box::pin(async move { open(&*decrypting.await?, &place) }))
            }
        }
    }

    /// Returns the object of a value, whether it should be written again, and its key, if that is known.
    fn find(&self, data: Bytes) -> Result<(EncryptedObject, bool, CacheKey, Known), KmsError> {
        let invalid = |reason| KmsError::Object { name: Arc::clone(&self.name), reason };
        let object = EncryptedObject::decode(data).map_err(|error| invalid(error.to_string()))?;
        object.check().map_err(invalid)?;
        // An expired seed is no obstacle for reads.
        let seed = self.seed()?;
        let is_stale = object.key_id != seed.object.key_id || object.source_type != seed.object.source_type;
        let cache_key = CacheKey::of(&object);
        let key = if cache_key == seed.cache_key { Some(Arc::clone(&seed.key)) } else { self.keys.get(&cache_key) };
        let key = key.map_or_else(|| Known::Encrypted(object.clone()), Known::Key);
        Ok((object, is_stale, cache_key, key))
    }
}

/// The key of a value.
enum Known {
    Key(Arc<DataKey>),
    /// The plugin has to decrypt the key of this object.
    Encrypted(EncryptedObject),
}

impl fmt::Debug for Kms {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kms").field("name", &self.name).field("service", &self.service).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(unix)]
pub(super) mod tests;
