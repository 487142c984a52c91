//! Fault exploration: records one run of a scenario without faults, then repeats it with one fault injected at each
//! recorded write and event. Runs with a different outcome are reported with their event log.
//!
//! ```
//! use std::sync::Arc;
//! use windlass_api::{ObjectBuilder as _, ObjectExt as _, k8s_openapi::api::core::v1::{ConfigMap, Secret}};
//! use windlass_envtest::explore::{Scenario, explore};
//! use windlass_runtime::{Action, Context, Controller};
//!
//! async fn reconcile(config: Arc<ConfigMap>, cx: Context) -> windlass_runtime::Result<Action> {
//!     let secret = Secret::named(config.name()).in_namespace("default").controlled_by(&*config);
//!     cx.client().apply(&secret).await?;
//!     Ok(Action::await_change())
//! }
//!
//! // In a test: `#[test] fn it_survives() { … }`. The test is not async: each run has its own runtime.
//! let scenario = Scenario::new("colors")
//!     .controller(|manager| {
//!         manager.add(Controller::<ConfigMap>::new().owns::<Secret>().reconcile(reconcile));
//!     })
//!     .step("create the ConfigMap", |client| async move {
//!         client.create(&ConfigMap::named("colors").in_namespace("default")).await?;
//!         Ok(())
//!     })
//!     .step("delete the Secret", |client| async move {
//!         client.delete::<Secret>("colors").await?;
//!         Ok(())
//!     })
//!     .settled("the Secret exists", |state| state.get::<Secret>("colors").is_some());
//! explore(scenario).assert();
//! ```
//!
//! # Injected faults
//!
//! The first run is recorded: each request with its client and its response, and each event that reached a cache.
//!
//! For each write of the program there is one run per [`WriteFault`]:
//!
//! - The program crashes after the write.
//! - The response is lost.
//! - The write is rejected.
//! - The write conflicts with another client's write.
//! - The program loses its leadership while the write is in flight.
//! - The program crashes after the write and restarts against a stale API server.
//!
//! For each event there is one run per [`EventFault`]: a cache is stale for a while, misses the events of that time, or
//! relists. [`Scenario::pairs`] adds runs with two faults.
//!
//! # Checks
//!
//! - The final state: all objects of the kinds that were written to. UIDs, versions, times and the generated parts of
//!   names are ignored.
//! - The counts: if more objects of a kind are created or removed than in the first run, the program has created or
//!   deleted objects unnecessarily.
//! - The conditions of the scenario: those that must hold [always](Scenario::always) or [at the
//!   end](Scenario::settled), and the [order](Scenario::order) of events.
//! - An update must not overwrite another client's preceding write, a reconciler must not panic, and every run must
//!   settle.
//!
//! # When a run has settled
//!
//! A run has settled if nothing has changed in the cluster for 45 seconds ([`Scenario::quiet`]) of the run's time. In
//! addition, no reconcile is in progress or waits for a retry, and no fault is active. The clock of a run is paused while
//! there is work to do, so this takes no real time. Later periodic work of a controller, such as an hourly resync, is not
//! waited for.
//!
//! # Replaying
//!
//! A failure names its plan, such as `crash@5`. With the environment variable `WINDLASS_PLAN='colors: crash@5'`, the
//! exploration of that name performs only this run; [`replay`] does the same in code. Runs of the same plan are
//! identical: randomness comes from a seed ([`Scenario::seed`]), time from tokio's paused clock, and each run has one
//! thread.
//!
//! # What is not guaranteed
//!
//! - A program without findings may still have bugs: the exploration covers only what its scenario does.
//! - Runs are not identical for programs that use threads, sockets, the system clock, or hash tables with a random
//!   order.
//! - A loop that neither waits nor sends requests to the server is not ended.

mod compare;
mod faulty_list_watch;
mod faulty_transport;
mod normal;
mod page;
mod plan;
mod planner;
mod report;
mod run;
mod run_state;
mod scenario;
mod state;
mod timeline;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use self::{compare::compare, run::Run};
pub use self::{
    plan::{EventFault, Perturbation, Plan, PlanError, WriteFault},
    report::{Failure, Report},
    scenario::{ObjectChange, Scenario, StepResult},
    state::State,
    timeline::{Entry, EntryKind},
};

/// The environment variable with a scenario and a plan: `colors: crash@5`.
const VARIABLE: &str = "WINDLASS_PLAN";
/// The maximum number of requests of the first run, without faults.
const MOST_REQUESTS: usize = 50_000;

/// Explores a scenario: see the [module](self).
///
/// Blocks until the exploration is complete. Uses one thread per core by default.
///
/// # Panics
/// Panics if the environment variable `WINDLASS_PLAN` names this scenario with an invalid plan.
pub fn explore(scenario: Scenario) -> Report {
    if let Ok(line) = std::env::var(VARIABLE)
        && let Some((name, plan)) = line.rsplit_once(": ")
        && name == scenario.name
    {
        let plan = plan.parse().unwrap_or_else(|error| wrong_plan(&error));
        return replay(scenario, &plan);
    }
    Exploration::begin(scenario, Plans::All)
}

/// Explores one plan of a scenario: a run without faults, and the run of the plan.
pub fn replay(scenario: Scenario, plan: &Plan) -> Report {
    Exploration::begin(scenario, Plans::One(plan.clone()))
}

#[allow(clippy::panic, reason = "an invalid environment variable fails the test")]
fn wrong_plan(error: &PlanError) -> ! {
    panic!("{VARIABLE}: {error}")
}

/// The choice of plans.
enum Plans {
    All,
    One(Plan),
}

/// An exploration in progress.
struct Exploration {
    scenario: Arc<Scenario>,
    reference: Run,
    max_requests: usize,
}

impl Exploration {
    fn begin(scenario: Scenario, plans: Plans) -> Report {
        let began = now();
        let scenario = scenario.shared();
        let nothing = Plan::default();
        let undisturbed = || run::run(&scenario, &nothing, &BTreeMap::new(), MOST_REQUESTS);
        let (reference, again) = thread::scope(|scope| {
            let again = scope.spawn(undisturbed);
            (undisturbed(), again.join().unwrap_or_default())
        });
        let mut report = Report {
            scenario: scenario.name.clone(),
            reference: reference.findings.clone(),
            timeline: reference.timeline.clone(),
            runs: 0,
            not_reached: 0,
            failures: Vec::new(),
            took: Duration::ZERO,
        };
        if report.reference.is_empty() {
            let differences = compare(&scenario, &reference, &again);
            report.reference =
                differences.iter().map(|difference| format!("two runs without faults differ: {difference}")).collect();
        }
        if report.reference.is_empty() {
            let max_requests = reference.requests * 10 + 200;
            let this = Self { scenario, reference, max_requests };
            let plans = match plans {
                Plans::All => planner::plans(&this.scenario, &this.reference),
                Plans::One(plan) => vec![plan],
            };
            this.explore(&plans, &mut report);
        }
        report.took = began.elapsed();
        report
    }

    /// Runs all plans on several threads.
    fn explore(&self, plans: &[Plan], report: &mut Report) {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = self.scenario.threads.unwrap_or(cores).clamp(1, plans.len().max(1));
        let (next, not_reached, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((index, plan)) = take(&next, plans) {
                        let run = self.run(plan);
                        if run.hits == 0 && !plan.is_empty() {
                            not_reached.fetch_add(1, Ordering::Relaxed);
                        }
                        if let Some(failure) = self.failure(plan, run) {
                            failures.lock().push((index, self.least(failure)));
                        }
                    }
                });
            }
        });
        let mut failures = failures.into_inner();
        failures.sort_by_key(|(index, _)| *index);
        report.runs = plans.len();
        report.not_reached = not_reached.into_inner();
        report.failures = failures.into_iter().map(|(_, failure)| failure).collect();
        // A pair may have been reduced to a plan that was already reported.
        let mut told = BTreeSet::new();
        report.failures.retain(|failure| told.insert(failure.plan.clone()));
    }

    fn run(&self, plan: &Plan) -> Run {
        run::run(&self.scenario, plan, &self.reference.paths, self.max_requests)
    }

    fn failure(&self, plan: &Plan, run: Run) -> Option<Failure> {
        let findings = compare(&self.scenario, &self.reference, &run);
        (!findings.is_empty()).then(|| Failure { plan: plan.clone(), findings, timeline: run.timeline })
    }

    /// Returns the same failure with the fewest faults that cause it.
    fn least(&self, failure: Failure) -> Failure {
        let smaller = failure.plan.smaller();
        let smaller = smaller.iter().find_map(|plan| self.failure(plan, self.run(plan)));
        smaller.map_or(failure, |smaller| self.least(smaller))
    }
}

/// Takes the next plan.
fn take<'p>(next: &AtomicUsize, plans: &'p [Plan]) -> Option<(usize, &'p Plan)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    plans.get(index).map(|plan| (index, plan))
}

#[allow(clippy::disallowed_methods, reason = "measures the real duration of an exploration")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
