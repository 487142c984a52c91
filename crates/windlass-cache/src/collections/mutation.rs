//! An overlay of the program's recent writes over an informer's lister.

use std::{cmp::Ordering, fmt, time::Duration};

use indexmap::IndexMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{ObjectKey, ObjectRef};

use crate::{cached::Cached, error::UnknownIndex, indexer::Index, lister::Lister};

/// A lister that also shows the program's own recent writes, until the informer shows the same or a later state.
///
/// Between a write and its event, an informer still shows the old state, and a controller that reads it would write
/// again. Pass the response of each write to [`Self::wrote`]; the overlay then shows it instead of the older state. To
/// wait for the informer instead, use [`SharedInformer::wait_for`](crate::SharedInformer::wait_for).
///
/// By default, writes are retained for 5 minutes and for at most 100 objects: the overlay only has to bridge
/// milliseconds, and is not a cache. Resource versions decide which state is newer.
///
/// # What is not guaranteed
///
/// - With [`Unseen::Shown`], an object that was created and deleted before the informer saw it is shown until its write
///   expires, unless [`Self::deleted`] is called.
///
/// ```
/// # use std::{future::pending, sync::Arc};
/// # use futures::{future::BoxFuture, stream::BoxStream};
/// # use windlass_api::*;
/// # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// # use windlass_cache::{Cached, InformerOptions, SharedInformer};
/// # #[derive(Debug)]
/// # struct Silent; // a server that never responds
/// # type Answer<T> = BoxFuture<'static, Result<BoxStream<'static, Result<T, ListWatchError>>, ListWatchError>>;
/// # impl ListWatch for Silent {
/// #     fn list(&self, _: ListOptions) -> Answer<ListItem> { Box::pin(pending()) }
/// #     fn watch(&self, _: WatchOptions) -> Answer<RawEvent> { Box::pin(pending()) }
/// # }
/// use windlass_cache::collections::{MutationCache, Unseen};
///
/// # let informer = SharedInformer::<ConfigMap>::new(Arc::new(Silent), InformerOptions::default());
/// # let mut answer = ConfigMap::default();
/// # answer.metadata.name = Some("settings".to_owned());
/// # answer.metadata.namespace = Some("default".to_owned());
/// # answer.metadata.resource_version = Some("7".to_owned());
/// let settings = MutationCache::new(informer.store()).unseen(Unseen::Shown);
/// settings.wrote(Cached::of(&answer)?); // the response to a create or an update
/// let newest = settings.get(&ObjectRef::new("settings").within("default"));
/// assert_eq!(newest.expect("written a moment ago").meta().resource_version().as_u64(), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MutationCache<K> {
    lister: Lister<K>,
    ttl: Duration,
    capacity: usize,
    unseen: Unseen,
    /// The written objects, least recently used first.
    written: Mutex<IndexMap<ObjectKey, Written<K>>>,
}

struct Written<K> {
    object: Cached<K>,
    since: Instant,
}

/// The handling of written objects that the informer does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unseen {
    /// The object is hidden, because it may have been deleted.
    #[default]
    Hidden,
    /// The object is shown, because it may have been created just now.
    Shown,
}

impl<K: 'static> MutationCache<K> {
    /// Creates an overlay without writes.
    pub fn new(lister: Lister<K>) -> Self {
        let (ttl, capacity) = (Duration::from_mins(5), 100);
        Self { lister, ttl, capacity, unseen: Unseen::default(), written: Mutex::default() }
    }

    /// Sets how long a write is retained. Defaults to 5 minutes.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { ttl, ..self }
    }

    /// Sets the maximum number of objects. Beyond it, the least recently used are removed. Defaults to 100.
    #[must_use]
    pub fn capacity(self, objects: usize) -> Self {
        Self { capacity: objects, ..self }
    }

    /// Sets the handling of objects that the informer does not have.
    #[must_use]
    pub fn unseen(self, unseen: Unseen) -> Self {
        Self { unseen, ..self }
    }

    /// Records the server's response to a write.
    pub fn wrote(&self, object: Cached<K>) {
        let mut written = self.written.lock();
        let key = object.key().clone();
        written.shift_remove(&key);
        written.insert(key, Written { object, since: Instant::now() });
        let surplus = written.len().saturating_sub(self.capacity);
        written.drain(..surplus);
    }

    /// Discards the writes of a deleted object. Call it from an informer's handler or after a deletion.
    pub fn deleted(&self, key: &ObjectKey) {
        self.written.lock().shift_remove(key);
    }

    /// Returns the newest state that the informer or the program has.
    #[must_use]
    pub fn get(&self, key: &ObjectRef<K>) -> Option<Cached<K>> {
        match (self.lister.get(key), self.unseen) {
            (Some(seen), _) => Some(self.newer(seen)),
            (None, Unseen::Shown) => self.unseen_state(key.key()),
            (None, Unseen::Hidden) => None,
        }
    }

    /// Returns every object with this value in the informer's index, in its newest state. With [`Unseen::Shown`], it
    /// includes written objects that the informer does not have and that have this value in `index`. `index` must be
    /// the informer's own.
    pub fn by_index(&self, index: &Index<K>, value: &str) -> Result<Vec<Cached<K>>, UnknownIndex> {
        let mut found: Vec<_> =
            self.lister.by_index(index.name(), value)?.into_iter().map(|seen| self.newer(seen)).collect();
        if self.unseen == Unseen::Shown {
            let keys: Vec<_> = self.written.lock().keys().cloned().collect();
            let absent = keys.iter().filter(|key| self.lister.get(&ObjectRef::from((*key).clone())).is_none());
            let written: Vec<_> = absent.filter_map(|key| self.unseen_state(key)).collect();
            found.extend(written.into_iter().filter(|object| {
                index.values_of(&object.clone().cast()).is_ok_and(|values| values.iter().any(|known| **known == *value))
            }));
        }
        Ok(found)
    }

    fn newer(&self, seen: Cached<K>) -> Cached<K> {
        let mut written = self.written.lock();
        let Some(own) = self.fresh(&mut written, seen.key()) else { return seen };
        let (own_version, seen_version) = (&own.meta().resource_version(), &seen.meta().resource_version());
        // If the versions cannot be compared, the informer's state is used: it follows the server.
        if own_version.compare(seen_version).is_ok_and(Ordering::is_gt) {
            return own;
        }
        written.shift_remove(seen.key());
        seen
    }

    fn unseen_state(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.fresh(&mut self.written.lock(), key)
    }

    /// Returns the written state unless it has expired, and marks it as most recently used.
    fn fresh(&self, written: &mut IndexMap<ObjectKey, Written<K>>, key: &ObjectKey) -> Option<Cached<K>> {
        let (at, _, own) = written.get_full(key)?;
        if own.since.elapsed() > self.ttl {
            written.shift_remove(key);
            return None;
        }
        let object = own.object.clone();
        written.move_index(at, written.len() - 1);
        Some(object)
    }
}

impl<K> fmt::Debug for MutationCache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutationCache")
            .field("written", &self.written.lock().len())
            .field("lister", &self.lister)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use windlass_api::Resource;

    use super::*;
    use crate::{collections::ThreadSafeMap, testing::cached};

    struct Rig {
        seen: ThreadSafeMap<ConfigMap>,
        cache: MutationCache<ConfigMap>,
    }

    fn rig() -> Rig {
        let seen = ThreadSafeMap::new();
        seen.add_index(by_app()).unwrap();
        let cache = MutationCache::new(Lister::new(seen.reader().clone(), Arc::new(ConfigMap::api_resource())));
        Rig { seen, cache }
    }

    fn by_app() -> Index<ConfigMap> {
        Index::on_meta("app", |meta| meta.label("app").map(str::to_owned))
    }

    fn map(name: &str, version: &str) -> Cached<ConfigMap> {
        let metadata = json!({"name": name, "resourceVersion": version, "labels": {"app": "x"}});
        cached(ConfigMap::api_resource(), &json!({ "metadata": metadata })).unwrap()
    }

    fn version(object: Option<Cached<ConfigMap>>) -> Option<u64> {
        object?.meta().resource_version().as_u64()
    }

    #[tokio::test(start_paused = true)]
    async fn own_write_is_shown_until_the_informer_catches_up() {
        let Rig { seen, cache } = rig();
        seen.insert(map("a", "9"));
        cache.wrote(map("a", "10"));
        assert_eq!(version(cache.get(&"a".into())), Some(10), "versions are compared as numbers");
        assert_eq!(cache.by_index(&by_app(), "x").unwrap()[0].meta().resource_version().as_u64(), Some(10));
        for later in ["10", "11"] {
            seen.insert(map("a", later));
            assert_eq!(version(cache.get(&"a".into())), later.parse().ok());
        }
        assert!(cache.written.lock().is_empty(), "a write is removed when the informer shows it");
    }

    #[tokio::test(start_paused = true)]
    async fn mutations_expire() {
        let Rig { seen, cache } = rig();
        seen.insert(map("a", "1"));
        cache.wrote(map("a", "2"));
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(version(cache.get(&"a".into())), Some(2));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(version(cache.get(&"a".into())), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn least_recently_used_mutation_is_evicted() {
        let Rig { seen, cache } = rig();
        let cache = cache.capacity(2);
        for name in ["a", "b", "c"] {
            seen.insert(map(name, "1"));
        }
        cache.wrote(map("a", "2"));
        cache.wrote(map("b", "2"));
        assert_eq!(version(cache.get(&"a".into())), Some(2));
        cache.wrote(map("c", "2"));
        let versions = ["a", "b", "c"].map(|name| version(cache.get(&name.into())));
        assert_eq!(versions, [Some(2), Some(1), Some(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_missing_in_the_informer_are_optional() {
        let Rig { cache, .. } = rig();
        cache.wrote(map("new", "5"));
        assert!(cache.get(&"new".into()).is_none() && cache.by_index(&by_app(), "x").unwrap().is_empty());
        let cache = cache.unseen(Unseen::Shown).ttl(Duration::from_mins(1));
        assert_eq!(version(cache.get(&"new".into())), Some(5));
        assert_eq!(cache.by_index(&by_app(), "x").unwrap().len(), 1);
        assert_eq!(cache.by_index(&by_app(), "y").unwrap().len(), 0);
        cache.deleted(&ObjectKey::new("new"));
        assert!(cache.get(&"new".into()).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn versions_that_cannot_be_compared_leave_the_informer_s_state() {
        let Rig { seen, cache } = rig();
        seen.insert(map("a", "1"));
        cache.wrote(map("a", "later"));
        assert_eq!(version(cache.get(&"a".into())), Some(1));
    }
}
