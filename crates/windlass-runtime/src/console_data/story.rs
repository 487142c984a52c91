//! The last steps of the control loop. Writers never wait for readers.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use windlass_api::ObjectKey;

use super::state::{Chapter, Line, Step};

/// The maximum number of stored steps.
const KEPT: usize = 2048;

/// The maximum number of steps in one event.
const CHAPTER: usize = 512;

/// A ring buffer of steps.
#[derive(Debug)]
pub(super) struct Story(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// The number of the next line.
    next: u64,
    /// The number of the last line is `next - 1`.
    lines: VecDeque<Arc<Line>>,
}

impl Story {
    pub(super) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(super) fn add(&self, at: i64, controller: Arc<str>, key: ObjectKey, step: Step) {
        let mut line = Arc::new(Line { number: 0, at, controller, key, step });
        let mut ring = self.0.lock();
        if let Some(line) = Arc::get_mut(&mut line) {
            line.number = ring.next;
        }
        ring.next += 1;
        let oldest = if ring.lines.len() == KEPT { ring.lines.pop_front() } else { None };
        ring.lines.push_back(line);
        drop(ring);
        drop(oldest); // … without the lock.
    }

    /// Returns the newest lines starting at a number, and the number after them. Returns `None` if there are no new
    /// lines.
    pub(super) fn since(&self, from: u64) -> Option<(Chapter, u64)> {
        let (lines, next): (Vec<_>, _) = {
            let ring = self.0.lock();
            let new = usize::try_from(ring.next.saturating_sub(from)).unwrap_or(usize::MAX);
            let told = new.min(CHAPTER).min(ring.lines.len());
            (ring.lines.iter().skip(ring.lines.len() - told).cloned().collect(), ring.next)
        };
        let first = lines.first()?.number;
        let lines = lines.iter().map(|line| Line::clone(line)).collect();
        Some((Chapter { lost: first.saturating_sub(from), lines }, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(chapter: &Chapter) -> (u64, Option<u64>, Option<u64>, u64) {
        let number = |line: Option<&Line>| line.map(|line| line.number);
        let lines = &chapter.lines;
        (lines.len() as u64, number(lines.first()), number(lines.last()), chapter.lost)
    }

    #[test]
    fn who_reads_slowly_is_told_how_much_was_left_out() {
        let story = Story::new();
        let add = |count: u64| {
            for _ in 0..count {
                story.add(0, "c".into(), ObjectKey::new("k"), Step::Started { id: "1".into() });
            }
        };
        assert!(story.since(0).is_none());
        add(3);
        let (chapter, next) = story.since(0).unwrap();
        assert_eq!((numbers(&chapter), next), ((3, Some(0), Some(2), 0), 3));
        assert!(story.since(next).is_none(), "each line is returned once");
        add(10_000);
        let (chapter, next) = story.since(next).unwrap();
        assert_eq!((numbers(&chapter), next), ((512, Some(9491), Some(10_002), 9488), 10_003));
        assert_eq!(story.0.lock().lines.len(), KEPT);
    }
}
