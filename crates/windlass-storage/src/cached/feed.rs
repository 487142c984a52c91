//! The task that keeps the copy up to date.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use tokio::time;
use windlass_server::storage::{Delivery, EventStream, Range, RangeQuery, Storage, StorageError, StoredValue};

use super::Shared;
use crate::transform::{self, Transform};

/// The number of values in a page.
const PAGE: usize = 2000;

/// The number of items that are applied together at most, if they are available.
const BATCH: usize = 64;

/// Pauses between attempts to watch a failing storage.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(5);

/// The keys whose values cannot be decoded, and the reasons.
type Unreadable = Vec<(Arc<str>, String)>;

/// Applies the items of the watch until the storage ends it.
pub(super) async fn run<T: Transform>(shared: Arc<Shared<T>>, mut events: EventStream) {
    let mut pause = RETRY_FIRST;
    loop {
        let Some(mut failure) = follow(&shared, &mut events, &mut pause).await else { return };
        loop {
            let next = match failure {
                StorageError::Lagged { .. } => shared.below.watch_changes("", shared.replica.revision()).await,
                StorageError::Compacted { oldest } => {
                    tracing::warn!(%oldest, "the storage has compacted events that were not read, reading all values");
                    reload(&shared).await
                }
                error => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the watch of the storage has failed");
                    time::sleep(pause).await;
                    pause = RETRY_LAST.min(pause * 2);
                    shared.below.watch_changes("", shared.replica.revision()).await
                }
            };
            match next {
                Ok(next) => {
                    events = next;
                    break;
                }
                Err(error) => failure = error,
            }
        }
    }
}

/// Applies items until the watch fails. Returns `None` if the storage was shut down.
async fn follow<T: Transform>(
    shared: &Shared<T>,
    events: &mut EventStream,
    pause: &mut Duration,
) -> Option<StorageError> {
    // The items of a revision that is not complete yet are at the end.
    let mut items = Vec::new();
    let mut next = events.next().await;
    loop {
        match next {
            Some(Ok(item)) => items.push(decoded(shared, item).await),
            Some(Err(error)) => {
                apply(shared, &mut items);
                return Some(error);
            }
            None => return None,
        }
        next = match events.next().now_or_never() {
            Some(next) if items.len() < BATCH => next,
            now => {
                apply(shared, &mut items);
                *pause = RETRY_FIRST;
                match now {
                    Some(next) => next,
                    None => events.next().await,
                }
            }
        };
    }
}

/// Applies the items of complete revisions, and leaves the others.
fn apply<T: Transform>(shared: &Shared<T>, items: &mut Vec<Delivery>) {
    let Some(complete) = items.iter().map(Delivery::progress).max() else { return };
    let first = items.iter().position(|item| item.revision() > complete).unwrap_or(items.len());
    let written: Vec<_> =
        items.iter().take(first).filter_map(|item| Some((Arc::clone(item.key()?), item.revision()))).collect();
    let has_unreadable = items.iter().take(first).any(|item| matches!(item, Delivery::Unreadable { .. }));
    shared.replica.apply(items.drain(..first));
    if has_unreadable {
        shared.unreadable.notify_one();
    }
    for (key, revision) in written {
        shared.writes.forget(&key, revision);
    }
}

/// Decodes the value of an event, unless this process has written it.
async fn decoded<T: Transform>(shared: &Shared<T>, item: Delivery) -> Delivery {
    let Delivery::Event { mut event, completes } = item else { return item };
    event.previous = None;
    let Some(value) = event.current.take() else { return Delivery::Event { event, completes } };
    match decode(shared, value).await {
        Ok(value) => {
            event.current = Some(value);
            Delivery::Event { event, completes }
        }
        Err(reason) => Delivery::Unreadable { key: event.key, revision: event.revision, completes, reason },
    }
}

async fn decode<T: Transform>(shared: &Shared<T>, value: StoredValue) -> Result<StoredValue, String> {
    match shared.writes.body_of(&value.key, &value.body) {
        Some(body) => Ok(StoredValue { body, ..value }),
        None => transform::decode(&*shared.transform, value).await.map_err(transform::reason),
    }
}

/// Reads all values again, after events were missed.
async fn reload<T: Transform>(shared: &Shared<T>) -> Result<EventStream, StorageError> {
    let (values, unreadable) = read_all(&*shared.below, &*shared.transform).await?;
    let revision = values.revision;
    let has_unreadable = !unreadable.is_empty();
    shared.replica.reset(values, unreadable);
    if has_unreadable {
        shared.unreadable.notify_one();
    }
    shared.writes.forget_all(revision);
    shared.below.watch_changes("", revision).await
}

/// Reads all values at one revision.
pub(super) async fn read_all(
    storage: &dyn Storage,
    transform: &impl Transform,
) -> Result<(Range, Unreadable), StorageError> {
    loop {
        match read_pages(storage, transform).await {
            // It took so long that the revision was compacted.
            Err(StorageError::Compacted { .. }) => {}
            answer => return answer,
        }
    }
}

async fn read_pages(storage: &dyn Storage, transform: &impl Transform) -> Result<(Range, Unreadable), StorageError> {
    let revision = storage.revision().await?;
    let (mut values, mut unreadable): (Vec<StoredValue>, Unreadable) = (Vec::new(), Vec::new());
    let (mut start, mut limit) = (String::new(), PAGE);
    loop {
        let query = RangeQuery::default().start(start.clone()).limit(limit).at(revision);
        let remaining = match storage.range(query).await {
            Ok(page) => {
                if let Some(last) = page.values.last() {
                    start = format!("{}\0", last.key);
                }
                for value in page.values {
                    let key = Arc::clone(&value.key);
                    match transform::decode(transform, value).await {
                        Ok(value) => values.push(value),
                        Err(error) => unreadable.push((key, transform::reason(error))),
                    }
                }
                limit = PAGE.min(limit * 2);
                page.remaining
            }
            // Below one page it is the only value.
            Err(StorageError::Unreadable { key, source }) if limit == 1 => {
                start = format!("{key}\0");
                unreadable.push((key.into(), source.to_string()));
                1
            }
            Err(StorageError::Unreadable { .. }) => {
                limit = (limit / 2).max(1);
                1
            }
            Err(error) => return Err(error),
        };
        if remaining == 0 {
            return Ok((Range { revision, values, remaining: 0 }, unreadable));
        }
    }
}
