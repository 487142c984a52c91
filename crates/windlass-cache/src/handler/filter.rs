//! A handler that only receives matching objects.

use std::fmt;

use super::{Deleted, DeletedState, Handler, InitialList, Notification};
use crate::cached::Cached;

/// Passes only matching objects to a handler, as if no others existed. An object that starts to match is delivered as
/// added, and one that stops matching as deleted.
///
/// ```
/// # use windlass_api::k8s_openapi::api::core::v1::Pod;
/// # use windlass_cache::SharedInformer;
/// use windlass_cache::{Cached, Filtered, Notification};
///
/// # fn example(pods: &SharedInformer<Pod>) {
/// let ready = |pod: &Cached<Pod>| pod.meta().label("ready") == Some("true");
/// let print = |notification: Notification<Pod>| println!("{notification:?}");
/// let registration = pods.add_handler(Filtered::new(ready, print));
/// # drop(registration);
/// # }
/// ```
pub struct Filtered<F, H> {
    passes: F,
    handler: H,
}

impl<F, H> Filtered<F, H> {
    /// Creates a filter. `passes` is called with each received state and must be deterministic.
    pub const fn new(passes: F, handler: H) -> Self {
        Self { passes, handler }
    }
}

impl<K, F, H> Handler<K> for Filtered<F, H>
where
    F: Fn(&Cached<K>) -> bool + Send + 'static,
    H: Handler<K>,
{
    fn handle(&mut self, notification: Notification<K>) {
        let passed = match notification {
            Notification::Updated { old, new } => match ((self.passes)(&old), (self.passes)(&new)) {
                (true, true) => Some(Notification::Updated { old, new }),
                (false, true) => Some(Notification::Added { object: new, initial: InitialList::No }),
                // The last matching state; it is not the object's final state.
                (true, false) => Some(Notification::Deleted(Deleted { object: old, state: DeletedState::Unknown })),
                (false, false) => None,
            },
            other => (self.passes)(other.object()).then_some(other),
        };
        if let Some(notification) = passed {
            self.handler.handle(notification);
        }
    }
}

impl<F, H> fmt::Debug for Filtered<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").finish_non_exhaustive()
    }
}
