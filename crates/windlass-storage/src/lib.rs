//! Storage backends for [`windlass_server`] that last longer than its process.
//!
//! The modules, from the entry point down:
//!
//! ```text
//! encryption  values are encrypted in the storage below
//! disk        storage in a directory of this machine
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

pub mod encryption;
mod disk;

pub use self::{
    disk::{DiskStorage, OpenError, Options, Retention, remove, snapshot},
    encryption::{EncryptedStorage, EncryptionConfiguration},
};
