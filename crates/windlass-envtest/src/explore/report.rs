//! The report of an exploration, as text.

use std::{fmt, path::Path, time::Duration};

use super::{
    plan::Plan,
    timeline::{Entry, EntryKind},
};

/// The number of lines printed of the beginning and of the end of an event log.
const STORY: usize = 100;

/// The result of an exploration.
#[derive(Clone, Debug)]
#[must_use = "call `assert` to fail the test if there are findings"]
#[non_exhaustive]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The findings in the runs without faults. If there are any, nothing was explored.
    pub reference: Vec<String>,
    /// The event log of the run without faults.
    pub timeline: Vec<Entry>,
    /// The number of runs with faults.
    pub runs: usize,
    /// The number of these runs that did not reach the place of their fault.
    pub not_reached: usize,
    /// The runs with findings.
    pub failures: Vec<Failure>,
    /// The real time that the exploration took.
    pub took: Duration,
}

/// A run with findings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The smallest plan that causes the findings.
    pub plan: Plan,
    /// The findings of the run.
    pub findings: Vec<String>,
    /// The event log of the run.
    pub timeline: Vec<Entry>,
}

impl Report {
    /// Panics at the caller's location if there are findings, with the event log of the first failure. Otherwise prints
    /// one line with the number of runs and their rate (`cargo test -- --nocapture` shows it).
    ///
    /// # Panics
    /// Panics if there are findings.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.is_clean(), "{self}");
        println!("{}", self.summary());
    }

    /// Returns `true` if there are no findings.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.reference.is_empty() && self.failures.is_empty()
    }

    /// Returns the number of runs per minute.
    #[must_use]
    pub fn runs_per_minute(&self) -> f64 {
        let runs = u32::try_from(self.runs).unwrap_or(u32::MAX);
        f64::from(runs) * 60.0 / self.took.as_secs_f64().max(f64::EPSILON)
    }

    /// Writes the page of [`Self::html`] to a file.
    pub fn write_page(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.html())
    }

    /// Returns the setting of the environment variable that replays a run.
    pub(crate) fn replayed_by(&self, plan: &Plan) -> String {
        format!("{}='{}: {plan}'", super::VARIABLE, self.scenario)
    }

    pub(crate) fn summary(&self) -> String {
        let Self { scenario, runs, not_reached, failures, took, .. } = self;
        let (took, rate) = (took.as_secs_f64(), self.runs_per_minute());
        let mut summary = format!(
            "exploration of {scenario}: {runs} runs, {} with findings, in {took:.1} s ({rate:.0} a minute)",
            failures.len()
        );
        if *not_reached > 0 {
            summary.push_str(&format!("; {not_reached} did not reach the place of their fault"));
        }
        summary
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.summary())?;
        if !self.reference.is_empty() {
            writeln!(f, "\nnothing was explored, because the run without faults has findings:")?;
            bullets(f, &self.reference)?;
            return story(f, &self.timeline);
        }
        for failure in &self.failures {
            writeln!(f, "\n{}", failure.plan)?;
            for perturbation in failure.plan.perturbations() {
                writeln!(f, "  {}:", perturbation.explained())?;
            }
            bullets(f, &failure.findings)?;
        }
        if let Some(first) = self.failures.first() {
            writeln!(f, "\nevent log of the first failure, replayed with {}:", self.replayed_by(&first.plan))?;
            story(f, &first.timeline)?;
        }
        Ok(())
    }
}

fn bullets(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    lines.iter().try_for_each(|line| writeln!(f, "  - {line}"))
}

/// Writes an event log without reads. Of a very long one, only the beginning and the end.
fn story(f: &mut fmt::Formatter<'_>, timeline: &[Entry]) -> fmt::Result {
    let told: Vec<_> = timeline.iter().filter(|entry| entry.kind != EntryKind::Read).collect();
    let left_out = told.len().saturating_sub(2 * STORY);
    let beginning = told.len().min(if left_out > 0 { STORY } else { usize::MAX });
    told[..beginning].iter().try_for_each(|entry| writeln!(f, "{entry}"))?;
    if left_out > 0 {
        writeln!(f, "             … and {left_out} more, then:")?;
    }
    told[beginning + left_out..].iter().try_for_each(|entry| writeln!(f, "{entry}"))
}
