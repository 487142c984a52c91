//! The loop of an exploration: plans, replays of findings, and the time limits.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep_until},
};
use windlass_api::ErrorChain;

use super::{
    Progress, Results, Settings, StateFile, clean, quiet, runner::Runner, state::Finished, tally::Tally,
    timeline::timeline,
};
use crate::{
    error::Result,
    findings::Baseline,
    mutations::Mutations,
    plan::Plan,
    planner::{self, Planned},
    record::{Outcome, Record},
    run::{Place, RunSettings},
};

/// The time from the limit for new plans to the hard end, by default.
const GRACE: Duration = Duration::from_mins(5);
/// The maximum number of runs without faults that check findings.
const CONTROLS: usize = 10;
/// The maximum number of replays and controls that wait for late changes, besides the active runs.
const WAITING: usize = 16;
/// The number of runs in a replay in which the object of a mutation is new. What differs between them is not compared.
const NEW: usize = 2;
/// The number of runs with an error of the test environment, without one success, after which the exploration fails.
const ERRORS: usize = 5;

/// Explores until all plans have run, the time is over, or `stop` completes.
pub(super) async fn explore(
    runner: &dyn Runner,
    settings: &Settings,
    state: Option<StateFile>,
    stop: impl Future<Output = ()>,
) -> Result<Results> {
    let started = Instant::now();
    let (sender, receiver) = watch::channel(false);
    let hard_limit = settings.hard_limit.unwrap_or(settings.time_limit + GRACE);
    let mut end = pin!(
        async {
            tokio::select! {
                () = stop => {}
                () = sleep_until(started + hard_limit) => {}
            }
        }
        .fuse()
    );
    let mut exploration = pin!(run_all(runner, settings, state, started, &receiver));
    loop {
        tokio::select! {
            results = &mut exploration => return results,
            () = &mut end, if !*sender.borrow() => drop(sender.send(true)),
        }
    }
}

async fn run_all(
    runner: &dyn Runner,
    settings: &Settings,
    state: Option<StateFile>,
    started: Instant,
    stop: &watch::Receiver<bool>,
) -> Result<Results> {
    let clean = clean::run(runner, settings, stop).await?;
    let mut tally = Tally::default();
    let planned = match (&settings.plan, clean.records.first()) {
        (Some(plan), _) => Planned { plans: vec![plan.clone()], ..Planned::default() },
        (None, Some(first)) if settings.mutate => {
            let Mutations { planned, rejected } = runner.mutations(first).await?;
            tally.results.rejected = rejected;
            planned
        }
        _ => planner::plans(&clean.records, settings.pairs),
    };
    let mut plans = planned.plans;
    if let Some(filter) = &settings.filter {
        plans.retain(|plan| filter(plan));
    }
    tally.results.planned = plans.len();
    tally.results.skipped = planned.skipped;
    tally.results.clean_runs = clean.records.iter().map(Into::into).collect();
    tally.results.clean_timeline = clean.records.first().map(|record| timeline(record, &[])).unwrap_or_default();
    let mut baseline = Baseline::new(&clean.records, settings.derived.clone());
    for record in &clean.records {
        baseline.learn_histories(record);
    }
    let mut engine = Engine {
        settings,
        run_settings: clean.settings,
        started,
        stop,
        baseline,
        plans: plans.into(),
        smaller: VecDeque::new(),
        has_run: BTreeSet::new(),
        replaying: BTreeMap::new(),
        controls: 0,
        state,
        tally,
        plan_time: Duration::ZERO,
    };
    drop(clean.records);
    engine.resume();
    engine.run(runner).await?;
    Ok(engine.finish())
}

struct Engine<'e> {
    settings: &'e Settings,
    /// The settings of the last started run.
    run_settings: RunSettings,
    started: Instant,
    stop: &'e watch::Receiver<bool>,
    baseline: Baseline,
    /// The plans that have not started.
    plans: VecDeque<Plan>,
    /// The single faults of pairs with findings.
    smaller: VecDeque<Plan>,
    /// The plans that have started.
    has_run: BTreeSet<Plan>,
    /// The number of running replays by plan.
    replaying: BTreeMap<Plan, usize>,
    /// The number of started controls.
    controls: usize,
    state: Option<StateFile>,
    tally: Tally,
    /// The total duration of all runs, without the waits that need no place.
    plan_time: Duration,
}

struct Task {
    plan: Plan,
    purpose: Purpose,
    started: Instant,
}

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The first run of a plan.
    Plan,
    /// A repetition of a plan with a finding.
    Replay,
    /// A run without faults, which shows findings that do not need one.
    Control,
}

impl Engine<'_> {
    /// Adds the finished runs of an earlier exploration.
    fn resume(&mut self) {
        let finished = self.state.as_mut().map(|state| std::mem::take(&mut state.finished)).unwrap_or_default();
        let planned: BTreeSet<_> = self.plans.iter().cloned().collect();
        for finished in finished.iter().filter(|finished| planned.contains(&finished.plan)) {
            if finished.is_replay || self.has_run.insert(finished.plan.clone()) {
                self.tally.add(finished);
            }
        }
        self.plans.retain(|plan| !self.has_run.contains(plan));
        self.tally.results.resumed = self.tally.results.finished;
    }

    async fn run(&mut self, runner: &dyn Runner) -> Result<()> {
        let mut running: FuturesUnordered<BoxFuture<'_, (Task, Result<Record>)>> = FuturesUnordered::new();
        let places = Arc::new(Semaphore::new(self.settings.jobs));
        let limit = self.settings.jobs + WAITING;
        loop {
            // `true` if a run could begin when another one gives its place back.
            let mut is_full = false;
            while running.len() < limit {
                let Ok(permit) = Arc::clone(&places).try_acquire_owned() else {
                    is_full = true;
                    break;
                };
                let Some(task) = self.next_task() else { break };
                let place = Place::new(permit);
                let (settings, stop) = (self.settings_of(&task, &place), self.stop);
                running.push(Box::pin(async move {
                    let record = runner.run(&task.plan, &settings, stop).await;
                    drop(place);
                    (task, record)
                }));
            }
            if running.is_empty() {
                return Ok(());
            }
            let (task, record) = tokio::select! {
                biased;
                Some(ended) = running.next() => ended,
                _ = places.acquire(), if is_full => continue,
            };
            if task.purpose == Purpose::Replay
                && let Some(number) = self.replaying.get_mut(&task.plan)
            {
                *number -= 1;
            }
            self.plan_time += task.started.elapsed().saturating_sub(self.wait_of(task.purpose));
            match record {
                Ok(record) => self.add(&task, &record)?,
                Err(error) if task.purpose == Purpose::Control => {
                    self.report(format!("a run without faults failed: {}", ErrorChain(&error)));
                }
                Err(error) => {
                    let failed = &mut self.tally.results.failed;
                    failed.insert(task.plan.to_string(), ErrorChain(&error).to_string());
                    if failed.len() >= ERRORS && self.tally.results.finished == 0 {
                        return Err(error);
                    }
                    self.report(format!("{} cannot be run: {}", task.plan, ErrorChain(&error)));
                }
            }
        }
    }

    /// Returns the settings of a new run.
    fn settings_of(&mut self, task: &Task, place: &Place) -> RunSettings {
        self.run_settings.number += 1;
        let mut settings = self.run_settings.clone();
        if task.purpose != Purpose::Plan {
            let patient = quiet::patient(settings.quiet);
            // A step settles once more for what a fault holds back, and may be interrupted shortly before each time. It may
            // also contain the wait for a retry after a minute.
            settings.step += 4 * patient.saturating_sub(settings.quiet) + self.settings.linger;
            settings.quiet = patient;
            settings.linger = self.settings.linger;
            settings.fresh = NEW;
        }
        // Programs that run one after the other may use the same ports.
        if self.settings.jobs > 1 {
            settings.place = place.clone();
        }
        settings
    }

    /// Returns the time for which a run waits without a place.
    fn wait_of(&self, purpose: Purpose) -> Duration {
        if purpose == Purpose::Plan || self.settings.jobs == 1 { Duration::ZERO } else { self.settings.linger }
    }

    /// Returns the next run: a part of a pair, a replay of a finding, a control, or a new plan.
    fn next_task(&mut self) -> Option<Task> {
        if *self.stop.borrow() {
            return None;
        }
        let task = |plan: Plan, purpose: Purpose| Some(Task { plan, purpose, started: Instant::now() });
        if let Some(plan) = self.smaller.pop_front() {
            return task(plan, Purpose::Plan);
        }
        if let Some(plan) = self.tally.next_replay(self.settings.replays, &self.replaying) {
            *self.replaying.entry(plan.clone()).or_default() += 1;
            return task(plan, Purpose::Replay);
        }
        // One for each plan that was replayed.
        if self.controls < self.tally.replayed().min(CONTROLS) {
            self.controls += 1;
            return task(Plan::default(), Purpose::Control);
        }
        if self.started.elapsed() >= self.settings.time_limit {
            return None;
        }
        let plan = self.plans.pop_front()?;
        self.has_run.insert(plan.clone());
        task(plan, Purpose::Plan)
    }

    /// Adds the record of a run.
    fn add(&mut self, task: &Task, record: &Record) -> Result<()> {
        let Task { plan, purpose, .. } = task;
        if record.outcome == Outcome::Interrupted {
            if *purpose == Purpose::Plan {
                self.has_run.remove(plan);
                self.plans.push_front(plan.clone());
            }
            return Ok(());
        }
        if self.baseline.learn_histories(record) {
            self.tally.withdraw(&[], self.baseline.mask());
        }
        if *purpose == Purpose::Control {
            self.add_control(record);
            return Ok(());
        }
        let is_reached = !record.injections.is_empty();
        let rejected = match &record.outcome {
            Outcome::Rejected { error, .. } if !is_reached => Some(error.clone()),
            _ => None,
        };
        let findings = if !is_reached && record.outcome == Outcome::Completed {
            self.learn(record);
            Vec::new()
        } else {
            self.baseline.findings(record)
        };
        let timeline = if findings.is_empty() { Vec::new() } else { timeline(record, &findings) };
        let is_rejected = rejected.is_some();
        let (plan, is_replay) = (plan.clone(), *purpose == Purpose::Replay);
        let finished = Finished { plan, is_replay, is_reached, rejected, findings, timeline };
        self.tally.elapsed = self.started.elapsed();
        self.tally.add(&finished);
        if let Some(state) = &mut self.state {
            state.append(&finished)?;
        }
        if !is_replay {
            let has_run = &self.has_run;
            let smaller = self.tally.smaller(&finished.plan, |plan| has_run.contains(plan));
            self.has_run.extend(smaller.iter().cloned());
            self.tally.results.planned += smaller.iter().filter(|plan| !self.plans.contains(plan)).count();
            self.plans.retain(|plan| !smaller.contains(plan));
            self.smaller.extend(smaller);
        }
        let what = if is_replay { format!("replay of {}", finished.plan) } else { finished.plan.to_string() };
        self.report(match finished.findings.len() {
            0 if is_rejected => format!("{what}: rejected"),
            0 if !is_reached => format!("{what}: the fault did not strike"),
            0 => what,
            1 => format!("{what}: {}", finished.findings[0]),
            number => format!("{what}: {}, and {} more", finished.findings[0], number - 1),
        });
        Ok(())
    }

    /// Adds the record of a run without faults.
    fn add_control(&mut self, record: &Record) {
        self.tally.results.controls += 1;
        let before = self.tally.results.withdrawn.len();
        if record.outcome == Outcome::Completed {
            self.learn(record);
        } else {
            self.tally.withdraw(&self.baseline.findings(record), self.baseline.mask());
        }
        let withdrawn = &self.tally.results.withdrawn[before..];
        self.report(match withdrawn {
            [] => "a run without faults has none of the findings".to_owned(),
            [first] => format!("a run without faults has the finding, too: {first}"),
            [first, others @ ..] => {
                format!("a run without faults has the finding, too: {first}, and {} more", others.len())
            }
        });
    }

    /// Learns from a completed run without faults, and withdraws the findings that it has.
    fn learn(&mut self, record: &Record) {
        let findings = self.baseline.findings(record);
        self.baseline.learn(record);
        self.tally.withdraw(&findings, self.baseline.mask());
    }

    fn report(&self, message: String) {
        let results = &self.tally.results;
        let (done, total) = (results.finished + results.failed.len(), results.planned);
        let (runs, left) = (done - results.resumed, total.saturating_sub(done));
        let average = self.plan_time.checked_div(u32::try_from(runs.max(1)).unwrap_or(u32::MAX)).unwrap_or_default();
        let jobs = u32::try_from(self.settings.jobs).unwrap_or(u32::MAX);
        let all = average.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX)) / jobs;
        let plans = all.min(self.settings.time_limit.saturating_sub(self.started.elapsed()));
        // A replay may wait twice: in the step of the fault, and at the end.
        let replay = average + 2 * self.settings.linger;
        let replays = self.tally.replays_left(self.settings.replays, &self.replaying);
        let remaining = if self.settings.jobs == 1 {
            plans + replay * u32::try_from(replays).unwrap_or(u32::MAX)
        } else {
            let rounds = replays.div_ceil(self.settings.jobs + WAITING);
            plans.max(replay * u32::try_from(rounds).unwrap_or(u32::MAX))
        };
        let (clean_runs, findings) = (results.clean_runs.len(), results.findings.len());
        self.settings.report(&Progress { clean_runs, done, total, findings, remaining, message });
    }

    fn finish(self) -> Results {
        let mut tally = self.tally;
        let results = &mut tally.results;
        for plan in self.plans.iter().chain(&self.smaller) {
            *results.left.entry(plan.effects()).or_default() += 1;
        }
        results.mask = self.baseline.mask().clone();
        results.quiet_seconds = self.run_settings.quiet.as_secs_f64();
        results.interrupted = *self.stop.borrow();
        results.seconds = self.started.elapsed().as_secs_f64();
        tally.finish()
    }
}

impl Settings {
    /// Calls the callback.
    pub(super) fn report(&self, progress: &Progress) {
        if let Some(callback) = &self.progress {
            callback(progress);
        }
    }
}

#[cfg(test)]
mod tests;
