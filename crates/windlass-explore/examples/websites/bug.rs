//! The planted bugs.

use std::{env, sync::LazyLock};

/// A bug, selected by the environment variable `BUG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Creates the key before it is recorded in the status, and only reads the status: `crash-leak`.
    CrashLeak,
    /// Deletes the children of the website in the cache by their names: `stale-deletion`.
    StaleDeletion,
    /// Deletes children in response to deletion events only, instead of by a finalizer: `missed-event`.
    MissedEvent,
    /// Exits if the response to a creation is an error: `lost-response`.
    LostResponse,
    /// Updates the index without a resource version: `overwrite`.
    Overwrite,
    /// Does not remove the theme from the index: `sticky-theme`.
    StickyTheme,
    /// Does not change the index after its creation: `first-index`.
    FirstIndex,
    /// Panics if a website has no pages: `no-pages`.
    NoPages,
}

impl Bug {
    /// Reports whether this bug is planted.
    pub(crate) fn is(self) -> bool {
        static PLANTED: LazyLock<Option<Bug>> = LazyLock::new(|| Bug::named(&env::var("BUG").unwrap_or_default()));
        *PLANTED == Some(self)
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "crash-leak" => Some(Self::CrashLeak),
            "stale-deletion" => Some(Self::StaleDeletion),
            "missed-event" => Some(Self::MissedEvent),
            "lost-response" => Some(Self::LostResponse),
            "overwrite" => Some(Self::Overwrite),
            "sticky-theme" => Some(Self::StickyTheme),
            "first-index" => Some(Self::FirstIndex),
            "no-pages" => Some(Self::NoPages),
            _ => None,
        }
    }
}
