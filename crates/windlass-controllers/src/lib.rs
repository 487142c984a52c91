//! The built-in controllers of a Kubernetes control plane, and a simulator of its nodes.
//!
//! All controllers use the public API only. They run against the embedded server and against a real one, and depend on
//! neither. Each is small, so that it can be read as an example.
//!
//! Decisions (the number of replicas, the pods to delete, the status) are computed on plain values, separate from the
//! code that reads and writes objects.
//!
//! `catalog` lists all controllers and adds the selected ones to a manager. Each can act as its own user (`identity`). Each controller is a module, and `nodes`
//! simulates nodes. The shared modules are:
//!
//! ```text
//! pod_control   creates and deletes the pods of an owner
//! pods          properties of pods
//! ownership     owners and their dependents
//! revisions     the revisions of a workload
//! expectations  writes that the caches do not show yet
//! confirmed     owners that were compared with the server since the start
//! versions      the versions of own writes
//! consumers     claims and the pods that use them
//! selector      label selectors
//! error         the errors of reconciles
//! ```

mod consumers;
mod error;
mod expectations;
mod ownership;
mod pod_control;
mod pod_labels;
mod pods;
mod pods_by_node;
mod revisions;
mod selector;
mod confirmed;
mod versions;

mod autoscaler;
mod certificates;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod ephemeral_volume;
mod garbage_collector;
mod job;
mod namespace;
mod node_lifecycle;
mod nodes;
mod policy_status;
mod replicaset;
mod resource_quota;
mod role_aggregation;
mod service_account;
mod service_account_tokens;
mod statefulset;
mod storage_protection;
mod storage_version_migrator;
mod ttl_after_finished;
mod volumes;

mod catalog;
mod identity;

pub use autoscaler::{
    Autoscaling,
    metrics::{ApiMetrics, MemoryMetrics, MetricApi, MetricError, MetricSource, PodMetric, Sample, Samples},
};
pub use catalog::{BuiltIn, Controllers, ControllersError};
pub use certificates::{CertificateOrder, CertificateSigner};
pub use error::ReconcileError;
pub use identity::Identity;
pub use node_lifecycle::EvictionRates;
pub use nodes::{Pace, PodAnswers, PodAnswersError, StagePlace, Stages, StagesError};
pub use service_account_tokens::{TokenRequest, TokenSigner};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
