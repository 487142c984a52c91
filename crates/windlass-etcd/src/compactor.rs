//! Periodic compaction by one of several servers, in the way of kube-apiserver.
//!
//! The servers agree with a key in etcd, whose version counts the compactions. Each server tries to increment it once in
//! an interval, if it is still the version that the server saw last. The one that succeeds compacts the history before
//! the revision of its last attempt. So the history of one interval is always kept, and at most that of two.
//!
//! A server that fails is replaced by another one within two intervals. kube-apiserver uses the same key and the same
//! protocol, so both can use one etcd.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use windlass_grpc::Status;
use windlass_server::storage::{Revision, StorageError};

use crate::{
    cluster::{COMPACT, TXN},
    errors::EtcdStatus as _,
    messages::{CompactionRequest, Compare, Empty, PutRequest, Request, TxnRequest, TxnResponse, revision_of, signed},
    reads::Reader,
};

/// The key of kube-apiserver, outside of the prefix.
const KEY: &[u8] = b"compact_rev_key";

/// Compacts etcd. Created by [`EtcdStorage::compactor`](crate::EtcdStorage::compactor).
#[derive(Debug)]
pub struct Compactor {
    reader: Arc<Reader>,
    interval: Duration,
    /// The version of the key that this server saw last. 0 if it does not exist.
    version: i64,
    /// The revision of the last attempt. 0 before the first one.
    revision: u64,
}

impl Compactor {
    /// The interval of kube-apiserver.
    pub const INTERVAL: Duration = Duration::from_mins(5);

    pub(crate) fn new(reader: Arc<Reader>, interval: Duration) -> Self {
        Self { reader, interval, version: 0, revision: 0 }
    }

    /// Compacts once in an interval, forever. Errors are logged, and the next attempt follows after another interval.
    pub async fn run(mut self) {
        loop {
            tokio::time::sleep(self.interval).await;
            match self.compact_once().await {
                Ok(Some(revision)) => tracing::debug!(%revision, "etcd was compacted"),
                Ok(None) => {}
                Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "etcd cannot be compacted"),
            }
        }
    }

    /// Makes one attempt. Returns the revision up to which the history was compacted, if this server did it.
    pub async fn compact_once(&mut self) -> Result<Option<Revision>, StorageError> {
        let cluster = &self.reader.cluster;
        let upto = self.revision;
        let put = PutRequest { key: KEY.into(), value: Bytes::from(upto.to_string()), ..PutRequest::default() };
        let request = TxnRequest::one(Compare::at_version(KEY.into(), self.version), Request::Put(put));
        let response: TxnResponse = cluster.call(|| "lead the compaction".to_owned(), TXN, &request).await?;
        self.revision = revision_of(response.header.as_ref());
        if !response.succeeded {
            // Another server was faster. A deleted key starts again.
            self.version = response.into_previous().map_or(0, |found| found.version);
            return Ok(None);
        }
        self.version += 1;
        if upto == 0 {
            return Ok(None);
        }
        let request = CompactionRequest { revision: signed(upto) };
        let compacted = cluster.call::<_, Empty>(|| format!("compact revision {upto}"), COMPACT, &request).await;
        match compacted {
            Ok(_) => Ok(Some(Revision(upto))),
            Err(error) if error.status().is_some_and(Status::is_compacted) => Ok(Some(Revision(upto))),
            Err(error) => Err(error.into()),
        }
    }
}
