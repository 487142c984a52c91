//! The slices of large responses that a connection received and has not written yet.
//!
//! A slice occupies a turn until its bytes are dropped, that is, until they are encrypted. A client that does not read
//! would keep the turn. So the connection reports when it has written everything that its client accepts. [`Slices`]
//! then ends the turns of the slices that the connection had received.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;

use crate::turns::Turn;

/// The slices of a connection.
#[derive(Debug, Default)]
pub(crate) struct Slices {
    /// The number of the current or last round of writing.
    round: AtomicU64,
    open: Mutex<Vec<Weak<Slice>>>,
}

/// A slice. Its turn ends when its last bytes are dropped, or if the client does not read them.
#[derive(Debug)]
pub(crate) struct Slice {
    turn: Turn,
    /// The round in which the connection received the last bytes.
    received: AtomicU64,
}

impl Slices {
    /// Begins a slice.
    pub(crate) fn begin(&self, turn: Turn) -> Arc<Slice> {
        let slice = Arc::new(Slice { turn, received: AtomicU64::new(u64::MAX) });
        let mut open = self.open.lock();
        open.retain(|slice| slice.strong_count() > 0);
        open.push(Arc::downgrade(&slice));
        slice
    }

    /// Records that the connection receives bytes of a slice.
    pub(crate) fn receive(&self, slice: &Slice) {
        slice.received.store(self.round.load(Relaxed), Relaxed);
    }

    /// Records that the connection begins to write what it has received.
    pub(crate) fn writing(&self) {
        self.round.fetch_add(1, Relaxed);
    }

    /// Ends the turns of the slices that the client does not accept: they were received before [`writing`](Self::writing)
    /// and are not written.
    pub(crate) fn written(&self) {
        let round = self.round.load(Relaxed);
        let mut open = self.open.lock();
        if open.is_empty() {
            return;
        }
        open.retain(|slice| {
            let Some(slice) = slice.upgrade() else { return false };
            let is_unread = slice.received.load(Relaxed) < round;
            if is_unread {
                slice.turn.end();
            }
            !is_unread
        });
    }
}

impl Slice {
    /// Reports whether other work waits for the turn.
    pub(crate) fn is_wanted(&self) -> bool {
        self.turn.is_wanted()
    }

    /// Reports whether the turn was ended because the client does not read.
    pub(crate) fn is_unread(&self) -> bool {
        self.turn.has_ended()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::turns::{Class, Turns};

    #[tokio::test]
    async fn turn_of_unread_bytes_ends_after_the_next_round() {
        let turns = Turns::new(1);
        let is_free = || Arc::clone(&turns).take(Class::Other).now_or_never().is_some();
        let slices = Slices::default();
        let slice = slices.begin(Arc::clone(&turns).take(Class::Other).await);
        slices.writing();
        slices.written();
        assert!(!is_free(), "the connection has no bytes of it");
        slices.writing();
        slices.receive(&slice);
        slices.written();
        assert!(!is_free(), "it may have received them too late for this round");
        slices.writing();
        slices.written();
        assert!(is_free() && slice.is_unread());
        drop(slice);
        assert!(is_free());
    }

    #[tokio::test]
    async fn turn_of_written_bytes_ends_at_once() {
        let turns = Turns::new(1);
        let slices = Slices::default();
        let slice = slices.begin(Arc::clone(&turns).take(Class::Other).await);
        slices.receive(&slice);
        drop(slice);
        assert!(turns.take(Class::Other).now_or_never().is_some());
    }
}
