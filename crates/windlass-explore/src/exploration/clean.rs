//! The runs without faults.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::sync::{Semaphore, watch};

use super::{CleanRun, Progress, Settings, quiet, runner::Runner};
use crate::{
    error::{Error, Result},
    history::generalize,
    patterns::Patterns,
    plan::Plan,
    record::{Outcome, ProcessEnd, Record},
    run::RunSettings,
};

/// The maximum number of log lines in an error.
const LINES: usize = 30;

/// The runs without faults, and the settings that they give for the others.
pub(super) struct Clean {
    /// Empty if the user stopped the exploration.
    pub(super) records: Vec<Record>,
    pub(super) settings: RunSettings,
}

/// Executes the runs without faults. The others begin when the program of the first one has started, because they wait
/// until theirs watches the same. All wait long enough to see the longest pause of the program, which one run alone may not
/// have: if the first one has longer pauses than expected, the others begin again.
pub(super) async fn run(runner: &dyn Runner, settings: &Settings, stop: &watch::Receiver<bool>) -> Result<Clean> {
    let started = watch::Sender::new(None);
    let first = RunSettings {
        quiet: quiet::FIRST.max(settings.quiet),
        step: settings.step_limit,
        isolation: settings.isolation.clone(),
        started: Some(started.clone()),
        ..RunSettings::default()
    };
    let places = Semaphore::new(settings.jobs);
    let run = |settings: RunSettings| {
        let places = &places;
        async move {
            let _place = places.acquire().await;
            runner.run(&Plan::default(), &settings, stop).await
        }
    };
    // All after the first one, as soon as that one has started.
    let others = |quiet: Duration| {
        let (first, mut started) = (first.clone(), started.subscribe());
        let begin = async move {
            let watched = started.wait_for(Option::is_some).await.map_or(None, |watched| watched.clone());
            RunSettings { quiet, watched, started: None, ..first }
        };
        let runs = move |next: RunSettings| {
            let others = (2..=settings.clean_runs).map(move |number| run(RunSettings { number, ..next.clone() }));
            stream::iter(others).buffer_unordered(settings.jobs)
        };
        stream::once(begin).flat_map(runs).boxed()
    };

    let mut running = others(first.quiet);
    let mut finished = Vec::new();
    let record = {
        let mut run = pin!(run(first.clone()));
        loop {
            tokio::select! {
                record = &mut run => break record?,
                Some(other) = running.next() => finished.push(other),
            }
        }
    };
    started.send_replace(Some(record.watched.clone()));
    let mut clean = Clean { records: Vec::new(), settings: RunSettings { started: None, ..first.clone() } };
    if !clean.add(record, settings)? {
        return Ok(clean);
    }
    let quiet = quiet::learned(&clean.records);
    if quiet > first.quiet {
        running = others(quiet);
        finished.clear();
    }
    let mut running = stream::iter(finished).chain(running);
    while let Some(record) = running.next().await {
        if !clean.add(record?, settings)? {
            clean.records.clear();
            return Ok(clean);
        }
    }
    drop(running);
    let patterns = Arc::new(Patterns::learn(&clean.records));
    for record in &mut clean.records {
        generalize(record, &patterns);
    }
    let quiet = quiet::learned(&clean.records).max(settings.quiet);
    let (number, watched) = (settings.clean_runs, clean.watched());
    clean.settings = RunSettings { number, quiet, watched, patterns, ..clean.settings };
    Ok(clean)
}

impl Clean {
    /// Adds a record. Returns `false` if the run was interrupted.
    fn add(&mut self, record: Record, settings: &Settings) -> Result<bool> {
        if record.outcome == Outcome::Interrupted {
            return Ok(false);
        }
        if let Some(reason) = failure(&record) {
            return Err(Error::CleanRun(reason));
        }
        self.records.push(record);
        let (number, all) = (self.records.len(), settings.clean_runs);
        settings.report(&Progress {
            clean_runs: number,
            done: 0,
            total: 0,
            findings: 0,
            remaining: Duration::ZERO,
            message: format!("run {number} of {all} without faults is finished"),
        });
        Ok(true)
    }

    /// Returns the resources that the program watched before the first step in all runs.
    fn watched(&self) -> Option<BTreeSet<String>> {
        self.records.iter().map(|record| record.watched.clone()).reduce(|all, watched| &all & &watched)
    }
}

impl From<&Record> for CleanRun {
    fn from(record: &Record) -> Self {
        Self {
            seconds: record.took.as_secs_f64(),
            changes: record.changes.len(),
            changes_by_program: record.changes_by_program().count(),
            requests: record.requests.len(),
        }
    }
}

/// Returns the status of each process that ended by itself.
fn exits(record: &Record) -> Vec<&str> {
    let ends = record.processes.iter().filter_map(|process| process.ended.as_ref());
    let exits = ends.filter_map(|(_, end)| match end {
        ProcessEnd::Exited(status) => Some(status.as_str()),
        ProcessEnd::Killed | ProcessEnd::Stopped => None,
    });
    exits.collect()
}

/// Returns the reason why a run without faults failed, with the last lines of the program's log.
fn failure(record: &Record) -> Option<String> {
    let name = |step: usize| record.steps.get(step).map(|step| step.name.clone()).unwrap_or_default();
    let reason = match &record.outcome {
        Outcome::StepFailed { step, error } => format!("step {step} ({}) failed: {error}", name(*step)),
        Outcome::NotSettled { step } => match exits(record)[..] {
            [.., last] => format!("the program ended by itself in step {step} ({}): {last}", name(*step)),
            [] => format!("the cluster still changed at the time limit of step {step} ({})", name(*step)),
        },
        Outcome::Completed | Outcome::Rejected { .. } | Outcome::Interrupted => {
            let violation = record.violations.first()?;
            let object = violation.object.as_ref().map(|object| format!(" ({object})")).unwrap_or_default();
            let error = violation.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            format!("invariant violated in step {}: {}{object}{error}", violation.step, violation.invariant)
        }
    };
    let lines: Vec<_> = record.processes.iter().flat_map(|process| &process.log).map(|line| &*line.text).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() {
        return Some(format!("{reason}; the program printed nothing"));
    }
    Some(format!("{reason}; the end of the program's log:\n{}", last.join("\n")))
}

#[cfg(test)]
mod tests;
