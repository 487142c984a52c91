//! Scaling behavior: limits how far and how fast the replica count changes. Plain values, no I/O.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules};
use tokio::time::Instant;

use super::{
    history::{Change, History},
    numbers::{ceil, float, floor},
};

/// The default limit of a scale-up: this factor of the current replicas.
const GROWTH: i32 = 2;
/// A default scale-up may always reach this many replicas.
const FIRST: i32 = 4;

/// The limits of an autoscaler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'s> {
    pub(super) least: i32,
    pub(super) most: i32,
    /// The rules in the object's `spec.behavior`; `None` if it has none.
    pub(super) rules: Option<Rules<'s>>,
    /// The default stabilization window for scaling down.
    pub(super) stabilization: Duration,
}

/// The rules for both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'s> {
    pub(super) up: &'s HPAScalingRules,
    pub(super) down: &'s HPAScalingRules,
}

/// The resulting replica count, and the conditions that explain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) replicas: i32,
    /// The reason and message of the condition `AbleToScale`.
    pub(super) able: Reason,
    /// The status, reason and message of the condition `ScalingLimited`.
    pub(super) limited: (bool, Reason),
}

/// The reason and the message of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}

const fn reason(reason: &'static str, message: &'static str) -> Reason {
    Reason { reason, message }
}

const READY: Reason = reason("ReadyForNewScale", "recommended size matches current size");
const STABILIZED_UP: Reason = reason(
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const STABILIZED_DOWN: Reason = reason(
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN: Reason = reason("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: Reason = reason("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: Reason = reason("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_FAST_UP: Reason =
    reason("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: Reason =
    reason("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

impl Limits<'_> {
    /// Limits the change from `current` to `desired` replicas, and records the recommendation.
    pub(super) fn apply(self, history: &mut History, current: i32, desired: i32, now: Instant) -> Verdict {
        let stable = match self.rules {
            None => history.highest(self.stabilization, now).map_or(desired, |highest| highest.max(desired)),
            Some(rules) => {
                let lowest = history.lowest_since(window(rules.up, Duration::ZERO), now);
                let highest = history.highest_since(window(rules.down, self.stabilization), now);
                let (lowest, highest) = (
                    lowest.map_or(desired, |known| known.min(desired)),
                    highest.map_or(desired, |known| known.max(desired)),
                );
                current.max(lowest).min(highest)
            }
        };
        history.recommend(desired, self.longest_window(), now);
        let able = match self.rules {
            _ if stable == desired => READY,
            Some(_) if desired >= current => STABILIZED_UP,
            _ => STABILIZED_DOWN,
        };
        let (replicas, why) = match self.rules {
            None => self.clamp(current, stable),
            Some(rules) => self.at_rate(rules, history, current, stable, now),
        };
        Verdict { replicas, able, limited: (replicas != stable, why) }
    }

    fn longest_window(self) -> Duration {
        match self.rules {
            None => self.stabilization,
            Some(rules) => window(rules.up, Duration::ZERO).max(window(rules.down, self.stabilization)),
        }
    }

    /// Applies the limits of an object without rules: a scale-up at most doubles the replicas.
    fn clamp(self, current: i32, desired: i32) -> (i32, Reason) {
        let fastest = current.saturating_mul(GROWTH).max(FIRST);
        let (most, why) = if self.most > fastest { (fastest, TOO_FAST_UP) } else { (self.most, TOO_MANY) };
        if desired < self.least {
            (self.least, TOO_FEW)
        } else if desired > most {
            (most, why)
        } else {
            (desired, WITHIN)
        }
    }

    fn at_rate(self, rules: Rules<'_>, history: &History, current: i32, desired: i32, now: Instant) -> (i32, Reason) {
        if desired > current {
            let fastest = limit(Direction::Up, rules.up, history, current, now).max(current);
            let (most, why) = if self.most > fastest { (fastest, TOO_FAST_UP) } else { (self.most, TOO_MANY) };
            if desired > most {
                return (most, why);
            }
        } else if desired < current {
            let fastest = limit(Direction::Down, rules.down, history, current, now).min(current);
            let (least, why) = if self.least < fastest { (fastest, TOO_FAST_DOWN) } else { (self.least, TOO_FEW) };
            if desired < least {
                return (least, why);
            }
        }
        (desired, WITHIN)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// Returns the replica count that the policies allow.
fn limit(direction: Direction, rules: &HPAScalingRules, history: &History, current: i32, now: Instant) -> i32 {
    let select = rules.select_policy.as_deref();
    if select == Some("Disabled") {
        return current;
    }
    let policies = rules.policies.iter().flatten();
    let limits = policies.map(|policy| {
        let period = seconds(policy.period_seconds);
        let (added, removed) = (history.changed(Change::Up, period, now), history.changed(Change::Down, period, now));
        let start = current.saturating_sub(added).saturating_add(removed);
        so_far(direction, policy, start)
    });
    let is_highest = (direction == Direction::Up) != (select == Some("Min"));
    let limit = if is_highest { limits.max() } else { limits.min() };
    // An empty list does not limit; the server rejects it.
    limit.unwrap_or(if direction == Direction::Up { i32::MAX } else { 0 })
}

fn so_far(direction: Direction, policy: &HPAScalingPolicy, start: i32) -> i32 {
    let (share, from) = (float(policy.value.into()) / 100.0, float(start.into()));
    match (direction, policy.type_ == "Pods") {
        (Direction::Up, true) => start.saturating_add(policy.value),
        (Direction::Down, true) => start.saturating_sub(policy.value),
        // Rounded up: otherwise a single replica could never grow.
        (Direction::Up, false) => ceil(from * (1.0 + share)),
        (Direction::Down, false) => floor(from * (1.0 - share)),
    }
}

fn window(rules: &HPAScalingRules, usual: Duration) -> Duration {
    rules.stabilization_window_seconds.map_or(usual, seconds)
}

/// Returns the longest period of the policies: the time for which changes must be remembered.
pub(super) fn longest_period(rules: &HPAScalingRules) -> Duration {
    rules.policies.iter().flatten().map(|policy| seconds(policy.period_seconds)).max().unwrap_or_default()
}

fn seconds(count: i32) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests;
