//! The record of a run: changes of objects, requests of the program, its processes, and the injected faults.
//!
//! All times count from the start of the run. All lists are in the order of time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

pub use crate::plan::ChangeVerb;
use crate::plan::{Plan, Point};

/// The annotation that an injected conflict adds to an object. It is no part of the state that is compared.
pub(crate) const CONFLICT: &str = "windlass.dev/conflict";

/// The record of one run.
#[derive(Clone, Debug)]
pub struct Record {
    /// The faults or the mutation of the run.
    pub plan: Plan,
    /// The end of the run.
    pub outcome: Outcome,
    /// The steps that have begun.
    pub steps: Vec<StepRecord>,
    /// All changes of all objects, except events and leases, in the order of their revisions.
    pub changes: Vec<Change>,
    /// The requests of the program.
    pub requests: Vec<Request>,
    /// The processes of the program. The first one is number 1.
    pub processes: Vec<Process>,
    /// The faults that struck, or the mutation and its end.
    pub injections: Vec<Injection>,
    /// The violations of invariants, at most one of each invariant by each object.
    pub violations: Vec<Violation>,
    /// The objects at the end.
    pub end: BTreeMap<ObjectName, Arc<Value>>,
    /// The duration of the run.
    pub took: Duration,
    /// The resources that the program watched when it had started, before the first step.
    pub watched: BTreeSet<String>,
    /// The runs in which the object of a mutation has the changed field from the start. Empty without a mutation.
    pub fresh: Vec<Self>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps succeeded, and the cluster settled after each.
    Completed,
    /// A step failed.
    StepFailed {
        /// The number of the step.
        step: usize,
        /// The error.
        error: String,
    },
    /// The cluster still changed at the time limit of a step.
    NotSettled {
        /// The number of the step.
        step: usize,
    },
    /// The server or an admission webhook rejected a mutation, or its end.
    Rejected {
        /// The number of the step.
        step: usize,
        /// The error.
        error: String,
    },
    /// The user stopped the exploration.
    Interrupted,
}

/// A step of a run. Step 0 is the start of the program.
#[derive(Clone, Debug)]
pub struct StepRecord {
    /// The name of the step.
    pub name: String,
    /// The time of its beginning.
    pub started: Duration,
    /// The last time at which the program was still starting; otherwise that of the beginning.
    pub starting_until: Duration,
    /// The time when the cluster had settled after the step; `None` if it did not, or if a gap continues in the next step.
    pub settled: Option<Duration>,
    /// The revision of the storage when the step began.
    pub revision: u64,
}

/// The name of an object. Its text is `deployments.apps/default/web`, or `nodes/n1` without a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The resource with its group, such as `deployments.apps` or `pods`.
    pub resource: String,
    /// Empty for objects without a namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision of the storage.
    pub revision: u64,
    /// The time when it was observed.
    pub at: Duration,
    /// The number of the step.
    pub step: usize,
    /// The kind of the change.
    pub verb: ChangeVerb,
    /// The object.
    pub object: ObjectName,
    /// The UID of the object.
    pub uid: String,
    /// The originator.
    pub actor: Actor,
    /// The place of this change in the run. Two runs without faults have the same points.
    pub point: Point,
    /// `None` for a creation.
    pub before: Option<Arc<Value>>,
    /// `None` for a deletion.
    pub after: Option<Arc<Value>>,
}

/// The originator of a change or a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// A process of the program, by its number.
    Program(usize),
    /// A step, a built-in controller, or an injected write.
    Other,
}

/// A request of the program.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of the process.
    pub process: usize,
    /// The time when it was received.
    pub started: Duration,
    /// The time of the response; `None` if there was none.
    pub answered: Option<Duration>,
    /// The number of the step.
    pub step: usize,
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// The status code of the cluster's response; `None` if the request did not reach the cluster.
    pub status: Option<u16>,
    /// The revision of the change that the request caused.
    pub revision: Option<u64>,
}

/// A process of the program.
#[derive(Clone, Debug)]
pub struct Process {
    /// The number of the process.
    pub number: usize,
    /// The time of its start.
    pub started: Duration,
    /// The time and the kind of its end; `None` if it was still running.
    pub ended: Option<(Duration, ProcessEnd)>,
    /// The last lines of standard output and standard error.
    pub log: Vec<LogLine>,
    /// The number of lines before these.
    pub dropped_lines: usize,
    /// The panics and unhandled exceptions in the log.
    pub panics: Vec<Panic>,
}

/// The end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// A fault killed it.
    Killed,
    /// The run was over.
    Stopped,
    /// It ended by itself; the text is its exit status.
    Exited(String),
}

/// A line that the program printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The time when it was read.
    pub at: Duration,
    /// The text.
    pub text: String,
}

/// A panic, an unhandled exception or a fatal error of the program, as its log describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// The time when it was read.
    pub at: Duration,
    /// A line without the parts that differ from run to run, such as the time and the name of the thread.
    pub message: String,
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The time of the change.
    pub at: Duration,
    /// The number of the step.
    pub step: usize,
    /// The message of the invariant.
    pub invariant: String,
    /// The object; `None` if the invariant is about all objects together.
    pub object: Option<ObjectName>,
    /// The error, if the expression cannot be evaluated.
    pub error: Option<String>,
}

/// A fault that struck, or a mutation that was made or reverted.
#[derive(Clone, Debug)]
pub struct Injection {
    /// The time when it struck or was made.
    pub at: Duration,
    /// The number of the step.
    pub step: usize,
    /// A sentence for the timeline.
    pub description: String,
}

impl Record {
    /// Returns the changes by the program.
    pub fn changes_by_program(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| matches!(change.actor, Actor::Program(_)))
    }

    /// Returns the record as if the run had ended after a step.
    pub(crate) fn until(&self, step: usize) -> Self {
        let mut record = self.clone();
        let last = record.changes.partition_point(|change| change.step <= step);
        undo(&mut record.end, &record.changes.split_off(last));
        record.requests.retain(|request| request.step <= step);
        record.steps.truncate(step + 1);
        record
    }
}

/// Returns objects to their state before the changes.
pub(crate) fn undo(objects: &mut BTreeMap<ObjectName, Arc<Value>>, changes: &[Change]) {
    for change in changes.iter().rev() {
        match &change.before {
            Some(before) => objects.insert(change.object.clone(), Arc::clone(before)),
            None => objects.remove(&change.object),
        };
    }
}

impl Change {
    /// Returns `true` if the change sets the deletion timestamp.
    pub(crate) fn begins_deletion(&self) -> bool {
        let has = |state: Option<&Value>| state.is_some_and(|state| state["metadata"]["deletionTimestamp"].is_string());
        self.verb == ChangeVerb::Update && !has(self.before.as_deref()) && has(self.after.as_deref())
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name } = self;
        if namespace.is_empty() { write!(f, "{resource}/{name}") } else { write!(f, "{resource}/{namespace}/{name}") }
    }
}

impl FromStr for ObjectName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (resource, namespace, name) = match text.split('/').collect::<Vec<_>>()[..] {
            [resource, name] => (resource, "", name),
            [resource, namespace, name] => (resource, namespace, name),
            _ => return Err(format!("{text:?} is not RESOURCE/NAMESPACE/NAME or RESOURCE/NAME")),
        };
        Ok(Self { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl Serialize for ObjectName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
