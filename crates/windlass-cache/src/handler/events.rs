//! Notifications as a stream.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt, future};
use tokio::sync::mpsc;
use windlass_api::Object;

use super::{Notification, Registration};
use crate::{cached::Cached, synced::HasSynced};

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

    /// Returns the objects that were added or updated, without the deletions: the existing objects first, then the new
    /// state of each change.
    ///
    /// ```
    /// # use futures::StreamExt;
    /// # use windlass_api::k8s_openapi::api::core::v1::Pod;
    /// # use windlass_cache::SharedInformer;
    /// # async fn example(pods: SharedInformer<Pod>) {
    /// let mut applied = pods.events().applied();
    /// while let Some(pod) = applied.next().await {
    ///     println!("{}", pod.key());
    /// }
    /// # }
    /// ```
    pub fn applied(self) -> impl Stream<Item = Cached<K>> + Send + Unpin
    where
        K: Object,
    {
        self.filter_map(|notification| future::ready(notification.into_applied()))
    }

    /// Returns the objects of all notifications. A deleted object has its last known state.
    pub fn touched(self) -> impl Stream<Item = Cached<K>> + Send + Unpin
    where
        K: Object,
    {
        self.map(Notification::into_touched)
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
