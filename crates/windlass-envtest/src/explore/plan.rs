//! The faults of a run, as one line of text.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// The faults of one run: `crash@5`, or several such words. An empty plan has no faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plan(pub(crate) Vec<Perturbation>);

/// A single fault.
///
/// Writes are those of the program under test, counted from 1 across its restarts. Events are those that its caches get
/// of one resource, counted likewise. Writes of leases and Events are not counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Perturbation {
    /// A fault of the nth write.
    Write(WriteFault, usize),
    /// A fault of the caches of a resource (`pods`, `deployments.apps`), immediately before the nth event.
    Event(EventFault, String, usize),
}

/// A fault of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WriteFault {
    /// `crash`: the write is performed, and the program crashes before it gets the response. It is restarted without
    /// any memory.
    Crash,
    /// `lose`: the write is performed, and the connection breaks before the response.
    Lose,
    /// `refuse`: the write is not performed; the server responds with an internal error (500).
    Refuse,
    /// `conflict`: another client changes the object just before the write.
    Conflict,
    /// `depose`: the write is delayed in the network. Until it arrives, no other request of the program gets through,
    /// so it loses its lease and another instance becomes the leader.
    Depose,
    /// `rewind`: the write is performed, and the program crashes. After the restart, its caches list the state from
    /// before the step, and get newer events 30 s later, as from a stale API server.
    Rewind,
}

/// A fault of the caches of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventFault {
    /// `freeze`: the caches get no events for 30 s, and then all of them.
    Freeze,
    /// `lag`: the caches get no events until 30 s after the start of the next step, and then all of them.
    Lag,
    /// `skip`: the caches get no events for 30 s, and then relist. They never see the events in between.
    Skip,
    /// `miss`: the caches get no events until 30 s after the start of the next step, and then relist. Not applied to
    /// events of objects that are new to the cache: an object that is created and deleted unseen leaves no trace to
    /// react to.
    Miss,
    /// `cut`: the watch ends with the error that its version is too old; the caches relist.
    Cut,
}

/// An error of a plan's text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{word:?} is not a fault such as crash@5, lose@5, refuse@5, conflict@5, depose@5, rewind@5, freeze@pods:3, lag@pods:3, skip@pods:3, miss@pods:3, cut@pods:3"
)]
pub struct PlanError {
    /// The invalid word.
    pub word: String,
}

// === impl Plan ===

impl Plan {
    /// Creates a plan with one fault.
    #[must_use]
    pub fn of(perturbation: Perturbation) -> Self {
        Self(vec![perturbation])
    }

    /// Returns the faults.
    #[must_use]
    pub fn perturbations(&self) -> &[Perturbation] {
        &self.0
    }

    /// Returns `true` if the plan has no faults.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fault of the nth write.
    pub(crate) fn at_write(&self, n: usize) -> Option<WriteFault> {
        self.0.iter().find_map(|perturbation| match perturbation {
            Perturbation::Write(fault, at) if *at == n => Some(*fault),
            _ => None,
        })
    }

    /// Returns the fault of the nth event of a resource.
    pub(crate) fn at_event(&self, resource: &str, n: usize) -> Option<EventFault> {
        self.0.iter().find_map(|perturbation| match perturbation {
            Perturbation::Event(fault, of, at) if *at == n && of == resource => Some(*fault),
            _ => None,
        })
    }

    /// Returns `true` if the run needs leader election.
    pub(crate) fn needs_election(&self) -> bool {
        self.0.iter().any(|perturbation| matches!(perturbation, Perturbation::Write(WriteFault::Depose, _)))
    }

    /// Returns the plans with one fault less.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        if self.0.len() < 2 {
            return Vec::new();
        }
        let without = |index: usize| {
            let mut rest = self.0.clone();
            rest.remove(index);
            Self(rest)
        };
        (0..self.0.len()).map(without).collect()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        let words: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "nothing" {
            return Ok(Self::default());
        }
        text.split_whitespace().map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

// === impl Perturbation ===

impl Perturbation {
    /// Returns a description of the fault.
    #[must_use]
    pub fn explained(&self) -> String {
        match self {
            Self::Write(fault, n) => fault.explained().replace("{n}", &n.to_string()),
            Self::Event(fault, resource, n) => {
                fault.explained().replace("{n}", &n.to_string()).replace("{resource}", resource)
            }
        }
    }
}

impl fmt::Display for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(fault, n) => write!(f, "{}@{n}", fault.word()),
            Self::Event(fault, resource, n) => write!(f, "{}@{resource}:{n}", fault.word()),
        }
    }
}

impl FromStr for Perturbation {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (word, at) = text.split_once('@')?;
            if let Some((resource, n)) = at.rsplit_once(':') {
                let fault = EventFault::ALL.into_iter().find(|fault| fault.word() == word)?;
                return Some(Self::Event(fault, resource.to_owned(), n.parse().ok()?));
            }
            let fault = WriteFault::ALL.into_iter().find(|fault| fault.word() == word)?;
            Some(Self::Write(fault, at.parse().ok()?))
        };
        parse().ok_or_else(|| PlanError { word: text.to_owned() })
    }
}

impl WriteFault {
    /// All write faults.
    pub const ALL: [Self; 6] = [Self::Crash, Self::Lose, Self::Refuse, Self::Conflict, Self::Depose, Self::Rewind];

    const fn word(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Lose => "lose",
            Self::Refuse => "refuse",
            Self::Conflict => "conflict",
            Self::Depose => "depose",
            Self::Rewind => "rewind",
        }
    }

    const fn explained(self) -> &'static str {
        match self {
            Self::Crash => "the program crashes after write {n}, and restarts",
            Self::Lose => "write {n} is performed, and its response is lost",
            Self::Refuse => "write {n} is rejected with an internal error",
            Self::Conflict => "another client changes the object just before write {n}",
            Self::Depose => "another instance becomes the leader at write {n}, which arrives late",
            Self::Rewind => "the program crashes after write {n}, and restarts against a stale API server",
        }
    }
}

impl EventFault {
    /// All event faults.
    pub const ALL: [Self; 5] = [Self::Freeze, Self::Lag, Self::Skip, Self::Miss, Self::Cut];

    const fn word(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Lag => "lag",
            Self::Skip => "skip",
            Self::Miss => "miss",
            Self::Cut => "cut",
        }
    }

    const fn explained(self) -> &'static str {
        match self {
            Self::Freeze => "the cache of {resource} is frozen before event {n} for 30 s, and then catches up",
            Self::Lag => "the cache of {resource} is frozen before event {n} until the next step, and then catches up",
            Self::Skip => "the cache of {resource} is frozen before event {n} for 30 s, and is then relisted",
            Self::Miss => {
                "the cache of {resource} is frozen before event {n} until the next step, and is then relisted"
            }
            Self::Cut => "the watch of {resource} ends before event {n}, and its cache relists",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_a_line_of_text() {
        let text = "crash@5 skip@deployments.apps:3";
        let plan: Plan = text.parse().unwrap();
        assert_eq!(plan.to_string(), text);
        assert_eq!(plan.at_write(5), Some(WriteFault::Crash));
        assert_eq!(plan.at_write(6), None);
        assert_eq!(plan.at_event("deployments.apps", 3), Some(EventFault::Skip));
        assert_eq!(
            plan.smaller().iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["skip@deployments.apps:3", "crash@5"]
        );
        assert_eq!("nothing".parse::<Plan>(), Ok(Plan::default()));
        for wrong in ["crash", "crash@", "crash@pods:1", "freeze@3", "melt@5"] {
            assert_eq!(wrong.parse::<Plan>().unwrap_err().word, wrong);
        }
    }
}
