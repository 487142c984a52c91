//! Stores and queues for programs of their own: the parts of an informer, and their relatives.
//!
//! | here | in Go | what it is |
//! |---|---|---|
//! | [`ObjectStore`] | `Store` | what all stores have in common |
//! | [`ThreadSafeMap`] | `ThreadSafeStore`, `Indexer` | objects by key and by index; what an informer keeps its objects in |
//! | [`UndeltaStore`] | `UndeltaStore` | hands on everything it holds after each change |
//! | [`ExpirationCache`] | `ExpirationCache` | objects that are forgotten after a while |
//! | [`MutationCache`] | `MutationCache` | a lister that also shows what the program has just written |
//! | [`InOrder`], [`OneByOne`], [`DeltaFifo`] | `RealFIFO`, `DeltaFIFO` | what stands between reflector and store |
//! | [`Fifo`] | `FIFO` | the newest state of each object, in the order of arrival |
//! | [`Heap`] | `Heap` | the newest state of each object, in the order of a priority; shared, it is an [`ObjectStore`] |
//! | [`Blocking`] | `Queue` | any of these queues, shared: waits for items, can be closed |
//!
//! Stores are shared and lock themselves; no code of the user runs under a lock that readers take. Queues are plain data,
//! and [`Blocking`] does the locking and waiting for all of them.
//!
//! Keys cannot fail: what has no name is refused when it becomes a [`Cached`].

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

/// What has a key, and can be stored by it.
///
/// Every object has one, decoded or cached; other types can be given one.
pub trait Keyed {
    /// For objects, namespace and name.
    type Key: Clone + Debug + Eq + Hash + Ord;

    /// The key; it must not change while the value is stored.
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

/// Objects by key.
///
/// A store can be shared: methods take `&self`, and each is one step for whoever else uses it.
pub trait ObjectStore<T: Keyed> {
    /// Puts an object in the place of the one with its key. Go's `Add` and `Update`.
    fn insert(&self, object: T);

    /// Takes an object out. Does nothing when it is not there.
    fn remove(&self, key: &T::Key);

    /// These objects are there, and no others. Of two with one key the last counts.
    fn replace(&self, objects: Vec<T>);

    /// The object with this key.
    fn get(&self, key: &T::Key) -> Option<T>;

    /// Every object.
    fn list(&self) -> Vec<T>;

    /// The key of every object, in the order of [`Self::list`].
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

    /// Something that is no object of a cluster.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Item(pub(super) &'static str, pub(super) u64);

    impl Keyed for Item {
        type Key = &'static str;

        fn key(&self) -> &'static str {
            self.0
        }
    }
}
