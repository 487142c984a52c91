//! The stream of the storage's events, which whoever has the lock reads: the pump, or a writer whose event is in it.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use futures::StreamExt;
use tokio::time::Instant;

use super::{Round, Shared, SharedEvent, gap};
use crate::storage::{EventStream, Revision, StorageError};

/// The events that are still to be read and delivered.
pub(super) struct Source<D> {
    /// `None` until the pump runs, and from the end of one stream until there is another.
    events: Option<EventStream>,
    /// The pump's. Only the pump waits for the stream.
    pump: Option<Waker>,
    /// How the stream ended when a writer read it; the pump deals with it.
    ended: Option<PumpStep>,
    /// A writer has left something to tell, so the pump has to look again when that is due.
    changed: bool,
    round: Round<D>,
}

/// The result of one step of the pump.
#[derive(Debug)]
pub(super) enum PumpStep {
    HandedOut,
    Failed(StorageError),
    Ended,
}

impl<D> Source<D> {
    pub(super) fn new(events: EventStream) -> Self {
        Self { events: Some(events), ..Self::default() }
    }

    /// Goes on with another stream where the last one ended.
    pub(super) fn renew(&mut self, events: EventStream) {
        self.events = Some(events);
    }
}

impl<D> Default for Source<D> {
    fn default() -> Self {
        Self { events: None, pump: None, ended: None, changed: false, round: Round::default() }
    }
}

impl<D> fmt::Debug for Source<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("ended", &self.ended).field("changed", &self.changed).finish_non_exhaustive()
    }
}

impl<D: Default> Shared<D> {
    /// Hands out the next event for the pump.
    pub(super) fn poll_pump(&self, cx: &mut Context<'_>) -> Poll<PumpStep> {
        let mut source = self.source.lock();
        if source.pump.as_ref().is_none_or(|pump| !pump.will_wake(cx.waker())) {
            source.pump = Some(cx.waker().clone());
        }
        if std::mem::take(&mut source.changed) {
            return Poll::Ready(PumpStep::HandedOut);
        }
        self.poll_hand_out(&mut source, cx)
    }

    /// Hands out events for a writer until those up to `revision` have been, if nobody else is at it and the storage has them.
    pub(super) fn hand_out_upto(&self, revision: Revision) {
        let Some(mut source) = self.source.try_lock() else { return };
        // The pump is to be woken for what comes later.
        let Some(pump) = source.pump.clone() else { return };
        let mut cx = Context::from_waker(&pump);
        let due = source.round.due;
        while *self.position.borrow() < revision {
            match self.poll_hand_out(&mut source, &mut cx) {
                Poll::Ready(PumpStep::HandedOut) => {}
                Poll::Ready(ended) => {
                    source.ended = Some(ended);
                    pump.wake_by_ref();
                    return;
                }
                Poll::Pending => return,
            }
        }
        if !source.round.untold.is_empty() || source.round.due != due {
            source.changed = true;
            pump.wake_by_ref();
        }
    }

    fn poll_hand_out(&self, source: &mut Source<D>, cx: &mut Context<'_>) -> Poll<PumpStep> {
        if let Some(ended) = source.ended.take() {
            return Poll::Ready(ended);
        }
        // While there is none, the pump is at work on another one.
        let Some(events) = &mut source.events else { return Poll::Pending };
        let ended = match ready!(events.poll_next_unpin(cx)) {
            Some(Ok(event)) => {
                self.hand_out(&Arc::new(SharedEvent::new(event)), &mut source.round);
                return Poll::Ready(PumpStep::HandedOut);
            }
            Some(Err(error)) => PumpStep::Failed(error),
            None => PumpStep::Ended,
        };
        source.events = None;
        Poll::Ready(ended)
    }

    /// Tells some of those who are to be told by now. Returns whether nobody is left, and when others are to be told.
    pub(super) fn tell_some(&self) -> (bool, Option<Instant>) {
        let round = &mut self.source.lock().round;
        if round.untold.is_empty() && round.due.is_some_and(|due| due <= Instant::now()) {
            self.tell_due(Instant::now(), round);
        }
        round.tell_some();
        (round.untold.is_empty(), round.due)
    }

    /// Tells everybody of all that has come.
    pub(super) fn tell_all(&self) {
        let round = &mut self.source.lock().round;
        self.tell_due(Instant::now() + gap::MOST, round);
        while !round.untold.is_empty() {
            round.tell_some();
        }
    }
}
