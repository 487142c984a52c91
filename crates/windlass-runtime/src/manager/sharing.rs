//! The membership of a manager in a group of shards, if it is in one.

use tokio::task::JoinSet;

use crate::{Error, Shard, error::panic_message, sharding::Membership, shutdown::Stopper};

/// The manager's member. Dropped, it is aborted.
pub(super) struct Sharing {
    shard: Shard,
    /// Until it is started.
    membership: Option<Membership>,
    stopper: Stopper,
    task: JoinSet<()>,
}

impl Sharing {
    pub(super) fn new(membership: Option<Membership>) -> Self {
        let shard = membership.as_ref().map_or_else(Shard::alone, |membership| membership.shard().clone());
        Self { shard, membership, stopper: Stopper::new(), task: JoinSet::new() }
    }

    pub(super) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// It joins the group when those are ready who act.
    pub(super) fn start(&mut self) {
        if let Some(membership) = self.membership.take() {
            let stop = self.stopper.handle();
            self.task.spawn(membership.run(async move { stop.requested().await }));
        }
    }

    /// Resolves when the member has failed; never without one. Cancel-safe.
    pub(super) async fn failure(&mut self) -> Error {
        match self.task.join_next().await {
            // Nobody stops it before this manager does.
            Some(Ok(())) | None => std::future::pending().await,
            Some(Err(error)) => {
                let name = "sharding".to_owned();
                match error.try_into_panic() {
                    Ok(panic) => Error::Panicked { name, message: panic_message(&*panic) },
                    Err(_) => Error::Aborted { name },
                }
            }
        }
    }

    /// Leaves the group. Nothing may act on keys any more.
    pub(super) async fn stop(&mut self) {
        self.stopper.stop();
        if let Some(Err(error)) = self.task.join_next().await
            && error.is_panic()
        {
            tracing::error!(panic = panic_message(&*error.into_panic()), "sharding panicked");
        }
    }

    /// Ends the membership at once: the lease expires.
    pub(super) async fn abort(&mut self) {
        self.task.shutdown().await;
    }
}
