use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::Stages;

/// Stages of pods, each with a spec.
fn player(specs: &[(&str, &str)]) -> Player {
    let document = |(name, spec): &(&str, &str)| {
        format!(
            "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {{name: {name}}}\n\
             spec: {{resourceRef: {{kind: Pod}}, {spec}}}\n"
        )
    };
    let text: Vec<_> = specs.iter().map(document).collect();
    Player::new(Stages::parse("s.yaml", &text.join("---\n")).unwrap().pods)
}

fn pod(phase: &str) -> Value {
    json!({"metadata": {"annotations": {"weight": "7", "delay": "3s", "end": "1970-01-01T00:00:09Z"}}, "status": {"phase": phase}})
}

fn turn(player: &Player, version: &str, phase: &str) -> Turn {
    let subject = Subject { key: &ObjectKey::new("a"), uid: "1", version };
    player.turn(subject, || pod(phase), Timestamp::UNIX_EPOCH, &Entropy::seeded(1))
}

fn name(turn: Turn) -> String {
    match turn {
        Turn::Play(stage) => stage.name.clone(),
        other => format!("{other:?}"),
    }
}

const PENDING: &str = "selector: {matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]}";

#[tokio::test(start_paused = true)]
async fn stage_is_due_after_its_delay_and_played_once() {
    let player = player(&[("a", &format!("{PENDING}, delay: {{durationMilliseconds: 1000}}"))]);
    let key = ObjectKey::new("a");
    assert_eq!(turn(&player, "1", "Running"), Turn::Default);
    assert!(!player.is_following(&key));
    assert_eq!(turn(&player, "2", "Pending"), Turn::Wait(Duration::from_secs(1)));
    advance(Duration::from_millis(600)).await;
    assert_eq!(turn(&player, "2", "Pending"), Turn::Wait(Duration::from_millis(400)));
    assert_eq!(turn(&player, "3", "Pending"), Turn::Wait(Duration::from_secs(1)), "a change begins the stage anew");
    advance(Duration::from_secs(1)).await;
    assert_eq!(name(turn(&player, "3", "Pending")), "a");
    assert_eq!(name(turn(&player, "3", "Pending")), "a", "until its steps are made");
    player.finish(Subject { key: &key, uid: "1", version: "3" });
    assert_eq!(turn(&player, "3", "Pending"), Turn::Rest);
    assert_eq!(turn(&player, "4", "Running"), Turn::Rest, "it follows the stages from now on");
    assert!(player.is_following(&key));
    let recreated = Subject { key: &key, uid: "2", version: "9" };
    let entropy = Entropy::seeded(1);
    assert_eq!(player.turn(recreated, || pod("Running"), Timestamp::UNIX_EPOCH, &entropy), Turn::Default);
    assert_eq!(Player::default().turn(recreated, || pod("Pending"), Timestamp::UNIX_EPOCH, &entropy), Turn::Default);
}

#[tokio::test(start_paused = true)]
async fn delay_has_jitter_and_comes_from_the_object() {
    let wait = |delay: &str| {
        let player = player(&[("a", &format!("{PENDING}, delay: {{{delay}}}"))]);
        match turn(&player, "1", "Pending") {
            Turn::Wait(wait) => wait.as_millis(),
            Turn::Play(_) => 0,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wait("durationMilliseconds: 5, durationFrom: {expressionFrom: .metadata.annotations.delay}"), 3_000);
    assert_eq!(wait("durationMilliseconds: 5, durationFrom: {expressionFrom: .metadata.annotations.none}"), 5);
    assert_eq!(wait("durationMilliseconds: 5, durationFrom: {expressionFrom: .status.phase}"), 5);
    assert_eq!(wait("durationFrom: {jq: {expression: .metadata.annotations.end}}"), 9_000);
    assert_eq!(
        wait("durationMilliseconds: 5000, jitterDurationMilliseconds: 1000"),
        1_000,
        "a shorter one replaces it"
    );
    assert_eq!(wait(""), 0);
    let spread = wait("durationMilliseconds: 1000, jitterDurationMilliseconds: 5000");
    assert!((1_000..5_000).contains(&spread) && spread != 1_000, "{spread}");
}

#[test]
fn weights_decide_between_stages() {
    let weighted = [
        ("never", &*format!("{PENDING}, weight: 0")),
        ("one", &*format!("{PENDING}, weight: 1")),
        ("seven", &*format!("{PENDING}, weight: 0, weightFrom: {{expressionFrom: .metadata.annotations.weight}}")),
        ("other", "selector: {matchLabels: {a: b}}, weight: 100"),
        ("invalid", &*format!("{PENDING}, weight: 50, weightFrom: {{expressionFrom: .metadata.annotations.delay}}")),
    ];
    let counts = |specs: &[(&str, &str)]| {
        let (player, entropy) = (player(specs), Entropy::seeded(3));
        let mut counts = HashMap::<String, u32>::new();
        for _ in 0..800 {
            let index = choose(&player.stages, &pod("Pending"), &entropy).unwrap();
            *counts.entry(player.stages[index].name.clone()).or_default() += 1;
        }
        counts
    };
    let found = counts(&weighted);
    assert!(found.len() == 2 && (60..140).contains(&found["one"]), "{found:?}");
    let found = counts(&[("a", PENDING), ("b", PENDING)]);
    assert!((300..500).contains(&found["a"]) && found.len() == 2, "without weights, all are alike: {found:?}");
}

#[test]
fn selector_needs_all_of_its_conditions() {
    let selects = |selector: &str| {
        let player = player(&[("a", &format!("selector: {{{selector}}}"))]);
        player.selects(|| pod("Pending"), &Entropy::seeded(1))
    };
    for (selector, expected) in [
        ("", true),
        ("matchAnnotations: {delay: 3s}", true),
        ("matchAnnotations: {delay: 4s}", false),
        ("matchLabels: {a: b}", false),
        ("matchExpressions: [{key: .status.phase, operator: NotIn, values: [Running]}]", true),
        ("matchExpressions: [{key: .status.phase, operator: NotIn, values: [Running, Pending]}]", false),
        ("matchExpressions: [{key: .status.phase, operator: Exists}]", true),
        ("matchExpressions: [{key: .status.none, operator: DoesNotExist}]", true),
        ("matchExpressions: [{key: '.status.none[]', operator: DoesNotExist}]", true),
        ("matchExpressions: [{key: '.status.none[]', operator: Exists}]", false),
        ("matchExpressions: [{key: .status.phase, operator: Exists}, {key: .x, operator: Exists}]", false),
        ("matchExpressions: [{key: '.status | length == 1', operator: In, values: ['true']}]", true),
        ("matchExpressions: [{key: '.status | length', operator: In, values: ['1']}]", true),
    ] {
        assert_eq!(selects(selector), expected, "{selector}");
    }
}
