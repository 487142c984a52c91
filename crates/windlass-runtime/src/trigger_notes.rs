//! The changes behind the queued keys of a controller, for the spans of their reconciles.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use tracing::Level;
use windlass_api::{ApiResource, ObjectKey};

use crate::observer::Change;

/// The first change for each queued key, and the number of changes. Recorded only while spans at the level DEBUG are
/// enabled for this module; otherwise nothing is stored. Clones are the same notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TriggerNotes(Arc<Mutex<HashMap<ObjectKey, Note>>>);

/// Displayed as `updated secrets shop/token` or `updated secrets shop/token and 2 more`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    change: Change,
    plural: String,
    object: ObjectKey,
    /// The number of further changes.
    more: usize,
}

impl TriggerNotes {
    /// Reports whether spans contain triggers.
    pub(crate) fn is_enabled() -> bool {
        tracing::span_enabled!(Level::DEBUG)
    }

    /// Notes a change that leads to a key.
    pub(crate) fn add(&self, key: &ObjectKey, change: Change, resource: &ApiResource, object: &ObjectKey) {
        if !Self::is_enabled() {
            return;
        }
        let note = || Note { change, plural: resource.plural.to_string(), object: object.clone(), more: 0 };
        self.0.lock().entry(key.clone()).and_modify(|note| note.more += 1).or_insert_with(note);
    }

    /// Returns the changes behind a key that a worker has taken.
    pub(crate) fn take(&self, key: &ObjectKey) -> Option<Note> {
        if Self::is_enabled() { self.0.lock().remove(key) } else { None }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = match self.change {
            Change::Added => "added",
            Change::Updated => "updated",
            Change::Deleted => "deleted",
        };
        write!(f, "{change} {} {}", self.plural, self.object)?;
        if self.more == 0 { Ok(()) } else { write!(f, " and {} more", self.more) }
    }
}
