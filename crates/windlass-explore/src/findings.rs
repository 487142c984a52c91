//! Findings: differences of a run from the runs without faults.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use windlass_api::difference::Difference;

use crate::record::{ChangeVerb, ObjectName};

mod baseline;
mod overwrites;
mod mutations;
mod programs;
mod text;

pub(crate) use baseline::Baseline;

/// A difference of a run from the runs without faults, or a failure of the run.
///
/// In the names of objects, generated parts are replaced by `*`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Finding {
    /// An object exists at the end of each run without faults, but not at the end of this one.
    Missing {
        /// The object.
        object: ObjectName,
    },
    /// An object exists at the end of this run, but not at the end of the runs without faults.
    LeftOver {
        /// The object.
        object: ObjectName,
    },
    /// The number of objects with the same name, except for its generated part, differs.
    Number {
        /// The objects.
        object: ObjectName,
        /// The numbers in the runs without faults.
        expected: RangeInclusive<usize>,
        /// The number in this run.
        found: usize,
    },
    /// An object has different fields.
    Different {
        /// The object.
        object: ObjectName,
        /// The fields.
        fields: Vec<Difference>,
    },
    /// An object was created or deleted more or less often.
    Churn {
        /// The object.
        object: ObjectName,
        /// Creation or deletion.
        verb: ChangeVerb,
        /// The numbers in the runs without faults.
        expected: RangeInclusive<usize>,
        /// The number in this run.
        found: usize,
    },
    /// The program undid another client's change that it had not seen.
    Overwritten {
        /// The object.
        object: ObjectName,
    },
    /// An object waits for its deletion at the end.
    StuckInDeletion {
        /// The object.
        object: ObjectName,
        /// The finalizers that it waits for.
        finalizers: Vec<String>,
    },
    /// An invariant was violated.
    Violated {
        /// The message of the invariant.
        invariant: String,
        /// The object; `None` if the invariant is about all objects together.
        object: Option<ObjectName>,
        /// The error, if the expression of the invariant cannot be evaluated.
        error: Option<String>,
    },
    /// The program panicked.
    Panicked {
        /// The line of its log, without the parts that differ from run to run.
        message: String,
    },
    /// The program ended by itself.
    Exited {
        /// The exit status.
        status: String,
        /// The last line of its log.
        log: String,
    },
    /// A step failed.
    StepFailed {
        /// The number of the step. Step 0 is the start of the program.
        step: usize,
        /// The error.
        error: String,
    },
    /// The cluster still changed at the time limit of a step.
    NotSettled {
        /// The number of the step.
        step: usize,
    },
    /// After a mutation, the state differs from that of a new object with the changed field.
    UnlikeNew {
        /// The difference.
        difference: Box<Self>,
    },
}
