//! A storage that encodes its values for another storage, and decodes them when they are read.
//!
//! The keys and the revisions are those of the storage below, and so are all guarantees.

use std::{error::Error, fmt, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use windlass_server::storage::{
    Change, CommitError, Committed, Delivery, EventStream, Expect, Range, RangeQuery, Revision, Storage, StorageError,
    StorageEvent, StoredValue,
};

/// The encoding of values.
pub trait Transform: fmt::Debug + Send + Sync + 'static {
    /// Encodes the body of a key.
    ///
    /// # Errors
    /// If the body cannot be encoded. It is not stored then.
    fn encode(&self, key: &str, body: Bytes) -> Result<Bytes, Failure>;

    /// Decodes the body of a value, and sets whether it should be written again.
    ///
    /// # Errors
    /// If the body cannot be decoded.
    fn decode(&self, value: StoredValue) -> Result<StoredValue, Failure>;
}

/// The reason why a body cannot be encoded or decoded.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A storage whose values are encoded by `T`.
#[derive(Debug)]
pub struct TransformedStorage<T> {
    below: Arc<dyn Storage>,
    transform: Arc<T>,
}

impl<T: Transform> TransformedStorage<T> {
    /// Stores the values of `below` as `transform` encodes them.
    #[must_use]
    pub fn over(below: Arc<dyn Storage>, transform: T) -> Self {
        Self { below, transform: Arc::new(transform) }
    }

    pub(crate) fn transform(&self) -> &T {
        &self.transform
    }

    fn encode(&self, key: &str, body: Bytes) -> Result<Bytes, StorageError> {
        let encoded = self.transform.encode(key, body);
        encoded.map_err(|source| StorageError::Unreadable { key: key.to_owned(), source })
    }
}

fn decode(transform: &impl Transform, value: StoredValue) -> Result<StoredValue, StorageError> {
    let key = Arc::clone(&value.key);
    transform.decode(value).map_err(|source| StorageError::Unreadable { key: key.to_string(), source })
}

fn decode_some(transform: &impl Transform, value: Option<StoredValue>) -> Result<Option<StoredValue>, StorageError> {
    value.map(|value| decode(transform, value)).transpose()
}

pub(crate) fn decode_delivery(transform: &impl Transform, delivery: Delivery) -> Delivery {
    let Delivery::Event { event, completes } = delivery else { return delivery };
    let (key, revision) = (Arc::clone(&event.key), event.revision);
    let decoded = (|| -> Result<StorageEvent, Failure> {
        let current = event.current.map(|value| transform.decode(value)).transpose()?;
        let previous = event.previous.map(|value| transform.decode(value)).transpose()?;
        Ok(StorageEvent { revision, key: event.key, current, previous })
    })();
    match decoded {
        Ok(event) => Delivery::Event { event, completes },
        Err(reason) => Delivery::Unreadable { key, revision, completes, reason: reason.to_string() },
    }
}

impl<T: Transform> Storage for TransformedStorage<T> {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.below.revision()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        self.below.check()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        async move {
            let (revision, value) = self.below.get(key, at).await?;
            Ok((revision, decode_some(&*self.transform, value)?))
        }
        .boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move {
            let Range { revision, values, remaining } = self.below.range(query).await?;
            let values = values.into_iter().map(|value| decode(&*self.transform, value)).collect::<Result<_, _>>()?;
            Ok(Range { revision, values, remaining })
        }
        .boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        async move {
            let (change, plain) = match change {
                Change::Put(body) => (Change::Put(self.encode(key, body.clone())?), Some(body)),
                Change::PutFor(body, lifetime) => {
                    (Change::PutFor(self.encode(key, body.clone())?, lifetime), Some(body))
                }
                Change::Delete => (Change::Delete, None),
            };
            match self.below.commit(key, expect, change).await {
                Ok(committed) => {
                    let previous = decode_some(&*self.transform, committed.previous)?;
                    let value = committed.value.zip(plain).map(|(value, body)| StoredValue { body, ..value });
                    Ok(Committed { value, previous, ..committed })
                }
                Err(CommitError::Conflict { current }) => {
                    Err(CommitError::Conflict { current: decode_some(&*self.transform, current)? })
                }
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let transform = Arc::clone(&self.transform);
            let events = self.below.watch(prefix, after).await?;
            Ok(events.map(move |item| item.map(|delivery| decode_delivery(&*transform, delivery))).boxed())
        }
        .boxed()
    }

    fn watch_changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let transform = Arc::clone(&self.transform);
            let events = self.below.watch_changes(prefix, after).await?;
            Ok(events.map(move |item| item.map(|delivery| decode_delivery(&*transform, delivery))).boxed())
        }
        .boxed()
    }

    fn is_shared(&self) -> bool {
        self.below.is_shared()
    }

    fn request_progress(&self) {
        self.below.request_progress();
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        self.below.compact(upto)
    }
}
