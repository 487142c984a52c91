//! Paged lists in progress. The versions for their next pages are kept even after compaction.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::Revision;

/// The maximum pause of a list between two pages.
pub(super) const BETWEEN_PAGES: Duration = Duration::from_mins(5);

/// The maximum time from the first page to the last one. An API server over etcd loses the revision of a list after five
/// to ten minutes. Without this limit, a client could keep a revision by reading a page again and again.
pub(super) const LONGEST: Duration = Duration::from_mins(8);

/// The time for which the last page can be read again by a client that has lost it.
pub(super) const AFTER_LAST_PAGE: Duration = Duration::from_secs(10);

/// The number of pages of a revision whose remaining count is kept, for lists of this revision that run at the same
/// time. The next page of another list is counted again.
const COUNTED_PAGES: usize = 32;

/// The maximum number of lists. Each slows down compaction a little.
const MAX_PINS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Pins {
    pins: Vec<Pin>,
    bytes: usize,            // the size that all pins keep; bodies kept by several pins count several times
    released: Vec<Arc<str>>, // keys to trim, from evicted pins
}

/// A pinned revision at which the keys under a prefix can be read.
#[derive(Debug)]
struct Pin {
    revision: Revision,
    prefix: Box<str>,
    until: Instant,
    /// The latest value of `until`.
    latest: Instant,
    /// The keys with a compacted version that is kept for `revision`, at most one for each key, and the size of its
    /// body.
    kept: HashMap<Arc<str>, usize>,
    bytes: usize,
    /// The last keys of pages, and the numbers of values after them.
    counts: VecDeque<(Arc<str>, u64)>,
}

impl Pins {
    pub(super) fn contains_list(&self, revision: Revision, prefix: &str) -> bool {
        self.pins.iter().any(|pin| pin.revision == revision && prefix.starts_with(&*pin.prefix))
    }

    /// Pins the revision of a list that has more pages. It is the current one if the list begins, and it must be
    /// readable.
    pub(super) fn pin_list(&mut self, revision: Revision, prefix: &str, begins: bool, now: Instant) {
        if let Some(pin) = self.find(revision, prefix) {
            if begins {
                pin.latest = now + LONGEST;
            }
            pin.until = pin.latest.min(now + BETWEEN_PAGES);
            return;
        }
        if self.pins.len() >= MAX_PINS {
            let oldest = self.remove_oldest();
            self.released.extend(oldest);
        }
        let (until, latest) = (now + BETWEEN_PAGES, now + LONGEST);
        self.pins.push(Pin {
            revision,
            prefix: prefix.into(),
            until,
            latest,
            kept: HashMap::new(),
            bytes: 0,
            counts: VecDeque::new(),
        });
    }

    /// Records the number of values after the last key of a page, which the next page of its list needs. Without it, the
    /// keys that were created or deleted since would be visited for each page.
    pub(super) fn record_count(&mut self, revision: Revision, prefix: &str, last: &Arc<str>, remaining: u64) {
        let Some(pin) = self.find(revision, prefix) else { return };
        if pin.counts.iter().any(|(key, _)| key == last) {
            return;
        }
        if pin.counts.len() >= COUNTED_PAGES {
            pin.counts.pop_front();
        }
        pin.counts.push_back((Arc::clone(last), remaining));
    }

    /// Returns the number of values that a page and all pages after it have, if it is known. `start` is the start of the
    /// page.
    pub(super) fn count_from(&mut self, revision: Revision, prefix: &str, start: &str) -> Option<u64> {
        let last = start.strip_suffix('\0')?;
        let pin = self.find(revision, prefix)?;
        pin.counts.iter().find(|(key, _)| **key == *last).map(|(_, remaining)| *remaining)
    }

    /// Forgets all counts, because values of past revisions have been added.
    pub(super) fn forget_counts(&mut self) {
        self.pins.iter_mut().for_each(|pin| pin.counts.clear());
    }

    /// Shortens the pin of a completed list. It is not extended by reading the last page again.
    pub(super) fn shorten_pin(&mut self, revision: Revision, prefix: &str, now: Instant) {
        if let Some(pin) = self.find(revision, prefix) {
            pin.until = pin.until.min(now + AFTER_LAST_PAGE);
        }
    }

    /// Reports whether a version of a key that is visible at `revisions` must be kept.
    pub(super) fn must_keep(&mut self, key: &Arc<str>, revisions: Range<Revision>, bytes: usize) -> bool {
        let mut kept = false;
        for pin in &mut self.pins {
            if revisions.contains(&pin.revision) && key.starts_with(&*pin.prefix) {
                kept = true;
                if pin.kept.insert(Arc::clone(key), bytes).is_none() {
                    pin.bytes += bytes;
                    self.bytes += bytes;
                }
            }
        }
        kept
    }

    /// Removes an expired pin, or the oldest one if the pins keep too much. Returns the keys to trim.
    pub(super) fn remove_excess(&mut self, max_bytes: usize, now: Instant) -> Option<Vec<Arc<str>>> {
        if !self.released.is_empty() {
            return Some(std::mem::take(&mut self.released));
        }
        if let Some(over) = self.pins.iter().position(|pin| pin.until <= now) {
            return Some(self.remove(over));
        }
        (self.bytes > max_bytes).then(|| self.remove_oldest())
    }

    /// Removes a pin of an older revision. Returns the keys to trim.
    pub(super) fn remove_before(&mut self, revision: Revision) -> Option<Vec<Arc<str>>> {
        let older = self.pins.iter().position(|pin| pin.revision < revision)?;
        Some(self.remove(older))
    }

    fn remove_oldest(&mut self) -> Vec<Arc<str>> {
        let oldest = self.pins.iter().enumerate().min_by_key(|(_, pin)| pin.revision).map(|(at, _)| at);
        oldest.map_or_else(Vec::new, |oldest| self.remove(oldest))
    }

    fn remove(&mut self, at: usize) -> Vec<Arc<str>> {
        let pin = self.pins.swap_remove(at);
        self.bytes -= pin.bytes;
        pin.kept.into_keys().collect()
    }

    fn find(&mut self, revision: Revision, prefix: &str) -> Option<&mut Pin> {
        self.pins.iter_mut().find(|pin| pin.revision == revision && *pin.prefix == *prefix)
    }
}
