//! Explorations of the example `websites`, with each of its planted bugs and without.
//!
//! `cargo test` builds the examples. With `--test explore`, build them first: `cargo build -p windlass-explore
//! --examples`.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]

use std::{
    env, fs, future,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Notify, Semaphore};
use windlass_explore::{
    Exploration, Isolation, Plan, Results, Scenario, Step,
    exploration::FindingGroup,
    findings::Finding,
    plan::{Edit, Effect, Fault, Mutation, Scope},
    report,
};

/// Runs mostly wait for the cluster to settle, so there are more than processors.
const JOBS: usize = 8;

/// The explorations at the same time. More would slow down each other, and then runs are less alike.
static TURNS: Semaphore = Semaphore::const_new(3);

/// Returns the path of an example, which is beside the directory of the test's executable.
fn example(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build -p windlass-explore --examples", path.display());
    path
}

/// Returns a scenario of the example with a planted bug, and without steps.
fn scenario(bug: &str) -> Scenario {
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/websites/crds");
    Scenario::new([example("websites").to_str().unwrap()]).crds(&[crds]).unwrap().variable("BUG", bug)
}

fn website(title: &str, pages: usize) -> String {
    format!(
        "{{apiVersion: example.dev/v1, kind: Website, metadata: {{name: site, namespace: default}}, \
         spec: {{title: {title}, replicas: {pages}}}}}"
    )
}

fn apply(name: &str, title: &str, pages: usize) -> Step {
    Step::apply(name, &website(title, pages)).unwrap()
}

fn delete(name: &str) -> Step {
    Step::delete(name, &website("any", 0)).unwrap()
}

/// Returns an exploration of the plans with one of these effects that `accepts` accepts.
fn exploration(
    scenario: Scenario,
    effects: &'static [&'static str],
    accepts: impl Fn(&Fault) -> bool + Send + Sync + 'static,
) -> Exploration {
    Exploration::new(scenario)
        .jobs(JOBS)
        .clean_runs(2)
        .replays(1)
        .linger(Duration::from_secs(2))
        .filter(move |plan| plan.faults().iter().all(|fault| effects.contains(&fault.effect.name()) && accepts(fault)))
        .progress(|progress| eprintln!("{}/{} {}", progress.done, progress.total, progress.message))
}

async fn explore(exploration: Exploration) -> Results {
    let _turn = TURNS.acquire().await.unwrap();
    let results = exploration.run(future::pending()).await.unwrap();
    eprintln!("{}", report::text(&results));
    assert!(results.failed.is_empty(), "{:?}", results.failed);
    results
}

/// Returns the confirmed findings that a fault with this effect revealed.
fn found_by<'r>(results: &'r Results, effect: &str) -> Vec<&'r FindingGroup> {
    let is_by = |plan: &Plan| plan.faults().iter().any(|Fault { effect: other, .. }| other.name() == effect);
    let confirmed = results.findings.iter().filter(|group| group.is_confirmed());
    confirmed.filter(|group| group.runs.iter().any(|run| is_by(&run.plan))).collect()
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn correct_operator_has_no_findings() {
    let scenario = scenario("none")
        .step(apply("create", "One", 2))
        .step(apply("change", "Two", 1))
        .step(delete("delete"))
        .step(apply("create again", "Three", 1));
    let effects = &["crash", "conflict", "rewind", "gap"];
    let is_of_one = |fault: &Fault| !matches!(fault.effect, Effect::Rewind { scope: Scope::All, .. });
    let results = explore(exploration(scenario, effects, is_of_one)).await;
    assert!(results.is_clean() && results.findings.is_empty());
    assert!((30..80).contains(&results.finished), "{} plans", results.finished);
    assert_eq!(results.finished, results.planned);
}

#[tokio::test]
async fn crash_finds_a_leaked_object() {
    let scenario = scenario("crash-leak").step(apply("create", "One", 1));
    let mut exploration = exploration(scenario, &["crash"], |_| true);
    match Isolation::with_helper(example("isolated")).await {
        Ok(isolation) => exploration = exploration.isolation(isolation),
        Err(error) => eprintln!("without isolation: {error}"),
    }
    let results = explore(exploration).await;
    let leaks = |group: &&FindingGroup| matches!(&group.finding, Finding::Number { object, found: 2, .. } if object.name == "site-key-*");
    assert!(found_by(&results, "crash").iter().any(leaks));
}

#[tokio::test]
async fn program_that_is_no_helper_cannot_isolate() {
    let error = Isolation::with_helper("/bin/false").await.unwrap_err().to_string();
    assert!(error.starts_with("cannot isolate the program: ") && error.contains("/bin/false"), "{error}");
    let exploration = Exploration::new(Scenario::new(["sleep", "1000"]).in_cluster("default", "operator-0"));
    let error = exploration.run(future::pending()).await.unwrap_err().to_string();
    assert_eq!(error, "an in-cluster environment needs a program that is isolated");
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn rewind_finds_the_deletion_of_a_newer_object() {
    let scenario = scenario("stale-deletion").step(apply("create", "One", 1)).step(delete("delete")).step(apply(
        "create again",
        "Two",
        1,
    ));
    let is_chosen = |fault: &Fault| {
        let Effect::Rewind { scope: Scope::Resource(resource), .. } = &fault.effect else { return false };
        resource == "websites.example.dev" && fault.point.step == 3
    };
    let results = explore(exploration(scenario, &["rewind"], is_chosen)).await;
    let deletes = |group: &&FindingGroup| matches!(&group.finding, Finding::Churn { object, .. } if object.resource == "configmaps");
    assert!(found_by(&results, "rewind").iter().any(deletes));
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn gap_finds_an_orphan_after_a_missed_deletion() {
    // An executable step, so that the website is deleted and created again within one step.
    let directory = TempDir::new().unwrap();
    let program = directory.path().join("2-replace");
    fs::write(&program, format!("#!/bin/sh\nexec {} replace site 1\n", example("websites").display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let scenario = scenario("missed-event").step(apply("create", "One", 2)).step(Step::execute("replace", program));
    let results = explore(exploration(scenario, &["gap"], |_| true)).await;
    let orphan =
        |group: &&FindingGroup| matches!(&group.finding, Finding::LeftOver { object } if object.name == "site-page-1");
    assert!(found_by(&results, "gap").iter().any(orphan));
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn lost_response_finds_an_exit() {
    let scenario = scenario("lost-response").step(apply("create", "One", 1));
    let results = explore(exploration(scenario, &["lost-response"], |_| true)).await;
    let exits = |group: &&FindingGroup| matches!(&group.finding, Finding::Exited { .. });
    assert!(found_by(&results, "lost-response").iter().any(exits));
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn conflict_finds_an_overwritten_change() {
    let scenario = scenario("overwrite").step(apply("create", "One", 1)).step(apply("change", "Two", 1));
    let results = explore(exploration(scenario, &["conflict"], |_| true)).await;
    let found = found_by(&results, "conflict");
    assert!(found.iter().any(|group| group.text.contains("site-index")));
}

/// Returns an exploration of the mutations that `accepts` accepts.
fn mutations(bug: &str, accepts: impl Fn(&Mutation) -> bool + Send + Sync + 'static) -> Exploration {
    Exploration::new(scenario(bug).step(apply("create", "One", 1)))
        .mutate(true)
        .jobs(JOBS)
        .clean_runs(2)
        .replays(1)
        .linger(Duration::from_secs(2))
        .filter(move |plan| plan.mutation().is_some_and(&accepts))
        .progress(|progress| eprintln!("{}/{} {}", progress.done, progress.total, progress.message))
}

/// Returns the texts of the confirmed findings, with the first plans.
fn texts(results: &Results) -> Vec<String> {
    let confirmed = results.findings.iter().filter(|group| group.is_confirmed());
    confirmed.map(|group| format!("{} {}", group.runs[0].plan, group.text)).collect()
}

#[tokio::test]
async fn mutation_finds_a_field_that_is_not_reverted() {
    let set = |mutation: &Mutation| mutation.path == ["spec", "theme"] && mutation.edit == dark();
    let results = explore(mutations("sticky-theme", set).clean_runs(1).replays(0)).await;
    assert_eq!(results.finished, 1);
    let expected = "set(spec/theme,\"dark\")@websites.example.dev/default/site configmaps/default/site-index ends \
                    differently: data/theme is \"dark\", expected missing";
    assert_eq!(texts(&results), [expected]);
}

fn dark() -> Edit {
    Edit::Set((&Value::from("dark")).into())
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn mutation_finds_a_state_that_depends_on_the_path() {
    let results = explore(mutations("first-index", |mutation| mutation.edit == dark())).await;
    let expected = "compared with a new object, configmaps/default/site-index ends differently: data/theme";
    assert!(texts(&results).iter().any(|text| text.contains(expected)), "{:?}", texts(&results));
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn mutation_finds_a_panic() {
    let results = explore(mutations("no-pages", |mutation| mutation.path == ["spec", "replicas"])).await;
    let panics = |group: &&FindingGroup| matches!(&group.finding, Finding::Panicked { message } if message.contains("without pages"));
    let found = results.findings.iter().find(panics).expect("the panic is found");
    assert_eq!(found.runs[0].plan.to_string(), "set(spec/replicas,0)@websites.example.dev/default/site");
    assert!(found.is_confirmed());
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn correct_operator_has_no_findings_after_mutations() {
    let results = explore(mutations("none", |_| true)).await;
    assert!(results.findings.is_empty(), "{:?}", texts(&results));
    assert!(results.finished >= 6 && results.finished == results.planned, "{} plans", results.finished);
}

#[tokio::test]
#[ignore = "takes minutes: cargo xtask long explorations"]
async fn interrupted_exploration_continues() {
    let state = TempDir::new().unwrap();
    let begin = || {
        let scenario = scenario("crash-leak").step(apply("create", "One", 1));
        exploration(scenario, &["crash", "lost-response"], |_| true).jobs(2).state(state.path())
    };
    let enough = Arc::new(Notify::new());
    let notify = Arc::clone(&enough);
    let interrupted = begin().progress(move |progress| {
        if progress.done == 2 {
            notify.notify_one();
        }
    });
    let first = {
        let _turn = TURNS.acquire().await.unwrap();
        interrupted.run(enough.notified()).await.unwrap()
    };
    assert!(first.interrupted && (2..first.planned).contains(&first.finished), "{first:?}");
    let second = explore(begin().jobs(JOBS)).await;
    assert!(!second.interrupted && second.resumed >= first.finished, "{} {}", second.resumed, first.finished);
    assert_eq!((second.finished, second.planned), (first.planned, first.planned));
    assert!(!second.is_clean());
}
