//! The event log of a run.

use std::{fmt, time::Duration};

/// One line of a run's event log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The time since the start, in the time of the run.
    pub at: Duration,
    /// The program, user or cache that is concerned.
    pub who: String,
    /// The kind of entry.
    pub kind: EntryKind,
    /// The description.
    pub what: String,
}

/// The kind of a log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A step of the scenario, or the run itself, started.
    Step,
    /// A read.
    Read,
    /// A write with its response.
    Write,
    /// A change in the cluster.
    Change,
    /// A cache received an event.
    Event,
    /// A reconcile started or ended.
    Reconcile,
    /// The program started or stopped.
    Lifecycle,
    /// A planned fault was injected.
    Fault,
    /// A finding of the run.
    Finding,
}

impl EntryKind {
    /// Returns the kind as one word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Read => "read",
            Self::Write => "write",
            Self::Change => "change",
            Self::Event => "event",
            Self::Reconcile => "reconcile",
            Self::Lifecycle => "lifecycle",
            Self::Fault => "fault",
            Self::Finding => "finding",
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.kind {
            EntryKind::Step => "──",
            EntryKind::Fault => "⚡",
            EntryKind::Finding => "✗ ",
            _ => "  ",
        };
        let seconds = self.at.as_secs_f64();
        write!(f, "{seconds:>9.3} s {mark} {:<12} {}", self.who, self.what)
    }
}
