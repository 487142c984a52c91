//! Informers: an in-memory cache of a cluster's objects that follows the server and notifies handlers of changes.
//!
//! The modules, each of which uses only the ones above it:
//!
//! | stage | module | behavior |
//! |---|---|---|
//! | errors | `error`, `panics`, `synced` | errors, panics of user code, and the signal that the first list is complete |
//! | settings | `backoff`, `budget`, `transform`, `metrics`, `status` | the parts of the options, and the data that an informer reports |
//! | | `write_journal`, `options` | the program's recorded writes; the options of an informer |
//! | entry | `packing`, `decoding`, `body` | an encoded body: compressed, and decoded on use |
//! | | `memory`, `cached`, `compressor` | an object with parsed metadata; the memory budget of an informer |
//! | | `scan`, `interner`, `ingest`, `encode` | bytes become entries |
//! | store | `indexer`, `store`, `lister` | one writer, many readers; objects and indices change together |
//! | event queue | `handler`, `event_queue`, `collections` | in the order of arrival by default; further queues and stores |
//! | reflector | `reflector`, `pipe` | lists, then watches; relists if necessary; the watch waits if the queue is full |
//! | own writes | `journal_reader`, `progress` | wait until the store shows the program's own writes |
//! | informer | `informer`, `informer_set`, `own_writes`, `factory` | notifies handlers after the store, in order; users of the same objects share an informer |
//!
//! Start with [`InformerFactory`] or a single [`SharedInformer`]:
//!
//! ```
//! # use std::sync::Arc;
//! # use k8s_openapi::api::core::v1::Pod;
//! # use windlass_api::{ListWatch, ObjectRef};
//! use windlass_cache::{Index, InformerOptions, Notification, SharedInformer};
//!
//! # async fn example(list_watch: Arc<dyn ListWatch>, shutdown: impl Future<Output = ()> + Send) -> Result<(), Box<dyn std::error::Error>> {
//! let pods = SharedInformer::<Pod>::new(list_watch, InformerOptions::default().labels("app=web"));
//! pods.add_index(Index::on_meta("owner", |meta| meta.controller().map(|owner| owner.uid.clone()))).await?;
//! pods.add_handler(|notification: Notification<Pod>| println!("{} changed", notification.key())).has_synced();
//!
//! let reader = pods.clone();
//! let follow = pods.run(shutdown);
//! let read = async {
//!     reader.has_synced().await?;
//!     let lister = reader.store();
//!     let blog = lister.get(&ObjectRef::new("blog").within("default"));
//!     let owned = lister.by_index("owner", "6f1c…")?;
//!     if let Some(pod) = blog {
//!         println!("{:?} {:?}", pod.meta().labels(), pod.get()?.status); // `get` decodes, `meta` does not
//!     }
//!     # drop(owned);
//!     Ok::<_, Box<dyn std::error::Error>>(())
//! };
//! # futures::future::join(follow, read).await.1
//! # }
//! ```
//!
//! [`contracts`] lists client-go's contracts and the tests of each. [`collections`] contains the parts of an informer for
//! separate use.
//!
//! This crate does not use HTTP: objects arrive through [`windlass_api::ListWatch`] as bytes. An object stays encoded,
//! without its managedFields, until a caller decodes it. Keys, labels, owners and versions are available without
//! decoding.

pub mod contracts;

mod error;
mod panics;
mod synced;

mod backoff;
mod budget;
mod metrics;
mod options;
mod status;
mod transform;
mod write_journal;

mod body;
mod decoding;
mod packing;

mod cached;
mod compressor;
mod memory;

mod encode;
mod ingest;
mod interner;
mod scan;

mod indexer;
mod lister;
mod store;

pub mod collections;
mod event_queue;
mod handler;

mod pipe;
mod reflector;

mod journal_reader;
mod progress;

mod factory;
mod informer;
mod informer_set;
mod own_writes;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use cached::Cached;
pub use error::{AddIndexError, DecodeError, InformerError, UnknownIndex, UnreadableObject};
pub use event_queue::{Change, Delta, EventQueue, InOrder, Order};
pub use factory::{InformerFactory, Selection};
pub use handler::{
    Callbacks, Deleted, DeletedState, Events, Filtered, Handler, HandlerOptions, InitialList, Notification,
    Registration,
};
pub use indexer::Index;
pub use informer::SharedInformer;
pub use informer_set::{InformerSet, Registrations};
pub use journal_reader::Reads;
pub use lister::Lister;
pub use metrics::CacheMetrics;
pub use options::{Decoding, InformerOptions, InitialSync, Selectors, Verification};
pub use own_writes::OwnWrites;
pub use progress::WaitError;
pub use reflector::{Mirror, Reflector, Sink};
pub use status::{Activity, InformerPhase, InformerStatus, MemoryUse};
pub use store::Store;
pub use synced::{HasSynced, Stopped};
pub use transform::Transform;
pub use windlass_api::managed_fields::ManagedFields;
pub use write_journal::{WriteJournal, WriteJournals};
