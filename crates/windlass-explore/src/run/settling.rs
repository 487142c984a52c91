//! The decision when a cluster has settled.

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::Activity;

/// The time without a request after which a program is idle. A program that reads often would never be idle for longer.
const IDLE: Duration = Duration::from_millis(300);

/// Decides when a cluster has settled after the beginning of a step.
#[derive(Debug)]
pub(super) struct Settling {
    /// The time without changes after which a cluster has settled.
    quiet: Duration,
    /// Earlier changes do not count: the time of the last intervention.
    since: Instant,
    /// The last time when a request or an event was seen on its way.
    busy: Option<Instant>,
}

/// The state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Something is in progress.
    Busy,
    /// Nothing is in progress. The cluster has settled at this time, if nothing happens until then.
    QuietUntil(Instant),
    /// Nothing happened for the quiet time.
    Settled,
}

impl Settling {
    pub(super) const fn new(quiet: Duration, now: Instant) -> Self {
        Self { quiet, since: now, busy: None }
    }

    /// Waits for the quiet time again.
    pub(super) const fn restart(&mut self, now: Instant) {
        self.since = now;
    }

    /// Returns the state of the cluster. `starting` is `true` while the program starts or is about to.
    pub(super) fn state(&mut self, activity: &Activity, starting: bool, now: Instant) -> State {
        if starting || activity.is_striking {
            // The quiet time begins when the program is back.
            self.since = now;
            return State::Busy;
        }
        if activity.in_flight > 0 || activity.undelivered > 0 {
            self.busy = Some(now);
            return State::Busy;
        }
        let quiet = self.since.max(activity.last_change) + self.quiet;
        let settled = self.busy.map_or(quiet, |busy| quiet.max(busy + IDLE));
        if now < settled { State::QuietUntil(settled) } else { State::Settled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(2);

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    fn calm(last_change: Instant) -> Activity {
        Activity {
            last_change,
            in_flight: 0,
            undelivered: 0,
            is_holding: false,
            is_gap_beyond_step: false,
            is_striking: false,
            is_starting: false,
        }
    }

    #[tokio::test]
    async fn quiet_time_counts_from_the_last_change() {
        let start = Instant::now();
        let mut settling = Settling::new(QUIET, start);
        let early = start.checked_sub(QUIET).unwrap_or(start);
        assert_eq!(settling.state(&calm(early), false, start), State::QuietUntil(after(start, 2000)));
        let changed = calm(after(start, 1000));
        assert_eq!(settling.state(&changed, false, after(start, 2000)), State::QuietUntil(after(start, 3000)));
        assert_eq!(settling.state(&changed, false, after(start, 3000)), State::Settled);
        settling.restart(after(start, 4000));
        assert_eq!(settling.state(&changed, false, after(start, 5000)), State::QuietUntil(after(start, 6000)));
    }

    #[tokio::test]
    async fn requests_and_events_delay_it_briefly() {
        let start = Instant::now();
        for busy in [Activity { in_flight: 1, ..calm(start) }, Activity { undelivered: 1, ..calm(start) }] {
            let mut settling = Settling::new(QUIET, start);
            assert_eq!(settling.state(&busy, false, after(start, 5000)), State::Busy);
            assert_eq!(settling.state(&calm(start), false, after(start, 5001)), State::QuietUntil(after(start, 5300)));
            assert_eq!(settling.state(&calm(start), false, after(start, 5300)), State::Settled);
        }
    }

    #[tokio::test]
    async fn start_of_the_program_begins_the_quiet_time() {
        let start = Instant::now();
        let mut settling = Settling::new(QUIET, start);
        assert_eq!(settling.state(&calm(start), true, after(start, 5000)), State::Busy);
        assert_eq!(settling.state(&calm(start), false, after(start, 6000)), State::QuietUntil(after(start, 7000)));
        let striking = Activity { is_striking: true, ..calm(start) };
        assert_eq!(settling.state(&striking, false, after(start, 8000)), State::Busy);
        assert_eq!(settling.state(&calm(start), false, after(start, 9000)), State::QuietUntil(after(start, 10_000)));
    }
}
