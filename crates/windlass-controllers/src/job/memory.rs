//! The controller's writes to a job that its cache does not show yet, and the failures of its pods.

use std::{collections::HashSet, sync::Arc};

use hashbrown::HashMap;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use parking_lot::Mutex;
use windlass_api::{ObjectExt, ObjectKey, ResourceVersion};

use super::{backoff::Failures, spec};

/// The state kept in memory for each unfinished job.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<ObjectKey, JobRecord>>);

#[derive(Debug, Default)]
struct JobRecord {
    /// The job's UID: a recreated job is treated as a different one.
    uid: String,
    /// The resource version of the last status write.
    written: Option<ResourceVersion>,
    /// The UIDs of counted pods whose finalizer was removed.
    released: HashSet<String>,
    failures: Failures,
}

impl Memory {
    /// Reports whether the cache shows the last status write and the removed finalizers. With a stale cache, pods would
    /// be counted twice or not at all.
    pub(super) fn caught_up(&self, key: &ObjectKey, job: &Job, pods: &[Arc<Pod>]) -> bool {
        let mut jobs = self.0.lock();
        let Some(known) = jobs.get_mut(key) else { return true };
        if Some(&*known.uid) != job.uid() {
            jobs.remove(key);
            return true;
        }
        let still_held = |uid: &String| pods.iter().any(|pod| pod.uid() == Some(uid) && spec::is_tracked(pod));
        known.released.retain(still_held);
        let shown = job.metadata.resource_version.as_ref().map(ResourceVersion::new);
        let outdated = known
            .written
            .as_ref()
            .zip(shown)
            .is_some_and(|(written, shown)| shown.compare(written).is_ok_and(std::cmp::Ordering::is_lt));
        !outdated && known.released.is_empty()
    }

    pub(super) fn failures(&self, key: &ObjectKey) -> Failures {
        self.0.lock().get(key).map(|known| known.failures).unwrap_or_default()
    }

    /// Records a status write, with the failures counted in it.
    pub(super) fn wrote(&self, key: &ObjectKey, job: &Job, failures: Failures) {
        self.change(key, job, |known| {
            known.written = job.metadata.resource_version.as_ref().map(ResourceVersion::new);
            known.failures = failures;
        });
    }

    /// Records that a pod was counted and its finalizer removed.
    pub(super) fn released(&self, key: &ObjectKey, job: &Job, pod: &Pod) {
        self.change(key, job, |known| {
            known.released.insert(pod.uid().unwrap_or_default().to_owned());
        });
    }

    /// Drops the state of a finished or deleted job.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    fn change(&self, key: &ObjectKey, job: &Job, change: impl FnOnce(&mut JobRecord)) {
        let mut jobs = self.0.lock();
        let known = jobs.entry_ref(key).or_default();
        job.uid().unwrap_or_default().clone_into(&mut known.uid);
        change(known);
    }
}
