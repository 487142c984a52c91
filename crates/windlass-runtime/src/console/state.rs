//! What a console tells, as JSON. Fields may be added.

use std::sync::Arc;

use serde::{Serialize, Serializer};
use windlass_api::ObjectKey;

/// A manager at one moment: `/api/state`, and the event `state` of `/api/events`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct State {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The process.
    pub process: Process,
    /// Who leads.
    pub leadership: LeadershipState,
    /// The controllers that run, in the order in which they were started.
    pub controllers: Vec<ControllerState>,
    /// The caches, in the order in which they were asked for.
    pub caches: Vec<CacheState>,
}

/// The process that the manager runs in.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Process {
    /// The program's name.
    pub program: String,
    /// The machine's name, in a cluster the pod's.
    pub host: String,
    /// Its number on the machine.
    pub pid: u32,
    /// When the manager was made, in milliseconds since 1970.
    pub started: i64,
    /// How long ago that was.
    pub uptime_seconds: u64,
    /// Its memory in bytes, where the system tells.
    pub resident_bytes: Option<u64>,
}

/// Who leads.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "role", rename_all = "camelCase")]
#[non_exhaustive]
pub enum LeadershipState {
    /// No election is held: this process acts, whoever else does.
    Alone,
    /// This process was elected.
    Leading {
        /// The lease's name.
        lease: String,
        /// Who is seen to hold it.
        leader: Option<Arc<str>>,
    },
    /// Another process was elected, or none yet.
    Waiting {
        /// The lease's name.
        lease: String,
        /// Who is seen to hold it.
        leader: Option<Arc<str>>,
    },
}

/// One controller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ControllerState {
    /// Its name.
    pub name: Arc<str>,
    /// What it reconciles: `deployments.apps`.
    pub resource: String,
    /// How many keys it may reconcile at the same time.
    pub workers: usize,
    /// How many keys are ready to be reconciled.
    pub depth: usize,
    /// What is being reconciled, the longest first.
    pub in_flight: Vec<InFlight>,
    /// What happened since the manager was made.
    pub totals: Totals,
    /// Of the last reconciles; `None` before the first.
    pub latency: Option<Latency>,
    /// The last failure.
    pub last_failure: Option<LastFailure>,
    /// The last two minutes.
    pub history: History,
}

/// A key in the hands of a worker.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InFlight {
    /// What is reconciled.
    #[serde(serialize_with = "key")]
    pub key: ObjectKey,
    /// The reconcile's, as in the log.
    pub id: Arc<str>,
    /// For how long, in microseconds.
    pub for_micros: u64,
}

/// Counts since the manager was made.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Totals {
    /// Changes that made a key dirty.
    pub triggers: u64,
    /// Reconciles that have ended, however they did.
    pub reconciles: u64,
    /// Those that failed, took too long or panicked.
    pub failures: u64,
    /// Those of the failures that took too long.
    pub timeouts: u64,
    /// Those of the failures that panicked.
    pub panics: u64,
    /// Requests that were to change something.
    pub writes: u64,
    /// Those that a server refused because the object had changed meanwhile (409).
    pub conflicts: u64,
    /// Those that were refused for another reason, or had no answer.
    pub refusals: u64,
}

/// How long reconciles took, in microseconds: of the last 512.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: u64,
    /// 99 of 100 took no longer.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// A reconcile that failed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LastFailure {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What was reconciled.
    #[serde(serialize_with = "key")]
    pub key: ObjectKey,
    /// The error with its causes.
    pub message: String,
}

/// Samples, the oldest first: as many in each list.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct History {
    /// From one sample to the next.
    pub every_millis: u64,
    /// Reconciles that ended since the last sample.
    pub reconciles: Vec<u64>,
    /// Those of them that failed.
    pub failures: Vec<u64>,
    /// Keys that were ready.
    pub depth: Vec<u64>,
}

/// One cache.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CacheState {
    /// What it holds: `deployments.apps`.
    pub resource: String,
    /// As which type: `Deployment`, `DynamicObject`, `PartialObject`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// Of which namespace; of all if there is none.
    pub namespace: Option<String>,
    /// What else was selected, by labels or fields.
    pub selector: String,
    /// `new`, `syncing`, `synced` or `stopped`.
    pub phase: &'static str,
    /// How many objects it holds.
    pub objects: usize,
    /// The version that it follows the server up to.
    pub version: String,
    /// How many changes wait between its watch and its store.
    pub queued: usize,
    /// Bytes of bodies held as they came.
    pub encoded_bytes: usize,
    /// Bytes of bodies held compressed.
    pub compressed_bytes: usize,
    /// What decoded objects are taken for, in bytes.
    pub decoded_bytes: usize,
    /// What may be held encoded and decoded.
    pub budget_bytes: usize,
    /// How often everything was listed.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
    /// Events that came.
    pub events: u64,
    /// What went wrong, objects that could not be decoded among it.
    pub errors: u64,
}

/// What was left out and what follows: the event `story` of `/api/events`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Chapter {
    /// How many lines are missing before these: the reader was too slow, or too late.
    pub lost: u64,
    /// In the order in which they happened.
    pub lines: Vec<Line>,
}

/// A step of the loop.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Line {
    /// Each has the next number.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The controller's name.
    pub controller: Arc<str>,
    /// What is, or is to be, reconciled.
    #[serde(serialize_with = "key")]
    pub key: ObjectKey,
    /// What happened.
    #[serde(flatten)]
    pub step: Step,
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "step", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Step {
    /// A change in a cache made the key dirty.
    Triggered {
        /// `added`, `updated` or `deleted`.
        change: &'static str,
        /// Of what: `pods`.
        resource: String,
        /// Which one.
        #[serde(serialize_with = "key")]
        object: ObjectKey,
    },
    /// A worker took the key.
    Started {
        /// The reconcile's, as in the log.
        id: Arc<str>,
    },
    /// The reconcile sent a request that was to change something.
    Wrote {
        /// The reconcile's.
        id: Arc<str>,
        /// `create`, `update`, `patch`, `apply`, `delete`, …
        verb: String,
        /// Of what, with the part: `deployments.apps/status`.
        resource: String,
        /// Which one; `None` where the server chooses the name.
        object: Option<String>,
        /// The answer's; `None` when there was none.
        status: Option<u16>,
        /// In microseconds.
        took_micros: u64,
    },
    /// The worker is done with the key.
    Finished {
        /// The reconcile's.
        id: Arc<str>,
        /// `done`, `gone`, `failed`, `timedOut` or `panicked`.
        outcome: &'static str,
        /// In microseconds.
        took_micros: u64,
        /// Of a failure.
        message: Option<String>,
        /// In how many milliseconds it is looked at again without a change, if that was asked for.
        requeue_millis: Option<u64>,
    },
}

fn key<S: Serializer>(key: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(key)
}
