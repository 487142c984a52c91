//! The receiver of a reflector's changes.

use windlass_api::ObjectKey;

use crate::{cached::Cached, collections::ObjectStore, event_queue::Change};

/// A receiver of a [`Reflector`](super::Reflector)'s changes. Implemented for closures that take a [`Change`].
pub trait Sink<K>: Send + 'static {
    /// Accepts a change. The reflector reads no further until the future is ready.
    fn accept(&mut self, change: Change<K>) -> impl Future<Output = ()> + Send;

    /// Returns the last accepted state of an object, so that a relist does not duplicate unchanged objects in memory.
    fn known(&self, key: &ObjectKey) -> Option<Cached<K>> {
        let _ = key;
        None
    }
}

impl<K: Send + Sync + 'static, F: FnMut(Change<K>) + Send + 'static> Sink<K> for F {
    async fn accept(&mut self, change: Change<K>) {
        self(change);
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
    async fn accept(&mut self, change: Change<K>) {
        match change {
            Change::Added(object) | Change::Updated(object) => self.0.insert(object),
            Change::Deleted(object) => self.0.remove(object.key()),
            Change::Replace { objects, .. } => self.0.replace(objects),
            Change::Resync | Change::Bookmark(_) => {}
        }
    }

    fn known(&self, key: &ObjectKey) -> Option<Cached<K>> {
        self.0.get(key)
    }
}
