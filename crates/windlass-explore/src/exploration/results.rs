//! The results of an exploration.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{exploration::Entry, findings::Finding, normal::Mask, plan::Plan};

/// The results of an exploration. The JSON report is the serialized form of this type.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// The program with its arguments.
    pub program: Vec<String>,
    /// The runs without faults.
    pub clean_runs: Vec<CleanRun>,
    /// The event log of the first run without faults.
    pub clean_timeline: Vec<Entry>,
    /// The time without changes after which a run has settled, in seconds. It is learned from the runs without faults.
    pub quiet_seconds: f64,
    /// The number of later runs without faults, which check findings: one for each replayed plan, at most ten.
    pub controls: usize,
    /// The findings that a run without faults had as well. They are no findings any more.
    pub withdrawn: Vec<String>,
    /// The parts of the end state that differ between runs without faults. They are not compared.
    pub mask: Mask,
    /// The number of plans.
    pub planned: usize,
    /// The number of plans that have run.
    pub finished: usize,
    /// The number of those that an earlier, interrupted exploration has run.
    pub resumed: usize,
    /// The number of finished plans by effect, or by the kind of change.
    pub effects: BTreeMap<String, usize>,
    /// The plans whose fault struck or whose change was made, without a finding.
    pub passed: Vec<Plan>,
    /// The plans whose fault did not strike, because the run did not come to its point.
    pub not_reached: Vec<Plan>,
    /// The mutations that the server or an admission webhook rejected, with the error. Those that the server rejects without
    /// the program are not planned.
    #[serde(default)]
    pub rejected: BTreeMap<String, String>,
    /// The plans that ended with an error of the test environment, with the error.
    pub failed: BTreeMap<String, String>,
    /// The number of possible faults or mutations that were not planned, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// The number of plans that did not run because the time was over, by effect.
    pub left: BTreeMap<String, usize>,
    /// The findings. Runs with findings of the same kind at the same objects are one group.
    pub findings: Vec<FindingGroup>,
    /// `true` if the user or the hard time limit stopped the exploration.
    pub interrupted: bool,
    /// The duration of the exploration in seconds.
    pub seconds: f64,
}

/// A run without faults.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanRun {
    /// The duration in seconds.
    pub seconds: f64,
    /// The number of changes of objects.
    pub changes: usize,
    /// The number of those that the program made.
    pub changes_by_program: usize,
    /// The number of requests of the program.
    pub requests: usize,
}

/// A finding, with all runs that have it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingGroup {
    /// The finding as in the first run.
    pub finding: Finding,
    /// The finding as a sentence.
    pub text: String,
    /// The time from the beginning of the exploration to the end of the first run with the finding, in seconds.
    pub found_after_seconds: f64,
    /// The runs with this finding. If a run was reproduced, it is the first one.
    pub runs: Vec<FindingRun>,
    /// The event log of the first run.
    pub timeline: Vec<Entry>,
}

/// A run with a finding.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingRun {
    /// The plan of the run.
    pub plan: Plan,
    /// All findings of the run as sentences.
    pub findings: Vec<String>,
    /// The replays of the run. The other runs of a confirmed finding are not replayed.
    pub replays: Replays,
}

/// The outcome of replays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replays {
    /// The number of replays with the same finding.
    pub reproduced: usize,
    /// The number of replays.
    pub of: usize,
}

/// The progress of an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The number of finished runs without faults.
    pub clean_runs: usize,
    /// The number of finished plans.
    pub done: usize,
    /// The number of plans; 0 as long as the runs without faults are not finished.
    pub total: usize,
    /// The number of findings.
    pub findings: usize,
    /// The estimated time until all plans have run, or the time is over.
    pub remaining: Duration,
    /// A sentence about the run that has ended.
    pub message: String,
}

impl Plan {
    /// Returns the names of its effects, such as `lag & crash`, or that of its edit.
    pub(super) fn effects(&self) -> String {
        match self {
            Self::Faults(faults) => faults.iter().map(|fault| fault.effect.name()).collect::<Vec<_>>().join(" & "),
            Self::Mutation(mutation) => mutation.edit.name().to_owned(),
        }
    }
}

impl Results {
    /// Returns `true` if there is no finding that a replay has confirmed, or that was not replayed.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|group| !group.is_confirmed())
    }
}

impl FindingGroup {
    /// Returns the replays of the first run.
    #[must_use]
    pub fn replays(&self) -> Replays {
        self.runs.first().map(|run| run.replays).unwrap_or_default()
    }

    /// Returns `true` unless the finding was replayed and not once reproduced.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        let Replays { reproduced, of } = self.replays();
        of == 0 || reproduced > 0
    }
}
