//! The metrics of an informer.

use std::{fmt::Debug, sync::Arc, time::Duration};

use windlass_api::EventType;

use crate::{
    error::{DecodeError, InformerError},
    panics::catch_panic,
};

/// Receives the events of one informer as metrics. Each method does nothing by default.
///
/// Methods run on the informer's tasks and must not block. A panic is logged and affects only that call.
pub trait CacheMetrics: Debug + Send + Sync + 'static {
    /// All objects were listed, by LIST or as the initial events of a watch: `lists_total`, `list_duration_seconds`,
    /// `items_per_list`.
    fn listed(&self, objects: usize, took: Duration) {
        let _ = (objects, took);
    }

    /// A watch was opened: `watches_total`.
    fn watch_opened(&self) {}

    /// A watch ended after this many events: `watch_duration_seconds`, `items_per_watch`.
    fn watch_ended(&self, events: u64, after: Duration) {
        let _ = (events, after);
    }

    /// A watch event arrived.
    fn event(&self, event_type: EventType) {
        let _ = event_type;
    }

    /// An error occurred, for example a skipped object. The informer continues.
    fn failed(&self, error: &InformerError) {
        let _ = error;
    }

    /// A requested object could not be decoded. Called on the reader's thread.
    fn decoding_failed(&self, error: &DecodeError) {
        let _ = error;
    }

    /// The store changed and now holds this many objects.
    fn stored(&self, objects: usize) {
        let _ = objects;
    }

    /// A handler panicked. It continues with the next notification.
    fn handler_panicked(&self) {}
}

#[derive(Debug)]
pub(crate) struct NoMetrics;

impl CacheMetrics for NoMetrics {}

/// A wrapper of the user's metrics that catches panics.
#[derive(Debug)]
pub(crate) struct Contained(pub(crate) Arc<dyn CacheMetrics>);

impl Contained {
    fn call(&self, method: impl FnOnce(&dyn CacheMetrics)) {
        if let Err(panic) = catch_panic(|| method(&*self.0)) {
            tracing::error!(panic, "the metrics panicked");
        }
    }
}

impl CacheMetrics for Contained {
    fn listed(&self, objects: usize, took: Duration) {
        self.call(|metrics| metrics.listed(objects, took));
    }

    fn watch_opened(&self) {
        self.call(CacheMetrics::watch_opened);
    }

    fn watch_ended(&self, events: u64, after: Duration) {
        self.call(|metrics| metrics.watch_ended(events, after));
    }

    fn event(&self, event_type: EventType) {
        self.call(|metrics| metrics.event(event_type));
    }

    fn failed(&self, error: &InformerError) {
        self.call(|metrics| metrics.failed(error));
    }

    fn decoding_failed(&self, error: &DecodeError) {
        self.call(|metrics| metrics.decoding_failed(error));
    }

    fn stored(&self, objects: usize) {
        self.call(|metrics| metrics.stored(objects));
    }

    fn handler_panicked(&self) {
        self.call(CacheMetrics::handler_panicked);
    }
}
