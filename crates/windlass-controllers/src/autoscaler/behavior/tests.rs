//! Each line of a table is one reconcile: its time, the current replicas, the recommended replicas, and the outcome.

use super::*;

const USUAL: Duration = Duration::from_mins(5);

fn rules(window: Option<i32>, select: Option<&str>, policies: &[(&str, i32, i32)]) -> HPAScalingRules {
    let policy = |(type_, value, period_seconds): &(&str, i32, i32)| HPAScalingPolicy {
        type_: (*type_).to_owned(),
        value: *value,
        period_seconds: *period_seconds,
    };
    HPAScalingRules {
        policies: Some(policies.iter().map(policy).collect()),
        select_policy: select.map(str::to_owned),
        stabilization_window_seconds: window,
        tolerance: None,
    }
}

/// Applies reconciles in order. The resulting replicas are the current ones of the next reconcile.
fn play(limits: Limits<'_>, looks: &[(u64, i32, i32, &str, &str)]) {
    let begin = Instant::now();
    let mut history = History::default();
    let mut current = looks[0].1;
    history.begin(current, begin);
    for (at, _, wanted, expected, why) in looks {
        let now = begin + Duration::from_secs(*at);
        let verdict = limits.apply(&mut history, current, *wanted, now);
        let shown = format!("{} {} {}", verdict.replicas, verdict.able.reason, verdict.limited.1.reason);
        assert_eq!(shown, format!("{expected} {why}"), "after {at} s, of {current}, wanting {wanted}");
        let change = if verdict.replicas > current { Change::Up } else { Change::Down };
        if let Some(rules) = limits.rules.filter(|_| verdict.replicas != current) {
            let of = if change == Change::Up { rules.up } else { rules.down };
            history.changed_by(change, (verdict.replicas - current).abs(), longest_period(of), now);
        }
        current = verdict.replicas;
    }
}

fn plain(least: i32, most: i32) -> Limits<'static> {
    Limits { least, most, rules: None, stabilization: USUAL }
}

#[test]
fn default_rules_double_at_most_and_scale_down_after_5_minutes() {
    play(
        plain(1, 20),
        &[
            (0, 1, 20, "4", "ReadyForNewScale ScaleUpLimit"),
            (15, 4, 20, "8", "ReadyForNewScale ScaleUpLimit"),
            (30, 8, 20, "16", "ReadyForNewScale ScaleUpLimit"),
            (45, 16, 30, "20", "ReadyForNewScale TooManyReplicas"),
            (60, 20, 5, "20", "ScaleDownStabilized TooManyReplicas"),
            (345, 20, 5, "20", "ScaleDownStabilized TooManyReplicas"),
            (346, 20, 5, "5", "ReadyForNewScale DesiredWithinRange"),
            (700, 5, 0, "1", "ReadyForNewScale TooFewReplicas"),
            (715, 1, 1, "1", "ReadyForNewScale DesiredWithinRange"),
        ],
    );
}

#[test]
fn policies_limit_changes_within_their_periods() {
    let up = rules(None, None, &[("Pods", 2, 60)]);
    let down = rules(Some(0), Some("Min"), &[("Percent", 50, 60), ("Pods", 1, 30)]);
    let limits = Limits { rules: Some(Rules { up: &up, down: &down }), ..plain(1, 10) };
    play(
        limits,
        &[
            (0, 4, 9, "6", "ReadyForNewScale ScaleUpLimit"),
            (30, 6, 9, "6", "ReadyForNewScale ScaleUpLimit"),
            (60, 6, 9, "8", "ReadyForNewScale ScaleUpLimit"),
            (120, 8, 20, "10", "ReadyForNewScale TooManyReplicas"),
            // The policy with the smaller change applies: one pod in half a minute.
            (200, 10, 1, "9", "ReadyForNewScale ScaleDownLimit"),
            (215, 9, 1, "9", "ReadyForNewScale ScaleDownLimit"),
            (230, 9, 1, "8", "ReadyForNewScale ScaleDownLimit"),
        ],
    );
}

#[test]
fn largest_change_counts_unless_min_is_selected() {
    let up = rules(Some(0), Some("Max"), &[("Pods", 4, 15), ("Percent", 100, 15)]);
    let down = rules(Some(0), None, &[("Percent", 10, 60), ("Pods", 2, 60)]);
    let limits = Limits { rules: Some(Rules { up: &up, down: &down }), ..plain(2, 50) };
    play(
        limits,
        &[
            (0, 2, 50, "6", "ReadyForNewScale ScaleUpLimit"),
            (20, 6, 50, "12", "ReadyForNewScale ScaleUpLimit"),
            (40, 12, 10, "10", "ReadyForNewScale DesiredWithinRange"),
            // Relative to the six replicas at the start of the last minute.
            (60, 10, 0, "4", "ReadyForNewScale ScaleDownLimit"),
            (120, 4, 0, "2", "ReadyForNewScale TooFewReplicas"),
        ],
    );
}

#[test]
fn a_share_that_is_less_than_one_pod_adds_one() {
    let up = rules(Some(0), None, &[("Percent", 10, 15)]);
    let down = rules(Some(0), None, &[("Percent", 10, 15)]);
    let limits = Limits { rules: Some(Rules { up: &up, down: &down }), ..plain(1, 50) };
    play(
        limits,
        &[(0, 1, 5, "2", "ReadyForNewScale ScaleUpLimit"), (20, 2, 1, "1", "ReadyForNewScale DesiredWithinRange")],
    );
}

#[test]
fn disabled_direction_does_not_scale() {
    let up = rules(Some(0), Some("Disabled"), &[]);
    let down = rules(Some(0), Some("Disabled"), &[]);
    let limits = Limits { rules: Some(Rules { up: &up, down: &down }), ..plain(1, 50) };
    play(
        limits,
        &[(0, 5, 9, "5", "ReadyForNewScale ScaleUpLimit"), (15, 5, 2, "5", "ReadyForNewScale ScaleDownLimit")],
    );
}

#[test]
fn windows_hold_the_lowest_upwards_and_the_highest_downwards() {
    let free = [("Pods", 100, 15)];
    let up = rules(Some(60), None, &free);
    let down = rules(Some(120), None, &free);
    let limits = Limits { rules: Some(Rules { up: &up, down: &down }), ..plain(1, 50) };
    play(
        limits,
        &[
            (0, 5, 9, "5", "ScaleUpStabilized DesiredWithinRange"),
            (30, 5, 7, "5", "ScaleUpStabilized DesiredWithinRange"),
            (61, 5, 8, "7", "ScaleUpStabilized DesiredWithinRange"),
            (100, 7, 3, "7", "ScaleDownStabilized DesiredWithinRange"),
            (151, 7, 3, "7", "ScaleDownStabilized DesiredWithinRange"),
            (182, 7, 3, "3", "ReadyForNewScale DesiredWithinRange"),
        ],
    );
}
