//! What an informer tells about itself.

use std::{fmt::Debug, sync::Arc, time::Duration};

use windlass_api::EventType;

use crate::{
    contained,
    error::{DecodeError, InformerError},
};

/// Receives what happens in one informer. Each method has a default that does nothing.
///
/// Methods are called on the informer's tasks and must not block. One that panics costs its call, and a line in the log.
pub trait CacheMetrics: Debug + Send + Sync + 'static {
    /// Everything was listed, by LIST or by a watch that began with it: `lists_total`, `list_duration_seconds`,
    /// `items_per_list`.
    fn listed(&self, objects: usize, took: Duration) {
        let _ = (objects, took);
    }

    /// A watch was opened: `watches_total`.
    fn watch_opened(&self) {}

    /// A watch ended after so many events: `watch_duration_seconds`, `items_per_watch`.
    fn watch_ended(&self, events: u64, after: Duration) {
        let _ = (events, after);
    }

    /// An event came.
    fn event(&self, event_type: EventType) {
        let _ = event_type;
    }

    /// Something went wrong, an object that was left out among it. The informer goes on.
    fn failed(&self, error: &InformerError) {
        let _ = error;
    }

    /// An object was asked for and could not be decoded. Called where it was asked for.
    fn decoding_failed(&self, error: &DecodeError) {
        let _ = error;
    }

    /// The store changed and holds so many objects.
    fn stored(&self, objects: usize) {
        let _ = objects;
    }

    /// A handler panicked. It goes on with the next notification.
    fn handler_panicked(&self) {}
}

#[derive(Debug)]
pub(crate) struct NoMetrics;

impl CacheMetrics for NoMetrics {}

/// The user's metrics: what panics there harms nobody here.
#[derive(Debug)]
pub(crate) struct Contained(pub(crate) Arc<dyn CacheMetrics>);

impl Contained {
    fn tell(&self, tell: impl FnOnce(&dyn CacheMetrics)) {
        if let Err(panic) = contained(|| tell(&*self.0)) {
            tracing::error!(panic, "the metrics panicked");
        }
    }
}

impl CacheMetrics for Contained {
    fn listed(&self, objects: usize, took: Duration) {
        self.tell(|metrics| metrics.listed(objects, took));
    }

    fn watch_opened(&self) {
        self.tell(CacheMetrics::watch_opened);
    }

    fn watch_ended(&self, events: u64, after: Duration) {
        self.tell(|metrics| metrics.watch_ended(events, after));
    }

    fn event(&self, event_type: EventType) {
        self.tell(|metrics| metrics.event(event_type));
    }

    fn failed(&self, error: &InformerError) {
        self.tell(|metrics| metrics.failed(error));
    }

    fn decoding_failed(&self, error: &DecodeError) {
        self.tell(|metrics| metrics.decoding_failed(error));
    }

    fn stored(&self, objects: usize) {
        self.tell(|metrics| metrics.stored(objects));
    }

    fn handler_panicked(&self) {
        self.tell(CacheMetrics::handler_panicked);
    }
}
