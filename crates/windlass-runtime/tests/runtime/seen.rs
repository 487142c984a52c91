//! A reconciler that records the reconciled objects.

use std::sync::Arc;

use parking_lot::Mutex;
use windlass_api::{Object, ObjectExt};
use windlass_runtime::{Action, Context, Error, Reconciler};

/// The names of the reconciled objects, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn push(&self, name: impl Into<String>) {
        self.0.lock().push(name.into());
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn reconciler<K: Object>(&self) -> impl Reconciler<K> + use<K> {
        let seen = self.clone();
        move |object: Arc<K>, _: Context| {
            let seen = seen.clone();
            async move {
                seen.push(object.name());
                Ok::<_, Error>(Action::await_change())
            }
        }
    }
}
