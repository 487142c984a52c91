//! The health of a plugin, and the life of its seed.

use std::{sync::Arc, time::Duration};

use aes_gcm::aead::{OsRng, rand_core::RngCore as _};
use tokio::time::{self, Instant};

use super::{
    Kms, Seed,
    error::KmsError,
    key::{DataKey, SIZE},
    keys::{CacheKey, uid},
    messages::{EncryptRequest, EncryptResponse, StatusRequest, StatusResponse},
    object::{EncryptedObject, SEED, check_key_id, hash},
};

/// The intervals of the checks, as in kube-apiserver: while the plugin is healthy, and after a failure.
const HEALTHY: Duration = Duration::from_mins(1);
const UNHEALTHY: Duration = Duration::from_secs(10);

/// The time for which a result is returned again instead of a new check.
const KEEP_HEALTHY: Duration = Duration::from_secs(20);
const KEEP_UNHEALTHY: Duration = Duration::from_secs(3);

/// The time for which a seed encrypts values after the last successful check.
const SEED_LIFETIME: Duration = Duration::from_mins(3);

/// The versions of the API that plugins report.
const VERSIONS: [&str; 2] = ["v2", "v2beta1"];

/// The previous checks.
#[derive(Debug, Default)]
pub(super) struct Probe {
    /// The version that the plugin has reported first.
    version: Option<String>,
    last: Option<(Instant, Result<(), KmsError>)>,
}

impl Kms {
    /// Reads the status of the plugin, and replaces the seed if the key id has changed. Shortly after another check, the
    /// result is that of the other one.
    pub(in super::super) async fn check(&self) -> Result<(), KmsError> {
        let mut probe = self.probe.lock().await;
        if let Some((at, result)) = &probe.last
            && at.elapsed() < if result.is_ok() { KEEP_HEALTHY } else { KEEP_UNHEALTHY }
        {
            return result.clone();
        }
        let result = self.check_now(&mut probe.version).await;
        let result = result.map_err(|reason| KmsError::Unhealthy { name: Arc::clone(&self.name), reason });
        let was_healthy = probe.last.as_ref().map(|(_, result)| result.is_ok());
        match (&result, was_healthy) {
            (Ok(()), Some(false)) => tracing::info!(provider = &*self.name, "the KMS provider is healthy"),
            (Err(error), None | Some(true)) => {
                tracing::warn!(
                    "{error}; until it is healthy, reads and writes of its resources fail if they need the plugin"
                );
            }
            _ => {}
        }
        probe.last = Some((Instant::now(), result.clone()));
        result
    }

    /// Checks the plugin until the task is aborted.
    pub(in super::super) async fn poll(self: Arc<Self>, mut is_healthy: bool) {
        loop {
            time::sleep(if is_healthy { HEALTHY } else { UNHEALTHY }).await;
            is_healthy = self.check().await.is_ok();
        }
    }

    async fn check_now(&self, first_version: &mut Option<String>) -> Result<(), String> {
        let StatusResponse { version, healthz, key_id } = self.service.status(StatusRequest {}).await?;
        let mut errors = Vec::new();
        if healthz != "ok" {
            errors.push(format!("got unexpected healthz status: {healthz}"));
        }
        if VERSIONS.contains(&&*version) {
            let first = first_version.get_or_insert_with(|| version.clone());
            if *first != version {
                errors.push(format!(
                    "KMSv2 API version should not change after the initial status response version {first}, got {version}"
                ));
            }
        } else {
            errors.push(format!("expected KMSv2 API version {}, got {version}", VERSIONS[0]));
        }
        match check_key_id(&key_id) {
            // The seed is replaced even if the plugin is not healthy otherwise.
            Ok(()) => errors.extend(self.update_seed(&key_id).await.err()),
            Err(error) => errors.push(format!("got invalid KMSv2 KeyID hash {:?}: {error}", hash(&key_id))),
        }
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// Extends the life of the seed, or replaces it if the plugin has another key. After a failure, the old seed stays
    /// until it expires.
    async fn update_seed(&self, key_id: &str) -> Result<(), String> {
        // Before the call, so that it is an upper bound.
        let expires = Instant::now() + SEED_LIFETIME;
        let current = self.seed.read().clone();
        if let Some(seed) = current.filter(|seed| seed.object.key_id == key_id) {
            *self.seed.write() = Some(Arc::new(Seed { expires, ..(*seed).clone() }));
            return Ok(());
        }
        let mut plain = [0; SIZE];
        OsRng.fill_bytes(&mut plain);
        let key = Arc::new(DataKey::from_seed(&plain).expect("the size is that of a seed"));
        let request = EncryptRequest { plaintext: plain.to_vec(), uid: uid() };
        let answer = self.service.encrypt(request).await;
        let answer = answer.map_err(|error| format!("failed to encrypt DEK, error: {error}"))?;
        let EncryptResponse { ciphertext, key_id: encrypted_by, annotations } = answer;
        let object = EncryptedObject {
            key_id: encrypted_by,
            source: ciphertext,
            annotations,
            source_type: SEED,
            ..EncryptedObject::default()
        };
        object.check_source()?;
        if object.key_id != key_id {
            return Err(format!(
                "failed to rotate DEK: the response to Encrypt has the key id {}, and the status {}",
                hash(&object.key_id),
                hash(key_id)
            ));
        }
        let cache_key = CacheKey::of(&object);
        // Values of this seed are also read after the next one has replaced it.
        self.keys.insert(cache_key, Arc::clone(&key));
        *self.seed.write() = Some(Arc::new(Seed { key, object: Arc::new(object), cache_key, expires }));
        tracing::debug!(provider = &*self.name, key_id = hash(key_id), "a new seed encrypts values");
        Ok(())
    }
}
