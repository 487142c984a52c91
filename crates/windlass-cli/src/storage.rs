//! The storage of a control plane: in memory, in a directory, or in etcd.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::task::JoinSet;
use windlass_etcd::EtcdStorage;
use windlass_server::{
    KubernetesVersion,
    storage::{MemoryStorage, Retention, Storage},
};
use windlass_storage::{CachedStorage, EncodedStorage, Encoding, EncryptedStorage};

use crate::{
    data_directory::{Data, Secrets},
    encryption::Encryption,
};

/// The place of the objects.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In memory, with the history of this time. The cluster is lost when the process ends.
    Memory { history: Duration },
    /// In a data directory of this process.
    Directory(Data),
    /// In etcd, which other servers may use, too.
    Etcd(Box<Etcd>),
}

/// etcd, and the settings of this process for it.
#[derive(Clone, Debug)]
pub(crate) struct Etcd {
    pub(crate) options: windlass_etcd::Options,
    /// The interval of compaction.
    pub(crate) history: Duration,
    /// The data directory with the secrets. `None`: they end with the process.
    pub(crate) secrets: Option<PathBuf>,
}

/// An open storage.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) secrets: Secrets,
    /// `true` if other servers may use the storage.
    pub(crate) is_shared: bool,
    /// The storage whose KMS providers belong to the health of the server.
    pub(crate) encrypted: Option<Arc<EncryptedStorage>>,
    /// Tasks that end when this is dropped.
    pub(crate) tasks: JoinSet<()>,
}

/// The prefix of all keys of the server, and of those in the snapshot of an etcd.
const REGISTRY: &str = "/registry";

/// The retention of the history in memory: five minutes, in little memory. Watchers on this machine lag little. Events
/// that wait for a watcher do not count, and neither do the objects on later pages of a list.
const HISTORY: Retention =
    Retention { age: Duration::from_mins(5), events: 100_000, bytes: 4 << 20, percent_of_live: 30, pages: 32 << 20 };

impl Place {
    /// Returns the data directory, if there is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Memory { .. } => None,
            Self::Directory(data) => Some(&data.path),
            Self::Etcd(etcd) => etcd.secrets.as_deref(),
        }
    }

    /// Opens the storage and the secrets of a server. `names` are the names in its certificate.
    pub(crate) async fn open(
        self,
        names: Vec<String>,
        kubernetes: KubernetesVersion,
        encryption: Option<&Encryption>,
        new_token: fn() -> String,
    ) -> Result<Opened, Box<dyn Error>> {
        let mut tasks = JoinSet::new();
        let is_shared = matches!(self, Self::Etcd(_));
        let mut checked = None;
        let mut encrypted = async |storage: Arc<dyn Storage>, prefix: &str| {
            let Some(encryption) = encryption else { return Ok(storage) };
            let storage = encryption.over(storage, prefix).await?;
            checked = Some(Arc::clone(&storage)).filter(|storage| encryption.has_check(storage));
            Ok::<_, Box<dyn Error>>(storage as Arc<dyn Storage>)
        };
        let (storage, secrets): (Arc<dyn Storage>, _) = match self {
            Self::Memory { history } => {
                let retention = Retention { age: history, ..HISTORY };
                (encrypted(Arc::new(MemoryStorage::with_retention(retention)), REGISTRY).await?, None)
            }
            Self::Directory(data) => {
                let path = data.path.clone();
                let storage = tokio::task::spawn_blocking(move || data.open()).await?.map_err(unsync)?;
                (Arc::new(EncodedStorage::imported(encrypted(storage, REGISTRY).await?, kubernetes)), Some(path))
            }
            Self::Etcd(etcd) => {
                let Etcd { options, history, secrets } = *etcd;
                let prefix = options.prefix.clone();
                let storage = EtcdStorage::connect(options).await?;
                tasks.spawn(storage.compactor(history).run());
                let below = encrypted(Arc::new(storage), &prefix).await?;
                let cached = CachedStorage::start(below, Encoding::shared(kubernetes), HISTORY).await?;
                (Arc::new(cached), secrets)
            }
        };
        let secrets = match secrets {
            // Only the storage of a directory is locked. Servers with etcd can share a directory.
            Some(path) => {
                let opened = tokio::task::spawn_blocking(move || Secrets::open(&path, names, new_token)).await?;
                opened.map_err(unsync)?
            }
            // A new CA at each start would stay in the shared storage.
            None if is_shared => Secrets { proxy: None, ..Secrets::temporary(names, new_token())? },
            None => Secrets::temporary(names, new_token())?,
        };
        Ok(Opened { storage, secrets, is_shared, encrypted: checked, tasks })
    }
}

fn unsync(error: Box<dyn Error + Send + Sync>) -> Box<dyn Error> {
    error
}
