//! The last steps of the control loop. Writers never wait for readers.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use windlass_api::ObjectKey;

use super::state::{LoggedStep, Step, StepBatch};

/// The maximum number of stored steps.
const CAPACITY: usize = 2048;

/// The maximum number of steps in one event.
const BATCH: usize = 512;

/// A ring buffer of steps.
#[derive(Debug)]
pub(super) struct StepLog(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// The number of the next line.
    next: u64,
    /// The number of the last line is `next - 1`.
    lines: VecDeque<Arc<LoggedStep>>,
}

impl StepLog {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(super) fn add(&self, at: i64, controller: Arc<str>, key: ObjectKey, step: Step) {
        let mut line = Arc::new(LoggedStep { number: 0, at, controller, key, step });
        let mut ring = self.0.lock();
        if let Some(line) = Arc::get_mut(&mut line) {
            line.number = ring.next;
        }
        ring.next += 1;
        let oldest = if ring.lines.len() == CAPACITY { ring.lines.pop_front() } else { None };
        ring.lines.push_back(line);
        drop(ring);
        drop(oldest); // … without the lock.
    }

    /// Returns the newest lines starting at a number, and the number after them. Returns `None` if there are no new
    /// lines.
    pub(super) fn since(&self, from: u64) -> Option<(StepBatch, u64)> {
        let (lines, next): (Vec<_>, _) = {
            let ring = self.0.lock();
            let new = usize::try_from(ring.next.saturating_sub(from)).unwrap_or(usize::MAX);
            let count = new.min(BATCH).min(ring.lines.len());
            (ring.lines.iter().skip(ring.lines.len() - count).cloned().collect(), ring.next)
        };
        let first = lines.first()?.number;
        let lines = lines.iter().map(|line| LoggedStep::clone(line)).collect();
        Some((StepBatch { lost: first.saturating_sub(from), lines }, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(batch: &StepBatch) -> (u64, Option<u64>, Option<u64>, u64) {
        let number = |line: Option<&LoggedStep>| line.map(|line| line.number);
        let lines = &batch.lines;
        (lines.len() as u64, number(lines.first()), number(lines.last()), batch.lost)
    }

    #[test]
    fn slow_reader_gets_the_number_of_dropped_steps() {
        let log = StepLog::new();
        let add = |count: u64| {
            for _ in 0..count {
                log.add(0, "c".into(), ObjectKey::new("k"), Step::Started { id: "1".into() });
            }
        };
        assert!(log.since(0).is_none());
        add(3);
        let (batch, next) = log.since(0).unwrap();
        assert_eq!((numbers(&batch), next), ((3, Some(0), Some(2), 0), 3));
        assert!(log.since(next).is_none(), "each line is returned once");
        add(10_000);
        let (batch, next) = log.since(next).unwrap();
        assert_eq!((numbers(&batch), next), ((512, Some(9491), Some(10_002), 9488), 10_003));
        assert_eq!(log.0.lock().lines.len(), CAPACITY);
    }
}
