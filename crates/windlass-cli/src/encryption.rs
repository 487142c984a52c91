//! Encryption at rest: the configuration file of `windlass up`, which may change while the control plane runs.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time;
use windlass_server::{storage::Storage, stored_resources};
use windlass_storage::{EncryptedStorage, EncryptionConfiguration, ReconfigureError};

/// A configuration file.
#[derive(Debug)]
pub(crate) struct Encryption {
    pub(crate) file: PathBuf,
    /// Applies changes of the file without a restart.
    pub(crate) reload: bool,
}

/// The interval at which the file is read again, as in kube-apiserver.
const INTERVAL: Duration = Duration::from_mins(1);

impl Encryption {
    /// Encrypts the values of a storage, whose keys have the prefix `prefix` in etcd. Returns an error if the file cannot
    /// be read or is invalid. A KMS plugin that does not run yet is tried again in the background.
    pub(crate) async fn over(
        &self,
        below: Arc<dyn Storage>,
        prefix: &str,
    ) -> Result<Arc<EncryptedStorage>, Box<dyn Error>> {
        let text = read(&self.file)?;
        let parsed = parse(&self.file, &text)?;
        let storage = EncryptedStorage::with_prefix(below, &parsed, stored_resources(), prefix).await;
        let storage = Arc::new(storage.map_err(|error| format!("{}: {error}", self.file.display()))?);
        if self.reload {
            tokio::spawn(follow(self.file.clone(), text, Arc::downgrade(&storage)));
        }
        Ok(storage)
    }

    /// Reports whether the server has the health check `kms-providers`, as kube-apiserver does: with KMS providers, and if
    /// a later configuration can have them.
    pub(crate) fn has_check(&self, storage: &EncryptedStorage) -> bool {
        self.reload || storage.has_kms()
    }
}

/// Applies changes of the file until the storage is dropped. An invalid file changes nothing.
async fn follow(file: PathBuf, mut last: String, storage: Weak<EncryptedStorage>) {
    loop {
        time::sleep(INTERVAL).await;
        let Some(storage) = storage.upgrade() else { return };
        let changed = read(&file).map(|text| Some(text).filter(|text| *text != last));
        let applied = match changed {
            Ok(Some(text)) => apply(&file, text, &mut last, &storage).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = applied {
            tracing::warn!("the encryption at rest is unchanged: {error}");
        }
    }
}

async fn apply(file: &Path, text: String, last: &mut String, storage: &EncryptedStorage) -> Result<(), String> {
    let changed = match parse(file, &text) {
        Ok(parsed) => storage.reconfigure(&parsed).await,
        Err(error) => {
            // An invalid file is reported once.
            *last = text;
            return Err(error);
        }
    };
    // A KMS plugin that is not healthy yet is tried again.
    if !matches!(changed, Err(ReconfigureError::Unhealthy(_))) {
        *last = text;
    }
    changed.map_err(|error| format!("{}: {error}", file.display()))?;
    tracing::info!(file = %file.display(), "the encryption at rest is changed");
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

fn parse(file: &Path, text: &str) -> Result<EncryptionConfiguration, String> {
    // A snippet of the file could contain keys.
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options(text, options);
    parsed.map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use windlass_server::storage::{Change, Expect, MemoryStorage};

    use super::*;

    const KEY: &str = "/registry/secrets/default/a";

    fn configuration(secret: &str) -> String {
        format!(
            "{{kind: EncryptionConfiguration, apiVersion: apiserver.config.k8s.io/v1, resources: [{{resources: [secrets], \
             providers: [{{secretbox: {{keys: [{{name: {secret}, secret: {}}}]}}}}, {{identity: {{}}}}]}}]}}",
            "A".repeat(43) + "="
        )
    }

    #[tokio::test(start_paused = true)]
    async fn changed_file_is_applied_and_an_invalid_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("encryption.yaml");
        let below: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
        std::fs::write(&file, configuration("one")).unwrap();
        let encryption = Encryption { file: file.clone(), reload: true };
        let storage = encryption.over(Arc::clone(&below), "/registry").await.unwrap();
        let prefix = async |name: &str| {
            storage.commit(&format!("{KEY}-{name}"), Expect::Absent, Change::Put("x".into())).await.unwrap();
            let stored = below.get(&format!("{KEY}-{name}"), None).await.unwrap().1.unwrap();
            String::from_utf8_lossy(&stored.body).split(':').nth(4).unwrap_or_default().to_owned()
        };
        assert_eq!(prefix("first").await, "one");
        std::fs::write(&file, configuration("two")).unwrap();
        time::sleep(2 * INTERVAL).await;
        assert_eq!(prefix("second").await, "two");
        std::fs::write(&file, "resources: [").unwrap();
        time::sleep(2 * INTERVAL).await;
        assert_eq!(prefix("third").await, "two");
    }

    #[tokio::test]
    async fn errors_name_the_file_and_no_key() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("encryption.yaml");
        let error = async |text: Option<&str>| {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let encryption = Encryption { file: file.clone(), reload: false };
            encryption.over(Arc::new(MemoryStorage::default()), "/registry").await.unwrap_err().to_string()
        };
        let shown = file.display().to_string();
        assert!(error(None).await.starts_with(&format!("cannot read {shown}: ")));
        let invalid = error(Some(&configuration("x").replace('A', "SECRET"))).await;
        assert!(invalid.starts_with(&format!("{shown}: resources[0].providers[0].secretbox")), "{invalid}");
        let unknown = error(Some(&configuration("x").replace("secret:", "sekret:"))).await;
        assert!(unknown.starts_with(&shown) && unknown.contains("unknown field"), "{unknown}");
        assert!(!invalid.contains("SECRET") && !unknown.contains("AAA"), "{invalid} {unknown}");
    }
}
