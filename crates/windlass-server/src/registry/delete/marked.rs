//! Deletion of objects that are marked and removed by the same request: pods that are not assigned to a node.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{Preconditions, Status};

use super::{super::Registry, DeleteParams, Deleted};
use crate::storage::Revision;
use crate::{
    object::Tree,
    resource::{Item, Target},
};

/// The time between the deletion mark and the removal. On the real server a write to etcd takes this time; controllers
/// need it to see the marked object in their cache.
const MARK_VISIBLE: Duration = Duration::from_millis(3);

/// The progress of a deletion.
pub(super) struct Progress {
    /// The client's preconditions. A resourceVersion is replaced by that of the mark.
    pub(super) preconditions: Preconditions,
    /// The revision at which admission accepted the deletion.
    pub(super) admitted: Option<Revision>,
    /// The object after the mark, and before it.
    pub(super) marked: Option<(Item, Value)>,
}

impl Registry {
    /// Removes an object whose deletion has been marked. Watchers get some time to process the mark first.
    ///
    /// The object is removed even if the client disconnects in the meantime.
    pub(super) fn remove_marked(
        self,
        target: Target,
        params: DeleteParams,
        progress: Progress,
    ) -> BoxFuture<'static, Result<Deleted, Status>> {
        // If the object was already marked by an earlier request, watchers need no further time.
        let mark_revision =
            progress.marked.as_ref().filter(|(_, old)| !is_being_deleted(old)).map(|(marked, _)| marked.revision);
        let key = target.key(target.name());
        let Some(revision) = mark_revision.filter(|_| self.is_watched(&key)) else {
            return Box::pin(async move { self.proceed(&target, &params, progress).await });
        };
        let removal = tokio::spawn(async move {
            self.wait_for_delivery(&key, revision).await;
            tokio::time::sleep(MARK_VISIBLE).await;
            self.proceed(&target, &params, progress).await
        });
        Box::pin(async { removal.await.unwrap_or_else(|error| Err(Status::internal(error))) })
    }
}

fn is_being_deleted(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some()
}
