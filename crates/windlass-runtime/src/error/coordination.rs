//! Errors in the settings of leader election and sharding.

use thiserror::Error;

/// The reason why the settings of an election are invalid. The texts are those of client-go and controller-runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the error texts describe the variants")]
pub enum InvalidElection {
    #[error("leaseDuration must be greater than renewDeadline")]
    LeaseNotLongerThanDeadline,
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    DeadlineNotLongerThanRetry,
    #[error("leaseDuration must be greater than zero")]
    NoLeaseDuration,
    #[error("renewDeadline must be greater than zero")]
    NoRenewDeadline,
    #[error("retryPeriod must be greater than zero")]
    NoRetryPeriod,
    #[error("Lock identity is empty")]
    NoIdentity,
    #[error("LeaderElectionID must be configured")]
    NoLease,
}

/// The reason why the settings of sharding are invalid.
#[cfg(feature = "sharding")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidSharding {
    /// The durations are inconsistent.
    #[error(transparent)]
    Timings(#[from] InvalidElection),
    /// The group's name is not a valid label value. It is used as a label and as the prefix of lease names.
    #[error("the group {group:?} is not a valid label value: {}", .reasons.join(", "))]
    Group {
        /// The group's name.
        group: String,
        /// The violated rules.
        reasons: Vec<String>,
    },
    /// The name of a lease, formed from the group and the identity, is invalid.
    #[error("{lease:?} is not a valid lease name: {}", .reasons.join(", "))]
    Lease {
        /// The lease's name.
        lease: String,
        /// The violated rules.
        reasons: Vec<String>,
    },
}
