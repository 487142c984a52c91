//! The metrics of sharding.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};

use super::{
    Registry,
    factory::{MetricFactory, REQUEST_SECONDS},
};
use crate::sharding::ShardMetrics;

/// The metrics `windlass_shard_*`, by group name.
pub(super) struct Shards {
    members: IntGaugeVec,
    keys: IntGaugeVec,
    moved: IntCounterVec,
    handovers: HistogramVec,
    losses: IntCounterVec,
}

impl ShardMetrics for Registry {
    fn members(&self, group: &str, members: usize) {
        let of = &self.0.shards;
        of.members.with_label_values(&[group]).set(i64::try_from(members).unwrap_or(i64::MAX));
        of.handovers.with_label_values(&[group]);
        of.losses.with_label_values(&[group]);
    }

    fn moved(&self, group: &str, controller: &str, gained: usize, lost: usize, owned: usize) {
        let of = &self.0.shards;
        of.keys.with_label_values(&[group, controller]).set(i64::try_from(owned).unwrap_or(i64::MAX));
        for (direction, keys) in [("gained", gained), ("lost", lost)] {
            of.moved.with_label_values(&[group, controller, direction]).inc_by(keys as u64);
        }
    }

    fn handed_over(&self, group: &str, took: Duration) {
        self.0.shards.handovers.with_label_values(&[group]).observe(took.as_secs_f64());
    }

    fn lost(&self, group: &str) {
        self.0.shards.losses.with_label_values(&[group]).inc();
    }
}

impl Shards {
    pub(super) fn new(factory: &MetricFactory<'_>) -> Self {
        Self {
            members: factory.gauges(
                "windlass_shard_members",
                "Number of members in the group, as seen by this process; 0 while it is not a member.",
                &["group"],
            ),
            keys: factory.gauges(
                "windlass_shard_keys",
                "Number of objects of a controller owned by this process after the last move.",
                &["group", "controller"],
            ),
            moved: factory.counters(
                "windlass_shard_keys_moved_total",
                "Total number of objects of a controller that this process gained or lost.",
                &["group", "controller", "direction"],
            ),
            handovers: factory.histograms(
                "windlass_shard_handover_seconds",
                "Time from a change of the group to the handover of the moved keys, in seconds.",
                &["group"],
                REQUEST_SECONDS,
            ),
            losses: factory.counters(
                "windlass_shard_losses_total",
                "Total number of times that this process lost its lease and all keys.",
                &["group"],
            ),
        }
    }
}
