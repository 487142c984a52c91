//! The owners whose cached state was compared with the server since the start of the controller.

use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{ObjectExt, ObjectKey, Resource};
use windlass_runtime::Context;

use crate::error::ReconcileError;

/// Compares each owner with the server once, before the first write for it.
///
/// A controller that starts can see an earlier state than its last instance has acted on: an API server that lags answers a
/// list from the past. Objects of a newer specification then seem to be surplus. Expectations and [`Versions`] do not help,
/// because they are lost with the last instance. Once the cache shows a current state, the watch only moves forward.
///
/// [`Versions`]: crate::versions::Versions
#[derive(Debug)]
pub(crate) struct Confirmed {
    started: Instant,
    /// The UIDs of the confirmed owners.
    uids: Mutex<HashMap<ObjectKey, String>>,
}

impl Default for Confirmed {
    fn default() -> Self {
        Self { started: Instant::now(), uids: Mutex::default() }
    }
}

impl Confirmed {
    /// Fails with [`ReconcileError::StaleCache`] if the server has a newer state of the owner than the cache, or another
    /// object.
    pub(crate) async fn ensure<O: Resource>(&self, cx: &Context, owner: &O) -> Result<(), ReconcileError> {
        let reference = owner.object_ref();
        let is_known = |uid: &String| Some(&**uid) == owner.uid();
        if self.has_seen_creation(cx.clock().now(), owner)
            || self.uids.lock().get(reference.key()).is_some_and(is_known)
        {
            return Ok(());
        }
        let live = cx.live().get_opt::<O>(reference.clone()).await?;
        let is_same = |live: &O| live.uid() == owner.uid() && live.resource_version() == owner.resource_version();
        if live.as_ref().is_some_and(is_same) {
            self.uids.lock().insert(reference.key().clone(), owner.uid().unwrap_or_default().to_owned());
            return Ok(());
        }
        let (kind, namespace) = (O::api_resource().kind, owner.namespace().unwrap_or_default());
        Err(ReconcileError::StaleCache { what: format!("the last change of {kind} {namespace}/{}", owner.name()) })
    }

    /// Drops the state of a deleted owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.uids.lock().remove(owner);
    }

    /// Returns `true` if the owner was created after the start, so that no earlier instance has acted on it.
    fn has_seen_creation<O: Resource>(&self, now: Timestamp, owner: &O) -> bool {
        let age = SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        let started = now.checked_sub(age).unwrap_or(now);
        owner.metadata().creation_timestamp.as_ref().is_some_and(|created| created.0 > started)
    }
}
