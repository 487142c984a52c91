//! The bodies of the commits: recent and often read ones in memory, up to a budget, all on disk.

use std::sync::Arc;

use bytes::Bytes;
use quick_cache::{Weighter, sync::Cache};
use tokio::{sync::Semaphore, task};
use windlass_server::storage::{Revision, StorageError};

use super::database::{Database, DatabaseError, READERS};

pub(super) struct Bodies {
    database: Arc<Database>,
    cache: Cache<Revision, Bytes, Weight>,
    /// For threads that read from disk, so that they leave others to the rest of the process.
    readers: Semaphore,
}

#[derive(Clone, Debug)]
struct Weight;

/// The size of an entry of the cache without its body.
const ENTRY: u64 = 64;

impl Weighter<Revision, Bytes> for Weight {
    fn weight(&self, _: &Revision, body: &Bytes) -> u64 {
        body.len() as u64 + ENTRY
    }
}

/// An estimate for the cache.
const BODY: u64 = 1024;

impl Bodies {
    pub(super) fn new(database: Arc<Database>, budget: u64) -> Self {
        let entries = usize::try_from(budget / BODY).unwrap_or(usize::MAX);
        Self { database, cache: Cache::with_weighter(entries, budget, Weight), readers: Semaphore::new(READERS) }
    }

    /// Adds the body of a new commit.
    pub(super) fn insert(&self, revision: Revision, body: Bytes) {
        self.cache.insert(revision, body);
    }

    /// Removes the bodies of removed commits.
    pub(super) fn remove(&self, revisions: &[Revision]) {
        for revision in revisions {
            self.cache.remove(revision);
        }
    }

    /// Returns the body of a commit. The caller prevents that the commit is trimmed meanwhile.
    pub(super) async fn get(&self, revision: Revision) -> Result<Bytes, StorageError> {
        if let Some(body) = self.cache.get(&revision) {
            return Ok(body);
        }
        let mut bodies = self.read(vec![revision]).await?;
        Ok(bodies.pop().unwrap_or_default())
    }

    /// Like [`get`](Self::get), for threads that may wait for the disk.
    pub(super) fn get_blocking(&self, revision: Revision) -> Result<Bytes, DatabaseError> {
        self.cache.get(&revision).map_or_else(|| self.database.body(revision), Ok)
    }

    /// Returns the bodies of commits, in the same order.
    pub(super) async fn get_all(&self, revisions: &[Revision]) -> Result<Vec<Bytes>, StorageError> {
        let mut found: Vec<Option<Bytes>> = revisions.iter().map(|revision| self.cache.get(revision)).collect();
        let missing = found.iter().zip(revisions).filter(|(body, _)| body.is_none());
        let missing: Vec<Revision> = missing.map(|(_, revision)| *revision).collect();
        if !missing.is_empty() {
            let mut read = self.read(missing).await?.into_iter();
            for body in found.iter_mut().filter(|body| body.is_none()) {
                *body = read.next();
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads bodies from disk, on a thread that may wait for it.
    async fn read(&self, revisions: Vec<Revision>) -> Result<Vec<Bytes>, StorageError> {
        // The semaphore is never closed.
        let _reader = self.readers.acquire().await;
        let database = Arc::clone(&self.database);
        let reading = task::spawn_blocking(move || {
            let bodies = revisions.iter().map(|revision| database.body(*revision));
            bodies.collect::<Result<Vec<Bytes>, DatabaseError>>().map(|bodies| (revisions, bodies))
        });
        let unavailable = |error| StorageError::Unavailable(error);
        let read = reading.await.map_err(|error| unavailable(Box::new(error)))?;
        let (revisions, bodies) = read.map_err(|error| unavailable(Box::new(error)))?;
        for (revision, body) in revisions.iter().zip(&bodies) {
            self.cache.insert(*revision, body.clone());
        }
        Ok(bodies)
    }
}
