//! Metrics of electors.

use std::fmt::Debug;

/// Receives the measurements of candidates. Each method has a default that does nothing. `lease` is the lease's name.
pub trait ElectionMetrics: Debug + Send + Sync + 'static {
    /// This process has become the leader: `leader_election_master_status` is 1.
    fn acquired(&self, lease: &str) {
        let _ = lease;
    }

    /// This process is not the leader, or not yet: `leader_election_master_status` is 0.
    fn lost(&self, lease: &str) {
        let _ = lease;
    }

    /// The leader had to read the lease before it could renew it: `leader_election_slowpath_total`.
    fn slow_path(&self, lease: &str) {
        let _ = lease;
    }
}

/// Discards all measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoMetrics;

impl ElectionMetrics for NoMetrics {}
