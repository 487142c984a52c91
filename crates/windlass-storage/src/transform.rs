//! A storage that encodes its values for another storage, and decodes them when they are read.
//!
//! The keys and the revisions are those of the storage below, and so are all guarantees.
//!
//! Encoding is synchronous, and so is nearly all decoding. Only a value whose key a KMS plugin must decrypt takes time:
//! its decoding is a future, so that no other value pays for one, and the executor is not blocked.

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
    fn decode(&self, value: StoredValue) -> Decoding;
}

/// The decoding of a value, which fails if its body cannot be decoded.
pub enum Decoding {
    /// The value is decoded.
    Done(Result<StoredValue, Failure>),
    /// The value needs a call to another program.
    Pending(BoxFuture<'static, Result<StoredValue, Failure>>),
}

impl Decoding {
    /// Waits for the value.
    pub(crate) async fn finish(self) -> Result<StoredValue, Failure> {
        match self {
            Self::Done(decoded) => decoded,
            Self::Pending(decoding) => decoding.await,
        }
    }
}

impl fmt::Debug for Decoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(decoded) => f.debug_tuple("Done").field(decoded).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// The reason why a body cannot be encoded or decoded.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The prefix of all encrypted values. JSON and protobuf values begin differently.
pub(crate) const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The error for an encrypted value of a resource without an encryption configuration. It begins with the words of
/// kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "identity transformer tried to read encrypted data: it is encrypted by {provider}, and no configuration of this \
     resource is given; use --encryption-provider-config"
)]
pub(crate) struct Encrypted {
    provider: String,
}

impl Encrypted {
    /// Returns the error if a value is encrypted. The prefix of the value names the provider and its key.
    pub(crate) fn check(body: &[u8]) -> Result<(), Self> {
        const LONGEST: usize = 100;
        let Some(rest) = body.strip_prefix(ENCRYPTED) else { return Ok(()) };
        let shown: Vec<&[u8]> = rest[..rest.len().min(LONGEST)].split(|byte| *byte == b':').take(3).collect();
        Err(Self { provider: shown.join(&b':').escape_ascii().to_string() })
    }
}

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

pub(crate) async fn decode(transform: &impl Transform, value: StoredValue) -> Result<StoredValue, StorageError> {
    let key = Arc::clone(&value.key);
    let decoded = transform.decode(value).finish().await;
    decoded.map_err(|source| StorageError::Unreadable { key: key.to_string(), source })
}

pub(crate) async fn decode_some(
    transform: &impl Transform,
    value: Option<StoredValue>,
) -> Result<Option<StoredValue>, StorageError> {
    match value {
        Some(value) => decode(transform, value).await.map(Some),
        None => Ok(None),
    }
}

async fn decode_delivery(transform: &impl Transform, delivery: Delivery) -> Delivery {
    let Delivery::Event { event, completes } = delivery else { return delivery };
    let StorageEvent { revision, key, current, previous } = event;
    let decoded = async {
        let current = decode_some(transform, current).await?;
        Ok::<_, StorageError>((current, decode_some(transform, previous).await?))
    };
    match decoded.await {
        Ok((current, previous)) => {
            Delivery::Event { event: StorageEvent { revision, key, current, previous }, completes }
        }
        Err(error) => Delivery::Unreadable { key, revision, completes, reason: reason(error) },
    }
}

/// Decodes the events of a watch.
pub(crate) fn decoded<T: Transform>(transform: Arc<T>, events: EventStream) -> EventStream {
    let decoded = events.then(move |item| {
        let transform = Arc::clone(&transform);
        async move {
            match item {
                Ok(delivery) => Ok(decode_delivery(&*transform, delivery).await),
                Err(error) => Err(error),
            }
        }
    });
    decoded.boxed()
}

/// Returns the reason of an unreadable value, whose key is known.
pub(crate) fn reason(error: StorageError) -> String {
    match error {
        StorageError::Unreadable { source, .. } => source.to_string(),
        other => other.to_string(),
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
            Ok((revision, decode_some(&*self.transform, value).await?))
        }
        .boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move {
            let Range { revision, values, remaining } = self.below.range(query).await?;
            let mut decoded = Vec::with_capacity(values.len());
            for value in values {
                decoded.push(decode(&*self.transform, value).await?);
            }
            Ok(Range { revision, values: decoded, remaining })
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
                    // The commit has happened, whatever the previous value is.
                    let previous = decode_some(&*self.transform, committed.previous).await.unwrap_or_default();
                    let value = committed.value.zip(plain).map(|(value, body)| StoredValue { body, ..value });
                    Ok(Committed { value, previous, ..committed })
                }
                Err(CommitError::Conflict { current }) => {
                    Err(CommitError::Conflict { current: decode_some(&*self.transform, current).await? })
                }
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let events = self.below.watch(prefix, after).await?;
            Ok(decoded(Arc::clone(&self.transform), events))
        }
        .boxed()
    }

    fn watch_changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        async move {
            let events = self.below.watch_changes(prefix, after).await?;
            Ok(decoded(Arc::clone(&self.transform), events))
        }
        .boxed()
    }

    fn is_known_to_be_empty(&self, prefix: &str) -> bool {
        self.below.is_known_to_be_empty(prefix)
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
