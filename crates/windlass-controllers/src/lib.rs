//! The built-in controllers of a Kubernetes control plane, and a simulator of its nodes.
//!
//! All of them are ordinary users of the public API: they run beside the embedded server as beside a real one, and
//! know neither. Each is small on purpose, to be read as an example.
//!
//! Decisions are made on values (how many replicas, which pods, what status), apart from the code that looks and writes.

mod consumers;
mod error;
mod expectations;
mod ownership;
mod pod_control;
mod pods;
mod revisions;
mod selector;
mod versions;

mod autoscaler;
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
mod replicaset;
mod role_aggregation;
mod service_account;
mod statefulset;
mod storage_protection;
mod ttl_after_finished;
mod volumes;

mod catalog;

pub use autoscaler::{
    Autoscaling,
    metrics::{ApiMetrics, MemoryMetrics, MetricApi, MetricError, MetricSource, PodMetric, Sample, Samples},
};
pub use catalog::{BuiltIn, Controllers, ControllersError};
pub use error::ReconcileError;
pub use nodes::Pace;
