//! What is to go wrong in a run, as one line of text.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// What goes wrong in one run: `crash@5`, or several such words. Empty, nothing does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plan(pub(crate) Vec<Perturbation>);

/// Something that goes wrong once.
///
/// Writes are those of the program under test, counted from 1 over all of its lives; events are those that its caches get
/// of one resource, counted from 1 likewise. Writes of leases and events are not counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Perturbation {
    /// Something happens to a write.
    Write(WriteFault, usize),
    /// Something happens to the caches of a resource (`pods`, `deployments.apps`) as an event is about to reach them.
    Event(EventFault, String, usize),
}

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum WriteFault {
    /// `crash`: it is carried out, and the program dies before it hears of it. A new one starts from nothing.
    Crash,
    /// `lose`: it is carried out, and the connection breaks before the answer is there.
    Lose,
    /// `refuse`: it is not carried out; the server answers that something is wrong with it (500).
    Refuse,
    /// `conflict`: somebody else changes the object just before.
    Conflict,
    /// `depose`: it is sent, and stuck on its way. Nothing else of the program gets through meanwhile, so that it loses its
    /// lease; another instance leads; the write arrives.
    Depose,
    /// `rewind`: it is carried out, and the program dies. The new one is told by its caches what was before the step, and
    /// the rest after half a minute: the API server that it talks to was behind.
    Rewind,
}

/// What happens to the caches of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventFault {
    /// `freeze`: they are told nothing for half a minute, and then everything.
    Freeze,
    /// `lag`: they are told nothing until a while after the next step has begun, and then everything.
    Lag,
    /// `skip`: they are told nothing for half a minute, and then list anew: what lies between is never seen.
    Skip,
    /// `miss`: they are told nothing until a while after the next step has begun, and then list anew. Not for what is new to
    /// them: what comes and goes unseen leaves no trace that a program could answer to.
    Miss,
    /// `cut`: the watch ends there, with what it says of that being too old; they list anew.
    Cut,
}

/// Why a plan cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{word:?} is no perturbation: crash@5, lose@5, refuse@5, conflict@5, depose@5, rewind@5, freeze@pods:3, lag@pods:3, skip@pods:3, miss@pods:3, cut@pods:3"
)]
pub struct PlanError {
    /// What cannot be read.
    pub word: String,
}

// === impl Plan ===

impl Plan {
    /// Of one perturbation.
    #[must_use]
    pub fn of(perturbation: Perturbation) -> Self {
        Self(vec![perturbation])
    }

    /// What goes wrong.
    #[must_use]
    pub fn perturbations(&self) -> &[Perturbation] {
        &self.0
    }

    /// Whether nothing goes wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What happens to the nth write.
    pub(crate) fn at_write(&self, n: usize) -> Option<WriteFault> {
        self.0.iter().find_map(|perturbation| match perturbation {
            Perturbation::Write(fault, at) if *at == n => Some(*fault),
            _ => None,
        })
    }

    /// What happens at the nth event of a resource.
    pub(crate) fn at_event(&self, resource: &str, n: usize) -> Option<EventFault> {
        self.0.iter().find_map(|perturbation| match perturbation {
            Perturbation::Event(fault, of, at) if *at == n && of == resource => Some(*fault),
            _ => None,
        })
    }

    /// Whether replicas are to elect a leader.
    pub(crate) fn needs_election(&self) -> bool {
        self.0.iter().any(|perturbation| matches!(perturbation, Perturbation::Write(WriteFault::Depose, _)))
    }

    /// The same without one of its perturbations, for each.
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
    /// What it means, for people.
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
    /// All of them.
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
            Self::Crash => "the program crashes after write {n}, and is started again",
            Self::Lose => "write {n} is carried out, and its answer lost",
            Self::Refuse => "write {n} is refused by a server in trouble",
            Self::Conflict => "somebody else changes the object just before write {n}",
            Self::Depose => "another instance becomes the leader at write {n}, which arrives late",
            Self::Rewind => "the program crashes after write {n}, and is started again on an API server that is behind",
        }
    }
}

impl EventFault {
    /// All of them.
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
            Self::Freeze => "the cache of {resource} is frozen before event {n} for half a minute, and catches up then",
            Self::Lag => "the cache of {resource} is frozen before event {n} until the next step, and catches up then",
            Self::Skip => {
                "the cache of {resource} is frozen before event {n} for half a minute, and is listed anew then"
            }
            Self::Miss => {
                "the cache of {resource} is frozen before event {n} until the next step, and is listed anew then"
            }
            Self::Cut => "the watch of {resource} is cut before event {n}, and listed anew",
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
