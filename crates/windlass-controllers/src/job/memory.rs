//! What the controller has done to a job that its cache does not show yet, and when its pods failed.

use std::{collections::HashSet, sync::Arc};

use hashbrown::HashMap;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use parking_lot::Mutex;
use windlass_api::{ObjectExt, ObjectKey, ResourceVersion};

use super::{backoff::Failures, wish};

/// What is remembered of each job that is not over.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<ObjectKey, Remembered>>);

#[derive(Debug, Default)]
struct Remembered {
    /// Of the job: another of its name is another.
    uid: String,
    /// What the job's status was last written at.
    written: Option<ResourceVersion>,
    /// Pods that have been counted, and let go.
    released: HashSet<String>,
    failures: Failures,
}

impl Memory {
    /// Whether the cache shows the status that was written, and that the pods were let go. Who counts before that counts
    /// pods twice, or not at all.
    pub(super) fn caught_up(&self, key: &ObjectKey, job: &Job, pods: &[Arc<Pod>]) -> bool {
        let mut jobs = self.0.lock();
        let Some(known) = jobs.get_mut(key) else { return true };
        if Some(&*known.uid) != job.uid() {
            jobs.remove(key);
            return true;
        }
        let still_held = |uid: &String| pods.iter().any(|pod| pod.uid() == Some(uid) && wish::is_tracked(pod));
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

    /// The status has been written, with these failures counted.
    pub(super) fn wrote(&self, key: &ObjectKey, job: &Job, failures: Failures) {
        self.change(key, job, |known| {
            known.written = job.metadata.resource_version.as_ref().map(ResourceVersion::new);
            known.failures = failures;
        });
    }

    /// A pod has been counted, and let go.
    pub(super) fn released(&self, key: &ObjectKey, job: &Job, pod: &Pod) {
        self.change(key, job, |known| {
            known.released.insert(pod.uid().unwrap_or_default().to_owned());
        });
    }

    /// The job is over, or gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    fn change(&self, key: &ObjectKey, job: &Job, change: impl FnOnce(&mut Remembered)) {
        let mut jobs = self.0.lock();
        let known = jobs.entry_ref(key).or_default();
        job.uid().unwrap_or_default().clone_into(&mut known.uid);
        change(known);
    }
}
