//! The depth gauge of a queue, in total or by priority.

use std::collections::HashMap;

use parking_lot::Mutex;
use prometheus::{IntGauge, IntGaugeVec};

/// The labels of the gauges.
pub(super) const LABELS: &[&str] = &["name", "controller", "priority"];

/// The maximum number of priorities with their own gauge. All further priorities share one gauge.
const MAX_PRIORITIES: usize = 25;
const OTHER_PRIORITIES: &str = "exceeded_cardinality_limit";

/// The depth of one queue.
pub(super) struct Depth {
    name: String,
    /// The gauges of all queues.
    all: IntGaugeVec,
    /// The gauges by priority. `None` is the gauge of a queue without priorities.
    told: Mutex<HashMap<Option<i32>, IntGauge>>,
}

// === impl Depth ===

impl Depth {
    pub(super) fn new(name: &str, all: &IntGaugeVec) -> Self {
        Self { name: name.to_owned(), all: all.clone(), told: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn change(&self, priority: Option<i32>, change: i64) {
        let mut told = self.told.lock();
        if let Some(gauge) = told.get(&priority) {
            return gauge.add(change);
        }
        let full = told.len() >= MAX_PRIORITIES;
        let gauge = match priority {
            Some(_) if full => return self.gauge(OTHER_PRIORITIES).add(change),
            Some(priority) => self.gauge(&priority.to_string()),
            None => self.gauge(""),
        };
        gauge.add(change);
        told.insert(priority, gauge);
    }

    fn gauge(&self, priority: &str) -> IntGauge {
        self.all.with_label_values(&[&*self.name, &*self.name, priority])
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    #[test]
    fn depth_has_25_priorities_and_one_overflow_label() {
        let all = IntGaugeVec::new(Opts::new("depth", "depth"), LABELS).unwrap();
        let depth = Depth::new("queue", &all);
        for priority in (0..30).chain([7, 28]) {
            depth.change(Some(priority), 1);
        }
        depth.change(Some(29), -1);
        let of = |priority| all.with_label_values(&["queue", "queue", priority]).get();
        assert_eq!([of("0"), of("7"), of("24"), of("25"), of(OTHER_PRIORITIES)], [1, 2, 1, 0, 5]);
    }

    #[test]
    fn a_queue_without_priorities_has_one_depth() {
        let all = IntGaugeVec::new(Opts::new("depth", "depth"), LABELS).unwrap();
        let depth = Depth::new("queue", &all);
        depth.change(None, 1);
        depth.change(None, 1);
        depth.change(None, -1);
        assert_eq!(all.with_label_values(&["queue", "queue", ""]).get(), 1);
    }
}
