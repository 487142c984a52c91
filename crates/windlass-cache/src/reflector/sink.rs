//! The receiver of a reflector's changes.

use windlass_api::ObjectKey;

use crate::{cached::Cached, collections::ObjectStore, event_queue::Delta};

/// A receiver of a [`Reflector`](super::Reflector)'s changes. Implemented for closures that take a [`Delta`].
pub trait Sink<K>: Send + 'static {
    /// Accepts a change. The reflector reads no further until the future is ready.
    fn accept(&mut self, delta: Delta<K>) -> impl Future<Output = ()> + Send;

    /// Returns the last accepted state of an object, so that a relist does not duplicate unchanged objects in memory.
    fn known(&self, key: &ObjectKey) -> Option<Cached<K>> {
        let _ = key;
        None
    }
}

impl<K: Send + Sync + 'static, F: FnMut(Delta<K>) + Send + 'static> Sink<K> for F {
    async fn accept(&mut self, delta: Delta<K>) {
        self(delta);
    }
}

/// A sink that keeps a store equal to the server's state. Ignores resyncs and bookmarks.
#[derive(Debug)]
pub struct Mirror<S>(pub S);

impl<K, S> Sink<K> for Mirror<S>
where
    K: Send + Sync + 'static,
    S: ObjectStore<Cached<K>> + Send + Sync + 'static,
{
    async fn accept(&mut self, delta: Delta<K>) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) => self.0.insert(object),
            Delta::Deleted(deleted) => self.0.remove(deleted.object.key()),
            Delta::ReplacedAll { objects, .. } => self.0.replace(objects),
            Delta::Sync(_) | Delta::SyncAll | Delta::Bookmark(_) => {}
        }
    }

    fn known(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.0.get(key)
    }
}
