//! One run: the cluster, the program and the steps.

use std::{collections::BTreeSet, future, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    cluster::{Cluster, ClusterOptions},
    error::{Error, Result},
    isolation::Isolation,
    patterns::Patterns,
    plan::Plan,
    program::{Program, ProgramOptions},
    record::{Injection, Outcome, Record, StepRecord, undo},
    steps::{Executor, Failure},
};

use self::{
    settling::{Settling, State},
    supervisor::Supervisor,
};

pub(crate) use place::Place;

mod invariant;
mod mutated;
mod place;
mod scenario;
mod settling;
mod supervisor;
mod violations;

pub use invariant::Invariant;
pub(crate) use mutated::run_mutation;
pub use scenario::Scenario;

/// The number and the limits of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings {
    /// The number of the run. The program gets it as `WINDLASS_RUN`.
    pub(crate) number: usize,
    /// The time without changes after which the cluster has settled.
    pub(crate) quiet: Duration,
    /// The time limit of one step.
    pub(crate) step: Duration,
    /// The time from SIGTERM to SIGKILL at the end of the run.
    pub(crate) grace: Duration,
    /// The last step, and each in which a fault strikes, end only when nothing has changed for this time, or soon after twice
    /// this time. Zero ends them when they have settled.
    pub(crate) linger: Duration,
    /// The place that is given back before the first such wait. The run continues without it.
    pub(crate) place: Place,
    pub(crate) isolation: Option<Isolation>,
    /// The resources that the program watches once it has started. The first run does not know them.
    pub(crate) watched: Option<BTreeSet<String>>,
    /// The patterns of names that the program generates. The runs without faults do not know them.
    pub(crate) patterns: Arc<Patterns>,
    /// Gets the resources that the program watches when step 0 has settled.
    pub(crate) started: Option<watch::Sender<Option<BTreeSet<String>>>>,
    /// The number of runs in which the object of a mutation has the changed field from the start.
    pub(crate) fresh: usize,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            number: 1,
            quiet: Duration::from_millis(1500),
            step: Duration::from_mins(1),
            grace: Duration::from_secs(2),
            linger: Duration::ZERO,
            place: Place::default(),
            isolation: None,
            watched: None,
            patterns: Arc::default(),
            started: None,
            fresh: 1,
        }
    }
}

/// The name of step 0.
const START: &str = "start";
/// The time after which the state of the cluster is read again without a notification.
const POLL: Duration = Duration::from_millis(100);

/// The shortest time after which everything that a fault holds back is released, even if the cluster has not settled: a
/// program that acts on an earlier state may create an object again and again that the garbage collector deletes. The time is
/// longer if that is necessary to see that the cluster has settled.
const HOLD: Duration = Duration::from_secs(15);

/// Runs the scenario once with the faults of the plan.
///
/// A failed step or a cluster that does not settle ends the run; the record says so. If `stop` becomes `true`, the run
/// ends with [`Outcome::Interrupted`]. Dropping the future kills the program.
///
/// # Errors
///
/// If the cluster or the program cannot be started.
pub(crate) async fn run(
    scenario: &Scenario,
    plan: &Plan,
    settings: &RunSettings,
    stop: &watch::Receiver<bool>,
) -> Result<Record> {
    let began = Instant::now();
    let options = ClusterOptions {
        controllers: scenario.controllers.clone(),
        nodes: scenario.nodes,
        crds: scenario.crds.clone(),
        runtime: scenario.runtime.clone(),
        pod: scenario.pod.clone(),
        answers: scenario.answers.clone(),
        watched: settings.watched.clone(),
        patterns: Arc::clone(&settings.patterns),
    };
    let (cluster, commands) = Cluster::start(&options, plan).await?;
    let play = async {
        let program = ProgramOptions {
            arguments: &scenario.program,
            variables: &scenario.environment,
            directory: scenario.directory.as_deref(),
            isolation: settings.isolation.as_ref(),
            pod: scenario.pod.as_ref(),
            run: settings.number,
        };
        let program = Program::new(program, cluster.started())?;
        let kubeconfig = program.write("kubeconfig-admin", &cluster.admin_kubeconfig())?;
        let executor = Executor::new(cluster.client().clone(), kubeconfig, scenario.directory.clone(), settings.step);
        let supervisor = Supervisor::new(&cluster, program, commands, settings.quiet);
        let mut play = Play {
            cluster: &cluster,
            supervisor,
            settings,
            steps: Vec::new(),
            watched: BTreeSet::new(),
            mutated: Vec::new(),
            has_faults: !plan.is_empty(),
            stop: stop.clone(),
        };
        let outcome = play.all(scenario, &executor).await?;
        let Play { supervisor, steps, watched, mutated, .. } = play;
        // Writes and panics of a program that ends do not belong to the last step.
        cluster.begin_step(steps.len());
        let ended = cluster.started().elapsed();
        let grace = if outcome == Outcome::Interrupted { Duration::ZERO } else { settings.grace };
        let mut processes = supervisor.stop(grace).await;
        for process in &mut processes {
            process.panics.retain(|panic| panic.at <= ended);
        }
        // Resources of the program's own CRDs may exist only now.
        let served = if plan.is_empty() && !scenario.invariants.is_empty() {
            cluster.resources().await?
        } else {
            BTreeSet::new()
        };
        Ok((outcome, steps, watched, mutated, processes, served))
    };
    let played: Result<_> = play.await;
    let mut observed = cluster.finish().await;
    let (outcome, mut steps, watched, mutated, processes, served) = played?;
    if observed.unrecorded_requests > 0 {
        let sent = observed.requests.len() + observed.unrecorded_requests;
        return Err(Error::Cluster(format!("the program sent {sent} requests, more than one run can record")));
    }

    for (step, revision) in steps.iter_mut().zip(&observed.revision_of_step) {
        step.revision = *revision;
    }
    let last = observed.changes.partition_point(|change| change.step < steps.len());
    undo(&mut observed.end, &observed.changes.split_off(last));
    observed.requests.retain(|request| request.step < steps.len());
    observed.injections.extend(mutated);
    if plan.is_empty() && outcome == Outcome::Completed {
        let known = served
            .iter()
            .map(String::as_str)
            .chain(observed.changes.iter().map(|change| change.object.resource.as_str()));
        violations::check_resources(&scenario.invariants, &known.collect())?;
    }
    let violations = violations::violations(&scenario.invariants, &steps, &observed.changes, &observed.end);
    Ok(Record {
        plan: plan.clone(),
        outcome,
        steps,
        changes: observed.changes,
        requests: observed.requests,
        processes,
        injections: observed.injections,
        violations,
        end: observed.end,
        took: began.elapsed(),
        watched,
        fresh: Vec::new(),
    })
}

/// The execution of the steps.
struct Play<'r> {
    cluster: &'r Cluster,
    supervisor: Supervisor<'r>,
    settings: &'r RunSettings,
    /// The steps that have begun.
    steps: Vec<StepRecord>,
    /// The resources that the program watched at the end of step 0.
    watched: BTreeSet<String>,
    /// The mutation and its end, as soon as they are made.
    mutated: Vec<Injection>,
    /// `true` if faults can be the reason why the program ends.
    has_faults: bool,
    stop: watch::Receiver<bool>,
}

impl Play<'_> {
    /// Starts the program and executes the steps, each after the cluster has settled.
    async fn all(&mut self, scenario: &Scenario, executor: &Executor) -> Result<Outcome> {
        self.begin(START);
        self.supervisor.start().await?;
        let mut outcome = self.settle(future::ready(Ok(()))).await?;
        self.watched = self.cluster.watched();
        if let Some(started) = &self.settings.started {
            started.send_replace(Some(self.watched.clone()));
        }
        if outcome == Outcome::Completed && self.is_fault_over() {
            outcome = self.linger().await?;
        }
        for step in &scenario.steps {
            if outcome != Outcome::Completed {
                break;
            }
            self.begin(step.name());
            let at = self.cluster.started().elapsed();
            outcome = self.settle(executor.execute(step)).await?;
            if let Some(description) = step.mutated()
                && matches!(outcome, Outcome::Completed | Outcome::NotSettled { .. })
            {
                self.mutated.push(Injection { at, step: self.steps.len() - 1, description });
            }
            // The program may repeat after a minute what failed, before the next step makes it unnecessary.
            if outcome == Outcome::Completed && self.is_fault_over() {
                outcome = self.linger().await?;
            }
        }
        if outcome == Outcome::Completed {
            outcome = self.linger().await?;
        }
        Ok(outcome)
    }

    /// Returns `true` if a fault struck in this step, or ended in it. A gap that ends in a later step lasts until then.
    fn is_fault_over(&self) -> bool {
        self.cluster.has_fault_struck_in(self.steps.len() - 1) && !self.cluster.activity().is_gap_beyond_step
    }

    fn begin(&mut self, name: &str) {
        self.cluster.begin_step(self.steps.len());
        let started = self.cluster.started().elapsed();
        let name = name.to_owned();
        self.steps.push(StepRecord { name, started, starting_until: started, settled: None, revision: 0 });
    }

    /// Executes a step and waits until the cluster has settled. Everything that a fault holds back is released once
    /// everything else has settled, also while the step is waiting. A gap that ends in a later step is not released at the
    /// end of this one.
    async fn settle(&mut self, work: impl Future<Output = Result<(), Failure>>) -> Result<Outcome> {
        let step = self.steps.len() - 1;
        let mut settling = Settling::new(self.settings.quiet, Instant::now());
        // `None` until the step is done.
        let mut deadline = None;
        // The time from which a fault holds anything back in this step, and the program runs.
        let mut held = None;
        let mut work = pin!(work);
        loop {
            let now = Instant::now();
            let activity = self.cluster.activity();
            let starting = activity.is_starting || self.supervisor.is_waiting();
            if starting {
                self.steps[step].starting_until = self.cluster.started().elapsed();
            }
            held = if activity.is_holding && !starting { held.or(Some(now)) } else { None };
            if held.is_some_and(|held| now >= held + HOLD.max(2 * self.settings.quiet)) {
                self.cluster.release();
                settling.restart(now);
                continue;
            }
            let wake = match settling.state(&activity, starting, now) {
                // A step that waits for the program may need the held events.
                State::Settled if activity.is_holding && !(activity.is_gap_beyond_step && deadline.is_some()) => {
                    self.cluster.release();
                    settling.restart(now);
                    continue;
                }
                State::Settled if deadline.is_some() => {
                    // Invariants do not apply to a program that does not see the step yet.
                    let settled = (!activity.is_gap_beyond_step).then(|| self.cluster.started().elapsed());
                    self.steps[step].settled = settled;
                    return Ok(Outcome::Completed);
                }
                State::QuietUntil(at) => at.min(now + POLL),
                State::Settled | State::Busy => now + POLL,
            };
            let has_failed = !self.has_faults && self.supervisor.keeps_ending();
            if has_failed || deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Outcome::NotSettled { step });
            }
            tokio::select! {
                done = &mut work, if deadline.is_none() => {
                    if let Err(Failure { error, is_rejected }) = done {
                        return Ok(if is_rejected {
                            Outcome::Rejected { step, error }
                        } else {
                            Outcome::StepFailed { step, error }
                        });
                    }
                    deadline = Some(Instant::now() + self.settings.step);
                    // The program may not have noticed the step yet.
                    settling.restart(Instant::now());
                }
                event = self.supervisor.next() => self.supervisor.handle(event).await?,
                () = stopped(&mut self.stop) => return Ok(Outcome::Interrupted),
                () = self.cluster.changed() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Waits until nothing has changed for a long time, unless the run does not linger. A program may retry after a minute.
    async fn linger(&mut self) -> Result<Outcome> {
        if self.settings.linger.is_zero() {
            return Ok(Outcome::Completed);
        }
        self.settings.place.give_back();
        let began = Instant::now();
        let RunSettings { linger, quiet, step, .. } = *self.settings;
        let (mut long, mut short) = (Settling::new(linger, began), Settling::new(quiet, began));
        // A program that always changes something is not waited for.
        let (end, limit) = (began + 2 * linger, began + 2 * linger + step);
        loop {
            let now = Instant::now();
            let activity = self.cluster.activity();
            let starting = activity.is_starting || self.supervisor.is_waiting();
            let is_over = |long, short| long == State::Settled || (now >= end && short == State::Settled);
            if is_over(long.state(&activity, starting, now), short.state(&activity, starting, now)) {
                if !activity.is_holding {
                    return Ok(Outcome::Completed);
                }
                self.cluster.release();
                long.restart(now);
                short.restart(now);
            } else if now >= limit {
                return Ok(Outcome::Completed);
            }
            tokio::select! {
                event = self.supervisor.next() => self.supervisor.handle(event).await?,
                () = stopped(&mut self.stop) => return Ok(Outcome::Interrupted),
                () = self.cluster.changed() => {}
                () = sleep_until(now + POLL) => {}
            }
        }
    }
}

/// Waits until the user stops the exploration.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stopped| *stopped).await.is_err() {
        // Without a sender, nothing can stop it.
        future::pending::<()>().await;
    }
}

#[cfg(all(test, unix))]
mod tests;
