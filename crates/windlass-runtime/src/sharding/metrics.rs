//! Metrics of sharding.

use std::{fmt::Debug, time::Duration};

/// Receives the measurements of a sharding group. Each method has a default that does nothing.
pub trait ShardMetrics: Debug + Send + Sync + 'static {
    /// The number of members in the group, including this process; 0 while it is not a member:
    /// `windlass_shard_members`.
    fn members(&self, group: &str, members: usize) {
        let _ = (group, members);
    }

    /// Keys of a controller have moved: `gained` to this process and `lost` from it. It now owns `owned` keys.
    /// `windlass_shard_keys_moved_total` by direction, and `windlass_shard_keys`.
    fn moved(&self, group: &str, controller: &str, gained: usize, lost: usize, owned: usize) {
        let _ = (group, controller, gained, lost, owned);
    }

    /// This process has published a new ring, `took` after it noticed the change. All reconciles of lost keys have
    /// ended: `windlass_shard_handover_seconds`.
    fn handed_over(&self, group: &str, took: Duration) {
        let _ = (group, took);
    }

    /// This process has lost its lease, and with it all keys: `windlass_shard_losses_total`.
    fn lost(&self, group: &str) {
        let _ = group;
    }
}

/// Discards all measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoMetrics;

impl ShardMetrics for NoMetrics {}
