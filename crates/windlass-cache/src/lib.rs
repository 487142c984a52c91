//! Follows the objects of a cluster, holds them in memory, and tells what changes.
//!
//! The stations stand in the order in which an event passes them:
//!
//! | station | module | what it promises |
//! |---|---|---|
//! | reflector | `reflector` | lists, then watches; begins again when it must; never goes back in time |
//! | entry | `ingest`, `cached`, `body` | metadata parsed, body encoded, decoded at most once |
//! | event queue | `event_queue` | in the order of arrival, or another by choice; bounded: the watch waits |
//! | store | `store`, `indexer` | one writer, many readers; objects and indices change together |
//! | handlers | `informer`, `handler` | after the store shows it; in order; none waits for another unless it is to |
//! | readers | `lister`, `factory` | by key, namespace, index, labels; one informer for all who ask for the same |
//! | writers | `progress`, `own_writes` | who has written waits until the store shows it |
//!
//! Start with [`InformerFactory`], or with a [`SharedInformer`] of your own:
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
//! What client-go promises, and which test holds it here, is in [`contracts`]; the parts for programs of their own are in
//! [`stores`].
//!
//! Nothing here knows HTTP: objects come through [`windlass_api::ListWatch`], as bytes. An object stays encoded, without its
//! managedFields, until somebody asks for it as a type; keys, labels, owners and versions can be had without.

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
pub use windlass_api::managed_fields::ManagedFields;

/// Runs a user's code; a panic in it becomes its message.
fn contained<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// The sources of an error, outermost first, for a log line.
fn causes(error: &dyn std::error::Error) -> String {
    sources(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn sources<'e>(error: &'e dyn std::error::Error) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source())
}
