//! Fault exploration: a scenario is run once as it should go, and then again and again, each time with something else
//! going wrong at another place. What ends otherwise is told, with its story.
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
//! // In a test: `#[test] fn it_survives() { … }`. Nothing is async here: each run has a runtime of its own.
//! let scenario = Scenario::new("colours")
//!     .controller(|manager| {
//!         manager.add(Controller::<ConfigMap>::new().owns::<Secret>().reconcile(reconcile));
//!     })
//!     .step("somebody wants colours", |client| async move {
//!         client.create(&ConfigMap::named("colours").in_namespace("default")).await?;
//!         Ok(())
//!     })
//!     .step("the secret is lost", |client| async move {
//!         client.delete::<Secret>("colours").await?;
//!         Ok(())
//!     })
//!     .settled("there is a secret again", |state| state.get::<Secret>("colours").is_some());
//! explore(scenario).assert();
//! ```
//!
//! # What goes wrong
//!
//! The first run is recorded: each request, who made it and what was answered, and each event that reached a cache. For each
//! write of the program there are runs in which the program crashes after it, loses the answer, is refused, is in conflict with
//! somebody else, loses the leadership while it is on its way, or crashes and comes back to an API server that is behind
//! ([`WriteFault`]). For each event there are runs in which a cache is behind for a while, misses what lies between, or
//! lists anew ([`EventFault`]). With [`Scenario::pairs`], there are runs in which two such things happen.
//!
//! # What is compared
//!
//! - The end: all objects of the kinds that were written to, without uids, versions, times and what the server has
//!   generated of names.
//! - The counts: more objects of a kind created or removed than in the first run means that something was made and undone
//!   again that should have been left alone.
//! - What the scenario says must [always](Scenario::always) hold, [in the end](Scenario::settled), and in which
//!   [order](Scenario::order).
//! - An update may not undo what somebody else has written just before; a reconciler may not panic; everything must settle.
//!
//! # When a run has settled
//!
//! When nothing has changed in the cluster for 45 seconds ([`Scenario::quiet`]) of the run's time, no reconcile is under way,
//! none that has failed is still to be repeated, and whatever went wrong is over. The clock of a run stands still while
//! there is anything to do, so this takes no time. What a controller does later of its own accord (an hourly look) is not
//! waited for.
//!
//! # Replaying
//!
//! A failure names its plan, such as `crash@5`. With `WINDLASS_PLAN='colours: crash@5'` in the environment, the exploration of
//! that name is this one run; [`replay`] does the same in code. Runs of a plan are alike: randomness comes from a
//! seed ([`Scenario::seed`]), time from tokio's paused clock, and each run has one thread.
//!
//! # What is not promised
//!
//! - That a program without findings is without faults: it is as good as its scenario.
//! - That runs of programs are alike that use threads, sockets, the system's clock or hash tables with random order.
//! - A loop that neither waits nor asks anything of the server is not ended.

mod compare;
mod normal;
mod page;
mod plan;
mod planner;
mod report;
mod run;
mod scenario;
mod seam;
mod state;
mod tap;
mod timeline;
mod world;

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
    scenario::{Happening, Scenario, StepResult},
    state::State,
    timeline::{Entry, Sort},
};

/// The environment variable that names a scenario and a plan: `colours: crash@5`.
const VARIABLE: &str = "WINDLASS_PLAN";
/// The undisturbed run may make so many requests.
const MOST_REQUESTS: usize = 50_000;

/// Explores a scenario: see the [module](self).
///
/// Blocks until it is done, on as many threads as there are cores.
///
/// # Panics
/// When the environment variable `WINDLASS_PLAN` names this scenario with something that is no plan.
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

/// Explores one plan of a scenario: the undisturbed run, and this one.
pub fn replay(scenario: Scenario, plan: &Plan) -> Report {
    Exploration::begin(scenario, Plans::One(plan.clone()))
}

#[allow(clippy::panic, reason = "a test ends so when its environment makes no sense")]
fn wrong_plan(error: &PlanError) -> ! {
    panic!("{VARIABLE}: {error}")
}

/// Which plans there are to be.
enum Plans {
    All,
    One(Plan),
}

/// An exploration under way.
struct Exploration {
    scenario: Arc<Scenario>,
    reference: Run,
    most_requests: usize,
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
            report.reference = differences.iter().map(|difference| format!("two runs differ: {difference}")).collect();
        }
        if report.reference.is_empty() {
            let most_requests = reference.requests * 10 + 200;
            let this = Self { scenario, reference, most_requests };
            let plans = match plans {
                Plans::All => planner::plans(&this.scenario, &this.reference),
                Plans::One(plan) => vec![plan],
            };
            this.explore(&plans, &mut report);
        }
        report.took = began.elapsed();
        report
    }

    /// Carries out all plans, on several threads.
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
        // Of pairs may be left what was found alone.
        let mut told = BTreeSet::new();
        report.failures.retain(|failure| told.insert(failure.plan.clone()));
    }

    fn run(&self, plan: &Plan) -> Run {
        run::run(&self.scenario, plan, &self.reference.paths, self.most_requests)
    }

    fn failure(&self, plan: &Plan, run: Run) -> Option<Failure> {
        let findings = compare(&self.scenario, &self.reference, &run);
        (!findings.is_empty()).then(|| Failure { plan: plan.clone(), findings, timeline: run.timeline })
    }

    /// The same failure, with no more going wrong than it takes.
    fn least(&self, failure: Failure) -> Failure {
        let smaller = failure.plan.smaller();
        let smaller = smaller.iter().find_map(|plan| self.failure(plan, self.run(plan)));
        smaller.map_or(failure, |smaller| self.least(smaller))
    }
}

/// The next plan that nobody has taken.
fn take<'p>(next: &AtomicUsize, plans: &'p [Plan]) -> Option<(usize, &'p Plan)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    plans.get(index).map(|plan| (index, plan))
}

#[allow(clippy::disallowed_methods, reason = "how long an exploration takes is told by the clock on the wall")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
