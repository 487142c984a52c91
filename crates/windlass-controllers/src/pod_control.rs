//! Creation and deletion of an owner's pods, shared by the workload controllers: with events, and in batches of growing
//! size.

use std::sync::Arc;

use futures::future::join_all;
use hashbrown::HashMap;
use k8s_openapi::api::core::v1::Pod;
use windlass_api::{ObjectExt, ObjectKey, Resource, Uid};
use windlass_cache::Cached;
use windlass_client::Error;
use windlass_runtime::{
    Context,
    events::{Note, Recorder},
};

use crate::expectations::{Expectations, Seen};

/// The size of the first batch of creations. Each batch that succeeds doubles the next.
const FIRST_BATCH: usize = 1;

/// Writes pods, and remembers the writes that the cache does not show yet.
#[derive(Debug)]
pub(crate) struct PodControl {
    expectations: Expectations,
    recorder: Recorder,
}

/// The outcome of a number of writes.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct WriteOutcome {
    /// The written pods: created ones as returned by the server, deleted ones in their last cached state.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// The error that stopped the writes. `None` if the namespace is being deleted: then no pod is missing.
    pub(crate) failure: Option<Error>,
}

impl PodControl {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self { expectations: Expectations::default(), recorder }
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Reports whether these cached pods reflect all writes for the owner.
    pub(crate) fn caught_up<O: Resource>(&self, key: &ObjectKey, owner: &O, pods: &[Cached<Pod>]) -> bool {
        if self.expectations.are_empty(key) {
            return true;
        }
        let known: HashMap<_, _> = pods.iter().map(|pod| (pod.meta().uid(), pod.meta().is_deleting())).collect();
        self.expectations.satisfied(key, owner.uid().unwrap_or_default(), |uid| match known.get(&Uid::new(uid)) {
            None => Seen::Absent,
            Some(true) => Seen::Deleting,
            Some(false) => Seen::Alive,
        })
    }

    /// Drops the state of a deleted owner.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
    }

    /// Creates pods in batches of growing size, so that an invalid template is rejected once, not a hundred times.
    pub(crate) async fn create<O: Resource>(&self, cx: &Context, owner: &O, pods: Vec<Pod>) -> WriteOutcome {
        let (key, of) = (owner.object_ref(), owner.uid().unwrap_or_default());
        let mut written = WriteOutcome::default();
        let (mut rest, mut batch) = (&*pods, FIRST_BATCH);
        while !rest.is_empty() && written.failure.is_none() {
            let (now, later) = rest.split_at(batch.min(rest.len()));
            for outcome in join_all(now.iter().map(|pod| async { cx.client().create(pod).await })).await {
                match outcome {
                    Ok(pod) => {
                        self.expectations.created(key.key(), of, pod.uid().unwrap_or_default());
                        let message = format!("Created pod: {}", pod.name());
                        self.recorder.record(owner, Note::normal("SuccessfulCreate", message));
                        written.pods.push(Arc::new(pod));
                    }
                    Err(error) if is_namespace_terminating(&error) => return written,
                    Err(error) => {
                        let note = Note::warning("FailedCreate", format!("Error creating: {}", server_message(&error)));
                        self.recorder.record(owner, note);
                        written.failure = Some(error);
                    }
                }
            }
            (rest, batch) = (later, batch * 2);
        }
        written
    }

    /// Deletes all pods at once. A pod that is gone or was recreated counts as deleted.
    pub(crate) async fn delete<O: Resource>(&self, cx: &Context, owner: &O, pods: &[Arc<Pod>]) -> WriteOutcome {
        let (key, of) = (owner.object_ref(), owner.uid().unwrap_or_default());
        let deletions = pods.iter().map(|pod| async {
            let uid = pod.uid().unwrap_or_default();
            match cx.client().delete::<Pod>(pod.object_ref()).uid(uid).await {
                Ok(_) => {
                    self.expectations.deleted(key.key(), of, uid);
                    let message = format!("Deleted pod: {}", pod.name());
                    self.recorder.record(owner, Note::normal("SuccessfulDelete", message));
                    Ok(Arc::clone(pod))
                }
                Err(error) if error.is_not_found() || error.is_conflict() => Ok(Arc::clone(pod)),
                Err(error) => {
                    let note = Note::warning("FailedDelete", format!("Error deleting: {}", server_message(&error)));
                    self.recorder.record(owner, note);
                    Err(error)
                }
            }
        });
        let mut written = WriteOutcome::default();
        for outcome in join_all(deletions).await {
            match outcome {
                Ok(pod) => written.pods.push(pod),
                Err(error) => written.failure = Some(error),
            }
        }
        written
    }
}

/// Returns `true` if a creation failed because the namespace is being deleted.
pub(crate) fn is_namespace_terminating(error: &Error) -> bool {
    error.status().is_some_and(|status| status.has_cause("NamespaceTerminating"))
}

/// Returns the server's message, if the error has one.
pub(crate) fn server_message(error: &Error) -> String {
    error.status().map_or_else(|| error.to_string(), ToString::to_string)
}
