//! A bounded queue from one producer, which never waits, to one consumer, which may be slow.
//!
//! Putting and waking are separate steps: the producer puts while it holds the lock that orders its events and wakes after
//! it has released that lock, so that no waker (which is the consumer's code) runs under it. For the same reason whatever
//! is thrown away is handed back to be dropped outside.

use std::{
    collections::VecDeque,
    task::{Context, Poll},
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;

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

/// Items that were thrown away. Drop them where no lock is held.
#[must_use = "drop this outside of locks"]
#[derive(Debug)]
pub(crate) struct Discarded<T> {
    _items: VecDeque<(T, usize)>,
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
}

/// An empty queue that has grown larger than this gives its memory back.
const KEPT_SLOTS: usize = 256;

impl<T> Mailbox<T> {
    pub(crate) fn new(capacity: Capacity) -> Self {
        let state = State { items: VecDeque::new(), bytes: 0, closed: None };
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
            state.bytes = 0;
            let mut items = std::mem::take(&mut state.items);
            items.push_back((item, cost));
            return Err(Discarded { _items: items });
        }
        state.bytes += cost;
        state.items.push_back((item, cost));
        Ok(())
    }

    /// Ends it: the consumer gets nothing more.
    pub(crate) fn close(&self) -> Discarded<T> {
        let mut state = self.state.lock();
        state.closed.get_or_insert(Closed::Ended);
        state.bytes = 0;
        Discarded { _items: std::mem::take(&mut state.items) }
    }

    /// Tells the consumer to look.
    pub(crate) fn wake(&self) {
        self.consumer.wake();
    }

    /// The next item. Only one task may wait.
    pub(crate) fn poll_take(&self, cx: &Context<'_>) -> Poll<Result<T, Closed>> {
        if let Some(taken) = self.try_take() {
            return Poll::Ready(taken);
        }
        self.consumer.register(cx.waker());
        // What was put between the first look and the registration has woken nobody.
        self.try_take().map_or(Poll::Pending, Poll::Ready)
    }

    /// Whether it has been closed; if not, the task is woken when it is (and when something is put).
    pub(crate) fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        self.consumer.register(cx.waker());
        if self.state.lock().closed.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn try_take(&self) -> Option<Result<T, Closed>> {
        let mut state = self.state.lock();
        if let Some(closed) = state.closed {
            return Some(Err(closed));
        }
        let (item, cost) = state.items.pop_front()?;
        state.bytes -= cost;
        if state.items.is_empty() && state.items.capacity() > KEPT_SLOTS {
            state.items = VecDeque::new();
        }
        Some(Ok(item))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::poll_fn;

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
    async fn too_many_items_close_it_at_once() {
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
}
