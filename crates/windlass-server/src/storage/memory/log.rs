//! The log of retained events, and the watches that wait for new ones.

use std::{collections::VecDeque, sync::Arc};

use tokio::time::Instant;

use super::{Capacity, Delivery, Discarded, Retention, Revision, StorageError, StorageEvent};
use crate::storage::mailbox::Mailbox;

/// The cost of an event without bodies: the event, its log entry and a version in the index.
const EVENT_BYTES: usize = 320;

#[derive(Debug)]
pub(super) struct Log {
    events: VecDeque<Arc<Delivery>>,     // in revision order, without progress
    progress: Revision,                  // `events` are complete up to this revision
    reported: Revision,                  // the last progress that all watchers know
    bytes: usize,                        // the size of `events` without live bodies, see `history_bytes`
    oldest: Revision,                    // events up to it are inaccessible, but may exist until trimmed
    ages: VecDeque<(Instant, Revision)>, // the time and revision of the first event of each part, see `AGES`
    retention: Retention,
    watchers: Vec<Arc<Watcher>>,
}

/// The number of parts of the retention period. The log records the time of the first event in each part. All events of
/// a part are removed together when the last one is too old.
const AGES: u32 = 30;

/// The log's view of a watch.
#[derive(Debug)]
pub(super) struct Watcher {
    prefix: Box<str>,
    after: Revision,
    pub(super) mailbox: Mailbox<Arc<Delivery>>,
}

impl Watcher {
    pub(super) fn new(prefix: &str, after: Revision, capacity: Capacity) -> Self {
        Self { prefix: prefix.into(), after, mailbox: Mailbox::new(capacity) }
    }

    fn matches(&self, event: &Delivery) -> bool {
        event.revision() > self.after && event.key().is_none_or(|key| key.starts_with(&*self.prefix))
    }
}

impl Log {
    pub(super) fn new(retention: Retention) -> Self {
        let (events, ages) = (VecDeque::new(), VecDeque::new());
        let start = Revision(1);
        let (progress, reported, oldest) = (start, start, start);
        Self { events, progress, reported, bytes: 0, oldest, ages, retention, watchers: Vec::new() }
    }

    /// Creates a log whose history begins after a revision.
    pub(super) fn after(retention: Retention, revision: Revision) -> Self {
        Self { progress: revision, reported: revision, oldest: revision, ..Self::new(retention) }
    }

    /// Appends the next event. Returns the watchers to wake.
    pub(super) fn append(
        &mut self,
        event: Arc<Delivery>,
        now: Instant,
        backlogs: &mut Vec<Discarded<Arc<Delivery>>>,
    ) -> Vec<Arc<Watcher>> {
        let woken = self.put(&event, backlogs);
        self.bytes += history_bytes(&event);
        if self.ages.back().is_none_or(|(at, _)| now.duration_since(*at) >= self.retention.age / AGES) {
            self.ages.push_back((now, event.revision()));
        }
        self.events.push_back(event);
        woken
    }

    /// Replaces the item of a key at a revision, for later watches.
    pub(super) fn replace(&mut self, revision: Revision, key: &str, replace: impl FnOnce(&Delivery) -> Delivery) {
        let first = self.events.partition_point(|event| event.revision() < revision);
        let mut events = self.events.range_mut(first..).take_while(|event| event.revision() == revision);
        if let Some(event) = events.find(|event| event.key().is_some_and(|other| **other == *key)) {
            self.bytes -= history_bytes(event);
            *event = Arc::new(replace(event));
            self.bytes += history_bytes(event);
        }
    }

    /// Delivers an event or progress. Returns the watchers to wake.
    pub(super) fn put(
        &mut self,
        event: &Arc<Delivery>,
        backlogs: &mut Vec<Discarded<Arc<Delivery>>>,
    ) -> Vec<Arc<Watcher>> {
        let mut woken = Vec::new();
        let cost = match &**event {
            Delivery::Event { event: StorageEvent { current, previous, .. }, .. } => {
                body_bytes(current.as_ref()) + body_bytes(previous.as_ref()) + EVENT_BYTES
            }
            Delivery::Progress(_) | Delivery::Unreadable { .. } => EVENT_BYTES,
        };
        self.progress = event.progress().max(self.progress);
        if matches!(**event, Delivery::Progress(_)) {
            self.reported = self.progress;
        }
        self.watchers.retain(|watcher| {
            if !watcher.matches(event) {
                return true;
            }
            woken.push(Arc::clone(watcher));
            match watcher.mailbox.put(Arc::clone(event), cost) {
                Ok(()) => true,
                Err(backlog) => {
                    backlogs.push(backlog);
                    false
                }
            }
        });
        woken
    }

    /// Delivers the progress to watchers that do not know it, because the last events were not for them. Returns the
    /// watchers to wake.
    pub(super) fn report_progress(&mut self, backlogs: &mut Vec<Discarded<Arc<Delivery>>>) -> Vec<Arc<Watcher>> {
        if self.reported >= self.progress {
            return Vec::new();
        }
        self.put(&Arc::new(Delivery::Progress(self.progress)), backlogs)
    }

    /// Adds a watcher. Returns the events that it has missed.
    pub(super) fn register(&mut self, watcher: &Arc<Watcher>) -> Result<Vec<Arc<Delivery>>, StorageError> {
        if watcher.after < self.oldest {
            return Err(StorageError::Compacted { oldest: self.oldest });
        }
        let first_missed = self.events.partition_point(|event| event.revision() <= watcher.after);
        let replay = self.events.range(first_missed..).filter(|event| watcher.matches(event)).cloned().collect();
        self.watchers.push(Arc::clone(watcher));
        Ok(replay)
    }

    /// Returns the revision up to which the events are complete.
    pub(super) fn progress(&self) -> Revision {
        self.progress
    }

    pub(super) fn unregister(&mut self, watcher: &Arc<Watcher>) {
        self.watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    pub(super) fn take_watchers(&mut self) -> Vec<Arc<Watcher>> {
        std::mem::take(&mut self.watchers)
    }

    pub(super) fn is_over_budget(&self, live_bytes: usize, now: Instant) -> bool {
        self.events.len() > self.retention.events
            || self.bytes > self.retention.max_bytes(live_bytes)
            || self.last_expired_revision(now).is_some()
    }

    /// Returns the last revision that is too old, if its events still exist.
    fn last_expired_revision(&self, now: Instant) -> Option<Revision> {
        let age = self.retention.age;
        let (began, _) = self.ages.front()?;
        let (_, next) = self.ages.get(1)?;
        (now.duration_since(*began) > age.saturating_add(age / AGES)).then(|| next.previous())
    }

    /// Returns the oldest revision that the retention policy allows.
    pub(super) fn oldest_within_budget(&mut self, live_bytes: usize, now: Instant) -> Revision {
        let max_bytes = self.retention.max_bytes(live_bytes);
        let (mut count, mut bytes) = (self.events.len(), self.bytes);
        let mut oldest = self.oldest;
        while let Some(revision) = self.last_expired_revision(now) {
            oldest = oldest.max(revision);
            self.ages.pop_front();
        }
        for event in &self.events {
            if event.revision() > oldest {
                if count <= self.retention.events && bytes <= max_bytes {
                    break;
                }
                oldest = event.revision();
            }
            count -= 1;
            bytes -= history_bytes(event);
        }
        oldest
    }

    /// Prevents watches after older revisions. [`pop_compacted`](Self::pop_compacted) removes the events.
    pub(super) fn forget_before(&mut self, oldest: Revision) {
        self.oldest = self.oldest.max(oldest);
    }

    /// Removes and returns the oldest event if it was compacted.
    pub(super) fn pop_compacted(&mut self) -> Option<Arc<Delivery>> {
        let event = self.events.pop_front_if(|event| event.revision() <= self.oldest)?;
        self.bytes -= history_bytes(&event);
        Some(event)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    #[cfg(test)]
    pub(super) fn watchers(&self) -> usize {
        self.watchers.len()
    }
}

fn body_bytes(value: Option<&super::StoredValue>) -> usize {
    value.map_or(0, |value| value.body.len())
}

/// Returns the cost of keeping an event: the body that it replaced, which only history holds, and a fixed part. The new
/// body is either live or counted with the next event of its key.
fn history_bytes(event: &Delivery) -> usize {
    let previous = match event {
        Delivery::Event { event, .. } => body_bytes(event.previous.as_ref()),
        Delivery::Progress(_) | Delivery::Unreadable { .. } => 0,
    };
    previous + EVENT_BYTES
}
