//! A wrapper of `ListWatch` that records watch events before they reach the caches.

use std::sync::Arc;

use futures::{
    future::BoxFuture,
    stream::{BoxStream, StreamExt as _},
};
use windlass_api::{
    ApiResource, EventType, ListItem, ListOptions, ListWatch, ListWatchError, Meta, RawEvent, WatchOptions,
};
use windlass_client::ResourceListWatch;

use super::log::{Log, Observed};

/// The `ListWatch` of a resource, which records each watch event in the log.
#[derive(Debug)]
pub(super) struct RecordingListWatch {
    inner: ResourceListWatch,
    kind: String,
    log: Log,
}

type Stream<T> = BoxStream<'static, Result<T, ListWatchError>>;

impl RecordingListWatch {
    pub(super) fn new(inner: ResourceListWatch, resource: &ApiResource, log: Log) -> Self {
        Self { inner, kind: resource.kind.to_string(), log }
    }
}

impl ListWatch for RecordingListWatch {
    fn list(&self, options: ListOptions) -> BoxFuture<'_, Result<Stream<ListItem>, ListWatchError>> {
        self.inner.list(options)
    }

    fn watch(&self, options: WatchOptions) -> BoxFuture<'_, Result<Stream<RawEvent>, ListWatchError>> {
        Box::pin(async move {
            let events = self.inner.watch(options).await?;
            let (kind, log) = (self.kind.clone(), self.log.clone());
            log.add(Observed::Watching { kind: kind.clone() });
            let report = move |event: &Result<RawEvent, ListWatchError>| {
                if let Some(delta) = event.as_ref().ok().and_then(|event| delta(&kind, event)) {
                    log.add(delta);
                }
            };
            Ok(events.inspect(report).boxed())
        })
    }
}

/// Returns the delta of an event; `None` for events without an object.
fn delta(kind: &str, event: &RawEvent) -> Option<Observed> {
    if !matches!(event.event_type, EventType::Added | EventType::Modified | EventType::Deleted) {
        return None;
    }
    let meta = Meta::parse(&event.body).ok()?;
    Some(Observed::Delta {
        kind: kind.to_owned(),
        event: event.event_type,
        key: meta.key().clone(),
        version: meta.resource_version().to_string(),
        owner: meta.controller().map(|owner| Arc::clone(&owner.uid)),
    })
}
