//! What members count.

use std::{fmt::Debug, time::Duration};

/// Receives what becomes of the keys of a group. Each method has a default that does nothing.
pub trait ShardMetrics: Debug + Send + Sync + 'static {
    /// So many members are in the group, this process included; 0 while it is not a member: `windlass_shard_members`.
    fn members(&self, group: &str, members: usize) {
        let _ = (group, members);
    }

    /// Keys of a controller have moved: so many to this process and away from it, which has `owned` now:
    /// `windlass_shard_keys_moved_total` by direction, and `windlass_shard_keys`.
    fn moved(&self, group: &str, controller: &str, gained: usize, lost: usize, owned: usize) {
        let _ = (group, controller, gained, lost, owned);
    }

    /// This process has shown other members than before, `took` after it learned of them: it has ended what it had begun on
    /// keys that are others' now: `windlass_shard_handover_seconds`.
    fn handed_over(&self, group: &str, took: Duration) {
        let _ = (group, took);
    }

    /// This process has lost its lease, and all of its keys: `windlass_shard_losses_total`.
    fn lost(&self, group: &str) {
        let _ = group;
    }
}

/// Counts nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoMetrics;

impl ShardMetrics for NoMetrics {}
