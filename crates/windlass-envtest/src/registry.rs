//! A list of shared values that are removed by identity.

use std::sync::Arc;

use parking_lot::RwLock;

/// The faults or the recorders of an environment, in the order of their creation.
pub(crate) struct Registry<T>(RwLock<Vec<Arc<T>>>);

impl<T> Registry<T> {
    pub(crate) fn add(&self, value: Arc<T>) {
        self.0.write().push(value);
    }

    pub(crate) fn remove(&self, value: &Arc<T>) {
        self.0.write().retain(|other| !Arc::ptr_eq(other, value));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.read().len()
    }

    /// Returns the first result of `find` that is not `None`.
    pub(crate) fn find_map<R>(&self, find: impl FnMut(&Arc<T>) -> Option<R>) -> Option<R> {
        self.0.read().iter().find_map(find)
    }

    pub(crate) fn for_each(&self, visit: impl FnMut(&Arc<T>)) {
        self.0.read().iter().for_each(visit);
    }
}

// Implemented by hand because a derive would require the same trait of `T`.
impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> std::fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry").field("len", &self.len()).finish()
    }
}
