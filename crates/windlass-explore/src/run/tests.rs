//! Runs with real processes. Their operator is the test `operator` of this executable.

use std::env;

use futures::StreamExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::unix::pipe,
    process::Command,
};
use windlass_api::{
    ObjectExt as _,
    k8s_openapi::api::core::v1::{ConfigMap, Secret},
};
use windlass_client::{Client, WatchEvent};
use windlass_runtime::LeaderElection;

use super::*;
use crate::{
    record::{Actor, ChangeVerb, ProcessEnd},
    steps::Step,
};

const PATIENCE: Duration = Duration::from_mins(1);
const SITE: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: site, namespace: default}}";
const READY: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: ready, namespace: default}, condition: 'true'}";
/// The time after which the operator acts in the mode `late`, begins its second watch in the mode `slow`, and repeats a
/// failed creation in the mode `retry`.
const RETRY: Duration = Duration::from_secs(3);
/// The variable with the mode of the operator.
const MODE: &str = "WINDLASS_EXPLORE_TEST_OPERATOR";

/// An operator that creates a secret for the ConfigMap `site`, and deletes it with that. Does nothing unless a run
/// starts it.
#[tokio::test]
async fn operator() {
    let Ok(mode) = env::var(MODE) else { return };
    println!("started in mode {mode}");
    let client = Client::try_default().await.unwrap();
    if mode == "slow" {
        let _secrets = client.watch::<Secret>().within("default").await.unwrap();
        tokio::time::sleep(RETRY).await;
        return follow(client, &mode).await;
    }
    if mode != "elected" {
        return follow(client, &mode).await;
    }
    let election = LeaderElection::new("leader").namespace("default").lease_duration(Duration::from_secs(6));
    let election = election.renew_deadline(Duration::from_secs(5)).retry_period(Duration::from_millis(500));
    let elector = election.elector(&client).unwrap();
    let result = elector.lead(future::pending(), |_| follow(client, &mode)).await;
    println!("no longer the leader: {result:?}");
    std::process::exit(1);
}

/// Reconciles all sites.
#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
async fn follow(client: Client, mode: &str) {
    let list = client.list::<ConfigMap>().within("default").await.unwrap();
    for site in &list.items {
        reconcile(&client, site, mode).await;
    }
    let watch =
        client.watch::<ConfigMap>().within("default").resource_version(list.metadata.resource_version.to_string());
    let mut events = watch.await.unwrap();
    // The scenario waits for this, so that the operator gets the site as an event. Fails after a restart.
    let _ = client.create(&config_map("ready")).await;
    while let Some(event) = events.next().await {
        match event.unwrap() {
            WatchEvent::Added(site) | WatchEvent::Modified(site) => {
                assert!(mode != "panic" || site.name() != "site", "a site appeared");
                if mode == "late" {
                    tokio::time::sleep(RETRY).await;
                }
                reconcile(&client, &site, mode).await;
            }
            WatchEvent::Deleted(site) if site.name() == "site" => {
                let _ = client.delete::<Secret>("key").within("default").await;
            }
            _ => {}
        }
    }
}

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.namespace = Some("default".to_owned());
    object
}

async fn reconcile(client: &Client, site: &ConfigMap, mode: &str) {
    if site.name() == "site" {
        let mut secret = Secret::default();
        secret.metadata.name = Some("key".to_owned());
        secret.metadata.namespace = Some("default".to_owned());
        // Fails if it exists.
        while client.create(&secret).await.is_err() && mode == "retry" {
            tokio::time::sleep(RETRY).await;
        }
        println!("created the secret");
    }
}

/// Returns a scenario of the operator. Step 1 waits until it has started.
#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
fn scenario(mode: &str) -> Scenario {
    let this = env::current_exe().unwrap().to_string_lossy().into_owned();
    let test = module_path!().split_once("::").unwrap().1;
    Scenario::new([&*this, &format!("{test}::operator"), "--exact", "--nocapture"])
        .variable(MODE, mode)
        // A backtrace can take longer than the quiet time.
        .variable("RUST_BACKTRACE", "0")
        .step(Step::wait("ready", READY).unwrap())
}

fn settings() -> RunSettings {
    RunSettings { quiet: Duration::from_millis(700), step: Duration::from_secs(30), ..RunSettings::default() }
}

/// Runs a scenario that nobody stops.
#[allow(clippy::unwrap_used, reason = "clippy.toml exempts test functions, but not their helpers")]
async fn record(scenario: &Scenario, plan: &str, settings: &RunSettings) -> Record {
    let (_sender, stop) = watch::channel(false);
    let plan = plan.parse().unwrap();
    tokio::time::timeout(PATIENCE, run(scenario, &plan, settings, &stop)).await.expect("the run ends").unwrap()
}

fn create() -> Step {
    Step::apply("create", SITE).expect("a valid step")
}

fn delete() -> Step {
    Step::delete("delete", SITE).expect("a valid step")
}

fn ends(record: &Record) -> Vec<&str> {
    let end = |process: &crate::record::Process| match &process.ended {
        Some((_, ProcessEnd::Killed)) => "killed",
        Some((_, ProcessEnd::Stopped)) => "stopped",
        Some((_, ProcessEnd::Exited(_))) => "exited",
        None => "running",
    };
    record.processes.iter().map(end).collect()
}

/// Returns the changes of secrets, with their steps and originators.
fn secrets(record: &Record) -> Vec<(usize, ChangeVerb, Actor)> {
    let secrets = record.changes.iter().filter(|change| change.object.name == "key");
    secrets.map(|change| (change.step, change.verb, change.actor.clone())).collect()
}

#[tokio::test]
async fn run_without_faults_settles_after_each_step() {
    let no_site = "{message: no site, resource: configmaps, name: site, expression: objects.size() == 0}";
    let no_key = "{message: no key, resource: secrets, name: key, when: always, expression: has(object.data)}";
    let invariants = Invariant::read(&format!("[{no_site}, {no_key}]"));
    let scenario = scenario("normal").step(create()).step(delete()).invariants(invariants.unwrap());
    let record = record(&scenario, "none", &settings()).await;
    assert_eq!(record.outcome, Outcome::Completed);
    let names: Vec<_> = record.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["start", "ready", "create", "delete"]);
    assert!(record.steps.iter().all(|step| step.settled.is_some_and(|settled| settled > step.started)));
    assert!(record.steps.is_sorted_by_key(|step| step.revision) && record.steps[0].revision > 0);
    let program = Actor::Program(1);
    assert_eq!(secrets(&record), [(2, ChangeVerb::Create, program.clone()), (3, ChangeVerb::Delete, program)]);
    assert_eq!(ends(&record), ["stopped"]);
    let log: Vec<_> = record.processes[0].log.iter().map(|line| line.text.as_str()).collect();
    assert!(log.contains(&"started in mode normal") && log.contains(&"created the secret"), "{log:?}");
    assert!(!record.end.keys().any(|object| object.name == "key"));
    let violated: Vec<_> = record.violations.iter().map(|violation| (violation.step, &*violation.invariant)).collect();
    assert_eq!(violated, [(2, "no key"), (2, "no site")]);
}

#[tokio::test]
async fn crash_starts_another_process() {
    let record = record(&scenario("normal").step(create()), "crash@2:create:secrets/default/key", &settings()).await;
    assert_eq!(record.outcome, Outcome::Completed);
    assert_eq!(ends(&record), ["killed", "stopped"]);
    assert_eq!(secrets(&record), [(2, ChangeVerb::Create, Actor::Program(1))]);
    assert_eq!(record.injections.len(), 1, "{:?}", record.injections);
    assert!(record.requests.iter().any(|request| request.process == 2));
}

#[tokio::test]
async fn program_that_always_exits_is_given_up() {
    let record = record(&Scenario::new(["sh", "-c", "exit 3"]), "none", &settings()).await;
    assert_eq!((record.outcome, record.processes.len()), (Outcome::NotSettled { step: 0 }, 4));
}

#[tokio::test]
async fn invariant_of_an_unknown_resource_is_an_error() {
    let invariants = "[{message: m, resource: secretz, expression: 'true || object.x'}]";
    let scenario = scenario("normal").invariants(Invariant::read(invariants).unwrap());
    let (_sender, stop) = watch::channel(false);
    let error = run(&scenario, &Plan::default(), &settings(), &stop).await.unwrap_err();
    let expected = "the run without faults failed: invariant \"m\": the cluster has no resource \"secretz\"";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
#[ignore = "waits for leases: cargo xtask long explorations"]
async fn run_waits_until_the_next_process_leads() {
    let plan = "crash@2:create:secrets/default/key";
    let record = record(&scenario("elected").step(create()), plan, &settings()).await;
    assert_eq!(record.outcome, Outcome::Completed);
    // The lease of the killed process expires after six seconds, much longer than the quiet time.
    let watches = |request: &crate::record::Request| request.process == 2 && request.target.contains("configmaps?");
    assert!(record.requests.iter().any(watches), "the next process works before the run ends");
}

#[tokio::test]
async fn held_events_are_released_while_a_step_waits() {
    let wait = "{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: default}, condition: 'true'}";
    let scenario = scenario("normal").step(create()).step(Step::wait("wait", wait).unwrap());
    let record = record(&scenario, "lag@2:create:configmaps/default/site", &settings()).await;
    assert_eq!(record.outcome, Outcome::Completed);
    let [create] = &record.changes.iter().filter(|change| change.object.name == "key").collect::<Vec<_>>()[..] else {
        panic!("{:?}", secrets(&record));
    };
    assert!(create.at >= record.steps[2].started + settings().quiet, "the event was held");
}

#[tokio::test]
async fn gap_over_a_step_lasts_while_a_run_waits_for_late_changes() {
    let scenario = scenario("normal").step(create()).step(delete());
    let plan = "gap(until 3:delete:configmaps/default/site)@2:create:configmaps/default/site";
    let record = record(&scenario, plan, &RunSettings { linger: Duration::from_secs(2), ..settings() }).await;
    assert_eq!(record.outcome, Outcome::Completed);
    assert_eq!(secrets(&record), [], "the program has not seen the site");
    assert_eq!(record.injections.iter().map(|injection| injection.step).collect::<Vec<_>>(), [2, 3]);
}

#[tokio::test]
async fn program_that_panics_is_restarted() {
    let record = record(&scenario("panic").step(create()), "none", &settings()).await;
    assert_eq!(record.outcome, Outcome::Completed);
    assert_eq!(ends(&record), ["exited", "stopped"]);
    let [first, second] = &record.processes[..] else { panic!("two processes") };
    assert!(first.panics[0].message.ends_with(": a site appeared"), "{:?}", first.panics);
    let (ended, _) = first.ended.as_ref().unwrap();
    assert!(second.started >= *ended + Duration::from_secs(1), "the restart is delayed");
    assert_eq!(secrets(&record), [(2, ChangeVerb::Create, Actor::Program(2))], "the run waits for the restart");
}

#[tokio::test]
async fn run_may_wait_for_late_changes() {
    let late = scenario("late").step(create());
    let exists = |record: &Record| record.end.keys().any(|object| object.name == "key");
    assert!(!exists(&record(&late, "none", &settings()).await), "the run ends after the quiet time");
    let record = record(&late, "none", &RunSettings { linger: 2 * RETRY, ..settings() }).await;
    assert_eq!(record.outcome, Outcome::Completed);
    assert!(exists(&record));
    assert_eq!(secrets(&record), [(2, ChangeVerb::Create, Actor::Program(1))], "it belongs to the last step");
}

#[tokio::test]
async fn run_may_wait_for_a_retry_in_the_step_of_the_fault() {
    let scenario = scenario("retry").step(create()).step(delete());
    let plan = "refused(500)@2:create:secrets/default/key";
    let hasty = record(&scenario, plan, &settings()).await;
    assert!(!secrets(&hasty).contains(&(2, ChangeVerb::Create, Actor::Program(1))), "{:?}", secrets(&hasty));
    let patient = record(&scenario, plan, &RunSettings { linger: 2 * RETRY, ..settings() }).await;
    assert_eq!(patient.outcome, Outcome::Completed);
    let program = Actor::Program(1);
    assert_eq!(secrets(&patient), [(2, ChangeVerb::Create, program.clone()), (3, ChangeVerb::Delete, program)]);
}

#[tokio::test]
async fn run_waits_until_the_program_watches_everything() {
    let watched = |resources: &[&str]| resources.iter().map(|&resource| resource.to_owned()).collect::<BTreeSet<_>>();
    let first = record(&scenario("slow"), "none", &settings()).await;
    assert_eq!(first.watched, watched(&["secrets"]), "the first run does not know about the second watch");
    let expected = RunSettings { watched: Some(watched(&["configmaps"])), ..settings() };
    let second = record(&scenario("slow"), "none", &expected).await;
    assert_eq!(second.watched, watched(&["configmaps", "secrets"]));
    let start = &second.steps[0];
    assert!(start.starting_until >= start.started + RETRY, "{start:?}");
}

#[tokio::test]
async fn panic_of_a_stopped_program_does_not_count() {
    let script = "trap 'echo panic: send on closed channel; exit 2' TERM; while :; do sleep 0.05; done";
    let record = record(&Scenario::new(["sh", "-c", script]), "none", &settings()).await;
    let [process] = &record.processes[..] else { panic!("one process") };
    assert!(process.log.iter().any(|line| line.text == "panic: send on closed channel"), "{:?}", process.log);
    assert_eq!(process.panics, []);
}

#[tokio::test]
async fn program_that_always_exits_does_not_settle() {
    let settings = RunSettings { step: Duration::from_millis(2500), ..settings() };
    let record = record(&Scenario::new(["sh", "-c", "exit 3"]), "none", &settings).await;
    assert_eq!(record.outcome, Outcome::NotSettled { step: 0 });
    assert_eq!(record.processes.len(), 2);
    assert!(record.processes.iter().all(|process| {
        matches!(&process.ended, Some((_, ProcessEnd::Exited(status))) if status == "exit status: 3")
    }));
}

#[tokio::test]
#[ignore = "waits for leases: cargo xtask long explorations"]
async fn deposed_leader_writes_after_its_successor() {
    let plan = "deposed@2:create:secrets/default/key";
    // The quiet time is also the time for the successor to work.
    let settings = RunSettings { quiet: Duration::from_secs(2), ..settings() };
    let record = record(&scenario("elected").step(create()), plan, &settings).await;
    assert_eq!(record.outcome, Outcome::Completed);
    assert_eq!(secrets(&record), [(2, ChangeVerb::Create, Actor::Program(2))], "the successor was first");
    let is_late = |request: &&crate::record::Request| request.process == 1 && request.status == Some(409);
    let late = record.requests.iter().find(is_late).expect("the write was executed");
    assert!(late.target.contains("secrets"), "{late:?}");
    assert_eq!(ends(&record), ["exited", "stopped"], "a successor runs, so the deposed leader is not restarted");
}

#[tokio::test]
async fn failed_step_ends_the_run() {
    let scenario = scenario("normal").step(delete()).step(create());
    let record = record(&scenario, "none", &settings()).await;
    let Outcome::StepFailed { step: 2, error } = &record.outcome else { panic!("{:?}", record.outcome) };
    assert!(error.starts_with("delete, line 1: ConfigMap default/site: "), "{error}");
    assert_eq!(record.steps.len(), 3);
    assert_eq!(ends(&record), ["stopped"]);
}

#[tokio::test]
async fn stopped_run_is_interrupted() {
    let (_sender, stop) = watch::channel(true);
    let scenario = Scenario::new(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]);
    let settings = RunSettings { grace: 2 * PATIENCE, ..settings() };
    let plan = Plan::default();
    let run = run(&scenario, &plan, &settings, &stop);
    let record = tokio::time::timeout(PATIENCE, run).await.expect("without a grace period").unwrap();
    assert_eq!(record.outcome, Outcome::Interrupted);
    assert_eq!(ends(&record), ["stopped"]);
}

#[tokio::test]
async fn dropped_run_kills_the_program_and_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().await.unwrap().success());
    let mut pipe = BufReader::new(pipe::OpenOptions::new().open_receiver(&path).unwrap());
    let scenario = Scenario::new(["sh", "-c", "exec 3> pipe; sleep 1000 & echo up >&3; wait"]);
    let scenario = scenario.directory(directory.path());
    let (_sender, stop) = watch::channel(false);
    let (plan, settings) = (Plan::default(), settings());
    let mut line = String::new();
    tokio::select! {
        record = run(&scenario, &plan, &settings, &stop) => panic!("{record:?}"),
        read = pipe.read_line(&mut line) => assert_eq!(read.unwrap(), "up\n".len()),
    }
    // The pipe ends when no process holds its other end.
    let end = tokio::time::timeout(PATIENCE, pipe.read_line(&mut line)).await;
    assert_eq!(end.expect("all processes are killed").unwrap(), 0);
}
