//! The recent recommendations and changes of an autoscaler. They are kept in memory and start empty after a restart.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    recommended: Vec<(Instant, i32)>,
    up: Vec<(Instant, i32)>,
    down: Vec<(Instant, i32)>,
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Up,
    Down,
}

impl History {
    /// Records the current replicas as a recommendation if there is none yet.
    pub(super) fn begin(&mut self, current: i32, now: Instant) {
        if self.recommended.is_empty() {
            self.recommended.push((now, current));
        }
    }

    /// Records a recommendation, and drops those older than the window.
    pub(super) fn recommend(&mut self, replicas: i32, window: Duration, now: Instant) {
        self.recommended.retain(|(at, _)| now.duration_since(*at) <= window);
        self.recommended.push((now, replicas));
    }

    /// Records a change, and drops those older than the period.
    pub(super) fn changed_by(&mut self, change: Change, replicas: i32, period: Duration, now: Instant) {
        let changes = match change {
            Change::Up => &mut self.up,
            Change::Down => &mut self.down,
        };
        changes.retain(|(at, _)| now.duration_since(*at) <= period);
        changes.push((now, replicas));
    }

    /// Returns the number of replicas added or removed within the period.
    pub(super) fn changed(&self, change: Change, period: Duration, now: Instant) -> i32 {
        let changes = match change {
            Change::Up => &self.up,
            Change::Down => &self.down,
        };
        let recent = changes.iter().filter(|(at, _)| now.duration_since(*at) < period);
        recent.fold(0, |sum, (_, replicas)| sum.saturating_add(*replicas))
    }

    /// Returns the highest recommendation within the window, including its start.
    pub(super) fn highest(&self, window: Duration, now: Instant) -> Option<i32> {
        self.recommended.iter().filter(|(at, _)| now.duration_since(*at) <= window).map(|(_, replicas)| *replicas).max()
    }

    /// Returns the highest recommendation within the window, excluding its start.
    pub(super) fn highest_since(&self, window: Duration, now: Instant) -> Option<i32> {
        self.since(window, now).max()
    }

    /// Returns the lowest recommendation within the window, excluding its start.
    pub(super) fn lowest_since(&self, window: Duration, now: Instant) -> Option<i32> {
        self.since(window, now).min()
    }

    fn since(&self, window: Duration, now: Instant) -> impl Iterator<Item = i32> {
        let recent = self.recommended.iter().filter(move |(at, _)| now.duration_since(*at) < window);
        recent.map(|(_, replicas)| *replicas)
    }
}
