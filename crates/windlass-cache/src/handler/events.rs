//! Notifications as a stream.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::Stream;
use tokio::sync::mpsc;

use super::{Notification, Registration};
use crate::synced::HasSynced;

/// A stream of the notifications of one informer, as an alternative to a [`Handler`](super::Handler); Go's
/// `InformerWatcher`. It starts with every existing object, as added, and ends when the informer stops.
///
/// The guarantees of a handler apply. Unread notifications stay in memory, without a bound. Dropping the stream removes
/// its handler.
#[must_use = "a stream does nothing unless it is read"]
pub struct Events<K> {
    pub(crate) notifications: mpsc::UnboundedReceiver<Notification<K>>,
    pub(crate) registration: Registration,
}

impl<K> Events<K> {
    /// Returns a future that is ready once all initial objects are in the stream, even if they have not been read yet.
    pub fn has_synced(&self) -> HasSynced {
        self.registration.has_synced()
    }
}

impl<K> Stream for Events<K> {
    type Item = Notification<K>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.notifications.poll_recv(context)
    }
}

impl<K> Drop for Events<K> {
    fn drop(&mut self) {
        self.registration.remove();
    }
}

impl<K> fmt::Debug for Events<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("waiting", &self.notifications.len()).finish_non_exhaustive()
    }
}
