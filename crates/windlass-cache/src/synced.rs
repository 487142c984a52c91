//! Futures that become ready when an informer or handler has synced.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use thiserror::Error;
use tokio::sync::watch;

/// A future that is ready once the initial list has been processed: by the store for an informer, by the handler for a
/// registration. It returns an error if the informer stops before, or the handler is removed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct HasSynced {
    state: watch::Receiver<bool>,
    waiting: Option<Waiting>,
}

/// The informer stopped or the handler was removed before the initial list had been processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("stopped before the initial list was processed")]
pub struct Stopped;

type Waiting = Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send + Sync>>;

/// The sender of the signal. If it is dropped before it fires, waiting futures return an error.
#[derive(Debug)]
pub(crate) struct SyncSignal(watch::Sender<bool>);

impl SyncSignal {
    pub(crate) fn new() -> (Self, HasSynced) {
        let (sender, state) = watch::channel(false);
        (Self(sender), HasSynced { state, waiting: None })
    }

    pub(crate) fn fire(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn has_fired(&self) -> bool {
        *self.0.borrow()
    }
}

impl HasSynced {
    /// Reports whether the future is ready.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        *self.state.borrow()
    }
}

impl Future for HasSynced {
    type Output = Result<(), Stopped>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let state = &this.state;
        let waiting = this.waiting.get_or_insert_with(|| {
            let mut state = state.clone();
            Box::pin(async move { state.wait_for(|synced| *synced).await.map(|_| ()).map_err(|_| Stopped) })
        });
        let outcome = std::task::ready!(waiting.as_mut().poll(context));
        this.waiting = None; // allows another poll
        Poll::Ready(outcome)
    }
}

impl Clone for HasSynced {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), waiting: None }
    }
}

impl fmt::Debug for HasSynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HasSynced({})", self.is_synced())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn synced_signal_stays_ready() {
        let (signal, mut synced) = SyncSignal::new();
        assert_eq!((&mut synced).now_or_never(), None);
        signal.fire();
        drop(signal);
        assert!(synced.is_synced());
        assert_eq!((&mut synced).now_or_never(), Some(Ok(())));
        assert_eq!((&mut synced).now_or_never(), Some(Ok(())));
    }

    #[test]
    fn dropped_sync_signal_is_an_error() {
        let (signal, synced) = SyncSignal::new();
        drop(signal);
        assert_eq!(synced.clone().now_or_never(), Some(Err(Stopped)));
    }
}
