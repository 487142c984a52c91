//! The delays of all events to all watchers.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::BoxError;

/// The times of the writes. Delays count from them, so a write that is late because the server is busy is not forgiven.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) begin: Instant,
    /// The number of writes per second.
    pub(super) rate: u32,
    pub(super) writes: u32,
}

/// The delivered events.
#[derive(Debug)]
pub(super) struct Deliveries {
    schedule: Schedule,
    watchers: usize,
    opened: usize,
    /// The number of watchers that have not received a write, and the delay of the last one that has.
    writes: Vec<(usize, Duration)>,
    /// The number of writes that some watchers have not received.
    incomplete: usize,
    /// The number of events by their delay in milliseconds.
    delays: Vec<u64>,
    /// The number of received lines.
    lines: u64,
    reads: u64,
}

/// A few percentiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Percentiles {
    median: Duration,
    p99: Duration,
    max: Duration,
}

/// The longest delay that is told apart from longer ones.
const LONGEST: Duration = Duration::from_mins(2);

impl Schedule {
    /// Returns the time of a write. The first has the number 1.
    pub(super) fn time(&self, write: u32) -> Instant {
        self.begin + Duration::from_secs(1) * (write - 1) / self.rate
    }

    /// Returns the time from now until the last write.
    pub(super) fn duration(&self) -> Duration {
        self.time(self.writes).saturating_duration_since(Instant::now())
    }
}

impl Deliveries {
    pub(super) fn new(schedule: Schedule, watchers: usize) -> Self {
        Self {
            schedule,
            watchers,
            opened: 0,
            writes: vec![(watchers, Duration::ZERO); schedule.writes as usize],
            incomplete: schedule.writes as usize,
            delays: vec![0; usize::try_from(LONGEST.as_millis()).unwrap_or(0)],
            lines: 0,
            reads: 0,
        }
    }

    /// Sets the times of the writes, before the first one.
    pub(super) fn begin(&mut self, schedule: Schedule) {
        self.schedule = schedule;
        self.reads = 0;
    }

    /// Records that watches have begun.
    pub(super) fn open(&mut self, watches: usize) {
        self.opened += watches;
    }

    /// Records lines of one watcher: all writes after `last` up to `write`.
    pub(super) fn receive(&mut self, last: u32, write: u32, lines: u64, now: Instant) {
        self.lines += lines;
        for number in last + 1..=write {
            let delay = now.saturating_duration_since(self.schedule.time(number));
            let place = usize::try_from(delay.as_millis()).unwrap_or(usize::MAX).min(self.delays.len() - 1);
            self.delays[place] += 1;
            let Some((left, slowest)) = self.writes.get_mut(number as usize - 1) else { continue };
            *left = left.saturating_sub(1);
            *slowest = delay.max(*slowest);
            if *left == 0 {
                self.incomplete -= 1;
            }
        }
    }

    /// Counts a read from a socket.
    pub(super) fn count_read(&mut self) {
        self.reads += 1;
    }

    /// Reports whether all watches have begun.
    pub(super) fn are_open(&self) -> bool {
        self.opened == self.watchers
    }

    /// Reports whether all watchers have received all writes.
    pub(super) fn are_complete(&self) -> bool {
        self.incomplete == 0
    }

    /// Returns an error if an event was lost or repeated.
    pub(super) fn check(&self) -> Result<(), BoxError> {
        let expected = u64::from(self.schedule.writes) * self.watchers as u64;
        if self.lines == expected {
            return Ok(());
        }
        Err(format!("{} events have arrived, and there were {expected}", self.lines).into())
    }

    /// Returns the delay of each write to its last watcher.
    pub(super) fn take_last(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.writes).into_iter().map(|(_, delay)| delay).collect()
    }

    /// Returns the delays of all events, in whole milliseconds.
    pub(super) fn all(&self) -> Percentiles {
        let total: u64 = self.delays.iter().sum();
        let at = |rank: u64| {
            let mut count = 0;
            let place = self.delays.iter().position(|events| {
                count += events;
                count >= rank.max(1)
            });
            Duration::from_millis(place.unwrap_or(0) as u64)
        };
        Percentiles { median: at(total.div_ceil(2)), p99: at((total * 99).div_ceil(100)), max: at(total) }
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(super) fn events_per_read(&self) -> f64 {
        self.lines as f64 / (self.reads as f64).max(1.0)
    }
}

impl Percentiles {
    pub(super) fn of(mut delays: Vec<Duration>) -> Self {
        delays.sort_unstable();
        let at = |rank: usize| delays.get(rank.max(1) - 1).copied().unwrap_or_default();
        let count = delays.len();
        Self { median: at(count.div_ceil(2)), p99: at((count * 99).div_ceil(100)), max: at(count) }
    }

    pub(super) fn milliseconds(self) -> Value {
        let [median, p99, max] = [self.median, self.p99, self.max].map(|delay| delay.as_secs_f64() * 1e3);
        json!({"p50": median, "p99": p99, "max": max})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deliveries(watchers: usize) -> (Deliveries, Instant) {
        let begin = Instant::now();
        (Deliveries::new(Schedule { begin, rate: 10, writes: 2 }, watchers), begin)
    }

    #[test]
    fn delay_counts_from_the_schedule_to_the_last_watcher() {
        let (mut deliveries, begin) = deliveries(2);
        let after = |millis| begin + Duration::from_millis(millis);
        deliveries.receive(0, 1, 1, after(7));
        deliveries.receive(0, 2, 2, after(130));
        assert!(!deliveries.are_complete() && deliveries.check().is_err());
        deliveries.receive(1, 2, 1, after(105));
        assert!(deliveries.are_complete());
        deliveries.check().unwrap();
        let millis = Duration::from_millis;
        assert_eq!(deliveries.all(), Percentiles { median: millis(7), p99: millis(130), max: millis(130) });
        assert_eq!(deliveries.take_last(), [millis(130), millis(30)]);
    }

    #[test]
    fn repeated_event_is_an_error() {
        let (mut deliveries, begin) = deliveries(1);
        deliveries.receive(0, 2, 3, begin);
        assert!(deliveries.are_complete());
        assert_eq!(deliveries.check().unwrap_err().to_string(), "3 events have arrived, and there were 2");
    }

    #[test]
    fn percentiles_are_ranks() {
        let delays = (1..=200).rev().map(Duration::from_millis).collect();
        let millis = Duration::from_millis;
        assert_eq!(Percentiles::of(delays), Percentiles { median: millis(100), p99: millis(198), max: millis(200) });
        assert_eq!(Percentiles::of(Vec::new()).max, Duration::ZERO);
    }
}
