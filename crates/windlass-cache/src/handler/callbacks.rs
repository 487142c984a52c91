//! A handler built from up to three closures.

use std::fmt;

use super::{Deleted, Handler, InitialList, Notification};
use crate::cached::Cached;

/// A handler built from one closure for each type of change. Changes without a closure are ignored. Go's
/// `ResourceEventHandlerFuncs`.
///
/// ```
/// # use windlass_api::k8s_openapi::api::core::v1::Pod;
/// # use windlass_cache::SharedInformer;
/// use windlass_cache::Callbacks;
///
/// # fn example(pods: &SharedInformer<Pod>) {
/// let registration = pods.add_handler(
///     Callbacks::new()
///         .on_add(|pod, _initial| println!("{} exists", pod.key()))
///         .on_update(|old, new| println!("{} was {}", new.key(), old.meta().resource_version()))
///         .on_delete(|gone| println!("{} is gone", gone.object.key())),
/// );
/// # drop(registration);
/// # }
/// ```
#[must_use]
pub struct Callbacks<K> {
    add: Option<Box<dyn FnMut(Cached<K>, InitialList) + Send>>,
    update: Option<Box<dyn FnMut(Cached<K>, Cached<K>) + Send>>,
    delete: Option<Box<dyn FnMut(Deleted<K>) + Send>>,
}

impl<K> Callbacks<K> {
    /// Creates a handler without closures.
    pub fn new() -> Self {
        Self { add: None, update: None, delete: None }
    }

    /// Sets the closure for objects that are new to the handler.
    pub fn on_add(mut self, add: impl FnMut(Cached<K>, InitialList) + Send + 'static) -> Self {
        self.add = Some(Box::new(add));
        self
    }

    /// Sets the closure for updates; it receives the old and the new state.
    pub fn on_update(mut self, update: impl FnMut(Cached<K>, Cached<K>) + Send + 'static) -> Self {
        self.update = Some(Box::new(update));
        self
    }

    /// Sets the closure for deleted objects.
    pub fn on_delete(mut self, delete: impl FnMut(Deleted<K>) + Send + 'static) -> Self {
        self.delete = Some(Box::new(delete));
        self
    }
}

impl<K> Default for Callbacks<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: 'static> Handler<K> for Callbacks<K> {
    fn handle(&mut self, notification: Notification<K>) {
        match notification {
            Notification::Added { object, initial } => {
                if let Some(add) = &mut self.add {
                    add(object, initial);
                }
            }
            Notification::Updated { old, new } => {
                if let Some(update) = &mut self.update {
                    update(old, new);
                }
            }
            Notification::Deleted(deleted) => {
                if let Some(delete) = &mut self.delete {
                    delete(deleted);
                }
            }
        }
    }
}

impl<K> fmt::Debug for Callbacks<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}
