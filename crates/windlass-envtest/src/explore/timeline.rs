//! What happened in a run, in order.

use std::{fmt, time::Duration};

/// One line of the story of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Since the beginning, in the time of the run.
    pub at: Duration,
    /// Who did it, or to whom it happened.
    pub who: String,
    /// What kind of thing it is.
    pub sort: Sort,
    /// What, in words.
    pub what: String,
}

/// What kind of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sort {
    /// A step of the scenario began, or the run did.
    Step,
    /// Something was read.
    Read,
    /// Something was to be changed, and what was answered.
    Write,
    /// What that came to in the cluster.
    Change,
    /// A cache was told something.
    Event,
    /// A reconcile began or ended.
    Reconcile,
    /// The program was started, or ended.
    Life,
    /// Something went wrong as the plan says.
    Fault,
    /// What is wrong with the run.
    Finding,
}

impl Sort {
    /// One word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Read => "read",
            Self::Write => "write",
            Self::Change => "change",
            Self::Event => "event",
            Self::Reconcile => "reconcile",
            Self::Life => "life",
            Self::Fault => "fault",
            Self::Finding => "finding",
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.sort {
            Sort::Step => "──",
            Sort::Fault => "⚡",
            Sort::Finding => "✗ ",
            _ => "  ",
        };
        let seconds = self.at.as_secs_f64();
        write!(f, "{seconds:>9.3} s {mark} {:<12} {}", self.who, self.what)
    }
}
