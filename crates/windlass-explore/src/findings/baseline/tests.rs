use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{
    exploration::simulated::{Builder, object},
    record::{Injection, LogLine, Panic, ProcessEnd, Violation},
};

/// Returns a run in which a step creates a custom resource, and the program a pod and a secret with a random token.
fn clean(token: &str) -> Builder {
    let mut run = Builder::new();
    run.other("create dbs.example.com/default/a", Some(json!({"spec": {"size": 1}})));
    run.program("create pods/default/a-0", Some(json!({"status": {"phase": "Running"}})));
    run.program("create secrets/default/a", Some(json!({"data": {"token": token}})));
    run
}

fn baseline_of(clean: &[Record]) -> Baseline {
    Baseline::new(clean, Derived::default())
}

fn baseline() -> Baseline {
    baseline_of(&[clean("x").record, clean("y").record, clean("z").record])
}

fn texts(run: &Builder) -> Vec<String> {
    baseline().findings(&run.record).iter().map(ToString::to_string).collect()
}

#[test]
fn equal_runs_have_no_findings() {
    assert_eq!(texts(&clean("a new token")), Vec::<String>::new());
}

#[test]
fn different_end_states_are_findings() {
    let mut run = clean("x");
    run.program("update pods/default/a-0", Some(json!({"status": {"phase": "Failed"}})));
    run.program("create configmaps/default/b", Some(json!({})));
    run.record.end.remove(&object("secrets/default/a"));
    let expected = [
        "configmaps/default/b is left over at the end",
        r#"pods/default/a-0 ends differently: status/phase is "Failed", expected "Running""#,
        "secrets/default/a is missing at the end",
    ];
    assert_eq!(texts(&run), expected);
}

#[test]
fn numbers_of_generated_names_are_compared_with_their_range() {
    let pods = |number: usize| {
        let mut run = Builder::new();
        for index in 0..number {
            let pod = json!({"metadata": {"generateName": "web-"}});
            run.other(&format!("create pods/default/web-{index}abcd"), Some(pod));
        }
        run.record
    };
    let baseline = baseline_of(&[pods(2), pods(3)]);
    assert_eq!(baseline.mask().objects, [object("pods/default/web-*")].into());
    assert!(baseline.findings(&pods(3)).is_empty());
    let findings = baseline.findings(&pods(5));
    let expected = Finding::Number { object: object("pods/default/web-*"), expected: 2..=3, found: 5 };
    assert_eq!(findings, [expected]);
}

#[test]
fn repeated_creations_and_deletions_are_findings() {
    let mut run = clean("x");
    run.program("delete pods/default/a-0", None);
    run.program("create pods/default/a-0", Some(json!({"status": {"phase": "Running"}})));
    let expected =
        ["pods/default/a-0 was created 2 times, expected 1", "pods/default/a-0 was deleted once, expected 0"];
    assert_eq!(texts(&run), expected);
    // A run that repeats it without faults makes it usual.
    let mut baseline = baseline();
    baseline.learn(&run.record);
    assert!(baseline.findings(&run.record).is_empty());
}

#[test]
fn objects_that_the_cluster_creates_at_its_start_are_not_counted() {
    let mut run = clean("x");
    run.step(0).other("create nodes/node-0", Some(json!({})));
    run.step(1).other("delete nodes/node-0", None);
    assert_eq!(texts(&run), ["nodes/node-0 was deleted once, expected 0"]);
    let mut run = clean("x");
    run.step(0).program("create nodes/node-0", Some(json!({})));
    run.step(1).program("delete nodes/node-0", None);
    let expected = ["nodes/node-0 was created once, expected 0", "nodes/node-0 was deleted once, expected 0"];
    assert_eq!(texts(&run), expected);
}

#[test]
fn skipped_changes_are_findings_unless_events_were_held() {
    let mut usual = clean("x");
    usual.program("create pods/default/job", Some(json!({})));
    usual.program("delete pods/default/job", None);
    let baseline = baseline_of(&[usual.record]);
    let mut run = clean("x").record;
    assert_eq!(baseline.findings(&run).len(), 2);
    run.plan = "lag@1:create:dbs.example.com/default/a".parse().unwrap();
    assert!(baseline.findings(&run).is_empty());
}

#[test]
fn objects_stuck_in_deletion_are_findings() {
    let mut run = clean("x");
    let stuck = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"]}});
    run.other("update dbs.example.com/default/a", Some(stuck));
    let text = "dbs.example.com/default/a is still being deleted at the end and waits for the finalizers example.com/f";
    assert_eq!(texts(&run), [text]);
}

#[test]
fn failures_of_the_run_are_findings_without_a_comparison() {
    let mut run = clean("x");
    run.record.end.clear();
    run.record.outcome = Outcome::StepFailed { step: 2, error: "timed out".to_owned() };
    assert_eq!(texts(&run), ["step 2 failed: timed out"]);
    run.record.outcome = Outcome::NotSettled { step: 1 };
    let violation = |name: &str| Violation {
        at: Duration::ZERO,
        step: 1,
        invariant: "one primary".to_owned(),
        object: Some(object(&format!("pods/default/{name}"))),
        error: None,
    };
    run.record.violations = vec![violation("a"), violation("b"), violation("a")];
    let expected = [
        "the cluster still changed at the time limit of step 1",
        "invariant violated: one primary (pods/default/a)",
        "invariant violated: one primary (pods/default/b)",
    ];
    assert_eq!(texts(&run), expected);
    run.record.outcome = Outcome::Interrupted;
    assert!(texts(&run).is_empty());
}

#[test]
fn panics_and_exits_are_findings_unless_usual() {
    let exit = |run: &mut Builder, line: &str| {
        let at = Duration::from_secs(1);
        let process = &mut run.record.processes[0];
        process.ended = Some((at, ProcessEnd::Exited("exit status: 2".to_owned())));
        process.log.push(LogLine { at, text: line.to_owned() });
    };
    let (mut panicked, mut exited) = (clean("x"), clean("x"));
    exit(&mut panicked, "panic: nil map");
    panicked.record.processes[0].panics = vec![Panic { at: Duration::ZERO, message: "panic: nil map".to_owned() }];
    exit(&mut exited, "cannot list");
    assert_eq!(texts(&panicked), ["the program panicked: panic: nil map"]);
    assert_eq!(texts(&exited), ["the program ended by itself: exit status: 2; its last line: cannot list"]);
    exited.record.plan = "refused(500)@1:create:pods/default/a-0".parse().unwrap();
    exited.record.injections = vec![Injection { at: Duration::ZERO, step: 1, description: String::new() }];
    assert!(texts(&exited).is_empty());
    let usual = baseline_of(&[panicked.record.clone()]);
    assert!(usual.findings(&panicked.record).is_empty());
}

#[test]
fn objects_created_and_deleted_after_a_rewind_are_not_findings() {
    let run = |plan: &str, is_newer: bool| {
        let mut run = clean("x");
        run.strike("the program is restarted");
        run.step(2);
        if is_newer {
            run.program("create configmaps/default/b", Some(json!({})));
            run.other("create secrets/default/b", Some(json!({})));
            run.program("delete configmaps/default/b", None);
            run.other("delete secrets/default/b", None);
        } else {
            run.program("delete pods/default/a-0", None);
            run.program("create pods/default/a-0", Some(json!({"status": {"phase": "Running"}})));
        }
        run.record.plan = plan.parse().unwrap();
        baseline().findings(&run.record).len()
    };
    let rewind = "rewind(all,before 1:create:dbs/a/b)@1:create:pods/default/a-0";
    assert_eq!(run(rewind, true), 0);
    assert_eq!(run("crash@1:create:pods/default/a-0", true), 4);
    assert_eq!(run(rewind, false), 2, "the deleted pod is older than the fault");
}

#[test]
fn generated_names_of_controllers_are_not_counted() {
    let run = |is_by_program: bool, times: usize| {
        let mut run = clean("x");
        for index in 0..times {
            let name = format!("pods/default/web-{index}abcd");
            let pod = Some(json!({"metadata": {"generateName": "web-"}}));
            if is_by_program {
                run.program(&format!("create {name}"), pod);
            } else {
                run.other(&format!("create {name}"), pod);
            }
            // The claim of the program to this change was lost.
            run.other(&format!("delete {name}"), None);
        }
        run.record
    };
    let baseline = baseline_of(&[run(false, 1)]);
    assert!(baseline.findings(&run(false, 2)).is_empty());
    let baseline = baseline_of(&[run(true, 1)]);
    assert_eq!(baseline.findings(&run(true, 2)).len(), 2);
}

#[test]
fn deletion_by_the_program_is_counted_although_finalizers_delay_it() {
    let run = |is_deleted: bool| {
        let mut run = clean("x");
        let claim = |deletion: Option<&str>| {
            Some(json!({"metadata": {"generateName": "data-", "deletionTimestamp": deletion}}))
        };
        run.other("create persistentvolumeclaims/default/data-0abcd", claim(None));
        if is_deleted {
            run.program("update persistentvolumeclaims/default/data-0abcd", claim(Some("2026-01-01T00:00:00Z")));
            run.other("delete persistentvolumeclaims/default/data-0abcd", None);
            run.other("create persistentvolumeclaims/default/data-0abcd", claim(None));
        }
        run.record
    };
    let texts: Vec<_> = baseline_of(&[run(true)]).findings(&run(false)).iter().map(ToString::to_string).collect();
    let expected = ["was created once, expected 2", "was deleted never, expected 1"];
    assert_eq!(texts, expected.map(|text| format!("persistentvolumeclaims/default/data-* {text}")));
}

#[test]
fn names_that_the_program_generates_are_learned() {
    let run = |name: &str| {
        let mut run = clean("x");
        run.program(&format!("create jobs/default/backup-{name}"), Some(json!({"spec": {"name": name}})));
        run.other(&format!("create configmaps/default/log-of-backup-{name}"), Some(json!({})));
        run.record
    };
    let baseline = baseline_of(&[run("1732870000"), run("1732870001")]);
    assert!(baseline.findings(&run("1732879999")).is_empty());
    assert_eq!(baseline.findings(&clean("x").record).len(), 2, "the job and its log are missing");
}

#[test]
fn object_patterns_of_changes_are_used() {
    let mut run = Builder::new();
    let state = |name: &str| Some(json!({"metadata": {"name": name}}));
    run.program("create secrets/default/token-x1y2z", state("token-x1y2z"));
    run.record.changes[0].point.name = "token-*".to_owned();
    let mut other = Builder::new();
    other.program("create secrets/default/token-98abc", state("token-98abc"));
    other.record.changes[0].point.name = "token-*".to_owned();
    let baseline = baseline_of(&[run.record]);
    assert!(baseline.findings(&other.record).is_empty());
    assert_eq!(baseline.reference[&object("secrets/default/token-*")][0]["metadata"]["name"], Value::from("token-*"));
}
