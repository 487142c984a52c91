//! Informers: an in-memory cache of a cluster's objects that follows the server and notifies handlers of changes.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! testing          a fake server, for tests
//! contracts        client-go's contracts and their tests
//! factory          shares one informer between all users of the same objects
//! own_writes       a lister that always shows the program's own writes
//! informer_set     several informers of one resource, used like one
//! informer         runs a reflector, updates the store, and notifies handlers in order
//! pipe             the event queue between reflector and informer; the watch waits if it is full
//! reflector        lists, then watches; relists if necessary; never goes back to an older version
//! collections      further stores and queues, for direct use
//! event_queue      changes in the order of arrival by default
//! handler          notifications, event handlers and their registrations
//! progress         waits until the store has reached a required state
//! journal_reader   the program's own writes that an informer does not show yet
//! lister           reads by key, namespace, index and labels
//! store            one writer, many readers; objects and indices change together
//! indexer          the table of objects and its indices
//! encode           cache entries of objects that did not come from an informer
//! ingest           the bytes of an event or list item become a cache entry
//! interner         shares equal strings between entries
//! compressor       selects the bodies to compress (feature `compression`)
//! cached           a cached object: parsed metadata, and a body that is decoded on use
//! scan             finds metadata and values in JSON without decoding it
//! memory           the memory budget of an informer; selects the objects that stay decoded
//! body             an encoded body and its decoded form
//! decoding         decodes JSON into user types; names the field that fails
//! packing          compression with trained dictionaries (feature `compression`)
//! options          the options of an informer
//! write_journal    the recorded writes of a program
//! transform        changes objects before they are stored
//! backoff          the delays between attempts
//! budget           the default memory budget
//! status           the content, memory use and activity of an informer
//! metrics          the metrics of an informer
//! error            the errors
//! synced           waits until the first list is complete
//! scratch          buffers of threads
//! panics           catches panics of user code
//! ```
//!
//! An event passes `reflector`, `ingest`, `pipe` and `store`; then `informer` notifies the handlers. At each boundary it
//! has one type:
//!
//! | from → to | type | content | contracts |
//! |---|---|---|---|
//! | server → reflector | [`RawEvent`](windlass_api::RawEvent) | an [`EventType`](windlass_api::EventType) and bytes | C-1 |
//! | reflector → queue → store | [`Delta`] | one object, all objects, a resync or a bookmark | C-2, C-3 |
//! | store → handlers | [`Notification`] | one object: its new state, its old one, or a deletion | C-4 |
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

#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod contracts;
mod factory;
mod own_writes;
mod informer_set;
mod informer;
mod pipe;
mod reflector;
pub mod collections;
mod event_queue;
mod handler;
mod progress;
mod journal_reader;
mod lister;
mod store;
mod indexer;
mod encode;
mod ingest;
mod interner;
#[cfg(feature = "compression")]
mod compressor;
#[cfg(not(feature = "compression"))]
#[path = "no_compressor.rs"]
mod compressor;
mod cached;
mod scan;
mod memory;
mod body;
mod decoding;
#[cfg(feature = "compression")]
mod packing;
#[cfg(not(feature = "compression"))]
#[path = "no_packing.rs"]
mod packing;
mod options;
mod write_journal;
mod transform;
mod backoff;
mod budget;
mod status;
mod metrics;
mod error;
mod synced;
mod scratch;
mod panics;

pub use cached::Cached;
pub use error::{AddIndexError, DecodeError, InformerError, UnknownIndex, UnreadableObject};
pub use event_queue::{Delta, EventQueue, InOrder, Order};
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
pub use windlass_api::managed_fields::ManagedFieldsMode;
pub use write_journal::{WriteJournal, WriteJournals};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
