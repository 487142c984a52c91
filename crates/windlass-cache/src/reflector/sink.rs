//! Where a reflector puts what it learns.

use windlass_api::ObjectKey;

use crate::{cached::Cached, event_queue::Change, stores::ObjectStore};

/// Where a [`Reflector`](super::Reflector) puts what it learns. A closure over [`Change`] is one.
pub trait Sink<K>: Send + 'static {
    /// Takes a change; the reflector reads no further until this is ready.
    fn accept(&mut self, change: Change<K>) -> impl Future<Output = ()> + Send;

    /// The state that was accepted last for an object, so that a list need not hold twice what did not change.
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

/// Keeps a store equal to what the server has. Resyncs and bookmarks are nothing to it.
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
