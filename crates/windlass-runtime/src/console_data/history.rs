//! The history of a controller: samples of the last two minutes, and the durations of its last reconciles.

use std::{collections::VecDeque, time::Duration};

use super::state::{History, Latency};

/// The interval between samples.
pub(crate) const EVERY: Duration = Duration::from_secs(2);

/// The number of samples: two minutes.
const SAMPLES: usize = 60;

/// The number of reconciles in the latency statistics.
const LATENCIES: usize = 512;

/// Samples of counters, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// The counters at the last sample.
    reconciles: u64,
    failures: u64,
    /// The increments of the counters, and the number of ready keys.
    taken: VecDeque<[u64; 3]>,
}

/// The durations of the last reconciles, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    micros: Vec<u64>,
    /// The position of the oldest entry when the buffer is full.
    oldest: usize,
}

impl Samples {
    pub(super) fn take(&mut self, reconciles: u64, failures: u64, depth: u64) {
        if self.taken.len() == SAMPLES {
            self.taken.pop_front();
        }
        self.taken.push_back([reconciles - self.reconciles, failures - self.failures, depth]);
        (self.reconciles, self.failures) = (reconciles, failures);
    }

    pub(super) fn read(&self) -> History {
        let of = |which: usize| self.taken.iter().map(|sample| sample[which]).collect();
        let every_millis = super::millis(EVERY);
        History { every_millis, reconciles: of(0), failures: of(1), depth: of(2) }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, micros: u64) {
        if self.micros.len() < LATENCIES {
            self.micros.push(micros);
        } else {
            self.micros[self.oldest] = micros;
            self.oldest = (self.oldest + 1) % LATENCIES;
        }
    }

    pub(super) fn read(&self) -> Option<Latency> {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        let max = *sorted.last()?;
        let at = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        Some(Latency { p50: at(50), p99: at(99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_count_since_last_one_for_two_minutes() {
        let mut samples = Samples::default();
        for sample in 1..=61 {
            samples.take(sample * 10, sample, sample);
        }
        let history = samples.read();
        assert_eq!((history.reconciles.len(), history.reconciles[0], history.failures[59]), (60, 10, 1));
        assert_eq!((history.depth[0], history.depth[59], history.every_millis), (2, 61, 2000));
    }

    #[test]
    fn latencies_are_of_the_last_reconciles() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.read(), None);
        latencies.add(7);
        assert_eq!(latencies.read(), Some(Latency { p50: 7, p99: 7, max: 7 }));
        for micros in 1..=600 {
            latencies.add(micros);
        }
        assert_eq!(latencies.read(), Some(Latency { p50: 344, p99: 595, max: 600 }));
    }
}
