//! Debouncing of notifications to the subscribers of a topic.
//!
//! Waking a subscriber, and sending its events, costs the same for one event as for several. A topic that changes
//! constantly and has a thousand subscribers would occupy the whole machine. So there is a minimum interval between two
//! notifications of a topic. It is several times as long as notifying all its subscribers takes: it grows with their
//! number and is zero for few. Its maximum bounds the delay of an event.

use std::time::Duration;

use tokio::time::Instant;

/// The part of the interval per subscriber: about twenty times the cost of waking it.
const INTERVAL_PER_SUBSCRIBER: Duration = Duration::from_micros(50);

/// Intervals up to this length are ignored, because timers have a resolution of a millisecond.
const MIN_INTERVAL: Duration = Duration::from_millis(2);

/// The maximum interval, and so the maximum delay of an event. Ten thousand subscribers with a connection each need more
/// than a tenth of a second of processor time for a notification.
pub(super) const MAX_INTERVAL: Duration = Duration::from_millis(250);

/// The time of the last notification of a topic's subscribers, and of the pending one, if any.
#[derive(Debug, Default)]
pub(super) struct Debounce {
    delivered: Option<Instant>,
    due: Option<Instant>,
}

/// The notification for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notification {
    Now,
    At(Instant),
    /// No notification is pending.
    Nothing,
}

impl Debounce {
    /// Decides about the notification of an event for this number of subscribers. It is delayed while subscribers of
    /// other topics are being notified.
    pub(super) fn on_event(&mut self, subscribers: usize, now: Instant, delivering: bool) -> Notification {
        if let Some(due) = self.due {
            return Notification::At(due);
        }
        let debounce =
            INTERVAL_PER_SUBSCRIBER.saturating_mul(u32::try_from(subscribers).unwrap_or(u32::MAX)).min(MAX_INTERVAL);
        if debounce <= MIN_INTERVAL {
            return Notification::Now;
        }
        let due = self.delivered.map_or(now, |delivered| delivered + debounce);
        if due > now || delivering {
            let due = due.max(now);
            self.due = Some(due);
            return Notification::At(due);
        }
        self.delivered = Some(now);
        Notification::Now
    }

    /// Decides about the pending notification at a later time.
    pub(super) fn on_timer(&mut self, now: Instant) -> Notification {
        match self.due {
            Some(due) if due > now => Notification::At(due),
            Some(_) => {
                *self = Self { delivered: Some(now), due: None };
                Notification::Now
            }
            None => Notification::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::watch_cache::debounce::*;

    #[test]
    fn small_fan_out_is_notified_immediately() {
        let (mut debounce, now) = (Debounce::default(), Instant::now());
        assert!((0..10).all(|_| debounce.on_event(40, now, true) == Notification::Now));
        assert_eq!(debounce.on_timer(now), Notification::Nothing);
    }

    #[test]
    fn large_fan_out_is_debounced_after_the_first_event() {
        let (mut debounce, now) = (Debounce::default(), Instant::now());
        let after = |micros| now + Duration::from_micros(micros);
        assert_eq!(debounce.on_event(100, now, false), Notification::Now);
        assert_eq!(debounce.on_event(100, after(1), false), Notification::At(after(5_000)));
        assert_eq!(debounce.on_event(100, after(2), false), Notification::At(after(5_000)));
        assert_eq!(debounce.on_timer(after(4_999)), Notification::At(after(5_000)));
        assert_eq!(debounce.on_timer(after(5_100)), Notification::Now);
        assert_eq!(debounce.on_timer(after(5_100)), Notification::Nothing);
        // The interval starts with the actual notification, not with its due time.
        assert_eq!(debounce.on_event(100, after(6_000), false), Notification::At(after(10_100)));
        assert_eq!(debounce.on_timer(after(10_100)), Notification::Now);
        assert_eq!(debounce.on_event(100, after(15_100), false), Notification::Now, "the interval has passed");
    }

    #[test]
    fn event_during_notification_is_delivered_next() {
        let (mut debounce, now) = (Debounce::default(), Instant::now());
        assert_eq!(debounce.on_event(41, now, true), Notification::At(now));
        assert_eq!(debounce.on_timer(now), Notification::Now);
        assert!(matches!(debounce.on_event(41, now, false), Notification::At(due) if due > now));
    }

    #[test]
    fn debounce_interval_has_an_upper_limit() {
        let (mut debounce, now) = (Debounce::default(), Instant::now());
        assert_eq!(debounce.on_event(3_000, now, false), Notification::Now);
        assert_eq!(debounce.on_event(3_000, now, false), Notification::At(now + Duration::from_millis(150)));
        let mut debounce = Debounce::default();
        assert_eq!(debounce.on_event(1_000_000, now, false), Notification::Now);
        assert_eq!(debounce.on_event(1_000_000, now, false), Notification::At(now + MAX_INTERVAL));
    }
}
