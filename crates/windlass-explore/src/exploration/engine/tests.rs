use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::{
    error::Error,
    exploration::{Replays, simulated::Builder},
    record::LogLine,
};

const CRASH: &str = "crash@1:create:pods/default/a-0";
const LAG: &str = "lag@1:create:dbs/default/a";
const SET: &str = "set(spec/size,2)@dbs.example.dev/default/a";
const REMOVE: &str = "remove(spec/size)@dbs.example.dev/default/a";

/// A program that is not run: its records are computed.
struct Simulated<F> {
    /// Changes the record of a run. The number counts the runs with this plan, beginning with 1.
    behavior: F,
    runs: Mutex<Vec<String>>,
    running: Mutex<(usize, usize)>,
    /// The quiet times by plan.
    quiet: Mutex<BTreeMap<String, Vec<Duration>>>,
    /// The longest time limit of a step.
    step: Mutex<Duration>,
}

impl<F: Fn(&str, usize, &mut Builder) + Sync + Send> Simulated<F> {
    fn new(behavior: F) -> Self {
        Self {
            behavior,
            runs: Mutex::default(),
            running: Mutex::default(),
            quiet: Mutex::default(),
            step: Mutex::default(),
        }
    }

    fn record(&self, plan: &Plan) -> Record {
        let text = plan.to_string();
        let number = {
            let mut runs = self.runs.lock();
            runs.push(text.clone());
            runs.iter().filter(|run| **run == text).count()
        };
        let mut run = Builder::new();
        run.watches("/apis/example.com/v1/dbs", true);
        run.watches("/api/v1/dbs", true);
        run.other("create dbs/default/a", Some(json!({})));
        run.program("create pods/default/a-0", Some(json!({})));
        run.program("create secrets/default/a", Some(json!({})));
        if !plan.is_empty() {
            run.strike(if plan.mutation().is_some() { "the change is made" } else { "the fault strikes" });
        }
        (self.behavior)(&text, number, &mut run);
        run.record.plan = plan.clone();
        run.record
    }

    fn number_of(&self, plan: &str) -> usize {
        self.runs.lock().iter().filter(|run| *run == plan).count()
    }
}

impl<F: Fn(&str, usize, &mut Builder) + Sync + Send> Runner for Simulated<F> {
    fn run<'r>(
        &'r self,
        plan: &'r Plan,
        settings: &'r RunSettings,
        stop: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>> {
        self.quiet.lock().entry(plan.to_string()).or_default().push(settings.quiet);
        let mut step = self.step.lock();
        *step = settings.step.max(*step);
        drop(step);
        Box::pin(async move {
            {
                let mut running = self.running.lock();
                running.0 += 1;
                running.1 = running.1.max(running.0);
            }
            let mut stop = stop.clone();
            let mut record = self.record(plan);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(10)) => {}
                _ = stop.wait_for(|stop| *stop) => record.outcome = Outcome::Interrupted,
            }
            self.running.lock().0 -= 1;
            Ok(record)
        })
    }

    fn mutations<'r>(&'r self, _: &'r Record) -> BoxFuture<'r, Result<Mutations>> {
        Box::pin(async { Ok(mutations()) })
    }
}

/// Returns two mutations, and one that the server rejects.
fn mutations() -> Mutations {
    let plans = [SET, REMOVE].map(|plan| plan.parse().unwrap());
    let planned = Planned { plans: plans.into(), ..Planned::default() };
    Mutations {
        planned,
        rejected: [("set(spec/size,-1)@dbs.example.dev/default/a".to_owned(), "no".to_owned())].into(),
    }
}

/// A runner whose runs without faults fail, except for the first three.
struct WithoutControls<R> {
    runner: R,
    clean: Mutex<usize>,
}

impl<R: Runner> Runner for WithoutControls<R> {
    fn run<'r>(
        &'r self,
        plan: &'r Plan,
        settings: &'r RunSettings,
        stop: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>> {
        if plan.is_empty() {
            let mut clean = self.clean.lock();
            *clean += 1;
            if *clean > 3 {
                return Box::pin(async { Err(Error::Cluster("no port is free".to_owned())) });
            }
        }
        self.runner.run(plan, settings, stop)
    }

    fn mutations<'r>(&'r self, clean: &'r Record) -> BoxFuture<'r, Result<Mutations>> {
        self.runner.mutations(clean)
    }
}

/// A runner whose runs take a second, and then wait for late changes as the settings say.
struct Waiting<R> {
    runner: R,
    /// The numbers of runs that are active now and at most.
    active: Mutex<(usize, usize)>,
    /// The waits by plan.
    lingers: Mutex<BTreeMap<String, Vec<Duration>>>,
}

impl<R: Runner> Runner for Waiting<R> {
    fn run<'r>(
        &'r self,
        plan: &'r Plan,
        settings: &'r RunSettings,
        stop: &'r watch::Receiver<bool>,
    ) -> BoxFuture<'r, Result<Record>> {
        self.lingers.lock().entry(plan.to_string()).or_default().push(settings.linger);
        Box::pin(async move {
            let now = self.active.lock().0 + 1;
            let most = self.active.lock().1.max(now);
            *self.active.lock() = (now, most);
            let record = self.runner.run(plan, settings, stop).await;
            self.active.lock().0 -= 1;
            settings.place.give_back();
            tokio::time::sleep(settings.linger).await;
            record
        })
    }

    fn mutations<'r>(&'r self, clean: &'r Record) -> BoxFuture<'r, Result<Mutations>> {
        self.runner.mutations(clean)
    }
}

/// Leaves a config map over.
fn leak(run: &mut Builder) {
    run.program("create configmaps/default/leaked", Some(json!({})));
}

/// Returns settings with which the progress is recorded.
fn reporting() -> (Arc<Mutex<Vec<Progress>>>, Settings) {
    let sink: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let progress = Arc::clone(&sink);
    let callback = move |one: &Progress| progress.lock().push(one.clone());
    (sink, Settings { progress: Some(Arc::new(callback)), ..Settings::default() })
}

async fn explored(runner: &dyn Runner, settings: &Settings) -> Results {
    explore(runner, settings, None, std::future::pending()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn findings_are_grouped_and_replayed() {
    let runner = Simulated::new(|plan: &str, number, run: &mut Builder| match plan {
        // One replay does not have the finding.
        CRASH if number != 3 => leak(run),
        LAG => leak(run),
        _ => {}
    });
    let (sink, settings) = reporting();
    let results = explored(&runner, &settings).await;
    assert_eq!(results.findings.len(), 1);
    let group = &results.findings[0];
    assert_eq!(group.text, "configmaps/default/leaked is left over at the end");
    let plans: Vec<_> = group.runs.iter().map(|run| run.plan.to_string()).collect();
    assert_eq!(plans, [CRASH, LAG]);
    assert_eq!(group.replays(), Replays { reproduced: 2, of: 3 });
    assert_eq!(group.runs[1].replays, Replays::default(), "the first plan has confirmed the finding");
    assert!(group.timeline.iter().any(|entry| entry.text == "the fault strikes"));
    assert!(!results.is_clean() && !results.interrupted);
    assert_eq!((results.clean_runs.len(), results.finished), (3, results.planned));
    assert!(results.left.is_empty() && results.not_reached.is_empty());
    let passed: Vec<_> = results.passed.iter().map(ToString::to_string).collect();
    assert_eq!(passed.len(), results.planned - 2, "all but the two plans with the finding");
    assert!(!passed.iter().any(|plan| plan == CRASH || plan == LAG), "{passed:?}");
    let (short, long) = (Duration::from_millis(1500), Duration::from_secs(5));
    assert_eq!(runner.quiet.lock()["none"], [long; 4], "runs without faults learn the quiet time");
    assert_eq!((results.controls, results.withdrawn.len()), (1, 0), "one control for the replayed plan");
    assert_eq!(runner.quiet.lock()[CRASH], [short, long, long, long], "replays wait longer");
    let longer = Settings::default().step_limit + quiet::LINGER;
    assert!(*runner.step.lock() > longer, "so their steps have more time, also for a late retry");
    let progress = sink.lock();
    assert_eq!(progress[2].message, "run 3 of 3 without faults is finished");
    let last = progress.last().unwrap();
    assert_eq!((last.done, last.total, last.findings), (results.planned, results.planned, 1));
    let first = &progress[3];
    assert_eq!(first.message, format!("{CRASH}: configmaps/default/leaked is left over at the end"));
    let left = u64::try_from(results.planned - 1).unwrap();
    let replay = Duration::from_secs(10) + 2 * quiet::LINGER;
    assert_eq!(first.remaining, Duration::from_secs(10 * left) + 3 * replay);
}

#[tokio::test(start_paused = true)]
async fn names_that_the_program_generates_are_planned() {
    let runner = Simulated::new(|_: &str, number, run: &mut Builder| {
        run.program(&format!("create configmaps/default/key-{number}abcd"), Some(json!({})));
    });
    let results = explored(&runner, &Settings::default()).await;
    assert_eq!(results.skipped, BTreeMap::new());
    assert_eq!(runner.number_of("crash@1:create:configmaps/default/key-*"), 1);
}

#[tokio::test(start_paused = true)]
async fn remaining_time_contains_replays() {
    for (jobs, replays) in [(1, 3), (4, 1)] {
        let runner = Simulated::new(|plan: &str, _, run: &mut Builder| {
            if plan == CRASH {
                leak(run);
            }
        });
        let (sink, settings) = reporting();
        let plan = Some(CRASH.parse().unwrap());
        let settings = Settings { plan, jobs, ..settings };
        explored(&runner, &settings).await;
        let progress = sink.lock();
        // Each run takes ten seconds. The simulated ones do not linger, but may.
        assert_eq!(progress[3].remaining, (Duration::from_secs(10) + 2 * settings.linger) * replays, "{jobs} jobs");
        let last = progress.iter().rfind(|one| one.message.starts_with("replay")).unwrap();
        assert_eq!(last.remaining, Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_finding_that_is_not_reproduced_is_replayed_with_its_next_plan() {
    let runner = Simulated::new(|plan: &str, number, run: &mut Builder| {
        if number == 1 && plan == CRASH || plan == LAG {
            leak(run);
        }
    });
    let results = explored(&runner, &Settings::default()).await;
    let group = &results.findings[0];
    assert_eq!(group.runs[0].plan.to_string(), LAG, "the confirmed plan is the first one");
    assert_eq!(group.replays(), Replays { reproduced: 3, of: 3 });
    assert_eq!(group.runs[1].replays, Replays { reproduced: 0, of: 3 });

    let runner = Simulated::new(|plan: &str, number, run: &mut Builder| {
        if number == 1 && plan == CRASH {
            leak(run);
        }
    });
    let results = explored(&runner, &Settings::default()).await;
    assert_eq!(results.findings[0].replays(), Replays { reproduced: 0, of: 3 });
    assert!(results.is_clean(), "the only finding was never reproduced");
}

#[tokio::test(start_paused = true)]
async fn findings_of_a_control_are_withdrawn() {
    let runner = Simulated::new(|plan: &str, number, run: &mut Builder| {
        if plan == CRASH || plan == "none" && number > 3 {
            leak(run);
        }
        if plan == LAG {
            run.program("create configmaps/default/lag", Some(json!({})));
        }
    });
    let results = explored(&runner, &Settings::default()).await;
    let texts: Vec<_> = results.findings.iter().map(|group| group.text.as_str()).collect();
    assert_eq!(texts, ["configmaps/default/lag is left over at the end"]);
    assert_eq!(results.findings[0].replays(), Replays { reproduced: 3, of: 3 });
    assert_eq!(results.withdrawn, ["configmaps/default/leaked is left over at the end"]);
    assert_eq!(results.controls, 2, "each finding is checked");
}

#[tokio::test(start_paused = true)]
async fn a_failed_control_is_no_failed_plan() {
    let runner = Simulated::new(|plan: &str, _, run: &mut Builder| {
        if plan == CRASH {
            leak(run);
        }
    });
    let (sink, settings) = reporting();
    let runner = WithoutControls { runner, clean: Mutex::default() };
    let results = explored(&runner, &settings).await;
    assert!(results.failed.is_empty(), "{:?}", results.failed);
    assert_eq!((results.controls, results.findings.len(), results.finished), (0, 1, results.planned));
    let is_reported = |one: &Progress| one.message.starts_with("a run without faults failed: ");
    assert!(sink.lock().iter().any(is_reported));
}

#[tokio::test(start_paused = true)]
async fn fields_that_differ_in_a_control_are_removed_from_findings() {
    let runner = Simulated::new(|plan: &str, number, run: &mut Builder| {
        let (order, size) = match plan {
            CRASH => ("b,a", 2),
            "none" if number > 3 => ("b,a", 1),
            _ => ("a,b", 1),
        };
        run.program("create configmaps/default/a", Some(json!({"data": {"order": order, "size": size}})));
    });
    let results = explored(&runner, &Settings::default()).await;
    let texts: Vec<_> = results.findings.iter().map(|group| group.text.as_str()).collect();
    assert_eq!(texts, ["configmaps/default/a ends differently: data/size is 2, expected 1"]);
    assert!(results.withdrawn.is_empty(), "{:?}", results.withdrawn);
    let object = "configmaps/default/a".parse().unwrap();
    assert_eq!(results.mask.fields.get(&object), Some(&["data/order".to_owned()].into()));
}

#[tokio::test(start_paused = true)]
async fn faults_that_do_not_strike_are_counted_and_learned() {
    let runner = Simulated::new(|plan: &str, _, run: &mut Builder| match plan {
        CRASH => {
            run.record.injections.clear();
            leak(run);
        }
        LAG => leak(run),
        _ => {}
    });
    let results = explored(&runner, &Settings::default()).await;
    assert_eq!(results.not_reached, [CRASH.parse().unwrap()]);
    assert!(!results.passed.contains(&CRASH.parse().unwrap()), "its fault did not strike");
    // The first run has shown that the leak happens without faults.
    assert!(results.findings.is_empty(), "{:?}", results.findings);
    assert_eq!(results.mask.objects, ["configmaps/default/leaked".parse().unwrap()].into());
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_without_faults_is_an_error_with_the_log() {
    let runner = Simulated::new(|_: &str, number, run: &mut Builder| {
        if number == 2 {
            run.record.outcome = Outcome::StepFailed { step: 1, error: "timed out".to_owned() };
            let line = LogLine { at: Duration::ZERO, text: "cannot list dbs".to_owned() };
            run.record.processes[0].log.push(line);
        }
    });
    let error = explore(&runner, &Settings::default(), None, std::future::pending()).await.unwrap_err();
    assert!(matches!(error, Error::CleanRun(_)));
    let expected = "step 1 (step 1) failed: timed out; the end of the program's log:\ncannot list dbs";
    assert!(error.to_string().contains(expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_plan_starts_after_the_time_limit() {
    let runner = Simulated::new(|plan: &str, _, run: &mut Builder| {
        if plan == CRASH {
            leak(run);
        }
    });
    // Three runs without faults and one plan.
    let settings = Settings { time_limit: Duration::from_secs(35), ..Settings::default() };
    let results = explored(&runner, &settings).await;
    assert_eq!(results.finished, 1);
    assert_eq!(results.findings[0].replays(), Replays { reproduced: 3, of: 3 }, "findings are still replayed");
    assert_eq!(results.left.values().sum::<usize>(), results.planned - 1);
    assert_eq!(results.left["crash"], 1);
    assert_eq!(results.effects, [("crash".to_owned(), 1)].into());
    assert!(!results.interrupted);
    let settings = Settings { hard_limit: Some(Duration::from_secs(45)), ..settings };
    let results = explored(&runner, &settings).await;
    assert!(results.interrupted);
    assert_eq!(results.findings[0].replays(), Replays::default());
    assert!((results.seconds - 45.0).abs() < 0.5, "{}", results.seconds);
}

#[tokio::test(start_paused = true)]
async fn stop_returns_the_results_so_far() {
    let runner = Simulated::new(|_: &str, _, _: &mut Builder| {});
    let stop = tokio::time::sleep(Duration::from_secs(55));
    let results = explore(&runner, &Settings::default(), None, stop).await.unwrap();
    assert_eq!((results.finished, results.interrupted), (2, true));
    assert_eq!(results.left.values().sum::<usize>(), results.planned - 2, "the interrupted plan is left");
    let stop = tokio::time::sleep(Duration::from_secs(15));
    let results = explore(&runner, &Settings::default(), None, stop).await.unwrap();
    assert_eq!((results.planned, results.interrupted), (0, true));
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_exploration_continues() {
    let directory = tempfile::tempdir().unwrap();
    let behavior = |plan: &str, _: usize, run: &mut Builder| {
        if plan == CRASH {
            leak(run);
        }
    };
    let state = || Some(StateFile::open(directory.path(), "digest").unwrap());
    let runner = Simulated::new(behavior);
    // Three runs without faults, the first plan, and one of its replays.
    let stop = tokio::time::sleep(Duration::from_secs(55));
    explore(&runner, &Settings::default(), state(), stop).await.unwrap();
    let runner = Simulated::new(behavior);
    let results = explore(&runner, &Settings::default(), state(), std::future::pending()).await.unwrap();
    assert_eq!((results.resumed, results.finished), (1, results.planned));
    assert_eq!(runner.number_of(CRASH), 2, "the other two replays");
    assert_eq!(results.findings[0].replays(), Replays { reproduced: 3, of: 3 });
    let runner = Simulated::new(behavior);
    let results = explore(&runner, &Settings::default(), state(), std::future::pending()).await.unwrap();
    assert_eq!(runner.runs.lock().len(), 4, "only the runs without faults, one of them a control");
    assert_eq!((results.resumed, results.findings.len()), (results.planned, 1));
}

#[tokio::test(start_paused = true)]
async fn jobs_limit_the_simultaneous_runs() {
    let runner = Simulated::new(|_: &str, _, _: &mut Builder| {});
    explored(&runner, &Settings::default()).await;
    assert_eq!(runner.running.lock().1, 1);
    explored(&runner, &Settings { jobs: 3, ..Settings::default() }).await;
    assert_eq!(runner.running.lock().1, 3);
}

#[tokio::test(start_paused = true)]
async fn a_pair_is_reduced_to_the_fault_that_suffices() {
    let runner = Simulated::new(|plan: &str, _, run: &mut Builder| {
        if plan.contains(CRASH) {
            leak(run);
        }
    });
    let pair: Plan = format!("{LAG} & {CRASH}").parse().unwrap();
    let results = explored(&runner, &Settings { plan: Some(pair.clone()), ..Settings::default() }).await;
    assert_eq!((results.planned, results.finished), (3, 3));
    let runs: Vec<_> = results.findings[0].runs.iter().map(|run| run.plan.to_string()).collect();
    assert_eq!(runs, [CRASH.to_owned(), pair.to_string()]);
    assert_eq!(results.findings[0].replays().reproduced, 3);
    assert_eq!(runner.number_of(LAG), 1);
}

#[tokio::test(start_paused = true)]
async fn quiet_time_has_a_minimum() {
    let runner = Simulated::new(|_: &str, _, _: &mut Builder| {});
    let minimum = Duration::from_mins(1);
    let settings = Settings { quiet: minimum, plan: Some(CRASH.parse().unwrap()), ..Settings::default() };
    assert!((explored(&runner, &settings).await.quiet_seconds - 60.0).abs() < 0.1);
    assert_eq!(runner.quiet.lock()["none"], [minimum; 3]);
    assert_eq!(runner.quiet.lock()[CRASH], [minimum]);
}

#[tokio::test(start_paused = true)]
async fn filters_and_pairs_choose_plans() {
    let runner = Simulated::new(|_: &str, _, _: &mut Builder| {});
    let filter = |plan: &Plan| plan.faults().iter().all(|fault| fault.effect.name() == "crash");
    let settings = Settings { filter: Some(Arc::new(filter)), ..Settings::default() };
    assert_eq!(explored(&runner, &settings).await.planned, 2);
    assert_eq!(explored(&runner, &Settings { pairs: true, ..settings }).await.planned, 3);
}

#[tokio::test(start_paused = true)]
async fn replays_wait_for_late_changes_without_a_place() {
    let leaking = |plan: &str, _, run: &mut Builder| {
        if plan == CRASH {
            leak(run);
        }
    };
    let waiting = || Waiting { runner: Simulated::new(leaking), active: Mutex::default(), lingers: Mutex::default() };
    let explored = async |jobs| {
        let (runner, before) = (waiting(), Instant::now());
        let results = explored(&runner, &Settings { jobs, ..Settings::default() }).await;
        assert_eq!(results.findings[0].replays(), Replays { reproduced: 3, of: 3 });
        (runner, results.planned, before.elapsed())
    };
    let (runner, planned, took) = explored(2).await;
    let lingers = runner.lingers.lock().clone();
    let replay = quiet::LINGER;
    assert_eq!(lingers[CRASH], [Duration::ZERO, replay, replay, replay]);
    assert_eq!(lingers["none"], [Duration::ZERO, Duration::ZERO, Duration::ZERO, replay]);
    assert!(lingers[LAG].iter().all(Duration::is_zero));
    assert_eq!(runner.active.lock().1, 2, "waiting runs take no place");
    // Three runs without faults, two at a time after the first one, the plans, three replays and one control.
    let runs = u32::try_from(planned).unwrap() + 4;
    assert!(took <= Duration::from_secs(10) * (2 + runs.div_ceil(2) + 2) + replay, "{took:?} for {planned} plans");

    // With one job, programs may share ports, so no two run at the same time.
    let (_, _, alone) = explored(1).await;
    assert!(alone >= Duration::from_secs(10) * runs + 4 * replay, "{alone:?}");
}

#[tokio::test(start_paused = true)]
async fn conditions_that_prove_to_be_a_history_are_withdrawn() {
    let with = |types: &[&str]| {
        let conditions: Vec<_> = types.iter().map(|name| json!({"type": name})).collect();
        Some(json!({"status": {"size": 1, "conditions": conditions}}))
    };
    let runner = |keeps_history| {
        Simulated::new(move |plan: &str, _, run: &mut Builder| {
            run.program("update dbs/default/a", with(&[]));
            match plan {
                CRASH => {
                    run.program("update dbs/default/a", with(&["Error"]));
                }
                LAG if keeps_history => {
                    run.program("update dbs/default/a", with(&["Error", "Ready", "Error"]));
                    run.program("update dbs/default/a", with(&[]));
                }
                _ => {}
            }
        })
    };
    let results = explored(&runner(true), &Settings::default()).await;
    assert_eq!(results.findings.len(), 0, "{:?}", results.findings);
    assert!(results.withdrawn.iter().all(|text| text.contains("status/conditions")));
    assert!(results.mask.fields.values().flatten().any(|path| path == "status/conditions"));
    let results = explored(&runner(false), &Settings::default()).await;
    assert_eq!(results.findings.len(), 1, "one condition of each type is a state");
}

#[tokio::test(start_paused = true)]
async fn mutations_are_explored_instead_of_faults() {
    let runner = Simulated::new(|plan: &str, _, run: &mut Builder| match plan {
        SET => leak(run),
        REMOVE => {
            run.record.injections.clear();
            run.record.outcome = Outcome::Rejected { step: 1, error: "it is required".to_owned() };
        }
        _ => {}
    });
    let results = explored(&runner, &Settings { mutate: true, ..Settings::default() }).await;
    assert_eq!((results.planned, results.finished), (2, 2));
    assert_eq!(results.effects, [("remove".to_owned(), 1), ("set".to_owned(), 1)].into());
    let texts: Vec<_> = results.findings.iter().map(|group| group.text.as_str()).collect();
    assert_eq!(texts, ["configmaps/default/leaked is left over at the end"]);
    assert_eq!(results.findings[0].replays(), Replays { reproduced: 3, of: 3 });
    let rejected: Vec<_> = results.rejected.iter().map(|(plan, error)| (plan.as_str(), error.as_str())).collect();
    assert_eq!(rejected, [(REMOVE, "it is required"), ("set(spec/size,-1)@dbs.example.dev/default/a", "no")]);
    assert!(results.not_reached.is_empty() && results.passed.is_empty());
    assert_eq!(results.controls, 1);
}

#[tokio::test(start_paused = true)]
async fn one_mutation_is_replayed_without_the_mode() {
    let runner = Simulated::new(|_: &str, _, _: &mut Builder| {});
    let results = explored(&runner, &Settings { plan: Some(SET.parse().unwrap()), ..Settings::default() }).await;
    assert_eq!(results.passed, [SET.parse().unwrap()]);
    assert_eq!(runner.number_of(SET), 1);
}

#[tokio::test(start_paused = true)]
async fn mutations_of_different_fields_are_different_findings() {
    let runner = Simulated::new(|plan: &str, _, run: &mut Builder| {
        let (size, mode) = match plan {
            SET => (2, 1),
            REMOVE => (1, 2),
            _ => (1, 1),
        };
        run.program("create configmaps/default/a", Some(json!({"data": {"mode": mode, "size": size}})));
    });
    let results = explored(&runner, &Settings { mutate: true, ..Settings::default() }).await;
    let texts: Vec<_> = results.findings.iter().map(|group| group.text.as_str()).collect();
    let expected = [
        "configmaps/default/a ends differently: data/size is 2, expected 1",
        "configmaps/default/a ends differently: data/mode is 2, expected 1",
    ];
    assert_eq!(texts, expected);
    assert!(results.findings.iter().all(|group| group.replays() == Replays { reproduced: 3, of: 3 }));
}
