//! What a member may act on at a moment, and what it acts on. Values only; the caller brings the time.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;

use super::ring::{Point, Ring};

/// So many assignments are remembered for those who follow them.
const PAST: usize = 16;

/// Which keys a member may act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The member's name.
    pub(super) me: Arc<str>,
    /// What the member's lease shows, may show, and is about to show. A key is the member's when each of them says so; none
    /// at all says so of no key.
    pub(super) rings: Vec<Ring>,
    /// What the leases of others showed at a time when the member's own did show its ring: each ring once, with those who
    /// showed it.
    pub(super) others: Vec<(Claim, Vec<Arc<str>>)>,
}

/// What a lease says of the keys that its holder claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Those that this ring gives to it.
    Ring(Ring),
    /// It cannot be read: any.
    Unreadable,
}

/// The claims of this process, and its use of them.
#[derive(Debug)]
pub(crate) struct Claims {
    assignment: Arc<Assignment>,
    /// The ones before, the last one last.
    past: VecDeque<Arc<Assignment>>,
    /// Rises with each assignment.
    generation: u64,
    /// The local deadline; `None`: this process is no member.
    until: Option<Instant>,
    /// Reconciles that have begun, by ticket.
    in_flight: HashMap<Ticket, Point>,
    /// Those among them that may not go on.
    revoked: HashSet<Ticket>,
    next_ticket: u64,
}

/// One reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

/// Whether a reconcile may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Begun(Ticket),
    /// The key is not ours. Should it become so, that is a new assignment.
    Elsewhere,
    /// Nobody knows before this process is a member, or is one again.
    Undecided,
}

// === impl Assignment ===

impl Assignment {
    pub(crate) fn nothing(me: Arc<str>) -> Self {
        Self { me, rings: Vec::new(), others: Vec::new() }
    }

    /// Whether a reconcile of the key may begin: it is claimed, and was by nobody else.
    pub(crate) fn allows(&self, point: Point) -> bool {
        self.keeps(point) && !self.others.iter().any(|(claim, holders)| claim.includes(point, holders))
    }

    /// Whether the key is claimed, and stays so: a reconcile that has begun may end.
    pub(crate) fn keeps(&self, point: Point) -> bool {
        !self.rings.is_empty() && self.rings.iter().all(|ring| ring.gives(point, &self.me))
    }

    /// Whether everybody has the same members in mind, this process included.
    pub(crate) fn is_settled(&self) -> bool {
        let [ring] = &*self.rings else { return false };
        self.others.iter().all(|(claim, _)| matches!(claim, Claim::Ring(other) if other == ring))
    }
}

// === impl Claim ===

impl Claim {
    /// Whether one of the holders claims the key by it.
    fn includes(&self, point: Point, holders: &[Arc<str>]) -> bool {
        match self {
            Self::Ring(ring) => ring.owner(point).is_some_and(|owner| holders.contains(owner)),
            Self::Unreadable => true,
        }
    }
}

// === impl Claims ===

impl Claims {
    pub(crate) fn new(me: Arc<str>) -> Self {
        Self {
            assignment: Arc::new(Assignment::nothing(me)),
            past: VecDeque::new(),
            generation: 0,
            until: None,
            in_flight: HashMap::new(),
            revoked: HashSet::new(),
            next_ticket: 0,
        }
    }

    pub(crate) fn assignment(&self) -> &Arc<Assignment> {
        &self.assignment
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The assignments from a generation on, but for the one that holds now; `None`: they are forgotten.
    pub(crate) fn since(&self, generation: u64) -> Option<Vec<Arc<Assignment>>> {
        let number = usize::try_from(self.generation - generation).ok()?;
        let first = self.past.len().checked_sub(number)?;
        Some(self.past.range(first..).cloned().collect())
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Takes over what the member knows now. Returns whether there is something new for those who wait.
    pub(super) fn update(&mut self, assignment: Assignment, until: Option<Instant>, now: Instant) -> bool {
        let had_lapsed = self.until.is_none_or(|until| until <= now);
        self.until = until;
        if until.is_none() {
            self.revoked.extend(self.in_flight.keys());
        }
        let has_changed = *self.assignment != assignment;
        if has_changed {
            self.past.push_back(std::mem::replace(&mut self.assignment, Arc::new(assignment)));
            if self.past.len() > PAST {
                self.past.pop_front();
            }
            self.generation += 1;
        }
        has_changed || had_lapsed != until.is_none_or(|until| until <= now)
    }

    /// Begins a reconcile, if it may begin.
    pub(crate) fn begin(&mut self, point: Point, now: Instant) -> Answer {
        if self.until.is_none_or(|until| until <= now) || self.assignment.rings.is_empty() {
            return Answer::Undecided;
        }
        if !self.assignment.allows(point) {
            return Answer::Elsewhere;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.in_flight.insert(ticket, point);
        Answer::Begun(ticket)
    }

    /// Until when a reconcile may go on, as far as is known; `None`: it may not.
    pub(crate) fn standing(&self, ticket: Ticket, now: Instant) -> Option<Instant> {
        let until = self.until.filter(|until| now < *until)?;
        (!self.revoked.contains(&ticket)).then_some(until)
    }

    /// Ends a reconcile.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        self.in_flight.remove(&ticket);
        self.revoked.remove(&ticket);
    }

    /// Whether nothing runs that belongs to others by what the lease is about to show.
    pub(crate) fn is_drained(&self) -> bool {
        self.in_flight.values().all(|point| self.assignment.keeps(*point))
    }

    /// Ends the patience with what runs and will belong to others. Returns how many that are.
    pub(super) fn revoke_leaving(&mut self) -> usize {
        let leaving = self.in_flight.iter().filter(|(_, point)| !self.assignment.keeps(**point));
        let before = self.revoked.len();
        self.revoked.extend(leaving.map(|(ticket, _)| *ticket));
        self.revoked.len() - before
    }
}
