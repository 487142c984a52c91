//! The storage backend.

use std::{fmt, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use tokio::time::{self, Instant};
use windlass_grpc::Status;
use windlass_server::storage::{
    Change, CommitError, Committed, EventStream, Expect, Range, RangeQuery, Revision, Storage, StorageError,
    StoredValue,
};

use crate::{
    cluster::{COMPACT, Cluster, TXN},
    compactor::Compactor,
    errors::EtcdStatus as _,
    keys::Keys,
    leases::Leases,
    messages::{
        CompactionRequest, Compare, DeleteRangeRequest, Empty, PutRequest, Request, TxnRequest, TxnResponse,
        revision_of, signed,
    },
    options::Options,
    reads::{Reader, value_of},
    watch::{self, Previous, Watches},
};

/// The time for a health check, as in kube-apiserver.
const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// The pause between two attempts to connect for the first time.
const START_PAUSE: Duration = Duration::from_millis(250);

/// The error for an etcd that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There are no endpoints.
    #[error("no etcd endpoint is set")]
    NoEndpoints,
    /// No endpoint can be used.
    #[error("cannot connect to etcd: {reasons}")]
    Unreachable {
        /// Each endpoint with its error.
        reasons: String,
    },
}

/// Storage in etcd. Clones share the connection. Dropping the last clone ends its watches.
#[derive(Clone)]
pub struct EtcdStorage {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) reader: Arc<Reader>,
    pub(crate) leases: Leases,
    watches: Watches,
}

impl EtcdStorage {
    /// Connects to the first endpoint that can be used. While etcd is starting or has no leader, this tries again, until
    /// [`connect_timeout`](Options::connect_timeout) has passed.
    ///
    /// # Errors
    /// If none can be used, for example because its version of etcd is not supported.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        if options.endpoints.is_empty() {
            return Err(ConnectError::NoEndpoints);
        }
        let keys = Keys::new(&options.root, &options.prefix);
        let reader = Reader { cluster: Cluster::new(options), keys };
        let deadline = Instant::now() + reader.cluster.options.connect_timeout;
        while let Err(unreachable) = reader.cluster.connection().await {
            let reasons = unreachable.reasons();
            if !unreachable.is_temporary() || Instant::now() + START_PAUSE > deadline {
                return Err(ConnectError::Unreachable { reasons });
            }
            tracing::info!(reasons, "etcd cannot be used yet");
            time::sleep(START_PAUSE).await;
        }
        let (leases, watches) = (Leases::default(), Watches::default());
        Ok(Self { shared: Arc::new(Shared { reader: Arc::new(reader), leases, watches }) })
    }

    /// Returns the task that compacts the history, unless another server does. [`Compactor::INTERVAL`] is the interval
    /// of kube-apiserver. Without this task, etcd keeps all history, and grows until it accepts no writes.
    #[must_use]
    pub fn compactor(&self, interval: Duration) -> Compactor {
        Compactor::new(Arc::clone(&self.shared.reader), interval)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watches.close();
    }
}

impl fmt::Debug for EtcdStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reader { cluster, keys } = &*self.shared.reader;
        f.debug_struct("EtcdStorage")
            .field("endpoints", &cluster.endpoints())
            .field("keys", keys)
            .finish_non_exhaustive()
    }
}

impl Storage for EtcdStorage {
    fn revision(&self) -> BoxFuture<'_, Result<Revision, StorageError>> {
        self.shared.reader.revision().boxed()
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StorageError>> {
        async {
            let reader = &self.shared.reader;
            let answer = time::timeout(CHECK_LIMIT, reader.revision()).await.unwrap_or_else(|_| {
                let why = format!("etcd at {} has not responded in time", reader.cluster.endpoints());
                Err(StorageError::Unavailable(why.into()))
            });
            answer.map(drop)
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<Revision>,
    ) -> BoxFuture<'a, Result<(Revision, Option<StoredValue>), StorageError>> {
        self.shared.reader.get(key, at).boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<Range, StorageError>> {
        async move { self.shared.reader.range(&query).await }.boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        change: Change,
    ) -> BoxFuture<'a, Result<Committed, CommitError>> {
        self.shared.commit(key, expect, change).boxed()
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        self.shared.watch(prefix, after, Previous::Included).boxed()
    }

    fn watch_changes<'a>(
        &'a self,
        prefix: &'a str,
        after: Revision,
    ) -> BoxFuture<'a, Result<EventStream, StorageError>> {
        self.shared.watch(prefix, after, Previous::Omitted).boxed()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn request_progress(&self) {
        self.shared.watches.request_progress();
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        async move {
            let reader = &self.shared.reader;
            let request = CompactionRequest { revision: signed(upto.0) };
            match reader.cluster.call::<_, Empty>(|| format!("compact revision {upto}"), COMPACT, &request).await {
                Ok(_) => Ok(()),
                Err(error) if error.status().is_some_and(Status::is_compacted) => Ok(()),
                Err(error) => Err(reader.failure(error, Some(upto)).await),
            }
        }
        .boxed()
    }
}

impl Shared {
    async fn watch(&self, prefix: &str, after: Revision, previous: Previous) -> Result<EventStream, StorageError> {
        Ok(watch::start(&self.reader, &self.watches, prefix, after, previous).await?.boxed())
    }

    async fn commit(&self, key: &str, expect: Expect, change: Change) -> Result<Committed, CommitError> {
        let expected = match (expect, &change) {
            // Both need a missing key, and conflict with it.
            (Expect::Absent, Change::Delete) | (Expect::Unchanged(Revision(0)), _) => {
                let (_, current) = self.reader.get(key, None).await?;
                return Err(CommitError::Conflict { current });
            }
            (Expect::Absent, _) => 0,
            (Expect::Unchanged(revision), _) => signed(revision.0),
        };
        let etcd_key = self.reader.etcd_key(key)?;
        let (body, lifetime) = change.into_parts();
        let mut retries = 0;
        let response: TxnResponse = loop {
            let lease = match lifetime {
                Some(lifetime) => self.leases.get(&self.reader.cluster, lifetime).await?,
                None => 0,
            };
            let request = match &body {
                Some(body) => {
                    Request::Put(PutRequest { key: etcd_key.clone(), value: body.clone(), lease, prev_kv: true })
                }
                None => Request::DeleteRange(DeleteRangeRequest { key: etcd_key.clone(), prev_kv: true }),
            };
            let request = TxnRequest::one(Compare::at_revision(etcd_key.clone(), expected), request);
            match self.reader.cluster.call(|| format!("commit {key}"), TXN, &request).await {
                Ok(response) => break response,
                // The lease was revoked, or has expired during an outage. The put was not made.
                Err(error) if retries == 0 && error.status().is_some_and(Status::is_lease_missing) => {
                    self.leases.forget(lease).await;
                    retries += 1;
                }
                Err(error) => return Err(StorageError::from(error).into()),
            }
        };
        let key: Arc<str> = key.into();
        let (succeeded, revision) = (response.succeeded, Revision(revision_of(response.header.as_ref())));
        let previous = response.into_previous().map(|previous| value_of(Arc::clone(&key), previous));
        if !succeeded {
            return Err(CommitError::Conflict { current: previous });
        }
        let value = body.map(|body| {
            let created = previous.as_ref().map_or(revision, |previous| previous.created);
            StoredValue { key, body, created, modified: revision, is_stale: false }
        });
        Ok(Committed { revision, value, previous })
    }
}
