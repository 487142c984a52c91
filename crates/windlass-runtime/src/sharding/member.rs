//! The state machine of a group member: its observations of the other members, its own lease, and its next step. Pure
//! values; the caller performs the steps, and passes their results and the time.
//!
//! The protocol resembles mutual exclusion with flags. A member publishes a ring on its lease, which claims keys. Then
//! it reads the leases of all other members, and acts on those of its keys that no other lease claims. If two members
//! claim the same key, the one that published later reads after the other has published. So at most one of them finds
//! the key free.
//!
//! A member that observes other members than its ring contains first ends its reconciles on the keys that it would
//! lose. Then it publishes the new ring. When all leases contain the same ring, no key has two claims.
//!
//! A lease that has not changed for its duration plus the margin is deleted in the observed version. By then its holder
//! has passed its own, shorter deadline. A claim ends only with the deletion of its lease or with a new ring on it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    claims::{Assignment, Claim},
    ring::Ring,
};
use crate::leader_election::Timings;

/// The content of a member's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) name: Arc<str>,
    pub(super) uid: String,
    /// The resource version, which is different after each change.
    pub(super) version: String,
    /// The incarnation of the member.
    pub(super) incarnation: String,
    pub(super) lasts: Duration,
    pub(super) claim: Claim,
}

/// A lease in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) name: Arc<str>,
    pub(super) uid: String,
    pub(super) version: String,
}

/// The next step of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Reads all current leases of the group.
    List,
    /// Creates the own lease, which must not exist.
    Create(Ring),
    /// Updates the own lease, if it is unchanged.
    Update(Version, Ring),
    /// Deletes the lease of another member, if it is unchanged.
    Evict(Version),
    /// Waits until this time, or until the running reconciles are drained.
    Wait(Instant),
}

/// The result of a write to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The write succeeded. For a write of the own lease, contains the new version.
    Done(Option<Version>),
    /// The write failed, because the lease was changed.
    Refused,
    /// The write may have succeeded, or may still succeed.
    Unknown,
}

/// A member of a sharding group.
#[derive(Debug)]
pub(super) struct Member {
    name: Arc<str>,
    incarnation: String,
    timings: Timings,
    /// The time added to a lease's duration before it counts as expired.
    margin: Duration,
    /// The last observed own lease; `None` if it does not exist.
    own: Option<Version>,
    /// The ring that the lease contained at the last list, and the rings written since.
    rings: Vec<Ring>,
    /// The last written ring.
    shown: Option<Ring>,
    /// The status of the last write.
    certainty: Certainty,
    /// The ring of the members from the last list; `None` if there was no list since the lease was lost.
    wanted: Option<Ring>,
    /// The local deadline.
    until: Option<Instant>,
    peers: HashMap<Arc<str>, Peer>,
    next_write: Instant,
    next_list: Instant,
}

/// The status of the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Unknown,
    /// The write succeeded. The other leases have not been read since.
    Shown,
    Checked,
}

/// Another member, or another incarnation of this one.
#[derive(Debug)]
struct Peer {
    notice: Notice,
    /// When this version was first observed.
    since: Instant,
    /// When the lease may be deleted.
    expires: Instant,
}

impl Member {
    pub(super) fn new(name: Arc<str>, incarnation: String, timings: Timings, margin: Duration, now: Instant) -> Self {
        Self {
            name,
            incarnation,
            timings,
            margin,
            own: None,
            rings: Vec::new(),
            shown: None,
            certainty: Certainty::Unknown,
            wanted: None,
            until: None,
            peers: HashMap::new(),
            next_write: now,
            next_list: now,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn incarnation(&self) -> &str {
        &self.incarnation
    }

    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Reports whether the lease certainly contains the members from the last list.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.certainty != Certainty::Unknown && self.shown == self.wanted
    }

    /// Returns the keys that this member may act on.
    pub(super) fn assignment(&self) -> Assignment {
        let mut assignment = Assignment::nothing(Arc::clone(&self.name));
        if self.rings.is_empty() {
            return assignment;
        }
        for ring in self.rings.iter().chain(&self.wanted) {
            if !assignment.rings.contains(ring) {
                assignment.rings.push(ring.clone());
            }
        }
        let mut peers: Vec<_> = self.peers.values().map(|peer| &peer.notice).collect();
        peers.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for Notice { name, claim, .. } in peers {
            match assignment.others.iter_mut().find(|(known, _)| known == claim) {
                Some((_, holders)) => holders.push(Arc::clone(name)),
                None => assignment.others.push((claim.clone(), vec![Arc::clone(name)])),
            }
        }
        assignment
    }

    /// Returns the next step. `drained` states that all running reconciles belong to keys that the member retains.
    pub(super) fn next(&mut self, now: Instant, drained: bool) -> Step {
        if let Some(step) = self.write(now, drained) {
            return step;
        }
        if now >= self.next_list {
            return Step::List;
        }
        if let Some(peer) = self.peers.values().filter(|peer| peer.expires <= now).min_by_key(|peer| peer.since) {
            let Notice { name, uid, version, .. } = &peer.notice;
            return Step::Evict(Version { name: Arc::clone(name), uid: uid.clone(), version: version.clone() });
        }
        let expiry = self.peers.values().map(|peer| peer.expires).min();
        let write = (self.own.is_some() || self.may_join()).then_some(self.next_write);
        Step::Wait([Some(self.next_list), write, expiry].into_iter().flatten().min().unwrap_or(self.next_list))
    }

    fn write(&mut self, now: Instant, drained: bool) -> Option<Step> {
        let Some(own) = self.own.clone() else {
            if now < self.next_write || !self.may_join() {
                return None;
            }
            let ring = self.wanted.clone()?;
            self.writes(&ring);
            return Some(Step::Create(ring));
        };
        // If no ring was certainly published, the next write publishes the wanted one.
        let shown = self.shown.clone().or_else(|| self.wanted.clone())?;
        let changed = self.wanted.clone().filter(|wanted| drained && *wanted != shown);
        // A failed write is not retried before its time. A published ring is checked before it is replaced.
        let is_due = now >= self.next_write || (changed.is_some() && self.certainty == Certainty::Checked);
        if !is_due {
            return None;
        }
        let ring = changed.unwrap_or(shown);
        self.writes(&ring);
        Some(Step::Update(own, ring))
    }

    /// A lease with this member's name may belong to another process, or to a former incarnation. It is treated like
    /// any other lease.
    fn may_join(&self) -> bool {
        self.wanted.is_some() && !self.peers.contains_key(&self.name)
    }

    /// Records that the lease may contain this ring from now on, whatever the result of the request.
    fn writes(&mut self, ring: &Ring) {
        self.certainty = Certainty::Unknown;
        if !self.rings.is_empty() && !self.rings.contains(ring) {
            self.rings.push(ring.clone());
        }
        self.shown = Some(ring.clone());
    }

    /// Processes the result of a write of the own lease, sent at the given time.
    pub(super) fn written(&mut self, sent: Instant, now: Instant, outcome: Written) {
        self.next_write = now + self.timings.retry_period;
        match outcome {
            Written::Done(version) => {
                self.next_write = sent + self.timings.retry_period;
                self.own = version;
                self.until = Some(sent + self.timings.renew_deadline);
                self.certainty = Certainty::Shown;
                self.next_list = now;
            }
            // The next list shows the current state.
            Written::Refused => self.next_list = now,
            Written::Unknown => {}
        }
    }

    /// Processes the result of the deletion of another lease.
    pub(super) fn evicted(&mut self, name: &str, now: Instant, outcome: &Written) {
        match outcome {
            Written::Done(_) | Written::Refused => self.next_list = now,
            Written::Unknown => {
                if let Some(peer) = self.peers.get_mut(name) {
                    peer.expires = now + self.timings.retry_period;
                }
            }
        }
    }

    /// Processes the leases of the group, listed after the last write ended; `None` if they could not be read.
    pub(super) fn listed(&mut self, now: Instant, notices: Option<Vec<Notice>>) {
        self.next_list = now + self.timings.retry_period;
        let Some(notices) = notices else { return };
        let ring = Ring::new(notices.iter().map(|notice| &notice.name).chain([&self.name]).map(Arc::clone));
        let mut known = std::mem::take(&mut self.peers);
        let mut own = None;
        for notice in notices {
            if notice.name == self.name && notice.incarnation == self.incarnation {
                own = Some(Version { name: notice.name, uid: notice.uid, version: notice.version });
                continue;
            }
            let name = Arc::clone(&notice.name);
            // Only a change proves that the holder is alive.
            let peer = match known.remove(&name) {
                Some(peer) if peer.notice == notice => peer,
                _ => Peer { since: now, expires: now + notice.lasts + self.margin, notice },
            };
            self.peers.insert(name, peer);
        }
        match (&self.own, &own) {
            (Some(old), Some(new)) if old.uid == new.uid => {}
            (None, None) => {}
            // The own lease was deleted by another member, or a creation succeeded although it seemed to fail.
            _ => self.lose(now),
        }
        self.own = own;
        self.wanted = Some(ring);
        if self.certainty == Certainty::Shown
            && let Some(shown) = &self.shown
        {
            self.rings = vec![shown.clone()];
            self.certainty = Certainty::Checked;
        }
        if !self.assignment().is_settled() {
            self.next_list = now + self.timings.retry_period / 4;
        }
    }

    /// Drops all claims.
    fn lose(&mut self, now: Instant) {
        self.rings.clear();
        self.shown = None;
        self.certainty = Certainty::Unknown;
        self.until = None;
        self.next_write = now;
    }
}
