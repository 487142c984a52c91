//! The pace of large responses: their bytes are sent in slices, and each slice needs a turn.
//!
//! Copying and encrypting a large response takes milliseconds. Without turns, all large responses would progress at the
//! same time, and every other request would wait behind a part of each of them.
//!
//! A turn lasts until its bytes are encrypted, or until the connection has written all that its client accepts
//! ([`Slices`](crate::budget::Slices)). Then the rest of the slice needs another turn. A response keeps its turn for the
//! next slice while no other work waits for one.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::{task, time::Instant};

use crate::{
    budget::{Account, Slice},
    turns::{Class, Turn},
};

/// The number of bytes that a response sends at once without a turn. Most responses are smaller.
const FREE: usize = 128 << 10;

/// The interval after which it may send this number again. Events of a watch rarely need turns.
const REFILL: Duration = Duration::from_secs(1);

/// The number of bytes per turn. They take less than a millisecond.
const SLICE: usize = 256 << 10;

/// The turns of one response.
pub(super) struct Pacing {
    account: Arc<Account>,
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
    Sending(Arc<Slice>),
}

/// Bytes of a slice. Its turn ends when all of them are dropped, which is when they are encrypted.
struct Carried {
    bytes: Bytes,
    _slice: Arc<Slice>,
}

impl AsRef<[u8]> for Carried {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Pacing {
    /// Creates the pace of a response. Without the flow of a user, the connection is the flow.
    pub(super) fn new(account: &Arc<Account>, class: Class) -> Self {
        let class = match class {
            Class::Other => Class::Flow { level: 0, flow: account.id() },
            class => class,
        };
        Self { account: Arc::clone(account), class, allowed: FREE, refilled: None, state: State::Free }
    }

    /// Waits until the response may send bytes.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Sending(slice) = &self.state
            && slice.is_unread()
        {
            self.idle();
        }
        if self.allowed > 0 {
            return Poll::Ready(());
        }
        if let State::Sending(slice) = &self.state
            && !slice.is_wanted()
        {
            self.allowed = SLICE;
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
            let (turns, class, delay) = (Arc::clone(self.account.turns()), self.class, self.account.delay());
            self.state = State::Waiting(Box::pin(async move {
                let _delay = delay;
                task::yield_now().await;
                turns.take(class).await
            }));
        }
        let State::Waiting(waiting) = &mut self.state else { return Poll::Ready(()) };
        let turn = ready!(waiting.as_mut().poll(cx));
        (self.allowed, self.state) = (SLICE, State::Sending(self.account.slices().begin(turn)));
        Poll::Ready(())
    }

    /// Counts bytes that are sent. The turn ends after they are dropped.
    pub(super) fn sent(&mut self, bytes: Bytes) -> Bytes {
        self.refilled.get_or_insert_with(Instant::now);
        self.allowed = self.allowed.saturating_sub(bytes.len());
        match &self.state {
            State::Sending(slice) => {
                self.account.slices().receive(slice);
                Bytes::from_owner(Carried { bytes, _slice: Arc::clone(slice) })
            }
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
    use crate::budget::{Budget, Limits};

    impl Pacing {
        fn is_ready(&mut self) -> bool {
            poll_fn(|cx| self.poll_ready(cx)).now_or_never().is_some()
        }
    }

    /// Returns a new account, and all turns of its budget but this number.
    fn account(free: usize) -> (Arc<Account>, Vec<Turn>) {
        let account = Budget::new(Limits::default()).open();
        let mut turns = Vec::new();
        while let Some(turn) = Arc::clone(account.turns()).take(Class::Other).now_or_never() {
            turns.push(turn);
        }
        turns.truncate(turns.len() - free);
        (account, turns)
    }

    fn is_free(account: &Arc<Account>) -> bool {
        Arc::clone(account.turns()).take(Class::Other).now_or_never().is_some()
    }

    /// Returns the pace of a response after its first bytes.
    fn large(account: &Arc<Account>) -> Pacing {
        let mut pacing = Pacing::new(account, Class::Other);
        assert!(pacing.is_ready(), "the first bytes need no turn");
        drop(pacing.sent(vec![0; FREE].into()));
        pacing
    }

    #[tokio::test(start_paused = true)]
    async fn large_response_occupies_a_turn_for_each_slice() {
        let (account, mut others) = account(0);
        let mut pacing = large(&account);
        for _ in 0..3 {
            assert!(!pacing.is_ready());
            task::yield_now().await;
        }
        drop(others.pop());
        poll_fn(|cx| pacing.poll_ready(cx)).await;
        assert!(!is_free(&account));
        let bytes = pacing.sent(vec![0; SLICE].into());
        let mut other = std::pin::pin!(Arc::clone(account.turns()).take(Class::Other));
        assert!(futures::poll!(other.as_mut()).is_pending());
        assert!(!pacing.is_ready());
        assert!(futures::poll!(other.as_mut()).is_pending(), "the connection has not sent the bytes");
        drop(bytes);
        let Poll::Ready(turn) = futures::poll!(other.as_mut()) else { panic!("it is the turn of the other work") };
        assert!(!pacing.is_ready());
        drop(turn);
        poll_fn(|cx| pacing.poll_ready(cx)).await;
        pacing.idle();
        assert!(is_free(&account));
    }

    #[tokio::test(start_paused = true)]
    async fn response_keeps_its_turn_while_no_other_work_waits() {
        let (account, _others) = account(1);
        let mut pacing = large(&account);
        poll_fn(|cx| pacing.poll_ready(cx)).await;
        let mut sent = Vec::new();
        for _ in 0..3 {
            sent.push(pacing.sent(vec![0; SLICE].into()));
            assert!(pacing.is_ready());
        }
        drop(sent);
        assert!(!is_free(&account), "the turn of the next slice");
    }

    #[tokio::test(start_paused = true)]
    async fn unread_bytes_occupy_no_turn() {
        let (account, _others) = account(1);
        let mut pacing = large(&account);
        poll_fn(|cx| pacing.poll_ready(cx)).await;
        let _unread = pacing.sent(vec![0; 1].into());
        assert!(!is_free(&account));
        account.slices().writing();
        account.slices().written();
        assert!(is_free(&account));
        assert!(!pacing.is_ready(), "the rest of the slice needs another turn");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_user_take_turns() {
        let (first, mut others) = account(0);
        let second = first.budget().open();
        let mut waiting = [&first, &first, &second].map(large);
        for _ in 0..2 {
            assert!(waiting.iter_mut().all(|pacing| !pacing.is_ready()));
            task::yield_now().await;
        }
        drop(others.pop());
        let order = [0; 3].map(|_| {
            let next = waiting.iter_mut().position(Pacing::is_ready).unwrap();
            // Its turn goes to the next.
            (waiting[next].allowed, waiting[next].state) = (0, State::Waiting(Box::pin(std::future::pending())));
            next
        });
        assert_eq!(order, [0, 2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_stream_needs_no_turns() {
        let (account, _others) = account(0);
        let mut pacing = Pacing::new(&account, Class::Other);
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
