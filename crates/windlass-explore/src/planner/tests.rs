use serde_json::json;

use super::*;
use crate::exploration::simulated::Builder;

/// A run in which the program creates a pod for a custom resource, deletes it with the resource, and creates it again.
fn scenario() -> Builder {
    let mut run = Builder::new();
    run.watches("/apis/example.com/v1/dbs", true).watches("/api/v1/namespaces/default/pods", true);
    run.other("create dbs.example.com/default/a", Some(json!({"spec": {"size": 1}, "metadata": {}})));
    run.program("create pods/default/a-0", Some(json!({"spec": {"x": 1}})));
    run.program("create configmaps/default/a", Some(json!({})));
    run.step(2).other(
        "update dbs.example.com/default/a",
        Some(json!({"spec": {"size": 1}, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
    );
    run.program("delete pods/default/a-0", None);
    run.other("delete dbs.example.com/default/a", None);
    run.step(3).other("create dbs.example.com/default/a", Some(json!({"spec": {"size": 1}})));
    run.program("create pods/default/a-0", Some(json!({"spec": {"x": 1}})));
    run
}

fn texts(clean: &[Builder], pairs: bool) -> Vec<String> {
    let clean: Vec<_> = clean.iter().map(|run| run.record.clone()).collect();
    plans(&clean, pairs).plans.iter().map(ToString::to_string).collect()
}

fn has(plans: &[String], plan: &str) -> bool {
    plans.iter().any(|text| text == plan)
}

#[test]
fn writes_of_the_program_get_crashes_and_refusals() {
    let plans = texts(&[scenario()], false);
    let at = |point: &str| -> Vec<&str> {
        let end = format!("@{point}");
        plans.iter().filter_map(|plan| plan.strip_suffix(&end)).filter(|effect| !effect.contains('@')).collect()
    };
    let mut effects = at("1:create:configmaps/default/a");
    effects.sort_unstable();
    assert_eq!(
        effects,
        ["crash", "delayed", "lost-response", "refused(429)", "refused(500)", "refused(504)", "stalled"]
    );
    // The content is not new, so only one refusal is planned.
    let mut effects = at("3:create:pods/default/a-0");
    effects.retain(|effect| !effect.starts_with("rewind") && *effect != "lag");
    effects.sort_unstable();
    assert_eq!(effects, ["crash", "lost-response", "refused(500)"]);
    assert!(!has(&plans, "crash@1:create:dbs.example.com/default/a"), "a step makes this change");
}

#[test]
fn updates_get_conflicts_and_leaders_are_deposed() {
    let mut run = scenario();
    run.program("update pods/default/a-0", Some(json!({"spec": {"x": 2}})));
    let plans = texts(&[run], false);
    let point = "3:update:pods/default/a-0:spec.x";
    assert!(has(&plans, &format!("conflict@{point}")) && has(&plans, &format!("refused(409)@{point}")));
    assert!(!has(&plans, &format!("deposed@{point}")), "the program has no leader election");
    let mut run = scenario();
    run.request("PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/a", Some(200));
    assert!(has(&texts(&[run], false), "deposed@1:create:pods/default/a-0"));
}

#[test]
fn watched_changes_get_lags_and_gaps() {
    let mut run = scenario();
    run.watches("/api/v1/serviceaccounts", true).other("create serviceaccounts/default/default", Some(json!({})));
    let plans = texts(&[run], false);
    assert!(plans.iter().all(|plan| !plan.contains("serviceaccounts")), "the control plane makes this change");
    assert!(has(&plans, "lag@1:create:dbs.example.com/default/a"));
    assert!(has(&plans, "lag@1:create:pods/default/a-0"));
    assert!(!has(&plans, "lag@1:create:configmaps/default/a"), "the program does not watch it");
    let gap =
        "gap(until 2:delete:dbs.example.com/default/a)@2:update:dbs.example.com/default/a:metadata.deletionTimestamp";
    assert!(has(&plans, gap), "{plans:#?}");
    assert!(has(&plans, "gap(until 3:create:dbs.example.com/default/a)@2:delete:dbs.example.com/default/a"));
    let life = |plan: &String| plan.starts_with("gap") && plan.contains("@1:create:dbs.example.com/default/a");
    assert!(!plans.iter().any(life), "the program must see that the object was there");
    let skipped = super::plans(&[scenario().record], false).skipped;
    // The pod is deleted in step 2, and created again in step 3.
    assert_eq!(skipped["gaps over the end of a step between changes by the program"], 1);
}

#[test]
fn desired_states_of_later_steps_hide_earlier_ones() {
    let mut run = Builder::new();
    run.watches("/apis/example.com/v1/dbs", true);
    let state = |size: u64, ready: u64| Some(json!({"spec": {"size": size}, "status": {"ready": ready}}));
    run.other("create dbs.example.com/default/a", state(1, 0));
    run.step(2).other("update dbs.example.com/default/a", state(3, 0));
    run.other("update dbs.example.com/default/a", state(3, 1));
    run.step(3).other("update dbs.example.com/default/a", state(2, 1));
    run.other("update dbs.example.com/default/a", state(2, 2));
    let plans = texts(&[run], false);
    let gaps: Vec<_> = plans.iter().filter(|plan| plan.starts_with("gap")).collect();
    let object = "dbs.example.com/default/a";
    let gap = format!("gap(until 3:update:{object}:spec.size)@2:update:{object}:spec.size");
    assert_eq!(gaps, [&gap], "the program must see the creation");
}

#[test]
fn updates_of_another_object_of_the_name_hide_nothing() {
    let spec = |size: u64| Some(json!({"spec": {"size": size}}));
    let object = "dbs.example.com/default/a";
    let mut run = Builder::new();
    run.watches("/apis/example.com/v1/dbs", true);
    run.other(&format!("create {object}"), spec(1));
    run.other(&format!("update {object}"), spec(2));
    run.step(2).other(&format!("delete {object}"), None);
    run.step(3).other(&format!("create {object}"), spec(2));
    run.other(&format!("update {object}"), spec(1));
    let plans = texts(&[run], false);
    let gaps: Vec<_> = plans.iter().filter(|plan| plan.starts_with("gap")).collect();
    assert_eq!(gaps, [&format!("gap(until 3:create:{object})@2:delete:{object}")]);
}

#[test]
fn reverted_updates_get_gaps_and_rewinds() {
    let mut run = scenario();
    let size = |size: u64| Some(json!({"spec": {"size": size}}));
    run.other("update dbs.example.com/default/a", size(2));
    run.program("update pods/default/a-0", Some(json!({"spec": {"x": 2}})));
    run.other("update dbs.example.com/default/a", size(1));
    run.program("update pods/default/a-0", Some(json!({"spec": {"x": 1}})));
    let plans = texts(&[run], false);
    let point = "3:update:dbs.example.com/default/a:spec.size";
    assert!(has(&plans, &format!("gap(until {point}#2)@{point}")), "{plans:#?}");
    let rewind = format!("rewind(dbs.example.com,after {point})@3:update:pods/default/a-0:spec.x#2");
    assert!(has(&plans, &rewind), "{plans:#?}");
}

#[test]
fn recreated_objects_get_rewinds_to_the_cause_of_the_deletion() {
    let plans = texts(&[scenario()], false);
    let cause = "2:update:dbs.example.com/default/a:metadata.deletionTimestamp";
    for side in ["before", "after"] {
        for scope in ["dbs.example.com", "all"] {
            let plan = format!("rewind({scope},{side} {cause})@3:create:pods/default/a-0");
            assert!(has(&plans, &plan), "{plan} is not in {plans:#?}");
        }
    }
    // The pod was created because of the resource, and deleted later.
    let stale = "rewind(dbs.example.com,after 1:create:dbs.example.com/default/a)@2:delete:pods/default/a-0";
    assert!(has(&plans, stale), "{plans:#?}");
}

#[test]
fn rewinds_go_back_to_the_change_of_the_step_behind_later_changes() {
    let mut run = Builder::new();
    run.watches("/apis/example.com/v1/dbs", true).watches("/api/v1/pods", true);
    let db = |deletion: Option<&str>| Some(json!({"metadata": {"deletionTimestamp": deletion}}));
    run.other("create dbs.example.com/default/a", db(None)).other("create pods/default/a-0", Some(json!({})));
    run.program("create configmaps/default/a", Some(json!({})));
    run.step(2).other("update dbs.example.com/default/a", db(Some("2026-01-01T00:00:00Z")));
    run.other("delete pods/default/a-0", None).program("delete configmaps/default/a", None);
    run.step(3).other("create dbs.example.com/default/b", db(None));
    run.program("create configmaps/default/a", Some(json!({})));
    let plans = texts(&[run], false);
    let cause = "2:update:dbs.example.com/default/a:metadata.deletionTimestamp";
    let rewind = format!("rewind(dbs.example.com,after {cause})@3:create:configmaps/default/a");
    assert!(has(&plans, &rewind), "{plans:#?}");
}

#[test]
fn resources_that_are_read_consistently_are_not_rewound() {
    let mut run = scenario();
    run.record.requests.clear();
    run.watches("/apis/example.com/v1/dbs", false);
    let planned = super::plans(&[run.record], false);
    assert!(planned.plans.iter().all(|plan| plan.faults()[0].effect.name() != "rewind"));
    assert!(planned.skipped["rewinds of dbs.example.com, which the program reads only consistently"] > 0);
}

#[test]
fn points_that_are_not_in_all_runs_are_counted() {
    let mut other = scenario();
    other.record.changes.retain(|change| change.object.resource != "configmaps");
    let planned = super::plans(&[scenario().record, other.record], false);
    assert!(planned.plans.iter().all(|plan| !plan.to_string().contains("configmaps")));
    assert_eq!(planned.skipped["changes that are not in all runs without faults"], 1);
}

#[test]
fn kinds_take_turns_and_new_content_comes_first() {
    let mut run = scenario();
    for beat in 0..8 {
        run.program("update configmaps/default/a", Some(json!({"data": {"beat": beat}})));
    }
    run.program("create secrets/default/a", Some(json!({})));
    let plans = texts(&[run], false);
    let names: Vec<_> = plans[..4].iter().map(|plan| plan.split(['@', '(']).next().unwrap()).collect();
    assert_eq!(names, ["crash", "rewind", "gap", "lag"]);
    let crash = plans.iter().find(|plan| plan.starts_with("crash")).unwrap();
    assert_eq!(crash, "crash@2:delete:pods/default/a-0", "deletions come before creations");
    let position = |text: &str| plans.iter().position(|plan| plan == text).unwrap();
    let secret = position("crash@3:create:secrets/default/a");
    assert!(secret < position("crash@3:create:pods/default/a-0"), "pods are not new");
    let beat = position("crash@3:update:configmaps/default/a:data.beat");
    let last_usual = plans.iter().rposition(|plan| !plan.contains("data.beat")).unwrap();
    assert!(beat > last_usual, "{plans:#?}");
}

#[test]
fn rewinds_of_custom_resources_to_before_a_creation_come_first() {
    let mut run = Builder::new();
    run.watches("/api/v1/namespaces/default/pods", true).watches("/apis/apps/v1/deployments", true);
    run.watches("/apis/example.com/v1/dbs", true);
    for resource in ["pods", "deployments.apps", "dbs.example.com"] {
        let config = format!("configmaps/default/{}", resource.replace('.', "-"));
        run.other(&format!("create {resource}/default/a"), Some(json!({"spec": {"size": 1}})));
        run.program(&format!("create {config}"), Some(json!({})));
        run.other(&format!("update {resource}/default/a"), Some(json!({"spec": {"size": 2}})));
        run.program(&format!("delete {config}"), None);
        run.program(&format!("create {config}"), Some(json!({})));
    }
    let plans = texts(&[run], false);
    let rewinds: Vec<_> = plans.iter().filter(|plan| plan.starts_with("rewind(")).collect();
    let is_promising = |plan: &str| plan.starts_with("rewind(dbs.example.com") && plan.contains("@1:create:");
    let promising = rewinds.iter().filter(|plan| is_promising(plan)).count();
    assert!(promising > 0 && promising < rewinds.len(), "{rewinds:#?}");
    assert!(rewinds[..promising].iter().all(|plan| is_promising(plan)), "{rewinds:#?}");
}

#[test]
fn pairs_come_last_and_end_with_a_crash() {
    let singles = texts(&[scenario()], false);
    let all = texts(&[scenario()], true);
    assert_eq!(all[..singles.len()], singles);
    let pairs = &all[singles.len()..];
    assert!(has(pairs, "crash@1:create:pods/default/a-0 & crash@1:create:configmaps/default/a"));
    assert!(has(pairs, "lag@1:create:dbs.example.com/default/a & crash@1:create:pods/default/a-0"));
    assert!(pairs.iter().all(|plan| plan.split(" & ").nth(1).unwrap().starts_with("crash@")));
}

#[test]
fn no_runs_give_no_plans() {
    assert!(plans(&[], true).plans.is_empty());
    assert!(plans(&[Builder::new().record], true).plans.is_empty());
}
