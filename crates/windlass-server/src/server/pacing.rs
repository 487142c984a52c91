//! The pace of large responses: their bytes are sent in slices, and each slice needs a turn.
//!
//! Copying and encrypting a large response takes milliseconds. Without turns, all large responses would progress at the
//! same time, and every other request would wait behind a part of each of them.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::{task, time::Instant};

use crate::turns::{Class, Turn, Turns};

/// The number of bytes that a response sends at once without a turn. Most responses are smaller.
const FREE: usize = 128 << 10;

/// The interval after which it may send this number again. Events of a watch rarely need turns.
const REFILL: Duration = Duration::from_secs(1);

/// The number of bytes per turn. They take less than a millisecond, unless they have to be compressed.
const SLICE: usize = 256 << 10;

/// The turns of one response.
pub(super) struct Pacing {
    turns: Arc<Turns>,
    class: Class,
    /// The number of bytes that may be sent now.
    allowed: usize,
    /// The time of the first byte, and then of each refill.
    refilled: Option<Instant>,
    state: State,
}

enum State {
    Free,
    Waiting(BoxFuture<'static, Turn>),
    /// Shared with the bytes of the slice.
    Sending(Arc<Turn>),
}

/// Bytes of a slice. Its turn ends when all of them are dropped, which is when they are encrypted.
struct Carried {
    bytes: Bytes,
    _turn: Arc<Turn>,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Pacing {
    pub(super) fn new(turns: &Arc<Turns>, class: Class) -> Self {
        Self { turns: Arc::clone(turns), class, allowed: FREE, refilled: None, state: State::Free }
    }

    /// Waits until the response may send bytes.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.allowed > 0 {
            return Poll::Ready(());
        }
        if !matches!(self.state, State::Waiting(_)) {
            let now = Instant::now();
            if self.refilled.is_none_or(|last| now.saturating_duration_since(last) >= REFILL) {
                (self.allowed, self.refilled, self.state) = (FREE, Some(now), State::Free);
                return Poll::Ready(());
            }
            // Gives up the turn before the next one is requested, so that other responses get theirs.
            self.state = State::Free;
            let (turns, class) = (Arc::clone(&self.turns), self.class);
            self.state = State::Waiting(Box::pin(async move {
                task::yield_now().await;
                turns.take(class).await
            }));
        }
        let State::Waiting(waiting) = &mut self.state else { return Poll::Ready(()) };
        let turn = ready!(waiting.as_mut().poll(cx));
        (self.allowed, self.state) = (SLICE, State::Sending(Arc::new(turn)));
        Poll::Ready(())
    }

    /// Counts bytes that are sent. The turn ends after they are dropped.
    pub(super) fn sent(&mut self, bytes: Bytes) -> Bytes {
        self.refilled.get_or_insert_with(Instant::now);
        self.allowed = self.allowed.saturating_sub(bytes.len());
        match &self.state {
            State::Sending(turn) => Bytes::from_owner(Carried { bytes, _turn: Arc::clone(turn) }),
            _ => bytes,
        }
    }

    /// Ends the turn: the response waits for its next bytes.
    pub(super) fn idle(&mut self) {
        if matches!(self.state, State::Sending(_)) {
            (self.allowed, self.state) = (0, State::Free);
        }
    }
}

impl fmt::Debug for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacing").field("class", &self.class).field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::FutureExt as _;

    use super::*;

    impl Pacing {
        fn is_ready(&mut self) -> bool {
            poll_fn(|cx| self.poll_ready(cx)).now_or_never().is_some()
        }
    }

    fn is_free(turns: &Arc<Turns>) -> bool {
        Arc::clone(turns).take(Class::Other).now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn large_response_occupies_a_turn_for_each_slice() {
        let turns = Turns::new(1, None);
        let other = Arc::clone(&turns).take(Class::Other).await;
        let mut pacing = Pacing::new(&turns, Class::Other);
        assert!(pacing.is_ready(), "the first bytes need no turn");
        drop(pacing.sent(vec![0; FREE].into()));
        for _ in 0..3 {
            assert!(!pacing.is_ready());
            task::yield_now().await;
        }
        drop(other);
        poll_fn(|cx| pacing.poll_ready(cx)).await;
        assert!(!is_free(&turns));
        let bytes = pacing.sent(vec![0; SLICE].into());
        assert!(!pacing.is_ready());
        assert!(!is_free(&turns), "the connection has not sent the bytes");
        drop(bytes);
        assert!(is_free(&turns), "another response can have the next turn");
        poll_fn(|cx| pacing.poll_ready(cx)).await;
        pacing.idle();
        assert!(is_free(&turns));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_stream_needs_no_turns() {
        let turns = Turns::new(0, None);
        let mut pacing = Pacing::new(&turns, Class::Other);
        for _ in 0..5 {
            assert!(pacing.is_ready());
            drop(pacing.sent(vec![0; FREE].into()));
            tokio::time::advance(REFILL).await;
        }
        assert!(pacing.is_ready());
        drop(pacing.sent(vec![0; FREE].into()));
        assert!(!pacing.is_ready());
    }
}
