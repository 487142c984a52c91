//! The work of a request: the seats that it occupies, and for how long.

use std::time::Duration;

/// The time that a request is expected to take.
const EXPECTED: Duration = Duration::from_millis(3);

/// Work in nanoseconds of one seat.
pub(super) type SeatTime = i128;

/// The estimated work of a request. Its seats are occupied until it has ended, and for the latency after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// The seats while the request runs.
    pub(super) initial: u32,
    /// The seats during the latency.
    pub(super) last: u32,
    /// The time after the request that its consequences take, such as the events of its watches.
    pub(super) latency: Duration,
}

impl Work {
    /// The work of most requests.
    pub(super) const ONE: Self = Self { initial: 1, last: 0, latency: Duration::ZERO };

    /// Returns the number of seats that are occupied in both phases.
    pub(super) fn seats(&self) -> u32 {
        self.initial.max(self.last)
    }

    /// Returns the whole work, if the request takes the expected time.
    pub(super) fn total(&self) -> SeatTime {
        seat_time(self.initial, EXPECTED) + seat_time(self.last, self.latency)
    }

    /// Returns by how much the work exceeds the estimate, for the time that the request took.
    pub(super) fn excess(&self, took: Duration) -> SeatTime {
        seat_time(self.initial, took) - seat_time(self.initial, EXPECTED)
    }

    /// Limits the seats of the second phase. The same work then takes longer.
    pub(super) fn limit_last(&mut self, seats: u32) {
        if self.last > seats && seats > 0 {
            self.latency = self.latency.saturating_mul(self.last) / seats;
            self.last = seats;
        }
    }
}

/// Returns the work of some seats for some time.
fn seat_time(seats: u32, time: Duration) -> SeatTime {
    SeatTime::from(seats) * i128::try_from(time.as_nanos()).unwrap_or(i128::from(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrower_work_takes_longer() {
        let mut work = Work { initial: 1, last: 12, latency: Duration::from_millis(5) };
        let total = work.total();
        work.limit_last(3);
        assert_eq!((work.last, work.latency, work.seats()), (3, Duration::from_millis(20), 3));
        assert_eq!(work.total(), total);
        work.limit_last(0);
        assert_eq!(work.last, 3);
    }
}
