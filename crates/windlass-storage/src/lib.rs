//! Storage backends for [`windlass_server`] that last longer than its process.
//!
//! The modules, from the entry point down:
//!
//! ```text
//! cached         a storage in another process, with a copy of its values in memory
//! encoding       values are encoded as kube-apiserver does
//! encryption     values are encrypted in the storage below
//! transform      the storage of both
//! disk           storage in a directory of this machine
//! etcd_snapshot  the values of a cluster that etcd has saved
//! bolt           the database in such a snapshot
//! ```
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use windlass_server::{Server, storage::Storage};
//! use windlass_storage::DiskStorage;
//!
//! let storage: Arc<dyn Storage> = Arc::new(DiskStorage::open("/var/lib/windlass")?);
//! let server = Server::builder().storage(storage).build();
//! # Ok(())
//! # }
//! ```

mod cached;
mod encoding;
pub mod encryption;
mod transform;
mod disk;
mod etcd_snapshot;
mod bolt;

pub use self::{
    cached::CachedStorage,
    disk::{DiskStorage, OpenError, Options, Retention, import, remove, snapshot},
    encoding::{EncodedStorage, Encoding},
    encryption::{EncryptedStorage, EncryptionConfiguration, ReconfigureError},
    etcd_snapshot::{EtcdSnapshot, EtcdValue, InvalidEtcdSnapshot},
    transform::{Decoding, Failure, Transform, TransformedStorage},
};
