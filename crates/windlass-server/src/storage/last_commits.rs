//! The revisions of this server's last commits under some prefixes.
//!
//! A cache that follows the storage by a watch compares its progress with them, to include every commit that this server
//! has answered. With a storage in another process, events come later than the response to their commit.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Revision;

#[derive(Debug, Default)]
pub(crate) struct LastCommits {
    prefixes: &'static [&'static str],
    revisions: Box<[AtomicU64]>,
}

impl LastCommits {
    pub(crate) fn new(prefixes: &'static [&'static str]) -> Self {
        Self { prefixes, revisions: prefixes.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    /// Records a commit. Must be called before it is answered.
    pub(crate) fn record(&self, key: &str, revision: Revision) {
        for (prefix, last) in self.prefixes.iter().zip(&self.revisions) {
            if key.starts_with(prefix) {
                last.fetch_max(revision.0, Ordering::AcqRel);
            }
        }
    }

    /// Returns the revision of the last commit under the prefix with this index; 0 if there is none.
    pub(crate) fn last(&self, index: usize) -> Revision {
        Revision(self.revisions.get(index).map_or(0, |last| last.load(Ordering::Acquire)))
    }
}
