//! The queue of a watch: from the task that reads from etcd, which never waits, to a consumer that may be slow.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{Stream, task::AtomicWaker};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::coop};
use windlass_server::storage::{Delivery, Revision, StorageError};

/// The capacity for one slow watch. One item always fits.
const ITEMS: usize = 1 << 16;
const BYTES: usize = 256 << 20;

/// The size of an item without its bodies.
const ITEM_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    consumer: AtomicWaker,
    /// Wakes the producer when nothing more is to be added.
    ended: Notify,
    /// Wakes the producer when progress is requested.
    pub(crate) progress: Notify,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Delivery>,
    /// The size of `items`.
    bytes: usize,
    end: Option<End>,
    /// The end was returned, or the consumer was dropped.
    is_over: bool,
}

/// The reason why there are no more items.
#[derive(Debug)]
pub(crate) enum End {
    /// The consumer was too slow, and its items were dropped.
    Lagged,
    /// The storage was dropped.
    Closed,
    Failed(StorageError),
}

impl Queue {
    pub(crate) fn new() -> Self {
        let (consumer, ended, progress) = (AtomicWaker::new(), Notify::new(), Notify::new());
        Self { state: Mutex::default(), consumer, ended, progress }
    }

    /// Adds an item. Ignores it if the queue has ended, also because of this item.
    pub(crate) fn put(&self, item: Delivery) {
        {
            let mut state = self.state.lock();
            if state.end.is_some() || state.is_over {
                return;
            }
            let size = size(&item);
            if !state.items.is_empty() && (state.items.len() >= ITEMS || state.bytes + size > BYTES) {
                (state.items, state.bytes, state.end) = (VecDeque::new(), 0, Some(End::Lagged));
                self.ended.notify_one();
            } else {
                // The newest progress replaces an unread one.
                if let (Delivery::Progress(_), Some(Delivery::Progress(_))) = (&item, state.items.back()) {
                    state.items.pop_back();
                    state.bytes -= ITEM_BYTES;
                }
                state.bytes += size;
                state.items.push_back(item);
            }
        }
        self.consumer.wake();
    }

    /// Ends the queue after its items.
    pub(crate) fn end(&self, end: End) {
        self.state.lock().end.get_or_insert(end);
        self.ended.notify_one();
        self.consumer.wake();
    }

    /// Waits until nothing more is to be added. Only for the producer.
    pub(crate) async fn until_ended(&self) {
        loop {
            let has_ended = {
                let state = self.state.lock();
                state.is_over || state.end.is_some()
            };
            if has_ended {
                return;
            }
            self.ended.notified().await;
        }
    }

    fn poll_take(&self, cx: &Context<'_>) -> Poll<Result<Delivery, End>> {
        if let Some(taken) = self.take() {
            return Poll::Ready(taken);
        }
        self.consumer.register(cx.waker());
        // An item that was added before the registration has woken no task.
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    fn take(&self) -> Option<Result<Delivery, End>> {
        let mut state = self.state.lock();
        if let Some(item) = state.items.pop_front() {
            state.bytes -= size(&item);
            return Some(Ok(item));
        }
        let end = state.end.take()?;
        state.is_over = true;
        Some(Err(end))
    }
}

fn size(item: &Delivery) -> usize {
    let Delivery::Event { event, .. } = item else { return ITEM_BYTES };
    let bodies = [&event.current, &event.previous].into_iter().flatten();
    bodies.map(|value| value.body.len()).sum::<usize>() + ITEM_BYTES
}

/// The consumer's side. Dropping it ends the queue.
#[derive(Debug)]
pub(crate) struct Events {
    queue: Arc<Queue>,
    delivered: Revision,
}

impl Events {
    pub(crate) fn new(queue: Arc<Queue>, after: Revision) -> Self {
        Self { queue, delivered: after }
    }
}

impl Stream for Events {
    type Item = Result<Delivery, StorageError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.queue.state.lock().is_over {
            return Poll::Ready(None);
        }
        let coop = ready!(coop::poll_proceed(cx));
        let taken = ready!(self.queue.poll_take(cx));
        coop.made_progress();
        Poll::Ready(match taken {
            Ok(delivery) => {
                self.delivered = self.delivered.max(delivery.progress());
                Some(Ok(delivery))
            }
            Err(End::Lagged) => Some(Err(StorageError::Lagged { after: self.delivered })),
            Err(End::Failed(error)) => Some(Err(error)),
            Err(End::Closed) => None,
        })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let items = {
            let mut state = self.queue.state.lock();
            state.is_over = true;
            std::mem::take(&mut state.items)
        };
        drop(items);
        self.queue.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{FutureExt as _, StreamExt as _};
    use windlass_server::storage::{StorageEvent, StoredValue};

    use super::*;

    fn event(revision: u64, size: usize, completes: bool) -> Delivery {
        let (key, body, revision) = (Arc::from("/a"), Bytes::from(vec![0; size]), Revision(revision));
        let value = StoredValue { key: Arc::clone(&key), body, created: revision, modified: revision, is_stale: false };
        let event = StorageEvent { revision, key, current: Some(value), previous: None };
        Delivery::Event { event, completes }
    }

    fn queue() -> (Arc<Queue>, Events) {
        let queue = Arc::new(Queue::new());
        (Arc::clone(&queue), Events::new(queue, Revision(1)))
    }

    #[tokio::test]
    async fn slow_consumer_gets_the_revision_to_continue_after() {
        let (queue, mut events) = queue();
        queue.put(event(2, 0, true));
        queue.put(event(3, 0, false));
        assert_eq!(events.next().await.unwrap().unwrap().progress(), Revision(2));
        assert_eq!(events.next().await.unwrap().unwrap().progress(), Revision(2));
        queue.put(event(4, BYTES, true));
        assert!(queue.until_ended().now_or_never().is_none(), "one item always fits");
        queue.put(event(5, 1, true));
        queue.until_ended().now_or_never().expect("the queue has ended");
        queue.put(event(6, 1, true));
        let error = events.next().await.unwrap().unwrap_err();
        assert!(matches!(error, StorageError::Lagged { after: Revision(2) }), "{error}");
        assert!(events.next().await.is_none());
        assert_eq!(queue.state.lock().bytes, 0);
    }

    #[tokio::test]
    async fn number_of_items_is_bounded() {
        let (queue, mut events) = queue();
        for revision in 2..=ITEMS as u64 + 1 {
            queue.put(event(revision, 0, true));
        }
        assert!(queue.until_ended().now_or_never().is_none());
        queue.put(event(ITEMS as u64 + 2, 0, true));
        assert!(matches!(events.next().await, Some(Err(StorageError::Lagged { after: Revision(1) }))));
    }

    #[tokio::test]
    async fn unread_progress_is_replaced() {
        let (queue, mut events) = queue();
        for revision in [2, 3] {
            queue.put(Delivery::Progress(Revision(revision)));
        }
        queue.end(End::Closed);
        assert_eq!(events.next().await.unwrap().unwrap(), Delivery::Progress(Revision(3)));
        assert!(events.next().await.is_none());
        assert_eq!(queue.state.lock().bytes, 0);
    }

    #[tokio::test]
    async fn dropped_consumer_ends_the_producer() {
        let (queue, events) = queue();
        let producer = Arc::clone(&queue);
        let waiting = tokio::spawn(async move { producer.until_ended().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(events);
        waiting.await.unwrap();
        queue.put(event(2, 1, true));
        assert!(queue.state.lock().items.is_empty());
    }
}
