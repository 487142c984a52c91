//! The writes of a journal that an informer does not show yet.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use windlass_api::{FieldSelector, LabelSelector, ObjectKey, ResourceVersion};

use crate::{
    cached::Untyped,
    options::Selectors,
    store::Store,
    write_journal::{RETENTION, Write, WriteEffect, WriteJournal},
};

/// The objects that are about to be read.
#[derive(Clone, Copy, Debug)]
pub enum Reads<'r> {
    /// One object.
    Object(&'r ObjectKey),
    /// The objects of a namespace.
    Namespace(&'r str),
    /// All objects.
    All,
}

/// The part of a journal that one informer has seen.
pub(crate) struct JournalReader {
    journal: WriteJournal,
    /// The number of the last write up to which the informer shows all writes.
    seen: AtomicU64,
    selected: Selected,
}

/// The objects that an informer holds.
#[derive(Clone, Debug, Default)]
struct Selected {
    namespace: Option<String>,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
}

// === impl Write ===

impl Write {
    /// Reports whether a store shows this write or a newer state.
    pub(crate) fn is_shown(&self, store: &Store<Untyped>, is_selected: bool) -> bool {
        let found = store.get(&self.key);
        match &self.effect {
            WriteEffect::Stored { version, .. } => {
                let reached = |other: &ResourceVersion| other.compare(version).is_ok_and(std::cmp::Ordering::is_ge);
                match found {
                    Some(found) => reached(found.meta().resource_version()) || reached(&store.version()),
                    None => !is_selected || reached(&store.version()),
                }
            }
            WriteEffect::Removed { uid } => {
                found.is_none_or(|found| found.meta().uid() != uid || found.meta().is_deleting())
            }
        }
    }
}

// === impl Reads ===

impl Reads<'_> {
    fn concern(&self, key: &ObjectKey) -> bool {
        match *self {
            Self::Object(read) => read == key,
            Self::Namespace(namespace) => key.namespace.as_deref() == Some(namespace),
            Self::All => true,
        }
    }
}

// === impl JournalReader ===

impl JournalReader {
    /// Creates a reader that has seen none of the journal's writes.
    pub(crate) fn new(journal: WriteJournal, namespace: Option<&str>, selectors: Selectors<'_>) -> Self {
        // The server rejects an invalid selector; the informer never syncs then.
        let labels = selectors.labels.and_then(|labels| labels.parse().ok());
        let fields = selectors.fields.and_then(|fields| fields.parse().ok());
        let namespace = namespace.map(str::to_owned);
        Self { journal, seen: AtomicU64::new(0), selected: Selected { namespace, labels, fields } }
    }

    /// Returns the journal.
    pub(crate) fn journal(&self) -> &WriteJournal {
        &self.journal
    }

    /// Returns the writes of a read that the store does not show yet, each with whether the informer selects the
    /// object. Returns an empty list without locking if nothing was written since the last call.
    pub(crate) fn pending(&self, store: &Store<Untyped>, reads: Reads<'_>) -> Vec<(Write, bool)> {
        let seen = self.seen.load(Ordering::Acquire);
        if self.journal.last() <= seen {
            return Vec::new();
        }
        let version = store.version();
        let writes = self.journal.writes();
        let unseen = writes.partition_point(|write| write.number <= seen);
        // Dropped records are implied by later ones, whatever objects they belong to.
        let is_gap = writes.front().is_some_and(|first| first.number > seen + 1);
        let (mut pending, mut all_until) = (Vec::new(), None);
        for write in writes.range(unseen..) {
            let is_selected = self.selected.holds(write);
            let is_shown = is_selected.is_none()
                || write.at.elapsed() > RETENTION
                || write.is_before(&version)
                || write.is_shown(store, is_selected == Some(true));
            if is_shown {
                continue;
            }
            all_until.get_or_insert(write.number - 1);
            if is_gap || reads.concern(&write.key) {
                pending.push((write.clone(), is_selected == Some(true)));
            }
        }
        self.seen.fetch_max(all_until.unwrap_or_else(|| self.journal.last()), Ordering::Release);
        pending
    }
}

impl fmt::Debug for JournalReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = self.seen.load(Ordering::Relaxed);
        f.debug_struct("JournalReader").field("seen", &seen).field("journal", &self.journal).finish_non_exhaustive()
    }
}

// === impl Selected ===

impl Selected {
    /// Reports whether the informer selects the object of a write: `None` if it is in another namespace, `Some(false)`
    /// if it is not selected or this is unknown.
    fn holds(&self, write: &Write) -> Option<bool> {
        let namespace = write.key.namespace.as_deref().unwrap_or_default();
        if self.namespace.as_deref().is_some_and(|own| own != namespace) {
            return None;
        }
        let mut is_selected = true;
        for requirement in self.fields.iter().flat_map(FieldSelector::requirements) {
            let value = match &*requirement.field {
                "metadata.name" => &*write.key.name,
                "metadata.namespace" => namespace,
                _ => {
                    is_selected = false;
                    continue;
                }
            };
            if (value == requirement.value) != requirement.equal {
                return None;
            }
        }
        if let (Some(selector), WriteEffect::Stored { labels, .. }) = (&self.labels, &write.effect) {
            is_selected &= labels.as_ref().is_some_and(|labels| selector.matches_map(labels));
        }
        Some(is_selected)
    }
}
