//! The keys that a member may act on, and its running reconciles. Pure values; the caller passes the time.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use tokio::time::Instant;

use super::ring::{Point, Ring};

/// The number of past assignments stored for followers.
const PAST: usize = 16;

/// The keys that a member may act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The member's name.
    pub(super) me: Arc<str>,
    /// The rings that the member's lease contains, may contain, or is about to contain. The member owns a key if every
    /// ring assigns it to the member. Without rings it owns no key.
    pub(super) rings: Vec<Ring>,
    /// The claims on the leases of other members, observed while the member's own lease contained its ring. Each claim
    /// is listed once, with its holders.
    pub(super) others: Vec<(Claim, Vec<Arc<str>>)>,
}

/// The keys that a lease claims for its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The keys that this ring assigns to the holder.
    Ring(Ring),
    /// The lease cannot be parsed, so it claims every key.
    Unreadable,
}

/// The claims of this process, and the reconciles that depend on them.
#[derive(Debug)]
pub(crate) struct Claims {
    assignment: Arc<Assignment>,
    /// Previous assignments, the latest one last.
    past: VecDeque<Arc<Assignment>>,
    /// Increases with each assignment.
    generation: u64,
    /// The local deadline; `None` if this process is not a member.
    until: Option<Instant>,
    /// The running reconciles, by ticket.
    in_flight: HashMap<Ticket, Point>,
    /// The running reconciles that must not continue.
    revoked: HashSet<Ticket>,
    next_ticket: u64,
}

/// The identity of a running reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

/// The decision whether a reconcile may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Begun(Ticket),
    /// Another replica owns the key. If this process gains it, there will be a new assignment.
    Elsewhere,
    /// Not known until this process is a member (again).
    Undecided,
}

// === impl Assignment ===

impl Assignment {
    pub(crate) fn nothing(me: Arc<str>) -> Self {
        Self { me, rings: Vec::new(), others: Vec::new() }
    }

    /// Reports whether a reconcile of the key may begin: this member claims it, and no other lease does.
    pub(crate) fn allows(&self, point: Point) -> bool {
        self.keeps(point) && !self.others.iter().any(|(claim, holders)| claim.includes(point, holders))
    }

    /// Reports whether this member's claim to the key persists, so that a running reconcile may continue.
    pub(crate) fn keeps(&self, point: Point) -> bool {
        !self.rings.is_empty() && self.rings.iter().all(|ring| ring.gives(point, &self.me))
    }

    /// Reports whether all members, including this one, have the same ring.
    pub(crate) fn is_settled(&self) -> bool {
        let [ring] = &*self.rings else { return false };
        self.others.iter().all(|(claim, _)| matches!(claim, Claim::Ring(other) if other == ring))
    }
}

// === impl Claim ===

impl Claim {
    /// Reports whether one of the holders claims the key by it.
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

    /// Returns the previous assignments since a generation, without the current one. Returns `None` if some of them are
    /// no longer stored.
    pub(crate) fn since(&self, generation: u64) -> Option<Vec<Arc<Assignment>>> {
        let number = usize::try_from(self.generation - generation).ok()?;
        let first = self.past.len().checked_sub(number)?;
        Some(self.past.range(first..).cloned().collect())
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Sets the assignment and the deadline. Returns `true` if waiting tasks must be notified.
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

    /// Begins a reconcile, if permitted.
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

    /// Returns the deadline of a reconcile, or `None` if it must not continue.
    pub(crate) fn standing(&self, ticket: Ticket, now: Instant) -> Option<Instant> {
        let until = self.until.filter(|until| now < *until)?;
        (!self.revoked.contains(&ticket)).then_some(until)
    }

    /// Ends a reconcile.
    pub(crate) fn end(&mut self, ticket: Ticket) {
        self.in_flight.remove(&ticket);
        self.revoked.remove(&ticket);
    }

    /// Reports whether no running reconcile belongs to a key that this member is about to lose.
    pub(crate) fn is_drained(&self) -> bool {
        self.in_flight.values().all(|point| self.assignment.keeps(*point))
    }

    /// Revokes the reconciles of keys that this member is about to lose. Returns their number.
    pub(super) fn revoke_leaving(&mut self) -> usize {
        let leaving = self.in_flight.iter().filter(|(_, point)| !self.assignment.keeps(**point));
        let before = self.revoked.len();
        self.revoked.extend(leaving.map(|(ticket, _)| *ticket));
        self.revoked.len() - before
    }
}
