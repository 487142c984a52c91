//! One member of a group: what it knows of the others, what it shows them, and what it does next. Values only; the caller
//! carries the steps out, and brings the answers and the time.
//!
//! The rule is that of raised flags. A member shows a ring on its lease, and by it claims keys. Then it reads the leases
//! of all others, and acts on those of its keys that nobody else claims. Of two who claim the same key, the one who showed
//! it later reads later than the other has shown it: both never find it free. Who sees other members than its ring has
//! ends what it has begun on keys that it would lose, and then shows another ring. When all show the same, no key has two
//! claims.
//!
//! A lease that has not changed for as long as it says, and the margin, is deleted in the version that was seen; its holder
//! has passed its own, shorter deadline by then. A claim ends with its lease or with another ring on it, and in no other
//! way.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    claims::{Assignment, Claim},
    ring::Ring,
};
use crate::leader_election::Timings;

/// What the lease of a member says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) name: Arc<str>,
    pub(super) uid: String,
    /// Another one after each change.
    pub(super) version: String,
    /// Which life of the member it is.
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

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Reading all leases of the group, as they are now.
    List,
    /// Creating the own lease; it must not be there.
    Create(Ring),
    /// Writing the own lease; it must be as it was seen.
    Update(Version, Ring),
    /// Deleting the lease of another member; it must be as it was seen.
    Evict(Version),
    /// Nothing before this moment, unless what runs is drained.
    Wait(Instant),
}

/// What came of a write to a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// It was carried out, for a write of the own lease with this result.
    Done(Option<Version>),
    /// It was not, because the lease is not as it was seen.
    Refused,
    /// Perhaps it was, perhaps it still will be.
    Unknown,
}

/// A member.
#[derive(Debug)]
pub(super) struct Member {
    name: Arc<str>,
    incarnation: String,
    timings: Timings,
    /// How much longer than it says a lease is respected.
    margin: Duration,
    /// The own lease, as it was seen last. `None`: there is none.
    own: Option<Version>,
    /// What was shown when the others were read last, and what was written since.
    rings: Vec<Ring>,
    /// What was written last.
    shown: Option<Ring>,
    /// Whether that is certain.
    certainty: Certainty,
    /// What should be shown, by what was read last; `None`: nothing was read since the lease was lost.
    wanted: Option<Ring>,
    /// The local deadline.
    until: Option<Instant>,
    peers: HashMap<Arc<str>, Peer>,
    next_write: Instant,
    next_list: Instant,
}

/// What is known of the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    Unknown,
    /// The others have not been read since.
    Shown,
    Checked,
}

/// Another member, or another life of this one.
#[derive(Debug)]
struct Peer {
    notice: Notice,
    /// When it was first seen like this.
    since: Instant,
    /// When it may be deleted.
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

    /// Whether the lease certainly shows the members that were read last.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.certainty != Certainty::Unknown && self.shown == self.wanted
    }

    /// What may be acted on.
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

    /// What to do next. `drained`: nothing runs that the assignment does not keep.
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
        // A ring that was never certainly shown is, by the next write.
        let shown = self.shown.clone().or_else(|| self.wanted.clone())?;
        let changed = self.wanted.clone().filter(|wanted| drained && *wanted != shown);
        // What has failed is not tried again before its time, and what is shown is asked about first.
        let is_due = now >= self.next_write || (changed.is_some() && self.certainty == Certainty::Checked);
        if !is_due {
            return None;
        }
        let ring = changed.unwrap_or(shown);
        self.writes(&ring);
        Some(Step::Update(own, ring))
    }

    /// A lease of this name may be that of another process, or of a former life: it is respected as any other.
    fn may_join(&self) -> bool {
        self.wanted.is_some() && !self.peers.contains_key(&self.name)
    }

    /// From now on the lease may show this ring, whatever becomes of the request.
    fn writes(&mut self, ring: &Ring) {
        self.certainty = Certainty::Unknown;
        if !self.rings.is_empty() && !self.rings.contains(ring) {
            self.rings.push(ring.clone());
        }
        self.shown = Some(ring.clone());
    }

    /// What came of a write of the own lease that was sent at that time.
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
            // What is there now decides.
            Written::Refused => self.next_list = now,
            Written::Unknown => {}
        }
    }

    /// What came of the deletion of another's lease.
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

    /// The leases of the group as they were after the last write had ended; `None`: they could not be read.
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
            // Only a change tells that the holder is alive.
            let peer = match known.remove(&name) {
                Some(peer) if peer.notice == notice => peer,
                _ => Peer { since: now, expires: now + notice.lasts + self.margin, notice },
            };
            self.peers.insert(name, peer);
        }
        match (&self.own, &own) {
            (Some(old), Some(new)) if old.uid == new.uid => {}
            (None, None) => {}
            // Evicted; or a creation was carried out that had seemed to fail.
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

    /// Nothing is claimed any more.
    fn lose(&mut self, now: Instant) {
        self.rings.clear();
        self.shown = None;
        self.certainty = Certainty::Unknown;
        self.until = None;
        self.next_write = now;
    }
}
