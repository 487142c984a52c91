//! Stores and queues for direct use: the parts of an informer, and related types.
//!
//! | here | in Go | description |
//! |---|---|---|
//! | [`ObjectStore`] | `Store` | the common interface of all stores |
//! | [`ThreadSafeMap`] | `ThreadSafeStore`, `Indexer` | objects by key and by index; the type that stores an informer's objects |
//! | [`UndeltaStore`] | `UndeltaStore` | passes its whole content to a function after each change |
//! | [`ExpirationCache`] | `ExpirationCache` | objects that expire |
//! | [`MutationCache`] | `MutationCache` | a lister that also shows the program's recent writes |
//! | [`InOrder`], [`OneByOne`], [`DeltaFifo`] | `RealFIFO`, `DeltaFIFO` | the queues between reflector and store |
//! | [`Fifo`] | `FIFO` | the newest state of each object, in the order of arrival |
//! | [`Heap`] | `Heap` | the newest state of each object, in the order of a priority; as a shared queue, it is an [`ObjectStore`] |
//! | [`Blocking`] | `Queue` | a shared queue of any of these types: waits for items, can be closed |
//!
//! Stores can be shared and lock internally; user code never runs under a lock that readers take. Queues are plain
//! data, and [`Blocking`] adds locking and waiting.
//!
//! Computing a key cannot fail: an object without a name is rejected when it is converted into a [`Cached`].

mod blocking;
mod expiration;
mod fifo;
mod heap;
mod mutation;
mod thread_safe_map;
mod undelta;

use std::{fmt::Debug, hash::Hash, sync::Arc};

use windlass_api::{Object, ObjectKey};

pub use self::{
    blocking::{Blocking, Closed, Queue},
    expiration::ExpirationCache,
    fifo::Fifo,
    heap::Heap,
    mutation::{MutationCache, Unseen},
    thread_safe_map::ThreadSafeMap,
    undelta::UndeltaStore,
};
use crate::cached::Cached;
pub use crate::event_queue::{DeltaFifo, InOrder, OneByOne};

/// A value with a key under which it can be stored.
///
/// Implemented for all objects, decoded or cached. You can implement it for other types.
pub trait Keyed {
    /// The type of the key. For objects, namespace and name.
    type Key: Clone + Debug + Eq + Hash + Ord;

    /// Returns the key. It must not change while the value is stored.
    fn key(&self) -> Self::Key;
}

impl<K: Object> Keyed for K {
    type Key = ObjectKey;

    fn key(&self) -> ObjectKey {
        let metadata = self.metadata();
        let key = ObjectKey::new(metadata.name.as_deref().unwrap_or_default());
        key.within(metadata.namespace.as_deref().unwrap_or_default())
    }
}

impl<K> Keyed for Cached<K> {
    type Key = ObjectKey;

    fn key(&self) -> ObjectKey {
        Self::key(self).clone()
    }
}

/// A store of objects by key.
///
/// A store can be shared: methods take `&self`, and each is atomic.
pub trait ObjectStore<T: Keyed> {
    /// Stores an object, replacing one with the same key. Go's `Add` and `Update`.
    fn insert(&self, object: T);

    /// Removes an object. Does nothing if it does not exist.
    fn remove(&self, key: &T::Key);

    /// Replaces the whole content. If a key occurs twice, the last object is stored.
    fn replace(&self, objects: Vec<T>);

    /// Returns the object with this key.
    fn get(&self, key: &T::Key) -> Option<T>;

    /// Returns every object.
    fn list(&self) -> Vec<T>;

    /// Returns the key of every object, in the order of [`Self::list`].
    fn keys(&self) -> Vec<T::Key> {
        self.list().iter().map(Keyed::key).collect()
    }
}

impl<T: Keyed, S: ObjectStore<T> + ?Sized> ObjectStore<T> for Arc<S> {
    fn insert(&self, object: T) {
        (**self).insert(object);
    }

    fn remove(&self, key: &T::Key) {
        (**self).remove(key);
    }

    fn replace(&self, objects: Vec<T>) {
        (**self).replace(objects);
    }

    fn get(&self, key: &T::Key) -> Option<T> {
        (**self).get(key)
    }

    fn list(&self) -> Vec<T> {
        (**self).list()
    }

    fn keys(&self) -> Vec<T::Key> {
        (**self).keys()
    }
}

#[cfg(test)]
mod tests {
    use super::Keyed;

    /// A value that is not a Kubernetes object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Item(pub(super) &'static str, pub(super) u64);

    impl Keyed for Item {
        type Key = &'static str;

        fn key(&self) -> &'static str {
            self.0
        }
    }
}
