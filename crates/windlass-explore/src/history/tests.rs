//! Tests of points and claims, without a cluster.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::exploration::simulated::Builder;

fn object(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()}})
}

fn history() -> History {
    History::new(Instant::now(), Arc::default(), Arc::default())
}

fn claim(after: u64, target: Target) -> Claim {
    Claim { process: 1, request: 0, after, target }
}

#[test]
fn fields_are_two_levels_deep() {
    let before = json!({"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}, "spec": {"replicas": 1}, "data": {"x": "1"}});
    let after = json!({
        "metadata": {"resourceVersion": "2", "generation": 2, "labels": {"a": "c"}, "finalizers": ["f"]},
        "spec": {"replicas": 1, "template": {"spec": {}}}, "status": {"phase": "Ready"}, "type": "Opaque",
    });
    let expected = ["data.x", "metadata.finalizers", "metadata.labels", "spec.template", "status.phase", "type"];
    assert_eq!(changed_fields(&before, &after), expected);
    assert!(changed_fields(&before, &before).is_empty());
}

#[test]
fn generated_parts_of_names_are_replaced() {
    let history = history();
    let mut owner = object("set-x7z", 1);
    owner["metadata"]["generateName"] = "set-".into();
    let mut owned = object("set-x7z-abcde", 2);
    owned["metadata"]["generateName"] = "set-x7z-".into();
    owned["metadata"]["ownerReferences"] = json!([{"uid": "set-x7z"}]);
    let names =
        [owner, owned, object("plain", 3)].map(|object| history.record("pods", object, false).unwrap().point.name);
    assert_eq!(names, ["set-*", "set-*-*", "plain"]);
}

#[test]
fn parts_of_names_that_the_program_generates_are_replaced() {
    let clean = |suffix: &str| {
        let mut run = Builder::new();
        let data = |name: &str| Some(json!({"metadata": {"name": name}}));
        run.program(&format!("create secrets/default/key-{suffix}1"), data("key"));
        run.program(&format!("create secrets/default/key-{suffix}2"), data("key"));
        run.program("create secrets/default/other", data("other"));
        run.record
    };
    let mut clean = [clean("abcd"), clean("efgh")];
    let patterns = Arc::new(Patterns::learn(&clean));
    generalize(&mut clean[0], &patterns);
    let points: Vec<_> =
        clean[0].changes.iter().map(|change| (change.point.name.as_str(), change.point.occurrence)).collect();
    assert_eq!(points, [("key-*", 1), ("key-*", 2), ("other", 1)]);

    let history = History::new(Instant::now(), Arc::default(), patterns);
    let mut owned = object("key-wxyz5-0", 2);
    owned["metadata"]["ownerReferences"] = json!([{"uid": "key-wxyz5"}]);
    let names = [object("key-wxyz5", 1), owned, object("other", 3)]
        .map(|object| history.record("secrets", object, false).unwrap().point.name);
    assert_eq!(names, ["key-*", "key-*-0", "other"]);
}

#[test]
fn known_states_are_no_changes() {
    let history = history();
    history.add_existing("pods", object("a", 1));
    assert!(history.record("pods", object("a", 1), false).is_none());
    assert!(history.record("pods", object("b", 2), true).is_none());
    assert_eq!(history.record("pods", object("a", 3), true).unwrap().verb, ChangeVerb::Delete);
    // The same name begins anew.
    assert_eq!(history.record("pods", object("a", 4), false).unwrap().verb, ChangeVerb::Create);
}

#[test]
fn occurrences_count_equal_content_in_a_step() {
    let history = history();
    let changes = [("a", 1, false), ("a", 2, true), ("a", 3, false)];
    let occurrences = changes.map(|(name, version, is_deleted)| {
        history.record("pods", object(name, version), is_deleted).unwrap().point.occurrence
    });
    assert_eq!(occurrences, [1, 1, 2]);
    let next = || history.next_point("pods", ChangeVerb::Create, &object("a", 9), Vec::new()).occurrence;
    assert_eq!(next(), 3);
    history.begin_step(1, 9);
    assert_eq!(next(), 1);
}

#[tokio::test(start_paused = true)]
async fn claims_precede_and_follow_their_changes() {
    let history = Arc::new(history());
    let number = history.begin_request(1, "POST", "/");
    history.record("pods", object("a", 5), false);
    history.advance("pods", 5);
    assert_eq!(history.claim(number, vec![claim(4, Target::Revision(5))]).await.len(), 1);
    let waiting = Arc::clone(&history);
    let removal = Target::Removal { uid: "a".to_owned() };
    let later = tokio::spawn(async move { waiting.claim(number, vec![claim(5, removal)]).await });
    tokio::task::yield_now().await;
    history.record("pods", object("b", 6), false);
    history.advance("pods", 6);
    history.record("pods", object("a", 7), true);
    tokio::task::yield_now().await;
    assert!(!later.is_finished(), "the change was not reported yet");
    history.advance("pods", 7);
    assert_eq!(later.await.unwrap().len(), 2);
    let actors: Vec<_> = history.take().changes.into_iter().map(|change| change.actor).collect();
    assert_eq!(actors, [Actor::Program(1), Actor::Other, Actor::Program(1)]);
}

#[test]
fn responses_without_an_effect_claim_nothing() {
    assert_eq!(Target::of_written(&object("a", 5), 5), None);
    assert_eq!(Target::of_written(&object("a", 6), 5), Some(Target::Revision(6)));
    let mut ending = object("a", 5);
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(Target::of_written(&ending, 5), Some(Target::Removal { uid: "a".to_owned() }));
    ending["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    assert_eq!(Target::of_deleted(&ending, 5), None);
}

#[test]
fn requests_beyond_the_maximum_are_counted() {
    let history = history();
    for _ in 0..MAX_REQUESTS + 2 {
        let number = history.begin_request(1, "GET", "/");
        history.answered(number);
    }
    let entries = history.take();
    assert_eq!((entries.requests.len(), entries.unrecorded_requests), (MAX_REQUESTS, 2));
}
