//! Back-off from an overloaded server.

use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{Backoff, Delays, Entropy};

/// A delay before every request while the server answers 429 or a server error. It grows with each such response. It
/// ends with the first other response, and when a connection fails.
///
/// Corresponds to `URLBackoff` in client-go, which counts per host; a client has only one. Disabled by default.
#[derive(Debug)]
pub struct OverloadBackoff {
    /// The time without such a response after which the server is considered healthy again.
    forget_after: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    delays: Delays,
    /// The current delay of each request; zero if the server is healthy.
    current: Duration,
    /// The time of the last response that indicated overload.
    since: Instant,
}

impl OverloadBackoff {
    /// Creates a back-off with the delays of `backoff`; its number of tries is ignored. Responses older than
    /// `forget_after` are ignored.
    #[must_use]
    pub fn new(backoff: Backoff, forget_after: Duration, entropy: &Entropy) -> Self {
        let state = State { delays: backoff.delays(entropy), current: Duration::ZERO, since: Instant::now() };
        Self { forget_after, state: Mutex::new(state) }
    }

    pub(super) async fn wait(&self) {
        let delay = self.delay();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
    }

    fn delay(&self) -> Duration {
        let mut state = self.state.lock();
        if state.since.elapsed() > self.forget_after {
            state.recover();
        }
        state.current
    }

    /// Records a response. `None` stands for a failed connection, which does not indicate overload.
    pub(super) fn observe(&self, status: Option<StatusCode>) {
        let mut state = self.state.lock();
        if status.is_some_and(|status| status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()) {
            state.current = state.delays.next_delay();
            state.since = Instant::now();
        } else {
            state.recover();
        }
    }
}

impl State {
    fn recover(&mut self) {
        self.current = Duration::ZERO;
        self.delays.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_grow_while_the_server_fails_and_end_when_it_answers() {
        let backoff = Backoff::new(Duration::from_secs(1)).factor(2.0).limit(Duration::from_secs(3));
        let overload = OverloadBackoff::new(backoff, Duration::from_mins(1), &Entropy::seeded(1));
        let mut seen = vec![overload.delay().as_secs()];
        for code in [429, 500, 503, 404] {
            overload.observe(StatusCode::from_u16(code).ok());
            seen.push(overload.delay().as_secs());
        }
        assert_eq!(seen, [0, 1, 2, 3, 0]);
        overload.observe(Some(StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(overload.delay().as_secs(), 1);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(overload.delay().as_secs(), 0);
    }
}
