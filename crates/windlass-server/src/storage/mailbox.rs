//! A bounded queue from one producer, which never waits, to one consumer, which may be slow.
//!
//! Adding an item and waking the consumer are separate steps. The producer adds items while it holds the lock that
//! orders its events, and wakes the consumer after it has released that lock. So no waker, which is code of the
//! consumer, runs under the lock. For the same reason, discarded items are returned to be dropped outside of the lock.
//!
//! A third party can wait until the consumer has finished with an item. The consumer indicates this by polling for the
//! next item. Only a consumer that was waiting for items is waited for, see [`Mailbox::unfinished_item`].

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The capacity of a mailbox. One item always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) items: usize,
    /// The maximum sum of the items' costs, as the producer counts them.
    pub(crate) bytes: usize,
}

/// The reason why a mailbox is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The consumer was too slow. Its pending items are lost.
    Overflowed,
    /// The producer closed the mailbox or was dropped.
    Ended,
}

/// The state of the next item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front<R> {
    Item(R),
    Empty,
    Closed,
}

/// Discarded items. Drop them while no lock is held, because this also wakes the tasks that waited for them.
#[must_use = "drop this outside of locks"]
#[derive(Debug)]
pub(crate) struct Discarded<T> {
    items: VecDeque<(T, usize)>,
    _finished: Finished,
}

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    state: Mutex<State<T>>,
    consumer: AtomicWaker,
    capacity: Capacity,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<(T, usize)>, // empty after an overflow
    bytes: usize,                // the sum of the costs in `items`
    closed: Option<Closed>,
    added: u64,    // the number of the last item
    finished: u64, // the consumer has finished with the items up to this number
    consumer_state: ConsumerState,
    waiting: Vec<(u64, Waker)>, // tasks that wait until the consumer has finished with this item
}

/// Indicates whether the consumer is expected to take new items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConsumerState {
    /// The consumer has not polled for items yet, or has not taken the last ones in time. It is ignored until the
    /// instant, even if it polls.
    Absent(Option<Instant>),
    /// The consumer waited for an item at its last poll. It has been woken if there is one now.
    Waiting,
}

/// Tasks that waited for the consumer. Dropping this wakes them.
#[derive(Debug, Default)]
struct Finished(Vec<Waker>);

/// The maximum capacity that an empty queue keeps.
const KEPT_SLOTS: usize = 256;

/// The time for which a consumer is not waited for after it caused a timeout.
const IGNORE_AFTER_TIMEOUT: Duration = Duration::from_secs(1);

impl<T> Mailbox<T> {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let state = State {
            items: VecDeque::new(),
            bytes: 0,
            closed: None,
            added: 0,
            finished: 0,
            consumer_state: ConsumerState::Absent(None),
            waiting: Vec::new(),
        };
        Self { state: Mutex::new(state), consumer: AtomicWaker::new(), capacity }
    }

    /// Adds an item, or closes the mailbox if its capacity would be exceeded. The caller must then call
    /// [`wake`](Self::wake).
    pub(crate) fn put(&self, item: T, cost: usize) -> Result<(), Discarded<T>> {
        let mut state = self.state.lock();
        let full = !state.items.is_empty()
            && (state.items.len() >= self.capacity.items || state.bytes + cost > self.capacity.bytes);
        if full && state.closed.is_none() {
            state.closed = Some(Closed::Overflowed);
        }
        if state.closed.is_some() {
            let mut discarded = state.discard();
            discarded.items.push_back((item, cost));
            return Err(discarded);
        }
        state.added += 1;
        state.bytes += cost;
        state.items.push_back((item, cost));
        Ok(())
    }

    /// Closes the mailbox. The consumer gets no more items.
    pub(crate) fn close(&self) -> Discarded<T> {
        let mut state = self.state.lock();
        state.closed.get_or_insert(Closed::Ended);
        state.discard()
    }

    /// Wakes the consumer.
    pub(crate) fn wake(&self) {
        self.consumer.wake();
    }

    /// Polls for the next item. Only one task may wait.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Result<T, Closed>> {
        if let Some(taken) = self.try_take(Empty::Leave) {
            return Poll::Ready(taken);
        }
        self.consumer.register(cx.waker());
        // An item added between the first attempt and the registration woke no task.
        self.try_take(Empty::Wait).map_or(Poll::Pending, Poll::Ready)
    }

    /// Returns the number of the last item if the consumer was waiting for items and has not finished with that item.
    /// Returns `None` if waiting for the consumer is pointless.
    pub(crate) fn unfinished_item(&self) -> Option<u64> {
        let state = self.state.lock();
        let expected = state.consumer_state == ConsumerState::Waiting && state.finished < state.added;
        expected.then_some(state.added)
    }

    /// Is ready when the consumer has finished with this item: it has polled for the next one, or was dropped.
    pub(crate) fn poll_finished(&self, number: u64, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.finished >= number || state.consumer_state != ConsumerState::Waiting {
            return Poll::Ready(());
        }
        match state.waiting.iter_mut().find(|(_, waker)| waker.will_wake(cx.waker())) {
            Some((waiting, _)) => *waiting = number.min(*waiting),
            None => state.waiting.push((number, cx.waker().clone())),
        }
        Poll::Pending
    }

    /// Reports whether the consumer has finished with this item, or is not waited for.
    pub(crate) fn has_finished(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.finished >= number || state.consumer_state != ConsumerState::Waiting
    }

    /// Stops waiting for a consumer that was too slow, now and for a limited time.
    pub(crate) fn ignore_consumer(&self) {
        let finished = {
            let mut state = self.state.lock();
            state.consumer_state = ConsumerState::Absent(Some(Instant::now() + IGNORE_AFTER_TIMEOUT));
            state.wake_all_waiting()
        };
        drop(finished);
    }

    /// Is ready when the mailbox is closed. Until then the task is also woken for new items.
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        self.consumer.register(cx.waker());
        if self.state.lock().closed.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn try_take(&self, empty: Empty) -> Option<Result<T, Closed>> {
        let (taken, finished) = {
            let mut state = self.state.lock();
            let finished = state.mark_taken_finished();
            (state.take(empty), finished)
        };
        drop(finished);
        taken
    }

    /// Inspects the next item without taking it. `inspect` runs under the mailbox's lock and must be trivial.
    pub(crate) fn front<R>(&self, inspect: impl FnOnce(&T) -> R) -> Front<R> {
        let state = self.state.lock();
        match (state.closed, state.items.front()) {
            (Some(_), _) => Front::Closed,
            (None, Some((item, _))) => Front::Item(inspect(item)),
            (None, None) => Front::Empty,
        }
    }
}

/// The action of a poll if the mailbox is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    Leave,
    /// Registers that the consumer waits for an item.
    Wait,
}

impl<T> State<T> {
    fn take(&mut self, empty: Empty) -> Option<Result<T, Closed>> {
        if let Some(closed) = self.closed {
            return Some(Err(closed));
        }
        let Some((item, cost)) = self.items.pop_front() else {
            if empty == Empty::Wait {
                self.set_waiting();
            }
            return None;
        };
        self.bytes -= cost;
        if self.items.is_empty() && self.items.capacity() > KEPT_SLOTS {
            self.items = VecDeque::new();
        }
        Some(Ok(item))
    }

    fn set_waiting(&mut self) {
        match self.consumer_state {
            ConsumerState::Absent(Some(until)) if Instant::now() < until => {}
            _ => self.consumer_state = ConsumerState::Waiting,
        }
    }

    /// Marks all taken items as finished, because the consumer polls again.
    fn mark_taken_finished(&mut self) -> Finished {
        self.finished = self.added - self.items.len() as u64;
        if self.waiting.is_empty() {
            return Finished::default();
        }
        let finished = self.finished;
        let woken = self.waiting.extract_if(.., |(number, _)| *number <= finished);
        Finished(woken.map(|(_, waker)| waker).collect())
    }

    fn wake_all_waiting(&mut self) -> Finished {
        Finished(self.waiting.drain(..).map(|(_, waker)| waker).collect())
    }

    fn discard(&mut self) -> Discarded<T> {
        self.bytes = 0;
        self.finished = self.added;
        Discarded { items: std::mem::take(&mut self.items), _finished: self.wake_all_waiting() }
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        for waker in self.0.drain(..) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::{FutureExt, future::poll_fn};

    use super::*;

    fn mailbox(items: usize, bytes: usize) -> Mailbox<u32> {
        Mailbox::new(Capacity { items, bytes })
    }

    async fn take(mailbox: &Mailbox<u32>) -> Result<u32, Closed> {
        poll_fn(|cx| mailbox.poll_take(cx)).await
    }

    #[tokio::test]
    async fn items_are_taken_in_order() {
        let mailbox = mailbox(2, 100);
        mailbox.put(1, 1).unwrap();
        mailbox.put(2, 1).unwrap();
        assert_eq!(mailbox.front(|item| *item), Front::Item(1));
        assert_eq!(take(&mailbox).await, Ok(1));
        assert_eq!(take(&mailbox).await, Ok(2));
        assert_eq!(mailbox.front(|item| *item), Front::Empty);
    }

    #[tokio::test]
    async fn too_many_items_close_the_mailbox() {
        let mailbox = mailbox(2, 100);
        mailbox.put(1, 1).unwrap();
        mailbox.put(2, 1).unwrap();
        assert!(mailbox.put(3, 1).is_err());
        assert_eq!(take(&mailbox).await, Err(Closed::Overflowed));
        assert_eq!(mailbox.front(|item| *item), Front::Closed);
    }

    #[tokio::test]
    async fn too_many_bytes_close_the_mailbox_except_a_single_item() {
        let mailbox = mailbox(10, 100);
        mailbox.put(1, 1000).unwrap();
        assert_eq!(take(&mailbox).await, Ok(1));
        mailbox.put(2, 60).unwrap();
        assert!(mailbox.put(3, 60).is_err());
        assert_eq!(take(&mailbox).await, Err(Closed::Overflowed));
    }

    #[tokio::test]
    async fn items_and_close_wake_a_waiting_consumer() {
        let mailbox = Arc::new(mailbox(2, 100));
        let consumer = tokio::spawn({
            let mailbox = mailbox.clone();
            async move { (take(&mailbox).await, take(&mailbox).await) }
        });
        tokio::task::yield_now().await;
        mailbox.put(1, 1).unwrap();
        mailbox.wake();
        tokio::task::yield_now().await;
        drop(mailbox.close());
        mailbox.wake();
        assert_eq!(consumer.await.unwrap(), (Ok(1), Err(Closed::Ended)));
    }

    #[tokio::test]
    async fn consumer_that_never_polled_is_not_expected() {
        let mailbox = mailbox(10, 100);
        mailbox.put(1, 1).unwrap();
        assert_eq!(mailbox.unfinished_item(), None);
        assert_eq!(take(&mailbox).await, Ok(1));
        mailbox.put(2, 1).unwrap();
        assert_eq!(mailbox.unfinished_item(), None, "the consumer has not waited yet");
    }

    #[tokio::test]
    async fn waiting_consumer_finishes_an_item_by_polling_again() {
        let mailbox = mailbox(10, 100);
        assert!(take(&mailbox).now_or_never().is_none());
        assert_eq!(mailbox.unfinished_item(), None, "no item is pending");
        mailbox.put(1, 1).unwrap();
        let number = mailbox.unfinished_item().unwrap();
        let finished = || poll_fn(|cx| mailbox.poll_finished(number, cx)).now_or_never();
        assert_eq!(finished(), None);
        assert_eq!(take(&mailbox).await, Ok(1));
        assert_eq!(finished(), None, "the consumer has taken the item and may still process it");
        assert!(take(&mailbox).now_or_never().is_none());
        assert_eq!(finished(), Some(()));
        assert_eq!(mailbox.unfinished_item(), None);
    }

    #[tokio::test]
    async fn closing_the_mailbox_ends_the_wait_for_the_consumer() {
        let mailbox = Arc::new(mailbox(10, 100));
        assert!(take(&mailbox).now_or_never().is_none());
        mailbox.put(1, 1).unwrap();
        let number = mailbox.unfinished_item().unwrap();
        let waiter = tokio::spawn({
            let mailbox = mailbox.clone();
            async move { poll_fn(|cx| mailbox.poll_finished(number, cx)).await }
        });
        tokio::task::yield_now().await;
        drop(mailbox.close());
        waiter.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn ignored_consumer_is_expected_again_after_a_while() {
        let mailbox = mailbox(10, 100);
        assert!(take(&mailbox).now_or_never().is_none());
        mailbox.put(1, 1).unwrap();
        let number = mailbox.unfinished_item().unwrap();
        mailbox.ignore_consumer();
        assert_eq!(poll_fn(|cx| mailbox.poll_finished(number, cx)).now_or_never(), Some(()));
        let expected_after_asking = || {
            while take(&mailbox).now_or_never().is_some() {}
            mailbox.put(2, 1).unwrap();
            mailbox.unfinished_item().is_some()
        };
        assert!(!expected_after_asking());
        tokio::time::advance(IGNORE_AFTER_TIMEOUT).await;
        assert!(expected_after_asking());
    }
}
