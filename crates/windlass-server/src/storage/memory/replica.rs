//! A copy of another storage in memory.

use std::{fmt, mem, sync::Arc};

use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::{
    CompactRange, Delivery, Effects, EventStream, Found, Index, Log, Range, RangeQuery, Retention, Revision,
    StorageError, StorageEvent, Store, StoredValue, Version, WATCH_CAPACITY, unreadable::Unreadable,
};

#[cfg(test)]
mod tests;

/// The values and the recent history of another storage, in memory. Clones share them.
///
/// The owner reads that storage and passes everything on: first all values, then the items of a watch of all keys.
///
/// Guaranteed: each read and each watch behaves as that of a storage whose current revision is [`Self::revision`], and
/// whose history before [`Self::oldest`] is compacted. A revision becomes visible with all of its events.
///
/// A value that could not be decoded is missing here. Reading it, or a range with it, is an error, and so is its event.
/// The owner then reads from the other storage. It can add the value later with [`Self::repair`].
#[derive(Clone)]
pub struct Replica {
    store: Arc<Store>,
    shared: Arc<Shared>,
}

struct Shared {
    position: watch::Sender<Revision>,
    /// Locked after the index and the log. In the index, these values are deletions, or missing.
    unreadable: Mutex<Unreadable>,
}

impl Replica {
    /// Creates a copy of `values`, which are all values of the other storage at one revision, in key order. `unreadable`
    /// are the keys of the values that could not be decoded, and the reasons.
    #[must_use]
    pub fn new(retention: Retention, values: Range, unreadable: Vec<(Arc<str>, String)>) -> Self {
        let store = Store::new(retention, WATCH_CAPACITY);
        let (position, _) = watch::channel(Revision(0));
        let shared = Shared { position, unreadable: Mutex::default() };
        let replica = Self { store: Arc::new(store), shared: Arc::new(shared) };
        replica.reset(values, unreadable);
        replica
    }

    /// Replaces everything. The history starts with these values, and all watches end with [`StorageError::Lagged`].
    pub fn reset(&self, values: Range, unreadable: Vec<(Arc<str>, String)>) {
        let Range { revision, values, .. } = values;
        let unreadable = Unreadable::at(revision, unreadable);
        let (mut index, mut log) = (Index::of(values, revision), Log::after(self.store.retention, revision));
        {
            let mut current = self.store.index.write();
            mem::swap(&mut *current, &mut index);
            mem::swap(&mut *self.store.log.lock(), &mut log);
            *self.shared.unreadable.lock() = unreadable;
            self.shared.position.send_replace(revision);
        }
        for watcher in log.take_watchers() {
            drop(watcher.mailbox.close());
            watcher.mailbox.wake();
        }
    }

    /// Applies items of a watch of all keys after [`Self::revision`]. Their last revision must be complete. Events need
    /// no previous values.
    pub fn apply(&self, items: impl IntoIterator<Item = Delivery>) {
        let mut effects = Effects::default();
        {
            let mut index = self.store.index.write();
            let mut log = self.store.log.lock();
            let now = Instant::now();
            for item in items {
                let item = match item {
                    Delivery::Event { event, completes } => self.put_event(&mut index, event, completes),
                    Delivery::Unreadable { key, revision, completes, reason } => {
                        let key = index.shared_key(&key);
                        index.put(Version::of(&key, None, revision));
                        self.shared.unreadable.lock().insert(&key, revision, &reason);
                        Delivery::Unreadable { key, revision, completes, reason }
                    }
                    Delivery::Progress(revision) => {
                        if revision > log.progress() {
                            let item = Arc::new(Delivery::Progress(revision));
                            effects.woken.extend(log.put(&item, &mut effects.freed.backlogs));
                        }
                        continue;
                    }
                };
                effects.woken.extend(log.append(Arc::new(item), now, &mut effects.freed.backlogs));
            }
            index.advance(log.progress());
            effects.freed.trim_excess(&mut index, &mut log, now);
            index.unpin_excess(self.store.retention.pages, now, &mut effects.freed.versions);
            self.shared.unreadable.lock().forget_before(index.oldest());
            self.shared.position.send_replace(index.revision());
            effects.packs = index.plain_bytes() > self.store.plain_budget;
        }
        for watcher in &effects.woken {
            watcher.mailbox.wake();
        }
        self.store.pack_cold(&effects);
    }

    /// Reports the progress to all watches that do not know it. Events of other keys do not. It costs little if there is no
    /// progress, so that many waiting readers can request it.
    pub fn report_progress(&self) {
        let mut freed = super::Freed::default();
        let woken = self.store.log.lock().report_progress(&mut freed.backlogs);
        for watcher in woken {
            watcher.mailbox.wake();
        }
    }

    /// Stores the new value of an event, and completes the event with the previous one.
    fn put_event(&self, index: &mut Index, event: StorageEvent, completes: bool) -> Delivery {
        let StorageEvent { revision, key, current, .. } = event;
        let key = index.shared_key(&key);
        let previous = index.latest(&key).map(|value| index.stored(value));
        let current = current.map(|value| StoredValue { key: Arc::clone(&key), ..value });
        index.put(Version::of(&key, current.clone(), revision));
        if let Some(reason) = self.shared.unreadable.lock().replace(&key, revision) {
            return Delivery::Unreadable { key, revision, completes, reason: of_previous(&reason) };
        }
        Delivery::Event { event: StorageEvent { revision, key, current, previous }, completes }
    }

    /// Adds a value that could not be decoded before. `value` is the one that the other storage has at `revision`. The
    /// event that wrote it becomes readable, too, if its previous value is.
    ///
    /// Does nothing and returns `false` if the latest value of the key is readable, or is another one. Earlier values of
    /// the key stay unreadable until their history is removed.
    pub fn repair(&self, key: &str, revision: Revision, value: Option<StoredValue>) -> bool {
        let mut index = self.store.index.write();
        let mut log = self.store.log.lock();
        let mut unreadable = self.shared.unreadable.lock();
        let Some(since) = unreadable.since(key).filter(|since| *since <= revision) else { return false };
        let is_same = match &value {
            Some(value) => value.modified <= since,
            // A later event would have reported another deletion.
            None => revision <= index.revision(),
        };
        if !is_same {
            return false;
        }
        let key = index.shared_key(key);
        let current = value.map(|value| StoredValue { key: Arc::clone(&key), ..value });
        unreadable.remove(&key);
        if let Some(value) = &current {
            index.restore(value.clone());
        }
        if since > index.oldest() {
            let before = since.previous();
            let unknown = unreadable.reason(&key, before).map(|reason| of_previous(reason));
            let previous = index.get(&key, before).map(|value| index.stored(value));
            log.replace(since, &key, |unread| {
                let (key, completes) = (Arc::clone(&key), unread.progress() == since);
                match unknown {
                    None => {
                        Delivery::Event { event: StorageEvent { revision: since, key, current, previous }, completes }
                    }
                    Some(reason) => Delivery::Unreadable { key, revision: since, completes, reason },
                }
            });
        }
        true
    }

    /// Returns keys after `after` whose values could not be decoded, at most `limit`, and the reasons, in key order.
    #[must_use]
    pub fn unreadable_after(&self, after: &str, limit: usize) -> Vec<(Arc<str>, Arc<str>)> {
        self.shared.unreadable.lock().keys_after(after, limit)
    }

    /// Returns the current revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.store.index.read().revision()
    }

    /// Returns the oldest readable revision.
    #[must_use]
    pub fn oldest(&self) -> Revision {
        self.store.index.read().oldest()
    }

    /// Waits until a revision is current. Waits forever if the owner does not pass it on.
    pub async fn wait_for(&self, revision: Revision) {
        let mut position = self.shared.position.subscribe();
        // Cannot fail, because `self` holds the sender.
        let _ = position.wait_for(|position| *position >= revision).await;
    }

    /// Returns the value of `key` and the revision at which it was read.
    ///
    /// # Errors
    /// If the revision or the value cannot be read.
    pub fn get(&self, key: &str, at: Option<Revision>) -> Result<(Revision, Option<StoredValue>), StorageError> {
        let index = self.store.index.read();
        let revision = index.readable(at)?;
        self.shared.unreadable.lock().check_key(key, revision)?;
        Ok((revision, index.get(key, revision).map(|value| index.stored(value))))
    }

    /// Returns the body of `key` that was written at a revision, if it is in the history.
    #[must_use]
    pub fn version(&self, key: &str, modified: Revision) -> Option<StoredValue> {
        let index = self.store.index.read();
        index.get(key, modified).filter(|value| value.modified == modified).map(|value| index.stored(value))
    }

    /// Returns the values under a prefix, in key order, like [`Storage::range`](super::super::Storage::range).
    ///
    /// # Errors
    /// If the revision or one of the values under the prefix cannot be read.
    pub fn range(&self, query: &RangeQuery) -> Result<Range, StorageError> {
        Ok(self.found(query)?.into_stored())
    }

    /// Returns the values under a prefix, like [`Storage::range_compact`](super::super::Storage::range_compact).
    ///
    /// # Errors
    /// If the revision or one of the values under the prefix cannot be read.
    pub fn range_compact(&self, query: &RangeQuery) -> Result<CompactRange, StorageError> {
        Ok(self.found(query)?.into_compact())
    }

    fn found(&self, query: &RangeQuery) -> Result<Found, StorageError> {
        // At a past revision, values only become readable.
        self.store.range(query, |revision| self.shared.unreadable.lock().check(&query.prefix, revision))
    }

    /// Reports whether there is no value under a prefix, not even one that could not be decoded.
    #[must_use]
    pub fn is_empty_below(&self, prefix: &str) -> bool {
        let index = self.store.index.read();
        let Ok(revision) = index.readable(None) else { return false };
        index.is_empty_below(prefix) && self.shared.unreadable.lock().check(prefix, revision).is_ok()
    }

    /// Watches the events under a prefix, like [`Storage::watch`](super::super::Storage::watch). After the history, the
    /// watch reports its progress.
    ///
    /// # Errors
    /// If the history does not reach back to `after`.
    pub fn watch(&self, prefix: &str, after: Revision) -> Result<EventStream, StorageError> {
        Ok(self.store.watch_reporting(prefix, after)?.boxed())
    }

    /// Removes the history before `upto`, at most up to the current revision.
    pub fn compact(&self, upto: Revision) {
        let upto = upto.min(self.revision());
        // Cannot fail, because the revision only grows.
        let _ = self.store.compact(upto);
        let index = self.store.index.read();
        self.shared.unreadable.lock().forget_before(index.oldest());
    }
}

/// Returns the reason why an event is unreadable whose previous value is.
fn of_previous(reason: &str) -> String {
    format!("the previous value is unreadable: {reason}")
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("revision", &self.revision()).field("oldest", &self.oldest()).finish()
    }
}
