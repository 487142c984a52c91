//! The receiving side of the watch cache.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use futures::StreamExt;

use super::{Shared, SharedEvent, Subscriber, is_under};
use crate::storage::{Delivery, EventStream, Revision, mailbox::Front};

/// The events of one topic. Dropping it unsubscribes.
pub(crate) struct Subscription<D> {
    shared: Arc<Shared<D>>,
    subscriber: Arc<Subscriber<D>>,
    replay: Option<Replay>,
    delivered: Revision, // all requested events of the topic up to it were returned
    closed: bool,        // `None` has been returned
}

/// The events that the pump had read before the subscription, read again from the storage's history.
struct Replay {
    events: EventStream, // of all keys, so that it is sure to report progress up to `upto`
    upto: Revision,      // later events come from the mailbox
}

impl<D: Default> Subscription<D> {
    pub(super) fn new(shared: Arc<Shared<D>>, subscriber: Arc<Subscriber<D>>) -> Self {
        let delivered = subscriber.after;
        Self { shared, subscriber, replay: None, delivered, closed: false }
    }

    pub(super) fn replay(&mut self, events: EventStream, upto: Revision) {
        self.replay = Some(Replay { events, upto });
    }

    /// Returns the next event; `None` if the subscription is closed: too slow, shut down, or dropped by a test.
    /// Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Arc<SharedEvent<D>>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the next event if it is ready. Registers no waker.
    pub(crate) fn take(&mut self) -> Option<Arc<SharedEvent<D>>> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Arc<SharedEvent<D>>>> {
        if self.closed {
            return Poll::Ready(None);
        }
        let next = match self.poll_replay(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(Some(event))) => Ok(event),
            Poll::Ready(Ok(None)) => ready!(self.subscriber.mailbox.poll_take(cx)).map_err(|closed| {
                tracing::debug!(topic = %self.subscriber.topic, ?closed, "a watch was closed");
            }),
            Poll::Ready(Err(())) => Err(()),
        };
        if let Ok(event) = &next {
            self.delivered = self.delivered.max(event.progress());
        } else {
            self.closed = true;
        }
        Poll::Ready(next.ok())
    }

    /// Polls for the next event of the replay. Returns `None` after its end.
    fn poll_replay(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Arc<SharedEvent<D>>>, ()>> {
        if self.replay.is_some() && self.subscriber.mailbox.poll_closed(cx).is_ready() {
            return Poll::Ready(Err(()));
        }
        while let Some(replay) = &mut self.replay {
            let delivery = match ready!(replay.events.poll_next_unpin(cx)) {
                Some(Ok(delivery)) => delivery,
                Some(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the replay for a watch failed");
                    return Poll::Ready(Err(()));
                }
                None => return Poll::Ready(Err(())),
            };
            let (upto, progress) = (replay.upto, delivery.progress());
            if let Delivery::Unreadable { key, reason, revision, .. } = &delivery
                && *revision <= upto
                && is_under(key, &self.subscriber.topic)
            {
                tracing::warn!(%key, reason, "a value cannot be decoded, closing the watch");
                return Poll::Ready(Err(()));
            }
            self.delivered = self.delivered.max(progress.min(upto));
            if progress >= upto {
                self.replay = None;
            }
            if let Delivery::Event { event, completes } = delivery
                && event.revision <= upto
                && is_under(&event.key, &self.subscriber.topic)
            {
                let event = SharedEvent::new(event, completes);
                if self.subscriber.selects(&event) {
                    return Poll::Ready(Ok(Some(Arc::new(event))));
                }
            }
        }
        Poll::Ready(Ok(None))
    }

    /// Returns the revision up to which [`next`](Self::next) has returned all events of the topic. Does not decrease
    /// while the subscription is open.
    pub(crate) fn progress(&self) -> Revision {
        if self.replay.is_some() {
            return self.delivered;
        }
        // Read before the mailbox: all events up to the position are in the mailbox by then.
        let position = *self.shared.position.borrow();
        let progress = match self.subscriber.mailbox.front(|event| event.event.revision) {
            Front::Item(undelivered) => undelivered.previous(),
            Front::Empty => position,
            Front::Closed => self.delivered,
        };
        progress.max(self.delivered)
    }
}

impl<D> Drop for Subscription<D> {
    fn drop(&mut self) {
        self.shared.unregister(&self.subscriber);
        drop(self.subscriber.mailbox.close());
    }
}

impl<D> fmt::Debug for Subscription<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("topic", &self.subscriber.topic)
            .field("delivered", &self.delivered)
            .field("replaying", &self.replay.is_some())
            .finish_non_exhaustive()
    }
}
