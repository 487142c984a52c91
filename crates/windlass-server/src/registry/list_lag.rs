//! A delay of lists after writes of other kinds.
//!
//! In the real server, a consistent list waits until its cache of the kind has reached the revision of the last write.
//! For writes of other kinds the cache gets the revision from etcd every 100 ms. Tests of controllers implicitly
//! rely on that delay: they change an object, list objects of another kind, and expect that a controller has acted in
//! the meantime.
//!
//! Guaranteed: a list starts at most the delay after the last write before it. A list of the most recently written kind
//! is not delayed.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{self, Instant};

/// Delays lists. Does nothing if the delay is zero.
#[derive(Debug, Default)]
pub(crate) struct ListLag {
    length: Duration,
    last: Mutex<Option<Write>>,
}

#[derive(Debug)]
struct Write {
    key: String,
    at: Instant,
}

impl ListLag {
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, last: Mutex::default() }
    }

    /// Records a write.
    pub(crate) fn record_write(&self, key: &str) {
        if !self.length.is_zero() {
            *self.last.lock() = Some(Write { key: key.to_owned(), at: Instant::now() });
        }
    }

    /// Waits before a list of the kind whose keys start with `prefix`.
    pub(crate) async fn wait(&self, prefix: &str) {
        let end_of_delay = |write: &Write| (!write.key.starts_with(prefix)).then_some(write.at + self.length);
        let until = self.last.lock().as_ref().and_then(end_of_delay);
        if let Some(until) = until {
            time::sleep_until(until).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_millis(10);

    async fn delay(lag: &ListLag, prefix: &str) -> Duration {
        let began = Instant::now();
        lag.wait(prefix).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_delayed_by_writes_of_other_kinds_only() {
        let lag = ListLag::new(LENGTH);
        assert_eq!(delay(&lag, "/registry/pods/").await, Duration::ZERO);
        lag.record_write("/registry/services/a/b");
        assert_eq!(delay(&lag, "/registry/services/").await, Duration::ZERO);
        time::advance(LENGTH / 2).await;
        assert_eq!(delay(&lag, "/registry/pods/").await, LENGTH / 2);
        assert_eq!(delay(&lag, "/registry/pods/").await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn lists_are_not_delayed_without_a_configured_lag() {
        let lag = ListLag::default();
        lag.record_write("/registry/services/a/b");
        assert_eq!(delay(&lag, "/registry/pods/").await, Duration::ZERO);
    }
}
