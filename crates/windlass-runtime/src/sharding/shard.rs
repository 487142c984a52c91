//! What this process may act on, for those who act.

use std::{
    fmt::{self, Debug},
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};
use windlass_api::{ApiResource, ObjectRef, Resource};

use super::{
    ShardMetrics, Writes,
    claims::{Answer, Assignment, Claims, Ticket},
    ring::Point,
};

/// Tells which keys are this process's. Clones tell the same.
///
/// Without [sharding](super::Sharding) all are.
#[derive(Clone)]
pub struct Shard(Source);

#[derive(Clone)]
enum Source {
    /// There is nobody to share with.
    Alone,
    Member(Arc<Shared>),
}

/// What the member and those who act share.
pub(super) struct Shared {
    pub(super) claims: Mutex<Claims>,
    /// Changed whenever there is something new for those who wait: an assignment, or membership.
    pub(super) changes: watch::Sender<()>,
    /// Told when a reconcile has ended.
    pub(super) ended: Notify,
    readiness: watch::Sender<Readiness>,
    pub(super) group: Arc<str>,
    writes: Writes,
    pub(super) metrics: Arc<dyn ShardMetrics>,
}

/// How far those are who will act.
#[derive(Clone, Copy, Debug, Default)]
struct Readiness {
    /// There is somebody.
    wanted: bool,
    /// So many fill their caches.
    preparing: usize,
}

/// Who holds this gets ready to act. Nobody joins a group with keys that cannot be acted on yet.
pub(crate) struct Preparation(Shard);

/// One reconcile that may go on, as long as the shard says so. Dropped, it has ended.
pub(crate) struct Permit(Option<(Arc<Shared>, Ticket)>);

/// The keys of one controller over time.
pub(crate) struct Moves {
    shard: Shard,
    changes: Option<watch::Receiver<()>>,
    /// What was told last; `None`: nothing.
    told: Option<u64>,
}

/// Which keys are another's now, and which are ours.
pub(crate) struct Move {
    /// What has held since the last move, in order; `None`: nobody knows.
    before: Option<Vec<Arc<Assignment>>>,
    after: Arc<Assignment>,
}

// === impl Shard ===

impl Shard {
    pub(crate) const fn alone() -> Self {
        Self(Source::Alone)
    }

    pub(super) fn new(
        me: Arc<str>,
        group: Arc<str>,
        writes: Writes,
        metrics: Arc<dyn ShardMetrics>,
    ) -> (Self, Arc<Shared>) {
        let shared = Arc::new(Shared {
            claims: Mutex::new(Claims::new(me)),
            changes: watch::Sender::new(()),
            ended: Notify::new(),
            readiness: watch::Sender::default(),
            group,
            writes,
            metrics,
        });
        (Self(Source::Member(Arc::clone(&shared))), shared)
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.0, Source::Member(_))
    }

    /// Whether an object is this process's to act on, at this moment.
    #[must_use]
    pub fn owns<K: Resource>(&self, key: &ObjectRef<K>) -> bool {
        self.owns_of(&K::api_resource(), key)
    }

    /// As [`Self::owns`], for a resource that is known only at run time.
    #[must_use]
    pub fn owns_of<K>(&self, resource: &ApiResource, key: &ObjectRef<K>) -> bool {
        let Source::Member(shared) = &self.0 else { return true };
        let claims = shared.claims.lock();
        claims.until().is_some_and(|until| Instant::now() < until)
            && claims.assignment().allows(Point::of(resource, key.key()))
    }

    /// The names of the members of the group, this process's own among them, as they were seen last; nobody's before it has
    /// joined, and without sharding.
    #[must_use]
    pub fn members(&self) -> Vec<Arc<str>> {
        let Source::Member(shared) = &self.0 else { return Vec::new() };
        let assignment = Arc::clone(shared.claims.lock().assignment());
        assignment.rings.last().map(|ring| ring.names().cloned().collect()).unwrap_or_default()
    }

    /// What reconcilers may write.
    pub(super) fn writes(&self) -> Writes {
        match &self.0 {
            Source::Alone => Writes::Any,
            Source::Member(shared) => shared.writes,
        }
    }

    /// Until when requests may be sent, as far as is known; `None`: not any more, or not yet.
    pub(super) fn open_until(&self) -> Option<Instant> {
        match &self.0 {
            Source::Alone => Some(far_from_now()),
            Source::Member(shared) => shared.claims.lock().until(),
        }
    }

    pub(crate) fn prepare(&self) -> Preparation {
        self.readiness(|readiness| {
            readiness.wanted = true;
            readiness.preparing += 1;
        });
        Preparation(self.clone())
    }

    fn readiness(&self, change: impl FnOnce(&mut Readiness)) {
        if let Source::Member(shared) = &self.0 {
            shared.readiness.send_modify(change);
        }
    }

    /// Begins a reconcile; `None` if the key is not ours. Waits while nobody knows. Cancel-safe.
    pub(crate) async fn begin(&self, point: Point) -> Option<Permit> {
        let Source::Member(shared) = &self.0 else { return Some(Permit(None)) };
        let mut changes = shared.changes.subscribe();
        loop {
            let answer = shared.claims.lock().begin(point, Instant::now());
            match answer {
                Answer::Begun(ticket) => return Some(Permit(Some((Arc::clone(shared), ticket)))),
                Answer::Elsewhere => return None,
                // The sender is in `shared`.
                Answer::Undecided => drop(changes.changed().await),
            }
        }
    }

    /// The moves of the keys from now on, the first assignment included.
    pub(crate) fn moves(&self) -> Moves {
        let changes = match &self.0 {
            Source::Alone => None,
            Source::Member(shared) => {
                let mut changes = shared.changes.subscribe();
                changes.mark_changed();
                Some(changes)
            }
        };
        Moves { shard: self.clone(), changes, told: None }
    }

    pub(crate) fn count_move(&self, controller: &str, gained: usize, lost: usize, owned: usize) {
        if let Source::Member(shared) = &self.0 {
            shared.metrics.moved(&shared.group, controller, gained, lost, owned);
        }
    }
}

impl Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Alone => f.write_str("Shard(alone)"),
            Source::Member(shared) => f.debug_tuple("Shard").field(&shared.group).finish(),
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Returns when somebody is ready to act, and nobody gets ready.
    pub(super) async fn prepared(&self) {
        let mut readiness = self.readiness.subscribe();
        // The sender is in `self`.
        drop(readiness.wait_for(|readiness| readiness.wanted && readiness.preparing == 0).await);
    }
}

impl Drop for Preparation {
    fn drop(&mut self) {
        self.0.readiness(|readiness| readiness.preparing -= 1);
    }
}

// === impl Permit ===

impl Permit {
    /// Does the work, as long as it may go on; `None`: it might not. It is asked before every step, so that a process that
    /// has stood still does not take another one.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some((shared, ticket)) = &self.0 else { return Some(work.await) };
        let standing = || shared.claims.lock().standing(*ticket, Instant::now());
        let mut changes = shared.changes.subscribe();
        let mut work = pin!(work);
        loop {
            let until = standing()?;
            let step = poll_fn(|cx| match standing() {
                None => Poll::Ready(None),
                Some(_) => work.as_mut().poll(cx).map(Some),
            });
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                () = sleep_until(until) => {}
                result = step => return result,
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((shared, ticket)) = &self.0 {
            shared.claims.lock().end(*ticket);
            shared.ended.notify_one();
        }
    }
}

// === impl Moves ===

impl Moves {
    /// The next one; never without sharding. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Move {
        let (Source::Member(shared), Some(changes)) = (&self.shard.0, &mut self.changes) else {
            return std::future::pending().await;
        };
        loop {
            // The sender is in `shared`.
            drop(changes.changed().await);
            let claims = shared.claims.lock();
            let generation = claims.generation();
            if self.told == Some(generation) {
                continue;
            }
            let before = self.told.replace(generation).and_then(|told| claims.since(told));
            return Move { before, after: Arc::clone(claims.assignment()) };
        }
    }
}

impl Move {
    /// Whether a key is ours that was not, be it for a moment: it may have been turned away then.
    pub(crate) fn gains(&self, point: Point) -> bool {
        let always = |before: &Vec<Arc<Assignment>>| before.iter().all(|before| before.allows(point));
        self.after.allows(point) && !self.before.as_ref().is_some_and(always)
    }

    pub(crate) fn loses(&self, point: Point) -> bool {
        let first = self.before.as_ref().and_then(|before| before.first());
        !self.after.allows(point) && first.is_some_and(|before| before.allows(point))
    }

    pub(crate) fn owns(&self, point: Point) -> bool {
        self.after.allows(point)
    }
}

/// No deadline.
fn far_from_now() -> Instant {
    Instant::now() + std::time::Duration::from_hours(24 * 365)
}
