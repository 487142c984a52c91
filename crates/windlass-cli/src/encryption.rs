//! Encryption at rest: the configuration file of `windlass up`, which may change while the control plane runs.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time;
use windlass_server::{storage::Storage, stored_resources};
use windlass_storage::{EncryptedStorage, EncryptionConfiguration};

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
    /// Encrypts the values of a storage. Returns an error if the file cannot be read or is invalid.
    pub(crate) fn over(&self, below: Arc<dyn Storage>) -> Result<Arc<dyn Storage>, Box<dyn Error>> {
        let text = read(&self.file)?;
        let storage = EncryptedStorage::new(below, &parse(&self.file, &text)?, stored_resources());
        let storage = Arc::new(storage.map_err(|error| format!("{}: {error}", self.file.display()))?);
        if self.reload {
            tokio::spawn(follow(self.file.clone(), text, Arc::downgrade(&storage)));
        }
        Ok(storage)
    }
}

/// Applies changes of the file until the storage is dropped. An invalid file changes nothing.
async fn follow(file: PathBuf, mut last: String, storage: Weak<EncryptedStorage>) {
    loop {
        time::sleep(INTERVAL).await;
        let Some(storage) = storage.upgrade() else { return };
        let changed = read(&file).map(|text| Some(text).filter(|text| *text != last));
        let applied = changed.and_then(|changed| {
            let Some(text) = changed else { return Ok(()) };
            // An invalid file is reported once, too.
            last.clone_from(&text);
            storage.reconfigure(&parse(&file, &text)?).map_err(|error| format!("{}: {error}", file.display()))?;
            tracing::info!(file = %file.display(), "the encryption at rest is changed");
            Ok(())
        });
        if let Err(error) = applied {
            tracing::warn!("the encryption at rest is unchanged: {error}");
        }
    }
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
        let storage = encryption.over(Arc::clone(&below)).unwrap();
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
        let error = |text: Option<&str>| {
            if let Some(text) = text {
                std::fs::write(&file, text).unwrap();
            }
            let encryption = Encryption { file: file.clone(), reload: false };
            encryption.over(Arc::new(MemoryStorage::default())).unwrap_err().to_string()
        };
        let shown = file.display().to_string();
        assert!(error(None).starts_with(&format!("cannot read {shown}: ")));
        let invalid = error(Some(&configuration("x").replace('A', "SECRET")));
        assert!(invalid.starts_with(&format!("{shown}: resources[0].providers[0].secretbox")), "{invalid}");
        let unknown = error(Some(&configuration("x").replace("secret:", "sekret:")));
        assert!(unknown.starts_with(&shown) && unknown.contains("unknown field"), "{unknown}");
        assert!(!invalid.contains("SECRET") && !unknown.contains("AAA"), "{invalid} {unknown}");
    }
}
