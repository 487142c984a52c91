//! Objects that are marked as being deleted and removed by the same request: pods that run nowhere.

use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{Preconditions, Status};

use super::{
    super::{Item, Registry, Target, Tree},
    DeleteParams, Deleted,
};
use crate::storage::Revision;

/// How long an object that goes at once is seen by watchers as being deleted. On the real server a write to etcd lies between the
/// two events; a controller that has to see the first one in its cache needs that time.
const MARK_VISIBLE: Duration = Duration::from_millis(3);

/// How far a deletion has got.
pub(super) struct Progress {
    /// With the version that the mark made, if the client named one.
    pub(super) preconditions: Preconditions,
    /// The revision at which admission has let it pass.
    pub(super) admitted: Option<Revision>,
    /// The object as it is marked, and as it was before.
    pub(super) marked: Option<(Item, Value)>,
}

impl Registry {
    /// Removes an object whose deletion has been marked. Watchers have some time to deal with the mark before.
    ///
    /// A client that goes away meanwhile does not keep the object from being removed.
    pub(super) fn remove_marked(
        self,
        target: Target,
        params: DeleteParams,
        progress: Progress,
    ) -> BoxFuture<'static, Result<Deleted, Status>> {
        // Whoever has seen the object being deleted needs no time to see it again.
        let news =
            progress.marked.as_ref().filter(|(_, old)| !is_being_deleted(old)).map(|(marked, _)| marked.revision);
        let key = target.key(target.name());
        let Some(revision) = news.filter(|_| self.is_watched(&key)) else {
            return Box::pin(async move { self.proceed(&target, &params, progress).await });
        };
        let removal = tokio::spawn(async move {
            self.delivered(&key, revision).await;
            tokio::time::sleep(MARK_VISIBLE).await;
            self.proceed(&target, &params, progress).await
        });
        Box::pin(async { removal.await.unwrap_or_else(|error| Err(Status::internal(error))) })
    }
}

fn is_being_deleted(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some()
}
