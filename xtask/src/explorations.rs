//! Runs `windlass explore`, and reads its report.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde::Deserialize;

use crate::Result;

/// The part of the report that matters here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) planned: usize,
    pub(crate) finished: usize,
    pub(crate) findings: Vec<Finding>,
    /// The plans whose fault struck without a finding.
    #[serde(default)]
    pub(crate) passed: Vec<String>,
    pub(crate) seconds: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub(crate) text: String,
    pub(crate) found_after_seconds: f64,
    pub(crate) runs: Vec<Run>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Run {
    pub(crate) plan: String,
    pub(crate) replays: Replays,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Replays {
    pub(crate) reproduced: usize,
    pub(crate) of: usize,
}

impl Report {
    /// Reads the report of a scenario in JSON.
    pub(crate) fn read(scenario: &str, json: &[u8]) -> Result<Self> {
        Ok(serde_json::from_slice(json).map_err(|error| format!("the report of {scenario}: {error}"))?)
    }

    /// Runs an exploration with `--output json`.
    pub(crate) fn of(scenario: &str, command: &mut Command) -> Result<Self> {
        let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let output = output.and_then(std::process::Child::wait_with_output);
        let output =
            output.map_err(|error| format!("running {}: {error}", Path::new(command.get_program()).display()))?;
        // 1 means that there are findings.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(format!("exploring {scenario} failed ({})", output.status).into());
        }
        Self::read(scenario, &output.stdout)
    }
}

impl Finding {
    /// Returns the number of replays that reproduced the finding, and of all, for the run with the most of them.
    pub(crate) fn replays(&self) -> (usize, usize) {
        self.runs.iter().map(|run| (run.replays.reproduced, run.replays.of)).max().unwrap_or_default()
    }

    /// Returns `true` if a replay has reproduced the finding.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.replays().0 > 0
    }

    /// Returns the first plan that revealed the finding.
    pub(crate) fn plan(&self) -> &str {
        self.runs.first().map_or("", |run| run.plan.as_str())
    }
}
