//! Creating and deleting the pods of an owner, as the controllers of workloads do it: told by events, in batches that grow.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use windlass_api::{ObjectExt, ObjectKey, Resource};
use windlass_cache::Cached;
use windlass_client::Error;
use windlass_runtime::{
    Context,
    events::{Note, Recorder},
};

use crate::expectations::{Expectations, Seen};

/// How many pods the first batch of creations has; each batch that succeeds doubles the next.
const FIRST_BATCH: usize = 1;

/// Writes pods, and remembers what the cache has yet to show of that.
#[derive(Debug)]
pub(crate) struct PodControl {
    expectations: Expectations,
    recorder: Recorder,
}

/// How far a number of writes has come.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Written {
    /// The pods that were written, as the server answered or as they were before it deleted them.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Why it is not all of them. Nothing, when the namespace is going away: no pod is missed in it.
    pub(crate) failure: Option<Error>,
}

impl PodControl {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self { expectations: Expectations::default(), recorder }
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Whether the cache, which has these pods, shows everything that was done for the owner.
    pub(crate) fn caught_up(&self, owner: &ObjectKey, pods: &[Cached<Pod>]) -> bool {
        self.expectations.satisfied(owner, |uid| match pods.iter().find(|pod| *pod.meta().uid() == *uid) {
            None => Seen::Absent,
            Some(pod) if pod.meta().is_deleting() => Seen::Deleting,
            Some(_) => Seen::Alive,
        })
    }

    /// The owner is gone.
    pub(crate) fn forget(&self, owner: &ObjectKey) {
        self.expectations.forget(owner);
    }

    /// Creates in batches of growing size, so that a template that the server refuses is refused once, not a hundred times.
    pub(crate) async fn create<O: Resource>(&self, cx: &Context, owner: &O, pods: Vec<Pod>) -> Written {
        let key = owner.object_ref();
        let mut written = Written::default();
        let (mut rest, mut batch) = (&*pods, FIRST_BATCH);
        while !rest.is_empty() && written.failure.is_none() {
            let (now, later) = rest.split_at(batch.min(rest.len()));
            for outcome in join_all(now.iter().map(|pod| async { cx.client().create(pod).await })).await {
                match outcome {
                    Ok(pod) => {
                        self.expectations.created(key.key(), pod.uid().unwrap_or_default());
                        let message = format!("Created pod: {}", pod.name());
                        self.recorder.record(owner, Note::normal("SuccessfulCreate", message));
                        written.pods.push(Arc::new(pod));
                    }
                    Err(error) if is_leaving(&error) => return written,
                    Err(error) => {
                        let note = Note::warning("FailedCreate", format!("Error creating: {}", words(&error)));
                        self.recorder.record(owner, note);
                        written.failure = Some(error);
                    }
                }
            }
            (rest, batch) = (later, batch * 2);
        }
        written
    }

    /// Deletes all of them at once. One that is gone, or another of its name, counts as deleted.
    pub(crate) async fn delete<O: Resource>(&self, cx: &Context, owner: &O, pods: &[Arc<Pod>]) -> Written {
        let key = owner.object_ref();
        let deletions = pods.iter().map(|pod| async {
            let uid = pod.uid().unwrap_or_default();
            match cx.client().delete::<Pod>(pod.object_ref()).uid(uid).await {
                Ok(_) => {
                    self.expectations.deleted(key.key(), uid);
                    let message = format!("Deleted pod: {}", pod.name());
                    self.recorder.record(owner, Note::normal("SuccessfulDelete", message));
                    Ok(Arc::clone(pod))
                }
                Err(error) if error.is_not_found() || error.is_conflict() => Ok(Arc::clone(pod)),
                Err(error) => {
                    let note = Note::warning("FailedDelete", format!("Error deleting: {}", words(&error)));
                    self.recorder.record(owner, note);
                    Err(error)
                }
            }
        });
        let mut written = Written::default();
        for outcome in join_all(deletions).await {
            match outcome {
                Ok(pod) => written.pods.push(pod),
                Err(error) => written.failure = Some(error),
            }
        }
        written
    }
}

/// Whether the namespace is going away: no pod can be created in it, and none is missed.
pub(crate) fn is_leaving(error: &Error) -> bool {
    error.status().is_some_and(|status| status.has_cause("NamespaceTerminating"))
}

/// The server's own words, if it said any.
pub(crate) fn words(error: &Error) -> String {
    error.status().map_or_else(|| error.to_string(), ToString::to_string)
}
