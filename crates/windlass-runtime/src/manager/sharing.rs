//! The membership of a manager in a group of shards, if it is in one.

use super::beside::Beside;
use crate::{Error, Shard, sharding::Membership};

/// The manager's member. Dropped, it is aborted.
pub(super) struct Sharing {
    shard: Shard,
    /// Until it is started.
    membership: Option<Membership>,
    task: Beside<()>,
}

impl Sharing {
    pub(super) fn new(membership: Option<Membership>) -> Self {
        let shard = membership.as_ref().map_or_else(Shard::alone, |membership| membership.shard().clone());
        Self { shard, membership, task: Beside::new("sharding") }
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// It joins the group when those are ready who act.
    pub(super) fn start(&mut self) {
        if let Some(membership) = self.membership.take() {
            self.task.start(|stop| membership.run(async move { stop.requested().await }));
        }
    }

    /// Resolves when the member has failed; never without one. Cancel-safe.
    pub(super) async fn failure(&mut self) -> Error {
        match self.task.ended().await {
            // Nobody stops it before this manager does.
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    /// Leaves the group. Nothing may act on keys any more.
    pub(super) async fn stop(&mut self) {
        self.task.stop().await;
    }

    /// Ends the membership at once: the lease expires.
    pub(super) async fn abort(&mut self) {
        self.task.abort().await;
    }
}
