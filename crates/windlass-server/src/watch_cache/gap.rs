//! How soon after one event the subscribers of a topic are told of the next.
//!
//! To wake a subscriber, and to send what it has been told of, costs the same for one event as for several. A topic of a
//! thousand subscribers that changes all the time would have the machine do nothing else. So there is a gap between two tellings, as
//! long as it takes to tell them all, several times over: it grows with their number, is nothing for few, and bounds what the wait of one
//! event can be.

use std::time::Duration;

use tokio::time::Instant;

/// What each subscriber adds to the gap: about twenty times what waking it costs.
const EACH: Duration = Duration::from_micros(50);

/// A gap that is no longer is none: timers count milliseconds.
const FEW: Duration = Duration::from_millis(2);

/// No event waits longer.
pub(super) const MOST: Duration = Duration::from_millis(50);

/// When the subscribers of a topic were told last, and whether something has come since.
#[derive(Debug, Default)]
pub(super) struct Gap {
    told: Option<Instant>,
    due: Option<Instant>,
}

/// What is to be done about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    Now,
    At(Instant),
    /// There is nothing to tell.
    Nothing,
}

impl Gap {
    /// There is an event for so many subscribers. While others are still being told, these have to wait their turn.
    pub(super) fn event(&mut self, subscribers: usize, now: Instant, telling_others: bool) -> Telling {
        if let Some(due) = self.due {
            return Telling::At(due);
        }
        let gap = EACH.saturating_mul(u32::try_from(subscribers).unwrap_or(u32::MAX)).min(MOST);
        if gap <= FEW {
            return Telling::Now;
        }
        let due = self.told.map_or(now, |told| told + gap);
        if due > now || telling_others {
            let due = due.max(now);
            self.due = Some(due);
            return Telling::At(due);
        }
        self.told = Some(now);
        Telling::Now
    }

    /// Time has passed.
    pub(super) fn passed(&mut self, now: Instant) -> Telling {
        match self.due {
            Some(due) if due > now => Telling::At(due),
            Some(_) => {
                *self = Self { told: Some(now), due: None };
                Telling::Now
            }
            None => Telling::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_told_at_once() {
        let (mut gap, now) = (Gap::default(), Instant::now());
        assert!((0..10).all(|_| gap.event(40, now, true) == Telling::Now));
        assert_eq!(gap.passed(now), Telling::Nothing);
    }

    #[test]
    fn many_are_told_at_once_after_a_rest_and_of_what_follows_together() {
        let (mut gap, now) = (Gap::default(), Instant::now());
        let after = |micros| now + Duration::from_micros(micros);
        assert_eq!(gap.event(100, now, false), Telling::Now);
        assert_eq!(gap.event(100, after(1), false), Telling::At(after(5_000)));
        assert_eq!(gap.event(100, after(2), false), Telling::At(after(5_000)));
        assert_eq!(gap.passed(after(4_999)), Telling::At(after(5_000)));
        assert_eq!(gap.passed(after(5_100)), Telling::Now);
        assert_eq!(gap.passed(after(5_100)), Telling::Nothing);
        // Since they were told, and not since it was due.
        assert_eq!(gap.event(100, after(6_000), false), Telling::At(after(10_100)));
        assert_eq!(gap.passed(after(10_100)), Telling::Now);
        assert_eq!(gap.event(100, after(15_100), false), Telling::Now, "there was a rest");
    }

    #[test]
    fn who_comes_while_others_are_told_is_told_next() {
        let (mut gap, now) = (Gap::default(), Instant::now());
        assert_eq!(gap.event(41, now, true), Telling::At(now));
        assert_eq!(gap.passed(now), Telling::Now);
        assert!(matches!(gap.event(41, now, false), Telling::At(due) if due > now));
    }

    #[test]
    fn nobody_waits_longer_than_the_longest_gap() {
        let (mut gap, now) = (Gap::default(), Instant::now());
        assert_eq!(gap.event(1_000_000, now, false), Telling::Now);
        assert_eq!(gap.event(1_000_000, now, false), Telling::At(now + MOST));
    }
}
