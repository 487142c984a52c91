//! The task that reads the values again that could not be decoded.
//!
//! Many values usually fail for one reason, for example because a KMS plugin does not run. So a pass tries only a few
//! values with the same reason, as long as all of them fail. The next pass begins with the keys after them, so that
//! values that stay unreadable do not hold up others.

use std::{collections::HashMap, sync::Arc, time::Duration, vec};

use futures::future;
use tokio::{
    task,
    time::{self, Instant},
};
use windlass_server::storage::{Replica, StorageError};

use super::Shared;
use crate::transform::{self, Transform};

/// The pauses before the first pass, and between passes that repair nothing. Each is twice the last one.
pub(super) const PAUSE_FIRST: Duration = Duration::from_secs(1);
pub(super) const PAUSE_LAST: Duration = Duration::from_secs(30);

/// The maximum number of values that are read at the same time. It is reached while no value fails.
const BATCH: usize = 32;

/// The number of values for one reason that a pass tries, if each of them fails.
pub(super) const FAILURES_OF_REASON: usize = 4;

/// The number of failures that ends a pass.
pub(super) const FAILURES: usize = 64;

/// The number of keys that are read from the copy together.
const PAGE: usize = 1024;

/// Tries the unreadable values of the copy again, with pauses.
pub(super) async fn run<T: Transform>(shared: Arc<Shared<T>>) {
    let mut last = Arc::from("");
    let mut pause = PAUSE_FIRST;
    loop {
        if shared.replica.unreadable_after("", 1).is_empty() {
            shared.unreadable.notified().await;
            pause = PAUSE_FIRST;
        }
        let begun = Instant::now();
        while time::timeout_at(begun + pause, shared.unreadable.notified()).await.is_ok() {
            pause = PAUSE_FIRST;
        }
        let mut pass = Pass::after(&last);
        pass.run(&shared).await;
        last = pass.keys.last;
        if pass.repaired > 0 {
            tracing::info!(values = pass.repaired, "values that could not be decoded can be read now");
            pause = PAUSE_FIRST;
        } else {
            pause = PAUSE_LAST.min(pause * 2);
        }
    }
}

/// One attempt with each key, or fewer.
struct Pass {
    keys: Keys,
    failures: HashMap<Arc<str>, usize>, // without a success since, by the reasons in the copy
    failed: usize,
    repaired: usize,
}

impl Pass {
    fn after(last: &Arc<str>) -> Self {
        Self { keys: Keys::after(last), failures: HashMap::new(), failed: 0, repaired: 0 }
    }

    async fn run<T: Transform>(&mut self, shared: &Shared<T>) {
        let mut limit = 1;
        while self.failed < FAILURES {
            let batch = self.next_batch(&shared.replica, limit).await;
            if batch.is_empty() {
                return;
            }
            let values = future::join_all(batch.iter().map(|(key, _)| shared.get_below(key, None))).await;
            limit = BATCH.min(limit * 2);
            for ((key, reason), value) in batch.into_iter().zip(values) {
                match value {
                    Ok((revision, value)) => {
                        // The copy must know all deletions before.
                        if value.is_none() && !shared.reach(revision).await {
                            return;
                        }
                        self.repaired += usize::from(shared.replica.repair(&key, revision, value));
                        self.failures.remove(&reason);
                    }
                    Err(error @ StorageError::Unreadable { .. }) => {
                        tracing::debug!(%key, reason = transform::reason(error), "a value still cannot be decoded");
                        *self.failures.entry(reason).or_default() += 1;
                        self.failed += 1;
                        limit = 1;
                    }
                    Err(error) => {
                        tracing::debug!(error = &error as &dyn std::error::Error, "the storage cannot be read");
                        return;
                    }
                }
            }
        }
    }

    async fn next_batch(&mut self, replica: &Replica, limit: usize) -> Vec<(Arc<str>, Arc<str>)> {
        let mut batch = Vec::with_capacity(limit);
        while batch.len() < limit
            && let Some((key, reason)) = self.keys.next(replica).await
        {
            if self.failures.get(&reason).is_none_or(|failures| *failures < FAILURES_OF_REASON) {
                self.keys.last = Arc::clone(&key);
                batch.push((key, reason));
            }
        }
        batch
    }
}

/// The unreadable keys, beginning after one of them, and ending with it.
struct Keys {
    first: Arc<str>,
    last: Arc<str>, // the last one that was tried
    page: vec::IntoIter<(Arc<str>, Arc<str>)>,
    read: Arc<str>, // the last one of the page
    has_wrapped: bool,
}

impl Keys {
    fn after(first: &Arc<str>) -> Self {
        let [first, last, read] = [first, first, first].map(Arc::clone);
        Self { first, last, page: Vec::new().into_iter(), read, has_wrapped: false }
    }

    async fn next(&mut self, replica: &Replica) -> Option<(Arc<str>, Arc<str>)> {
        loop {
            if let Some(next) = self.page.next() {
                return Some(next).filter(|(key, _)| !self.has_wrapped || *key <= self.first);
            }
            // Skipping many keys must not block the thread.
            task::yield_now().await;
            let page = replica.unreadable_after(&self.read, PAGE);
            match page.last() {
                Some((key, _)) => self.read = Arc::clone(key),
                None if self.has_wrapped => return None,
                None => {
                    self.has_wrapped = true;
                    self.read = Arc::from("");
                }
            }
            self.page = page.into_iter();
        }
    }
}
