//! Group commit: one thread writes all commits that wait, in one transaction, and then publishes them.
//!
//! While a batch is written to disk, the next one collects. A reader sees a commit, and a client gets its result, only
//! after the batch is on disk.
//!
//! If a write fails, it is unknown how much of it is on disk. All waiting and all later commits then fail, and reads
//! continue with the state before. Only a new start finds out.

use std::{
    mem,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use tokio::{
    sync::{OwnedMutexGuard, oneshot},
    time::Instant,
};
use windlass_server::storage::{CommitError, Committed, Revision, StorageError, StorageEvent, StoredValue};

use super::{
    Shared,
    database::{Batch, DatabaseError},
    record::{Record, RecordKind},
    view::Now,
};

/// The commits that wait for the writer.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    commits: Vec<Waiting>,
    compactions: Vec<oneshot::Sender<Result<(), StorageError>>>,
    failure: Option<Failure>,
    closed: bool,
    #[cfg(test)]
    batches: usize,
}

/// A checked commit.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) key: Arc<str>,
    /// The new body. `None` deletes the key.
    pub(super) body: Option<Bytes>,
    pub(super) lifetime: Option<Duration>,
    pub(super) previous: Option<StoredValue>,
    pub(super) done: oneshot::Sender<Result<Committed, CommitError>>,
    /// The turn of the key: no other commit of the key is checked until this one is published.
    pub(super) turn: OwnedMutexGuard<()>,
}

/// The storage takes no more commits.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("an earlier write to the disk failed, so the storage must be opened again")]
    Write(#[source] Arc<DatabaseError>),
    #[error("the writer of the storage has panicked")]
    Panic,
    #[error("the storage is closed")]
    Closed,
}

/// The maximum size of a batch. One commit always fits.
const BATCH_COMMITS: usize = 4096;
const BATCH_BYTES: usize = 16 << 20;

/// The number of commits that become visible at a time. Readers wait at most for these.
const PUBLISHED: usize = 64;

/// The number of commits that are trimmed with each batch.
const TRIMMED: usize = 4096;

/// The number of expired values that are deleted with each batch, and the pause before a value is tried again.
const EXPIRED: usize = 256;
const EXPIRED_RETRY: Duration = Duration::from_secs(1);

impl From<Failure> for StorageError {
    fn from(failure: Failure) -> Self {
        Self::Unavailable(Box::new(failure))
    }
}

impl Queue {
    /// Adds a commit.
    pub(super) fn commit(&self, waiting: Waiting) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        state.check()?;
        state.commits.push(waiting);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Asks the writer to remove compacted commits. The receiver gets the result.
    pub(super) fn compact(&self) -> Result<oneshot::Receiver<Result<(), StorageError>>, StorageError> {
        let (done, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        state.check()?;
        state.compactions.push(done);
        drop(state);
        self.changed.notify_one();
        Ok(receiver)
    }

    /// Returns an error if the storage takes no more commits.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.state.lock().check()
    }

    /// Ends the writer after the commits that are waiting.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Waits for commits and compactions, or until a time. Returns `None` when the queue is closed and empty.
    fn next(&self, until: Option<Instant>) -> Option<Work> {
        let mut state = self.state.lock();
        while state.commits.is_empty() && state.compactions.is_empty() {
            if state.closed {
                return None;
            }
            let Some(until) = until else {
                self.changed.wait(&mut state);
                continue;
            };
            if self.changed.wait_until(&mut state, until.into_std()).timed_out() {
                break;
            }
        }
        let mut size = 0;
        let fitting = state.commits.iter().take(BATCH_COMMITS).take_while(|waiting| {
            size += waiting.body.as_ref().map_or(0, Bytes::len);
            size <= BATCH_BYTES
        });
        let count = fitting.count().max(1).min(state.commits.len());
        let rest = state.commits.split_off(count);
        let commits = mem::replace(&mut state.commits, rest);
        #[cfg(test)]
        {
            state.batches += 1;
        }
        Some(Work { commits, compactions: mem::take(&mut state.compactions) })
    }

    #[cfg(test)]
    pub(super) fn batches(&self) -> usize {
        self.state.lock().batches
    }

    /// Fails all later commits, and returns the waiting ones.
    fn fail(&self, failure: &Failure) -> Work {
        let mut state = self.state.lock();
        state.failure = Some(failure.clone());
        Work { commits: mem::take(&mut state.commits), compactions: mem::take(&mut state.compactions) }
    }
}

impl State {
    fn check(&self) -> Result<(), Failure> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.closed => Err(Failure::Closed),
            None => Ok(()),
        }
    }
}

/// The work of one round.
struct Work {
    commits: Vec<Waiting>,
    compactions: Vec<oneshot::Sender<Result<(), StorageError>>>,
}

impl Work {
    fn fail(self, failure: &Failure) {
        // Receivers that are gone have lost interest, so errors of `send` are ignored.
        for waiting in self.commits {
            let _ = waiting.done.send(Err(StorageError::from(failure.clone()).into()));
        }
        for done in self.compactions {
            let _ = done.send(Err(failure.clone().into()));
        }
    }
}

/// Starts the writer. `garbage` contains commits to remove with the first batch.
pub(super) fn start(shared: Arc<Shared>, garbage: Vec<Revision>) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("windlass-disk".to_owned()).spawn(move || {
        let _guard = PanicGuard(Arc::clone(&shared));
        let oldest = shared.view.read().oldest();
        let mut writer = Writer { shared, garbage, oldest, compactions: Vec::new() };
        loop {
            let until = writer.next_round();
            let Some(mut work) = writer.shared.queue.next(until) else { break };
            writer.add_expired(&mut work.commits);
            if let Err(error) = writer.round(work) {
                writer.fail_compactions(&error);
                tracing::error!(error = &error as &dyn std::error::Error, "the storage takes no more writes");
                break;
            }
        }
    })
}

/// Fails the waiting commits if the writer panics.
struct PanicGuard(Arc<Shared>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.queue.fail(&Failure::Panic).fail(&Failure::Panic);
        }
    }
}

struct Writer {
    shared: Arc<Shared>,
    /// Commits that were trimmed from the view, and are to be removed with the next batch.
    garbage: Vec<Revision>,
    /// The oldest readable revision, as far as it is written.
    oldest: Revision,
    /// Waiting until all compacted commits are removed. Each round removes some, so commits don't wait for them.
    compactions: Vec<oneshot::Sender<Result<(), StorageError>>>,
}

impl Writer {
    /// Adds the deletion of some values whose lifetime has ended.
    fn add_expired(&self, commits: &mut Vec<Waiting>) {
        let now = Instant::now();
        let mut bytes = 0;
        for _ in 0..EXPIRED {
            if bytes >= BATCH_BYTES {
                return;
            }
            let Some((key, version)) = self.shared.view.write().take_expired(now) else { return };
            bytes += version.length as usize;
            let turn = self.shared.turn(&key).try_lock_owned();
            let value = turn.ok().and_then(|turn| Some((turn, self.shared.read_value(&key, version)?)));
            let Some((turn, value)) = value else {
                // The key is being written, or cannot be read at the moment.
                self.shared.view.write().expire_later(&key, version, now + EXPIRED_RETRY);
                continue;
            };
            let (done, _) = oneshot::channel();
            commits.push(Waiting { key, body: None, lifetime: None, previous: Some(value), done, turn });
        }
    }

    /// Writes and publishes one batch.
    fn round(&mut self, work: Work) -> Result<(), Failure> {
        let revision = self.shared.view.read().revision();
        let now = Now::read();
        let (batch, events) = self.batch(revision, &work.commits, now);
        if let Err(error) = self.shared.database.write(&batch) {
            let failure = Failure::Write(Arc::new(error));
            let later = self.shared.queue.fail(&failure);
            work.fail(&failure);
            later.fail(&failure);
            return Err(failure);
        }
        self.oldest = batch.oldest.unwrap_or(self.oldest);
        let is_trimmed = self.publish(&batch, &events, now);
        for (waiting, event) in work.commits.into_iter().zip(events) {
            let StorageEvent { revision, current, previous, .. } = event;
            let _ = waiting.done.send(Ok(Committed { revision, value: current, previous }));
            drop(waiting.turn);
        }
        self.compactions.extend(work.compactions);
        if is_trimmed && self.garbage.is_empty() && self.oldest == self.shared.view.read().oldest() {
            for done in self.compactions.drain(..) {
                let _ = done.send(Ok(()));
            }
        }
        Ok(())
    }

    fn fail_compactions(&mut self, failure: &Failure) {
        for done in self.compactions.drain(..) {
            let _ = done.send(Err(failure.clone().into()));
        }
    }

    /// Returns the time of the next round if there are no commits.
    fn next_round(&self) -> Option<Instant> {
        if self.compactions.is_empty() { self.shared.view.read().next_expiry() } else { Some(Instant::now()) }
    }

    /// Returns the transaction of some commits after a revision, and their events.
    fn batch(&mut self, mut revision: Revision, commits: &[Waiting], now: Now) -> (Batch, Vec<StorageEvent>) {
        let mut batch = Batch { commits: Vec::with_capacity(commits.len()), ..self.removals() };
        let mut events = Vec::with_capacity(commits.len());
        for Waiting { key, body, lifetime, previous, .. } in commits {
            revision = revision.next();
            let created = previous.as_ref().map_or(revision, |previous| previous.created);
            let expires = lifetime.map(|lifetime| now.millis_after(lifetime));
            let length = body.as_ref().map_or(0, |body| u32::try_from(body.len()).unwrap_or(u32::MAX));
            let kind = if body.is_some() { RecordKind::Put { created, expires, length } } else { RecordKind::Delete };
            let record = Record { revision, key: Arc::clone(key), kind };
            batch.commits.push((record, body.clone()));
            let current = body.as_ref().map(|body| StoredValue {
                key: Arc::clone(key),
                body: body.clone(),
                created,
                modified: revision,
                is_stale: false,
            });
            events.push(StorageEvent { revision, key: Arc::clone(key), current, previous: previous.clone() });
        }
        (batch, events)
    }

    /// Returns the removals for the next transaction.
    fn removals(&mut self) -> Batch {
        let garbage = mem::take(&mut self.garbage);
        let oldest = self.shared.view.read().oldest();
        Batch { commits: Vec::new(), garbage, oldest: Some(oldest).filter(|oldest| *oldest != self.oldest) }
    }

    /// Makes a batch visible that is on disk, and trims some compacted commits. Returns `true` if none are left.
    fn publish(&mut self, batch: &Batch, events: &[StorageEvent], now: Now) -> bool {
        for (record, body) in &batch.commits {
            if let Some(body) = body {
                self.shared.bodies.insert(record.revision, body.clone());
            }
        }
        for (commits, events) in batch.commits.chunks(PUBLISHED).zip(events.chunks(PUBLISHED)) {
            let mut woken = Vec::new();
            {
                let mut view = self.shared.view.write();
                for ((record, _), event) in commits.iter().zip(events) {
                    woken.extend(view.publish(record, event, now));
                }
            }
            for watcher in woken {
                watcher.wake();
            }
        }
        let is_trimmed = {
            let mut view = self.shared.view.write();
            view.expire(now.time);
            view.trim(TRIMMED, now.time, &mut self.garbage)
        };
        self.shared.bodies.remove(&self.garbage);
        is_trimmed
    }
}
