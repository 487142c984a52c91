//! The demand for seats of a priority level: its average, deviation and maximum over a period, and a smoothed value over
//! several periods.

use tokio::time::Instant;

/// The decay of the smoothed demand from one period to the next. Its half-life is five minutes.
const SMOOTHING: f64 = 0.977;

/// Integrates the number of seats that are in use or waited for.
#[derive(Debug)]
pub(super) struct DemandMeter {
    since: Instant,
    seats: u32,
    highest: u32,
    /// The integrals of 1, of the demand and of its square, over the time in seconds.
    moments: [f64; 3],
}

/// The demand of the last period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Demand {
    pub(super) highest: u32,
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) smoothed: f64,
}

impl DemandMeter {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, seats: 0, highest: 0, moments: [0.0; 3] }
    }

    /// Sets the current demand.
    pub(super) fn set(&mut self, now: Instant, seats: u32) {
        if seats != self.seats {
            self.integrate(now);
            self.seats = seats;
            self.highest = self.highest.max(seats);
        }
    }

    fn integrate(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.since).as_secs_f64();
        let seats = f64::from(self.seats);
        self.since = now;
        for (moment, added) in self.moments.iter_mut().zip([seconds, seats * seconds, seats * seats * seconds]) {
            *moment += added;
        }
    }

    /// Ends a period, and updates the demand with it.
    pub(super) fn end_period(&mut self, now: Instant, demand: &mut Demand) {
        self.integrate(now);
        let [seconds, sum, squares] = std::mem::take(&mut self.moments);
        demand.highest = std::mem::replace(&mut self.highest, self.seats);
        if seconds <= 0.0 {
            return;
        }
        demand.average = sum / seconds;
        demand.deviation = (squares / seconds - demand.average * demand.average).max(0.0).sqrt();
        let envelope = demand.average + demand.deviation;
        demand.smoothed = envelope.max(SMOOTHING * demand.smoothed + (1.0 - SMOOTHING) * envelope);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn period_has_average_deviation_and_maximum() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut meter, mut demand) = (DemandMeter::new(start), Demand::default());
        meter.set(at(2), 10);
        meter.set(at(4), 2);
        meter.set(at(4), 0);
        meter.end_period(at(10), &mut demand);
        assert_eq!((demand.highest, demand.average, demand.deviation), (10, 2.0, 4.0));
        assert!((demand.smoothed - 6.0).abs() < 1e-9);
        // Without demand, the smoothed value decays slowly.
        meter.end_period(at(20), &mut demand);
        assert_eq!((demand.highest, demand.average, demand.deviation), (0, 0.0, 0.0));
        assert!((demand.smoothed - 6.0 * SMOOTHING).abs() < 1e-9);
    }

    #[test]
    fn next_period_begins_with_the_current_demand() {
        let start = Instant::now();
        let (mut meter, mut demand) = (DemandMeter::new(start), Demand::default());
        meter.set(start, 7);
        meter.end_period(start, &mut demand);
        // A period without duration changes only the maximum.
        assert_eq!(demand, Demand { highest: 7, ..Demand::default() });
        meter.end_period(start + Duration::from_secs(10), &mut demand);
        assert_eq!((demand.highest, demand.average), (7, 7.0));
    }
}
