//! Informers: an in-memory cache of a cluster's objects that follows the server and notifies handlers of changes.
//!
//! The modules, in the order in which an event passes them:
//!
//! | stage | module | behavior |
//! |---|---|---|
//! | reflector | `reflector` | lists, then watches; relists if necessary; never goes back to an older version |
//! | entry | `ingest`, `cached`, `body` | metadata parsed, body encoded and decoded on use |
//! | event queue | `event_queue` | in the order of arrival by default; bounded: the watch waits if it is full |
//! | store | `store`, `indexer` | one writer, many readers; objects and indices change together |
//! | handlers | `informer`, `handler` | notified after the store, in order, independently of each other |
//! | readers | `lister`, `factory` | by key, namespace, index, labels; users of the same objects share an informer |
//! | writers | `progress`, `own_writes` | wait until the store shows the program's own writes |
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
//! [`contracts`] lists client-go's contracts and the tests of each. [`stores`] contains the parts of an informer for
//! separate use.
//!
//! This crate does not use HTTP: objects arrive through [`windlass_api::ListWatch`] as bytes. An object stays encoded,
//! without its managedFields, until a caller decodes it. Keys, labels, owners and versions are available without
//! decoding.

pub mod contracts;

mod backoff;
mod reflector;
mod transform;

mod body;
mod budget;
mod cached;
mod compressor;
mod decoding;
mod encode;
mod ingest;
mod interner;
mod memory;
mod packing;
mod scan;

mod event_queue;
mod pipe;

mod indexer;
mod store;
pub mod stores;

mod handler;
mod informer;
mod informers;
mod progress;
mod synced;

mod factory;
mod lister;
mod own_writes;
mod status;

mod error;
mod metrics;
mod options;

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
pub use informers::{Informers, Registrations};
pub use lister::Lister;
pub use metrics::CacheMetrics;
pub use options::{Decoding, InformerOptions, InitialSync, Selectors, Verification};
pub use own_writes::{OwnWrites, Reads, WriteJournal, WriteJournals};
pub use progress::WaitError;
pub use reflector::{Mirror, Reflector, Sink};
pub use status::{Activity, InformerPhase, InformerStatus, MemoryUse};
pub use store::Store;
pub use synced::{HasSynced, Stopped};
pub use transform::Transform;
pub use windlass_api::managed_fields::ManagedFieldsMode;

/// Runs user code and converts a panic into its message.
fn contained<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// Formats the sources of an error for a log line, outermost first.
fn causes(error: &dyn std::error::Error) -> String {
    sources(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn sources<'e>(error: &'e dyn std::error::Error) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source())
}
