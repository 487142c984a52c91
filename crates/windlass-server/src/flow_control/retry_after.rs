//! The number of seconds after which a rejected client should try again. It grows while many requests are rejected.

use std::collections::VecDeque;

/// The maximum number of seconds.
const MAX: u64 = 32;

/// The recent rejections of a priority level, by second.
#[derive(Debug)]
pub(super) struct RetryAfter {
    seconds: u64,
    /// The last second in which the number of seconds grew.
    grown: Option<u64>,
    current: (u64, u64),
    history: VecDeque<(u64, u64)>,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self { seconds: 1, grown: None, current: (0, 0), history: VecDeque::new() }
    }
}

impl RetryAfter {
    /// Counts a rejection, and returns the seconds for its response.
    pub(super) fn reject(&mut self, second: u64) -> u64 {
        if second == self.current.0 {
            self.current.1 += 1;
            return self.seconds;
        }
        let ended = std::mem::replace(&mut self.current, (second, 1));
        self.history.push_back(ended);
        let kept = (2 * self.seconds).min(MAX);
        self.history.retain(|(at, _)| second.saturating_sub(*at) <= kept);
        self.adjust(second);
        self.seconds
    }

    /// Doubles the seconds if at least three rejections per second fell into them, and reduces them if there was less
    /// than one.
    fn adjust(&mut self, now: u64) {
        let recent = self.history.iter().filter(|(at, _)| *at < now && now - at <= self.seconds);
        let rejections: u64 = recent.map(|(_, count)| count).sum();
        let may_grow = self.grown.is_none_or(|grown| now.saturating_sub(grown) >= self.seconds);
        if may_grow && rejections >= 3 * self.seconds {
            self.seconds = (2 * self.seconds).min(MAX);
            self.grown = Some(now);
        } else if rejections < self.seconds && self.seconds > 1 {
            self.seconds -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejections(retry: &mut RetryAfter, second: u64, count: u64) -> u64 {
        (0..count).map(|_| retry.reject(second)).last().unwrap()
    }

    #[test]
    fn seconds_double_under_overload_and_fall_one_by_one() {
        let mut retry = RetryAfter::default();
        assert_eq!(rejections(&mut retry, 100, 2), 1);
        // Two rejections in a second are no overload.
        assert_eq!(rejections(&mut retry, 101, 10), 1);
        assert_eq!(rejections(&mut retry, 102, 10), 2);
        // It does not grow again before that time has passed.
        assert_eq!(rejections(&mut retry, 103, 10), 2);
        assert_eq!(rejections(&mut retry, 104, 10), 4);
        assert_eq!(retry.reject(200), 3);
        assert_eq!(retry.reject(300), 2);
        assert_eq!(retry.reject(400), 1);
        assert_eq!(retry.reject(500), 1);
    }

    #[test]
    fn seconds_have_a_maximum_and_history_is_bounded() {
        let mut retry = RetryAfter::default();
        for second in 1..1000 {
            rejections(&mut retry, second, 200);
        }
        assert_eq!(retry.seconds, MAX);
        assert!(retry.history.len() <= 33, "{}", retry.history.len());
    }
}
