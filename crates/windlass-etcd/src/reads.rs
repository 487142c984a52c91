//! Reads of single keys and of ranges, in pages of one revision.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{sync::mpsc, time};
use windlass_grpc::{CallError, Status, decode, frame};
use windlass_server::storage::{Range, RangeQuery, Revision, StorageError, StoredValue};

use crate::{
    cluster::{Cluster, RANGE, WATCH},
    errors::{EtcdError, EtcdStatus as _},
    keys::{KeyRange, Keys},
    messages::{
        KeyValue, RangeRequest, RangeResponse, WatchCommand, WatchCreateRequest, WatchRequest, WatchResponse,
        revision_of, signed, unsigned,
    },
};

/// The first page of a range, in keys. The further ones depend on the size of the values.
const FIRST_PAGE: u64 = 500;

/// The largest page in keys, and its approximate size in bytes.
const LARGEST_PAGE: u64 = 10_000;
const PAGE_BYTES: u64 = 8 << 20;

/// The number of times that a range of the current revision starts again because that revision was compacted.
const RESTARTS: u32 = 3;

/// The time for finding the oldest revision, which only serves error messages.
const OLDEST_LIMIT: Duration = Duration::from_secs(2);

/// Reads from a cluster.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) cluster: Cluster,
    pub(crate) keys: Keys,
}

impl Reader {
    /// Returns the current revision, by reading a key that does not exist. kube-apiserver reads the same one for its
    /// health.
    pub(crate) async fn revision(&self) -> Result<Revision, StorageError> {
        let probe = RangeRequest { key: self.probe(), count_only: true, ..RangeRequest::default() };
        let response: RangeResponse =
            self.cluster.call(|| "read the current revision".to_owned(), RANGE, &probe).await?;
        Ok(Revision(revision_of(response.header.as_ref())))
    }

    fn probe(&self) -> Vec<u8> {
        [&*self.keys.prefixed("").start, b"health"].concat()
    }

    /// Checks that the state at a revision can be read, and returns the current revision if it is later.
    pub(crate) async fn check_readable(&self, at: Revision) -> Result<Revision, StorageError> {
        // 0 stands for the current revision.
        let revision = signed(at.0.max(1));
        let probe = RangeRequest { key: self.probe(), count_only: true, revision, ..RangeRequest::default() };
        let operation = || format!("read the history after revision {at}");
        match self.cluster.call::<_, RangeResponse>(operation, RANGE, &probe).await {
            Ok(response) => Ok(Revision(revision_of(response.header.as_ref())).max(at)),
            Err(error) if error.status().is_some_and(Status::is_future) => Ok(at),
            Err(error) => Err(self.failure(error, Some(at)).await),
        }
    }

    pub(crate) async fn get(
        &self,
        key: &str,
        at: Option<Revision>,
    ) -> Result<(Revision, Option<StoredValue>), StorageError> {
        let etcd_key = self.etcd_key(key)?;
        let request = RangeRequest { key: etcd_key, revision: requested(at), ..RangeRequest::default() };
        let response = self.read(|| format!("read {key}"), &request, at).await?;
        let revision = at.unwrap_or_else(|| Revision(revision_of(response.header.as_ref())));
        let value = response.kvs.into_iter().next().map(|found| value_of(key.into(), found));
        Ok((revision, value))
    }

    pub(crate) fn etcd_key(&self, key: &str) -> Result<Vec<u8>, StorageError> {
        let why = || StorageError::Unavailable(format!("{key} is not below the prefix of the server's keys").into());
        self.keys.to_etcd(key).ok_or_else(why)
    }

    pub(crate) async fn range(&self, query: &RangeQuery) -> Result<Range, StorageError> {
        let mut restarts = 0;
        loop {
            match self.range_once(query).await {
                Err(StorageError::Compacted { .. }) if query.at.is_none() && restarts < RESTARTS => restarts += 1,
                answer => return answer,
            }
        }
    }

    async fn range_once(&self, query: &RangeQuery) -> Result<Range, StorageError> {
        let KeyRange { mut start, end } = self.keys.queried(query);
        let mut range = Range { revision: query.at.unwrap_or_default(), values: Vec::new(), remaining: 0 };
        let mut at = query.at;
        let mut left = query.limit.map_or(u64::MAX, |limit| limit as u64);
        if start >= end {
            // Only the revision is read.
            (start, left) = (self.probe(), 0);
        }
        let is_empty = left == 0 && query.limit != Some(0);
        let mut page = FIRST_PAGE;
        loop {
            let range_end = if is_empty { Vec::new() } else { end.clone() };
            let request = RangeRequest {
                key: start.clone(),
                range_end,
                limit: signed(left.min(page)),
                revision: requested(at),
                count_only: left == 0,
            };
            let response = self.read(|| format!("list {}", query.prefix), &request, at).await?;
            let revision = at.unwrap_or_else(|| Revision(revision_of(response.header.as_ref())));
            (range.revision, at) = (revision, Some(revision));
            let (found, bytes) = (response.kvs.len() as u64, response.kvs.iter().map(|kv| kv.value.len() as u64).sum());
            range.remaining = if is_empty { 0 } else { unsigned(response.count).saturating_sub(found) };
            left = left.saturating_sub(found);
            let last = response.kvs.last().map(|last| [&*last.key, b"\0"].concat());
            range.values.extend(response.kvs.into_iter().filter_map(|found| self.decode(found)));
            let Some(next) = last.filter(|_| left > 0 && range.remaining > 0) else { return Ok(range) };
            if next <= start {
                return Err(StorageError::Unavailable("etcd has returned keys before the requested ones".into()));
            }
            start = next;
            page = next_page(found, bytes);
        }
    }

    /// Decodes a value. Returns `None` for a key that is not text, which no server has written.
    fn decode(&self, found: KeyValue) -> Option<StoredValue> {
        let key = self.keys.to_server(&found.key);
        if key.is_none() {
            tracing::warn!(key = %String::from_utf8_lossy(&found.key), "ignoring a value, because its key is not UTF-8");
        }
        Some(value_of(key?, found))
    }

    async fn read(
        &self,
        operation: impl Fn() -> String,
        request: &RangeRequest,
        at: Option<Revision>,
    ) -> Result<RangeResponse, StorageError> {
        match self.cluster.call(operation, RANGE, request).await {
            Ok(response) => Ok(response),
            Err(error) => Err(self.failure(error, at).await),
        }
    }

    /// Converts the error of an operation at a revision.
    pub(crate) async fn failure(&self, error: EtcdError, at: Option<Revision>) -> StorageError {
        let Some((status, at)) = error.status().zip(at) else { return error.into() };
        if status.is_compacted() {
            return StorageError::Compacted { oldest: self.oldest().await.unwrap_or(at.next()) };
        }
        if status.is_future() {
            return match self.revision().await {
                Ok(current) => StorageError::Future { requested: at, current },
                Err(error) => error,
            };
        }
        error.into()
    }

    /// Returns the oldest revision. etcd reports it only to a watch that starts before it.
    async fn oldest(&self) -> Option<Revision> {
        let found = async {
            let connection = self.cluster.connection().await.ok()?;
            let create = WatchCreateRequest { key: self.probe(), start_revision: 1, ..WatchCreateRequest::default() };
            let (requests, receiver) = mpsc::channel(1);
            requests.try_send(frame(&WatchRequest { command: Some(WatchCommand::Create(create)) })).ok()?;
            let mut responses = connection.stream(WATCH, receiver).await.ok()?;
            loop {
                let response: Result<WatchResponse, CallError> = decode(responses.next().await.ok()??);
                match response.ok()?.compact_revision {
                    0 => {}
                    oldest => return Some(Revision(unsigned(oldest))),
                }
            }
        };
        time::timeout(OLDEST_LIMIT, found).await.ok()?
    }
}

/// Returns the revision of a request. 0 stands for the current one.
fn requested(at: Option<Revision>) -> i64 {
    at.map_or(0, |at| signed(at.0.max(1)))
}

/// Returns the number of keys of the next page, after one with this many keys and bytes.
fn next_page(keys: u64, bytes: u64) -> u64 {
    (PAGE_BYTES.saturating_mul(keys) / bytes.max(1)).clamp(1, LARGEST_PAGE)
}

pub(crate) fn value_of(key: Arc<str>, found: KeyValue) -> StoredValue {
    StoredValue {
        key,
        body: Bytes::from(found.value),
        created: Revision(unsigned(found.create_revision)),
        modified: Revision(unsigned(found.mod_revision)),
        is_stale: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bounded_in_keys_and_bytes() {
        assert_eq!(next_page(500, 0), LARGEST_PAGE);
        assert_eq!(next_page(500, 500 * 1024), 8192);
        assert_eq!(next_page(500, 500 << 20), 8);
        assert_eq!(next_page(1, 64 << 20), 1);
    }
}
