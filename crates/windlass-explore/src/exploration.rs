//! An exploration: runs without faults, then a run for each plan of faults or for each mutation, then replays of the runs
//! with findings.

use std::{fmt, future::Future, path::PathBuf, sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    isolation::Isolation,
    normal::Derived,
    plan::Plan,
    run::Scenario,
};

mod clean;
mod digest;
mod engine;
mod quiet;
mod results;
mod runner;
#[cfg(test)]
pub(crate) mod simulated;
mod state;
mod tally;
mod timeline;

use state::StateFile;

pub use results::{CleanRun, FindingGroup, FindingRun, Progress, Replays, Results};
pub use timeline::{Entry, EntryKind};

/// A fault exploration of one scenario.
pub struct Exploration {
    scenario: Scenario,
    settings: Settings,
}

/// The settings of an exploration.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) plan: Option<Plan>,
    pub(crate) filter: Option<Filter>,
    pub(crate) jobs: usize,
    pub(crate) isolation: Option<Isolation>,
    /// No new plan starts after this time.
    pub(crate) time_limit: Duration,
    /// All runs are stopped at this time. Defaults to five minutes after the time limit.
    pub(crate) hard_limit: Option<Duration>,
    pub(crate) step_limit: Duration,
    /// The minimum time without changes after which a run has settled.
    pub(crate) quiet: Duration,
    pub(crate) clean_runs: usize,
    pub(crate) replays: usize,
    /// The time without changes after which the last step of a replay ends, and the one with the fault.
    pub(crate) linger: Duration,
    pub(crate) state: Option<PathBuf>,
    pub(crate) pairs: bool,
    /// `true` for mutations instead of faults.
    pub(crate) mutate: bool,
    /// The derived resources that are compared.
    pub(crate) derived: Derived,
    pub(crate) progress: Option<Arc<dyn Fn(&Progress) + Send + Sync>>,
}

type Filter = Arc<dyn Fn(&Plan) -> bool + Send + Sync>;

impl Default for Settings {
    fn default() -> Self {
        Self {
            plan: None,
            filter: None,
            jobs: 1,
            isolation: None,
            time_limit: Duration::from_mins(20),
            hard_limit: None,
            step_limit: Duration::from_mins(1),
            quiet: Duration::ZERO,
            clean_runs: 3,
            replays: 3,
            linger: quiet::LINGER,
            state: None,
            pairs: false,
            mutate: false,
            derived: Derived::default(),
            progress: None,
        }
    }
}

impl Exploration {
    /// Creates an exploration with default settings: one run at a time, three runs without faults, three replays of
    /// each finding, no pairs of faults, and 20 minutes for new plans.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario, settings: Settings::default() }
    }

    /// Runs only this plan, after the runs without faults.
    #[must_use]
    pub fn plan(mut self, plan: Plan) -> Self {
        self.settings.plan = Some(plan);
        self
    }

    /// Runs only the plans that the filter accepts.
    #[must_use]
    pub fn filter(mut self, filter: impl Fn(&Plan) -> bool + Send + Sync + 'static) -> Self {
        self.settings.filter = Some(Arc::new(filter));
        self
    }

    /// Sets the number of simultaneous runs. Programs with fixed ports need 1, the default, or
    /// [isolation](Self::isolation).
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.settings.jobs = jobs.max(1);
        self
    }

    /// Isolates the processes of the program by Linux namespaces. By default, they are not isolated.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = Some(isolation);
        self
    }

    /// Sets the time after which no new plan starts. Runs and replays in progress still end. Defaults to 20 minutes.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.settings.time_limit = limit;
        self
    }

    /// Sets the time after which all runs are stopped, even unfinished ones. Defaults to five minutes after the time
    /// limit for new plans.
    #[must_use]
    pub fn hard_limit(mut self, limit: Duration) -> Self {
        self.settings.hard_limit = Some(limit);
        self
    }

    /// Sets the time limit of one step, after which a run has failed. Defaults to one minute.
    #[must_use]
    pub fn step_limit(mut self, limit: Duration) -> Self {
        self.settings.step_limit = limit;
        self
    }

    /// Sets the minimum time without changes after which a run has settled. By default, it is learned from the runs
    /// without faults. Set it to more than the pause before a retry if that is long: kopf waits for a minute by default.
    #[must_use]
    pub fn quiet(mut self, minimum: Duration) -> Self {
        self.settings.quiet = minimum;
        self
    }

    /// Sets the number of runs without faults. Defaults to 3; the minimum is 1.
    #[must_use]
    pub fn clean_runs(mut self, runs: usize) -> Self {
        self.settings.clean_runs = runs.max(1);
        self
    }

    /// Sets the number of replays of each finding. Defaults to 3. Replays wait longer until a run has settled, so that
    /// the state of a program that has only paused before a retry is not confirmed.
    #[must_use]
    pub fn replays(mut self, replays: usize) -> Self {
        self.settings.replays = replays;
        self
    }

    /// Sets the time without changes after which the last step of a replay ends, and the one with the fault; also the last
    /// step of a further run without faults. Defaults to 75 seconds, so that a program can retry after a minute.
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.settings.linger = linger;
        self
    }

    /// Sets a directory for finished plans, so that an interrupted exploration of the same scenario continues.
    #[must_use]
    pub fn state(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.state = Some(directory.into());
        self
    }

    /// Also runs plans with two faults, after those with one. Defaults to `false`.
    #[must_use]
    pub fn pairs(mut self, pairs: bool) -> Self {
        self.settings.pairs = pairs;
        self
    }

    /// Changes one field of a custom resource at a time instead of injecting faults. Defaults to `false`.
    ///
    /// The objects are those that the steps apply and whose kinds are defined by the CRDs of the scenario. After the steps,
    /// a run makes the change and reverts it, which must end like the runs without it. Another run creates the object with
    /// the change from the start, which must end like the first run before it reverts the change.
    #[must_use]
    pub fn mutate(mut self, mutate: bool) -> Self {
        self.settings.mutate = mutate;
        self
    }

    /// Sets a function that is called after each run.
    #[must_use]
    pub fn progress(mut self, callback: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.settings.progress = Some(Arc::new(callback));
        self
    }

    /// Explores until all plans have run, the time is over, or `stop` completes. In each case, the results so far are
    /// returned.
    ///
    /// # Errors
    ///
    /// If a run without faults fails, the cluster or the program cannot be started, or isolation is missing.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Results> {
        let Self { scenario, mut settings } = self;
        if scenario.pod.is_some() && settings.isolation.is_none() {
            return Err(Error::NotIsolated);
        }
        let named = settings.plan.iter().flat_map(Plan::faults).map(|fault| fault.point.step).max();
        if let Some(step) = named.filter(|step| *step > scenario.steps.len()) {
            return Err(Error::NoSuchStep { step, last: scenario.steps.len() });
        }
        settings.derived = Derived::without(&scenario.controllers);
        let state = settings.state.as_ref().map(|directory| StateFile::open(directory, &digest::of(&scenario)));
        let state = state.transpose()?;
        let mut results = engine::explore(&scenario, &settings, state, stop).await?;
        results.program = scenario.program;
        Ok(results)
    }
}

impl fmt::Debug for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exploration")
            .field("scenario", &self.scenario)
            .field("jobs", &self.settings.jobs)
            .finish_non_exhaustive()
    }
}
