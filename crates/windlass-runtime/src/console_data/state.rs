//! The JSON format of the console. New fields may be added.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use windlass_api::ObjectKey;

/// The state of a manager at one moment: the content of `/api/state`, and of the event `state` of `/api/events`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct State {
    /// The time of the state, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The process.
    pub process: Process,
    /// The leadership.
    pub leadership: LeadershipState,
    /// The running controllers, in the order in which they were started.
    pub controllers: Vec<ControllerState>,
    /// The caches, in the order in which they were started.
    pub caches: Vec<CacheState>,
}

/// The process of the manager.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Process {
    /// The program's name.
    pub program: String,
    /// The host name; in a cluster the pod's name.
    pub host: String,
    /// The process ID.
    pub pid: u32,
    /// The start of the manager, in milliseconds since the Unix epoch.
    pub started: i64,
    /// The time since the start, in seconds.
    pub uptime_seconds: u64,
    /// The resident memory in bytes, if the operating system reports it.
    pub resident_bytes: Option<u64>,
}

/// The leadership of the process.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "role", rename_all = "camelCase")]
#[non_exhaustive]
pub enum LeadershipState {
    /// There is no leader election. This process acts regardless of others.
    Alone,
    /// This process was elected.
    Leading {
        /// The name of the lease.
        lease: String,
        /// The observed holder of the lease.
        leader: Option<Arc<str>>,
    },
    /// Another process is the leader, or none is yet.
    Waiting {
        /// The name of the lease.
        lease: String,
        /// The observed holder of the lease.
        leader: Option<Arc<str>>,
    },
}

/// The state of a controller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerState {
    /// The controller's name.
    pub name: Arc<str>,
    /// The reconciled resource: `deployments.apps`.
    pub resource: String,
    /// The maximum number of concurrent reconciles.
    pub workers: usize,
    /// The number of keys that are ready to be reconciled.
    pub depth: usize,
    /// The running reconciles, the longest first.
    pub in_flight: Vec<InFlight>,
    /// Counters since the start of the manager.
    pub totals: Totals,
    /// Latencies of the last reconciles; `None` before the first one.
    pub latency: Option<Latency>,
    /// The last failed reconcile.
    pub last_failure: Option<LastFailure>,
    /// The history of the last two minutes.
    pub history: History,
}

/// A running reconcile.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InFlight {
    /// The reconciled key.
    #[serde(serialize_with = "key")]
    pub key: ObjectKey,
    /// The reconcile ID, as in the log.
    pub id: Arc<str>,
    /// The time since its start, in microseconds.
    pub for_micros: u64,
}

/// Counters since the start of the manager.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Totals {
    /// Changes that added a key to the queue.
    pub triggers: u64,
    /// Finished reconciles, including failed ones.
    pub reconciles: u64,
    /// Reconciles that failed, timed out or panicked.
    pub failures: u64,
    /// Failures caused by a timeout.
    pub timeouts: u64,
    /// Failures caused by a panic.
    pub panics: u64,
    /// Write requests.
    pub writes: u64,
    /// Writes rejected because the object had been modified (409).
    pub conflicts: u64,
    /// Writes rejected for another reason, or without a response.
    pub refusals: u64,
}

/// Durations of the last 512 reconciles, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

/// A failed reconcile.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LastFailure {
    /// The time of the failure, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The reconciled key.
    #[serde(serialize_with = "key")]
    pub key: ObjectKey,
    /// The error and its causes.
    pub message: String,
}

/// Samples, the oldest first. All lists have the same length.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct History {
    /// The interval between samples, in milliseconds.
    pub every_millis: u64,
    /// Reconciles that finished since the previous sample.
    pub reconciles: Vec<u64>,
    /// Reconciles that failed since the previous sample.
    pub failures: Vec<u64>,
    /// The number of ready keys.
    pub depth: Vec<u64>,
}

/// The state of a cache.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CacheState {
    /// The cached resource: `deployments.apps`.
    pub resource: String,
    /// The Rust type: `Deployment`, `DynamicObject`, `PartialObject`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The cached namespace; `None` for all namespaces.
    pub namespace: Option<String>,
    /// The label and field selectors.
    pub selector: String,
    /// `new`, `syncing`, `synced` or `stopped`.
    pub phase: &'static str,
    /// The number of objects.
    pub objects: usize,
    /// The resource version up to which the cache has followed the server.
    pub version: String,
    /// The number of changes queued between the watch and the store.
    pub queued: usize,
    /// Bytes of encoded, uncompressed objects.
    pub encoded_bytes: usize,
    /// Bytes of compressed objects.
    pub compressed_bytes: usize,
    /// The estimated size of decoded objects, in bytes.
    pub decoded_bytes: usize,
    /// The maximum size of encoded and decoded objects, in bytes.
    pub budget_bytes: usize,
    /// The number of complete lists.
    pub lists: u64,
    /// The number of opened watches.
    pub watches: u64,
    /// The number of received events.
    pub events: u64,
    /// The number of errors, including objects that cannot be decoded.
    pub errors: u64,
}

/// The number of skipped lines and the next lines: the event `story` of `/api/events`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StepBatch {
    /// The number of lines missing before these, because the reader was too slow or connected too late.
    pub lost: u64,
    /// The lines, in the order in which they happened.
    pub lines: Vec<LoggedStep>,
}

/// A step of the control loop.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LoggedStep {
    /// The number of the line. Numbers are consecutive.
    pub number: u64,
    /// The time of the step, in milliseconds since the Unix epoch.
    pub at: i64,
    /// The controller's name.
    pub controller: Arc<str>,
    /// The reconciled or queued key.
    #[serde(serialize_with = "key")]
    pub key: ObjectKey,
    /// The step.
    #[serde(flatten)]
    pub step: Step,
}

/// The kind of a step.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "step", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Step {
    /// A change in a cache added the key to the queue.
    Triggered {
        /// `added`, `updated` or `deleted`.
        change: &'static str,
        /// The resource of the changed object: `pods`.
        resource: String,
        /// The changed object.
        #[serde(serialize_with = "key")]
        object: ObjectKey,
    },
    /// A worker took the key.
    Started {
        /// The reconcile ID, as in the log.
        id: Arc<str>,
    },
    /// The reconcile sent a write request.
    Wrote {
        /// The reconcile ID.
        id: Arc<str>,
        /// `create`, `update`, `patch`, `apply`, `delete`, …
        verb: String,
        /// The resource and subresource: `deployments.apps/status`.
        resource: String,
        /// The written object; `None` if the server chooses the name.
        object: Option<String>,
        /// The status of the response; `None` if there was no response.
        status: Option<u16>,
        /// The duration in microseconds.
        took_micros: u64,
    },
    /// The worker has finished the key.
    Finished {
        /// The reconcile ID.
        id: Arc<str>,
        /// `done`, `gone`, `failed`, `timedOut` or `panicked`.
        outcome: &'static str,
        /// The duration in microseconds.
        took_micros: u64,
        /// The message of a failure.
        message: Option<String>,
        /// The requested delay until the next reconcile, in milliseconds.
        requeue_millis: Option<u64>,
    },
}

fn key<S: Serializer>(key: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}
