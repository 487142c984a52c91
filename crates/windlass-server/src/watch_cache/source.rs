//! The stream of the storage's events. The holder of the lock reads it: the pump, or a writer that waits for its event.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use futures::StreamExt;
use tokio::time::Instant;

use super::{Round, Shared, SharedEvent};
use crate::storage::{Delivery, EventStream, Revision, StorageError};
use crate::watch_cache::debounce;

/// The events that are still to be read and dispatched.
pub(super) struct Source<D> {
    /// `None` before the pump runs, and between two streams.
    events: Option<EventStream>,
    /// The waker of the pump. Only the pump waits for the stream.
    pump: Option<Waker>,
    /// The end of the stream, if a writer read it. The pump handles it.
    ended: Option<PumpStep>,
    /// A writer left notifications behind, so the pump must check when they are due.
    changed: bool,
    /// The events of a revision that is not completely read yet. They are dispatched together, so that no subscriber
    /// starts in the middle of a revision.
    incomplete: Vec<Arc<SharedEvent<D>>>,
    round: Round<D>,
}

/// The result of one step of the pump.
#[derive(Debug)]
pub(super) enum PumpStep {
    Dispatched,
    Failed(StorageError),
    Ended,
}

impl<D> Source<D> {
    pub(super) fn new(events: EventStream) -> Self {
        Self { events: Some(events), ..Self::default() }
    }

    /// Continues with another stream where the last one ended.
    pub(super) fn resume(&mut self, events: EventStream) {
        self.events = Some(events);
        // The new stream repeats the incomplete revision.
        self.incomplete.clear();
    }
}

impl<D> Default for Source<D> {
    fn default() -> Self {
        Self { events: None, pump: None, ended: None, changed: false, incomplete: Vec::new(), round: Round::default() }
    }
}

impl<D> fmt::Debug for Source<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("ended", &self.ended).field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl<D: Default> Shared<D> {
    /// Dispatches the next event for the pump.
    pub(super) fn poll_pump(&self, cx: &mut Context<'_>) -> Poll<PumpStep> {
        let mut source = self.source.lock();
        if source.pump.as_ref().is_none_or(|pump| !pump.will_wake(cx.waker())) {
            source.pump = Some(cx.waker().clone());
        }
        if std::mem::take(&mut source.changed) {
            return Poll::Ready(PumpStep::Dispatched);
        }
        self.poll_dispatch(&mut source, cx)
    }

    /// Dispatches the available events up to `revision` for a writer. Does nothing if another task is dispatching.
    pub(super) fn dispatch_up_to(&self, revision: Revision) {
        let Some(mut source) = self.source.try_lock() else { return };
        // Later events must wake the pump.
        let Some(pump) = source.pump.clone() else { return };
        let mut cx = Context::from_waker(&pump);
        let due = source.round.due;
        while *self.position.borrow() < revision {
            match self.poll_dispatch(&mut source, &mut cx) {
                Poll::Ready(PumpStep::Dispatched) => {}
                Poll::Ready(ended) => {
                    source.ended = Some(ended);
                    pump.wake_by_ref();
                    return;
                }
                Poll::Pending => return,
            }
        }
        if !source.round.pending.is_empty() || source.round.due != due {
            source.changed = true;
            pump.wake_by_ref();
        }
    }

    fn poll_dispatch(&self, source: &mut Source<D>, cx: &mut Context<'_>) -> Poll<PumpStep> {
        if let Some(ended) = source.ended.take() {
            return Poll::Ready(ended);
        }
        // Without a stream, the pump is starting another one.
        let Some(events) = &mut source.events else { return Poll::Pending };
        let ended = match ready!(events.poll_next_unpin(cx)) {
            Some(Ok(delivery)) => {
                self.accept(delivery, source);
                return Poll::Ready(PumpStep::Dispatched);
            }
            Some(Err(error)) => PumpStep::Failed(error),
            None => PumpStep::Ended,
        };
        source.events = None;
        Poll::Ready(ended)
    }

    /// Dispatches the revisions that this item of the stream completes.
    fn accept(&self, delivery: Delivery, source: &mut Source<D>) {
        let Source { incomplete, round, .. } = source;
        let progress = delivery.progress();
        let event = match delivery {
            Delivery::Event { event, completes } => Some(Arc::new(SharedEvent::new(event, completes))),
            Delivery::Progress(_) => None,
            Delivery::Unreadable { key, reason, .. } => {
                tracing::warn!(%key, reason, "a value cannot be decoded, closing the watches that would see it");
                self.close_topics_of(&key, round);
                None
            }
        };
        // An event of the next revision completes the one before.
        let revision = incomplete.first().map(|first| first.event.revision);
        if let Some(revision) = revision
            && event.as_ref().is_none_or(|event| event.event.revision > revision)
            && progress >= revision
        {
            self.dispatch(incomplete, revision, round);
            incomplete.clear();
        }
        match event {
            Some(event) if event.completes && incomplete.is_empty() => {
                self.dispatch(std::slice::from_ref(&event), progress, round);
            }
            Some(event) => {
                let completes = event.completes;
                incomplete.push(event);
                if completes {
                    self.dispatch(incomplete, progress, round);
                    incomplete.clear();
                }
            }
            None if incomplete.is_empty() => self.dispatch(&[], progress, round),
            None => {}
        }
    }

    /// Notifies one batch of the subscribers that are due. Returns `true` if none are left, and the time of the next
    /// notification.
    pub(super) fn notify_some(&self) -> (bool, Option<Instant>) {
        let round = &mut self.source.lock().round;
        if round.pending.is_empty() && round.due.is_some_and(|due| due <= Instant::now()) {
            self.notify_due(Instant::now(), round);
        }
        round.notify_some();
        (round.pending.is_empty(), round.due)
    }

    /// Notifies all subscribers of all pending events.
    pub(super) fn notify_all(&self) {
        let round = &mut self.source.lock().round;
        self.notify_due(Instant::now() + debounce::MAX_INTERVAL, round);
        while !round.pending.is_empty() {
            round.notify_some();
        }
    }
}
