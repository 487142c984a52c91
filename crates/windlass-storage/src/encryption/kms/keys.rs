//! The keys that the plugin has decrypted.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};
use tokio::{sync::oneshot, time::Instant};

use super::{
    error::KmsError,
    key::DataKey,
    messages::DecryptRequest,
    object::{EncryptedObject, SEED},
    service::Service,
};

/// The maximum number of keys, and the time after which one is decrypted again, which is that of kube-apiserver. A server
/// uses one seed for each key id and each of its starts, so there are few.
const MOST: usize = 1000;
const LIFETIME: Duration = Duration::from_hours(24);

/// The time for which a failure is returned without another call. Otherwise each of many values with one key would wait
/// for the timeout of a plugin that hangs.
const FAILED: Duration = Duration::from_secs(1);

/// A hash of all that determines a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CacheKey([u8; 32]);

impl CacheKey {
    pub(super) fn of(object: &EncryptedObject) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(&object.source_type.to_be_bytes());
        add(&object.source);
        add(object.key_id.as_bytes());
        for (name, value) in &object.annotations {
            add(name.as_bytes());
            add(value);
        }
        Self(hash.finalize().into())
    }
}

/// The result of a call, for all that wait for it.
type Call = Shared<BoxFuture<'static, Result<Arc<DataKey>, KmsError>>>;

/// The decrypted keys, and the calls that decrypt others. There is one call at a time for a key, and no lock is held
/// during calls.
#[derive(Clone)]
pub(super) struct DataKeys(Arc<State>);

struct State {
    known: Cache<CacheKey, (Arc<DataKey>, Instant)>,
    calls: Mutex<HashMap<CacheKey, Call>>,
    failures: Cache<CacheKey, (KmsError, Instant)>,
}

impl Default for DataKeys {
    fn default() -> Self {
        Self(Arc::new(State { known: Cache::new(MOST), calls: Mutex::default(), failures: Cache::new(MOST) }))
    }
}

impl DataKeys {
    pub(super) fn get(&self, key: &CacheKey) -> Option<Arc<DataKey>> {
        let (found, expires) = self.0.known.get(key)?;
        if Instant::now() <= expires {
            return Some(found);
        }
        self.0.known.remove(key);
        None
    }

    pub(super) fn insert(&self, key: CacheKey, found: Arc<DataKey>) {
        self.0.known.insert(key, (found, Instant::now() + LIFETIME));
    }

    /// Decrypts the key of an object. The call continues if its callers are dropped, and its result is kept.
    pub(super) fn decrypt(
        &self,
        key: CacheKey,
        name: &Arc<str>,
        service: &Arc<dyn Service>,
        object: EncryptedObject,
    ) -> Call {
        let mut calls = self.0.calls.lock();
        if let Some(call) = calls.get(&key) {
            return call.clone();
        }
        // A call that has ended since then.
        if let Some(found) = self.get(&key) {
            return futures::future::ready(Ok(found)).boxed().shared();
        }
        if let Some((error, until)) = self.0.failures.get(&key)
            && Instant::now() < until
        {
            return futures::future::ready(Err(error)).boxed().shared();
        }
        let (sender, receiver) = oneshot::channel();
        let stopped = KmsError::Decrypt { name: Arc::clone(name), reason: "the runtime has stopped".to_owned() };
        let call = receiver.map(|answer| answer.unwrap_or(Err(stopped))).boxed().shared();
        calls.insert(key, call.clone());
        drop(calls);
        let (keys, name, service) = (self.clone(), Arc::clone(name), Arc::clone(service));
        tokio::spawn(async move {
            let answer = call_plugin(&*service, object).await.map(Arc::new);
            let answer = answer.map_err(|reason| KmsError::Decrypt { name, reason });
            match &answer {
                Ok(found) => keys.insert(key, Arc::clone(found)),
                Err(error) => keys.0.failures.insert(key, (error.clone(), Instant::now() + FAILED)),
            }
            keys.0.calls.lock().remove(&key);
            // No receiver is left if all callers were dropped.
            let _ = sender.send(answer);
        });
        call
    }
}

async fn call_plugin(service: &dyn Service, object: EncryptedObject) -> Result<DataKey, String> {
    let EncryptedObject { source, key_id, annotations, source_type, .. } = object;
    let request = DecryptRequest { ciphertext: source, uid: uid(), key_id, annotations };
    let plain = service.decrypt(request).await?.plaintext;
    if source_type == SEED {
        let short = || format!("invalid seed length {} used for key generation", plain.len());
        DataKey::from_seed(&plain).ok_or_else(short)
    } else {
        DataKey::from_key(&plain).ok_or_else(|| format!("crypto/aes: invalid key size {}", plain.len()))
    }
}

/// Returns a random identifier of a call, for the logs of the plugin.
pub(super) fn uid() -> String {
    use aes_gcm::aead::{OsRng, rand_core::RngCore as _};

    let mut bytes = [0; 16];
    OsRng.fill_bytes(&mut bytes);
    // Version 4, variant 1.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl fmt::Debug for DataKeys {
    /// Shows no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKeys").finish_non_exhaustive()
    }
}
