//! The types of watch events.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum EventType {
    /// The object was created or started to match the selectors.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted or no longer matches the selectors. The body is its last state, with the resource version
    /// of the deletion.
    Deleted,
    /// A bookmark: no other events occurred up to the resource version of the body.
    Bookmark,
    /// The watch failed. The body is a `Status`.
    Error,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        })
    }
}
