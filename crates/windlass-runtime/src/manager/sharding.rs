//! The membership of a manager in a sharding group, if enabled.

use super::background_task::BackgroundTask;
use crate::{Error, Shard, sharding::Membership};

/// The manager's membership. Dropping it aborts the membership.
pub(super) struct ShardingTask {
    shard: Shard,
    /// The membership, until it is started.
    membership: Option<Membership>,
    task: BackgroundTask<()>,
}

impl ShardingTask {
    pub(super) fn new(membership: Option<Membership>) -> Self {
        let shard = membership.as_ref().map_or_else(Shard::alone, |membership| membership.shard().clone());
        Self { shard, membership, task: BackgroundTask::new("sharding") }
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Starts the membership. It joins the group when the sharded controllers are ready.
    pub(super) fn start(&mut self) {
        if let Some(membership) = self.membership.take() {
            self.task.start(|stop| membership.run(async move { stop.requested().await }));
        }
    }

    /// Resolves when the membership has failed; never without one. Cancel-safe.
    pub(super) async fn failure(&mut self) -> Error {
        match self.task.ended().await {
            // Only this manager stops the membership.
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    /// Leaves the group. No reconcile may be running any more.
    pub(super) async fn stop(&mut self) {
        self.task.stop().await;
    }

    /// Aborts the membership; the lease expires.
    pub(super) async fn abort(&mut self) {
        self.task.abort().await;
    }
}
