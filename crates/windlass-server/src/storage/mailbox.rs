//! A bounded queue from one producer, which never waits, to one consumer, which may be slow.
//!
//! Putting and waking are separate steps: the producer puts while it holds the lock that orders its events and wakes after
//! it has released that lock, so that no waker (which is the consumer's code) runs under it. For the same reason whatever
//! is thrown away is handed back to be dropped outside.
//!
//! A third party can wait until the consumer has finished with an item, which it shows by asking for the next one. Only a
//! consumer that was waiting for items is waited for, see [`Mailbox::expected`].

use std::{
    collections::VecDeque,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How much may wait in a mailbox. One item always fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) items: usize,
    /// The sum of the items' costs, as their producer counts them.
    pub(crate) bytes: usize,
}

/// Why nothing more comes out of a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The consumer was too slow; what it had not taken is gone.
    Overflowed,
    /// The producer is gone or has ended it.
    Ended,
}

/// What the consumer would get next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front<R> {
    Item(R),
    Empty,
    Closed,
}

/// Items that were thrown away. Drop them where no lock is held: that also wakes the tasks that waited for their end.
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
    items: VecDeque<(T, usize)>, // empty once closed by overflow
    bytes: usize,                // the sum of the costs in `items`
    closed: Option<Closed>,
    added: u64,    // the number of the last item that was put
    finished: u64, // the consumer is done with the items up to this number
    attention: Attention,
    waiting: Vec<(u64, Waker)>, // for the consumer to finish with the item of this number
}

/// The expectation that the consumer takes new items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    /// It has not asked for items yet, or did not come for the last ones in time. Before the instant, asking does not help.
    Away(Option<Instant>),
    /// It waited for an item when it last asked, and has been woken if there is one now.
    Attentive,
}

/// Tasks that waited for the consumer. Dropping it wakes them.
#[derive(Debug, Default)]
struct Finished(Vec<Waker>);

/// An empty queue that has grown larger than this gives its memory back.
const KEPT_SLOTS: usize = 256;

/// How long a consumer that kept others waiting in vain is not waited for.
const DISTRUST: Duration = Duration::from_secs(1);

impl<T> Mailbox<T> {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let state = State {
            items: VecDeque::new(),
            bytes: 0,
            closed: None,
            added: 0,
            finished: 0,
            attention: Attention::Away(None),
            waiting: Vec::new(),
        };
        Self { state: Mutex::new(state), consumer: AtomicWaker::new(), capacity }
    }

    /// Adds an item, or closes the mailbox when that would exceed its capacity. The caller wakes afterwards, see [`wake`](Self::wake).
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

    /// Ends it: the consumer gets nothing more.
    pub(crate) fn close(&self) -> Discarded<T> {
        let mut state = self.state.lock();
        state.closed.get_or_insert(Closed::Ended);
        state.discard()
    }

    /// Tells the consumer to look.
    pub(crate) fn wake(&self) {
        self.consumer.wake();
    }

    /// The next item. Only one task may wait.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Result<T, Closed>> {
        if let Some(taken) = self.try_take(Empty::Leave) {
            return Poll::Ready(taken);
        }
        self.consumer.register(cx.waker());
        // What was put between the first look and the registration has woken nobody.
        self.try_take(Empty::Wait).map_or(Poll::Pending, Poll::Ready)
    }

    /// The number of the last item if the consumer is on its way to it: it is not done with that item, but it was waiting
    /// for items before it was woken. `None` if there is no point in waiting for the consumer.
    pub(crate) fn expected(&self) -> Option<u64> {
        let state = self.state.lock();
        let expected = state.attention == Attention::Attentive && state.finished < state.added;
        expected.then_some(state.added)
    }

    /// Ready once the consumer is done with the item of this number: it has asked for the next one, or is gone.
    pub(crate) fn poll_finished(&self, number: u64, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.finished >= number || state.attention != Attention::Attentive {
            return Poll::Ready(());
        }
        match state.waiting.iter_mut().find(|(_, waker)| waker.will_wake(cx.waker())) {
            Some((waiting, _)) => *waiting = number.min(*waiting),
            None => state.waiting.push((number, cx.waker().clone())),
        }
        Poll::Pending
    }

    /// Reports whether the consumer is done with the item of this number, or is not waited for.
    pub(crate) fn has_finished(&self, number: u64) -> bool {
        let state = self.state.lock();
        state.finished >= number || state.attention != Attention::Attentive
    }

    /// Stops waiting for a consumer that did not come in time, now and for a while.
    pub(crate) fn give_up_on_consumer(&self) {
        let finished = {
            let mut state = self.state.lock();
            state.attention = Attention::Away(Some(Instant::now() + DISTRUST));
            state.everything_finished()
        };
        drop(finished);
    }

    /// Whether it has been closed; if not, the task is woken when it is (and when something is put).
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        self.consumer.register(cx.waker());
        if self.state.lock().closed.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn try_take(&self, empty: Empty) -> Option<Result<T, Closed>> {
        let (taken, finished) = {
            let mut state = self.state.lock();
            let finished = state.finish_taken();
            (state.take(empty), finished)
        };
        drop(finished);
        taken
    }

    /// Looks at the next item without taking it. `look` runs under the mailbox's lock and must be trivial.
    pub(crate) fn front<R>(&self, look: impl FnOnce(&T) -> R) -> Front<R> {
        let state = self.state.lock();
        match (state.closed, state.items.front()) {
            (Some(_), _) => Front::Closed,
            (None, Some((item, _))) => Front::Item(look(item)),
            (None, None) => Front::Empty,
        }
    }
}

/// The consequence of an empty mailbox for the consumer that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Empty {
    Leave,
    /// It has left its waker and waits.
    Wait,
}

impl<T> State<T> {
    fn take(&mut self, empty: Empty) -> Option<Result<T, Closed>> {
        if let Some(closed) = self.closed {
            return Some(Err(closed));
        }
        let Some((item, cost)) = self.items.pop_front() else {
            if empty == Empty::Wait {
                self.attend();
            }
            return None;
        };
        self.bytes -= cost;
        if self.items.is_empty() && self.items.capacity() > KEPT_SLOTS {
            self.items = VecDeque::new();
        }
        Some(Ok(item))
    }

    fn attend(&mut self) {
        match self.attention {
            Attention::Away(Some(until)) if Instant::now() < until => {}
            _ => self.attention = Attention::Attentive,
        }
    }

    /// The consumer asks again: it is done with all that it has taken.
    fn finish_taken(&mut self) -> Finished {
        self.finished = self.added - self.items.len() as u64;
        if self.waiting.is_empty() {
            return Finished::default();
        }
        let finished = self.finished;
        let woken = self.waiting.extract_if(.., |(number, _)| *number <= finished);
        Finished(woken.map(|(_, waker)| waker).collect())
    }

    fn everything_finished(&mut self) -> Finished {
        Finished(self.waiting.drain(..).map(|(_, waker)| waker).collect())
    }

    fn discard(&mut self) -> Discarded<T> {
        self.bytes = 0;
        self.finished = self.added;
        Discarded { items: std::mem::take(&mut self.items), _finished: self.everything_finished() }
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
    async fn items_come_out_in_the_order_in_which_they_were_put() {
        let mailbox = mailbox(2, 100);
        mailbox.put(1, 1).unwrap();
        mailbox.put(2, 1).unwrap();
        assert_eq!(mailbox.front(|item| *item), Front::Item(1));
        assert_eq!(take(&mailbox).await, Ok(1));
        assert_eq!(take(&mailbox).await, Ok(2));
        assert_eq!(mailbox.front(|item| *item), Front::Empty);
    }

    #[tokio::test]
    async fn too_manyitems_close_it_at_once() {
        let mailbox = mailbox(2, 100);
        mailbox.put(1, 1).unwrap();
        mailbox.put(2, 1).unwrap();
        assert!(mailbox.put(3, 1).is_err());
        assert_eq!(take(&mailbox).await, Err(Closed::Overflowed));
        assert_eq!(mailbox.front(|item| *item), Front::Closed);
    }

    #[tokio::test]
    async fn too_many_bytes_close_it_but_one_large_item_fits() {
        let mailbox = mailbox(10, 100);
        mailbox.put(1, 1000).unwrap();
        assert_eq!(take(&mailbox).await, Ok(1));
        mailbox.put(2, 60).unwrap();
        assert!(mailbox.put(3, 60).is_err());
        assert_eq!(take(&mailbox).await, Err(Closed::Overflowed));
    }

    #[tokio::test]
    async fn a_waiting_consumer_is_woken_by_an_item_and_by_the_end() {
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
    async fn consumer_that_never_asked_is_not_expected() {
        let mailbox = mailbox(10, 100);
        mailbox.put(1, 1).unwrap();
        assert_eq!(mailbox.expected(), None);
        assert_eq!(take(&mailbox).await, Ok(1));
        mailbox.put(2, 1).unwrap();
        assert_eq!(mailbox.expected(), None, "it has not waited yet");
    }

    #[tokio::test]
    async fn waiting_consumer_finishes_an_item_by_asking_again() {
        let mailbox = mailbox(10, 100);
        assert!(take(&mailbox).now_or_never().is_none());
        assert_eq!(mailbox.expected(), None, "there is nothing to finish");
        mailbox.put(1, 1).unwrap();
        let number = mailbox.expected().unwrap();
        let finished = || poll_fn(|cx| mailbox.poll_finished(number, cx)).now_or_never();
        assert_eq!(finished(), None);
        assert_eq!(take(&mailbox).await, Ok(1));
        assert_eq!(finished(), None, "it has taken the item and may still be at work on it");
        assert!(take(&mailbox).now_or_never().is_none());
        assert_eq!(finished(), Some(()));
        assert_eq!(mailbox.expected(), None);
    }

    #[tokio::test]
    async fn closing_the_mailbox_wakes_who_waits_for_the_consumer() {
        let mailbox = Arc::new(mailbox(10, 100));
        assert!(take(&mailbox).now_or_never().is_none());
        mailbox.put(1, 1).unwrap();
        let number = mailbox.expected().unwrap();
        let waiter = tokio::spawn({
            let mailbox = mailbox.clone();
            async move { poll_fn(|cx| mailbox.poll_finished(number, cx)).await }
        });
        tokio::task::yield_now().await;
        drop(mailbox.close());
        waiter.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn consumer_that_was_given_up_is_expected_again_after_a_while() {
        let mailbox = mailbox(10, 100);
        assert!(take(&mailbox).now_or_never().is_none());
        mailbox.put(1, 1).unwrap();
        let number = mailbox.expected().unwrap();
        mailbox.give_up_on_consumer();
        assert_eq!(poll_fn(|cx| mailbox.poll_finished(number, cx)).now_or_never(), Some(()));
        let expected_after_asking = || {
            while take(&mailbox).now_or_never().is_some() {}
            mailbox.put(2, 1).unwrap();
            mailbox.expected().is_some()
        };
        assert!(!expected_after_asking());
        tokio::time::advance(DISTRUST).await;
        assert!(expected_after_asking());
    }
}
