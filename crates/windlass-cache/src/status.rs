//! The status of an informer: its content, its memory use, and its activity so far.
//!
//! For metrics, consoles and tests, which read it from time to time; [`CacheMetrics`] reports each event.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use windlass_api::{ApiResource, EventType, ResourceVersion};

use crate::{
    error::{DecodeError, InformerError},
    metrics::CacheMetrics,
};

/// A snapshot of one informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerStatus {
    /// The resource of the objects.
    pub resource: Arc<ApiResource>,
    /// The path of the type that the objects are decoded into.
    pub type_name: &'static str,
    /// The namespace requested from a factory; `None` for all namespaces, or without a factory.
    pub namespace: Option<String>,
    /// The label selector, if one is set.
    pub labels: Option<String>,
    /// The field selector, if one is set.
    pub fields: Option<String>,
    /// The phase of the informer.
    pub phase: InformerPhase,
    /// The number of objects in the store.
    pub objects: usize,
    /// The resource version that the store has reached; empty before the first list.
    pub version: ResourceVersion,
    /// The number of changes queued between the watch and the store.
    pub queued: usize,
    /// The memory use of the objects.
    pub memory: MemoryUse,
    /// The activity since the informer was created.
    pub activity: Activity,
}

/// The phase of an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InformerPhase {
    /// Not started yet.
    New,
    /// Running, without a complete first list.
    Syncing,
    /// Running, with a complete first list, and following the server.
    Synced,
    /// Stopped. The store can still be read.
    Stopped,
}

/// The bytes of the bodies of one informer, including those that only readers still hold. Metadata, keys and indices
/// are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The size of uncompressed bodies.
    pub encoded: usize,
    /// The size of compressed bodies, after compression.
    pub compressed: usize,
    /// The estimated size of decoded objects: six times their encoded size. Not counted with
    /// [`Decoding::Early`](crate::Decoding::Early).
    pub decoded: usize,
    /// The limit of `encoded` plus `decoded`. Beyond it, bodies are compressed.
    pub budget: usize,
}

/// The activity of one informer since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Activity {
    /// The number of complete lists, by LIST or by the initial events of a watch. All but the first are relists.
    pub lists: u64,
    /// The duration of the last list.
    pub last_list: Duration,
    /// The number of opened watches.
    pub watches: u64,
    /// The number of ADDED events.
    pub added: u64,
    /// The number of MODIFIED events.
    pub modified: u64,
    /// The number of DELETED events.
    pub deleted: u64,
    /// The number of errors while following the server, including unreadable objects.
    pub failures: u64,
    /// The number of requested objects that could not be decoded.
    pub decoding_failures: u64,
    /// The number of handler panics.
    pub handler_panics: u64,
}

/// Counts events and forwards them to the user's metrics.
#[derive(Debug)]
pub(crate) struct Tally {
    next: Arc<dyn CacheMetrics>,
    lists: AtomicU64,
    last_list_micros: AtomicU64,
    watches: AtomicU64,
    added: AtomicU64,
    modified: AtomicU64,
    deleted: AtomicU64,
    failures: AtomicU64,
    decoding_failures: AtomicU64,
    handler_panics: AtomicU64,
}

impl Tally {
    pub(crate) fn new(next: Arc<dyn CacheMetrics>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            next,
            lists: zero(),
            last_list_micros: zero(),
            watches: zero(),
            added: zero(),
            modified: zero(),
            deleted: zero(),
            failures: zero(),
            decoding_failures: zero(),
            handler_panics: zero(),
        }
    }

    pub(crate) fn read(&self) -> Activity {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Activity {
            lists: of(&self.lists),
            last_list: Duration::from_micros(of(&self.last_list_micros)),
            watches: of(&self.watches),
            added: of(&self.added),
            modified: of(&self.modified),
            deleted: of(&self.deleted),
            failures: of(&self.failures),
            decoding_failures: of(&self.decoding_failures),
            handler_panics: of(&self.handler_panics),
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl CacheMetrics for Tally {
    fn listed(&self, objects: usize, took: Duration) {
        count(&self.lists);
        self.last_list_micros.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.next.listed(objects, took);
    }

    fn watch_opened(&self) {
        count(&self.watches);
        self.next.watch_opened();
    }

    fn watch_ended(&self, events: u64, after: Duration) {
        self.next.watch_ended(events, after);
    }

    fn event(&self, event_type: EventType) {
        match event_type {
            EventType::Added => count(&self.added),
            EventType::Modified => count(&self.modified),
            EventType::Deleted => count(&self.deleted),
            EventType::Bookmark | EventType::Error => {}
        }
        self.next.event(event_type);
    }

    fn failed(&self, error: &InformerError) {
        count(&self.failures);
        self.next.failed(error);
    }

    fn decoding_failed(&self, error: &DecodeError) {
        count(&self.decoding_failures);
        self.next.decoding_failed(error);
    }

    fn stored(&self, objects: usize) {
        self.next.stored(objects);
    }

    fn handler_panicked(&self) {
        count(&self.handler_panics);
        self.next.handler_panicked();
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use windlass_api::{ListWatch, ObjectKey};

    use super::*;
    use crate::{
        InformerFactory, InformerOptions, Selection,
        testing::{FakeListWatch, soon},
    };

    fn factory(fake: &FakeListWatch, options: InformerOptions) -> InformerFactory {
        let fake = fake.clone();
        InformerFactory::new(move |_, _| Arc::new(fake.clone()) as Arc<dyn ListWatch>, options)
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_follows_the_life_of_its_informer() {
        let fake = FakeListWatch::new();
        let map = |data: &str| json!({"metadata": {"name": "a", "namespace": "n"}, "data": {"k": data}});
        fake.apply(&map("v"));
        let factory = factory(&fake, InformerOptions::default().labels("app=web"));
        let maps = factory.select::<ConfigMap>(Selection::default().within("n"));
        let only = || factory.statuses().pop().unwrap();
        assert_eq!((only().phase, only().objects, only().activity), (InformerPhase::New, 0, Activity::default()));
        factory.start();
        soon(factory.wait_for_sync()).await.unwrap();
        let synced = only();
        assert_eq!((synced.phase, synced.objects, synced.activity.lists), (InformerPhase::Synced, 1, 1));
        assert_eq!(
            (synced.namespace.as_deref(), synced.labels.as_deref(), synced.fields),
            (Some("n"), Some("app=web"), None)
        );
        assert!(synced.type_name.ends_with("::ConfigMap"), "{}", synced.type_name);
        assert_eq!((synced.memory.compressed, synced.memory.decoded, synced.memory.budget), (0, 0, 512 << 20));
        let encoded = synced.memory.encoded;
        assert!(encoded > 50, "{encoded}");
        drop(maps.store().list()[0].get().unwrap());
        assert_eq!(only().memory.decoded, 6 * encoded);

        fake.apply(&map("larger"));
        fake.apply(&json!({"metadata": {"name": "b", "namespace": "n"}, "data": 7}));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let b = ObjectKey::new("b").within("n");
        assert!(maps.store().get(&b.clone().into()).unwrap().get().is_err());
        fake.delete(&b);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let Activity { added, modified, deleted, decoding_failures, watches, .. } = only().activity;
        assert_eq!((modified, deleted, decoding_failures, watches), (1, 1, 1, 1));
        assert!(added >= 1, "existing objects may arrive as events: {added}");
        assert!(only().memory.encoded > encoded && only().memory.decoded == 0, "{:?}", only().memory);
        soon(factory.shutdown()).await;
        assert_eq!(only().phase, InformerPhase::Stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn compressed_objects_count_their_compressed_size() {
        let fake = FakeListWatch::new();
        for number in 0..500 {
            let text = "the same text in each of them ".repeat(8);
            fake.apply(&json!({"metadata": {"name": format!("a{number}"), "namespace": "n"}, "data": {"k": text}}));
        }
        let factory = factory(&fake, InformerOptions::default().budget(0));
        let maps = factory.informer::<ConfigMap>();
        let observer = factory.observer();
        factory.start();
        soon(factory.wait_for_sync()).await.unwrap();
        let MemoryUse { encoded, compressed, .. } = observer()[0].memory;
        let bodies: usize = maps.store().list().iter().map(|map| map.bytes().len()).sum();
        assert_eq!(encoded, 0);
        assert!(compressed > 0 && compressed < bodies / 4, "{compressed} of {bodies}");
        drop((factory, maps));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(observer().is_empty(), "an observer does not keep the factory alive");
    }
}
