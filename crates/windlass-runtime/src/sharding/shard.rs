//! The shard of this process: the keys that its controllers may act on.

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

/// The keys that this process owns. Clones report the same keys.
///
/// Without [sharding](super::Sharding) it owns all keys.
#[derive(Clone)]
pub struct Shard(Source);

#[derive(Clone)]
enum Source {
    /// There is no sharding.
    Alone,
    Member(Arc<Shared>),
}

/// State shared by the membership and the controllers.
pub(super) struct Shared {
    pub(super) claims: Mutex<Claims>,
    /// Notified of each new assignment, and of each change of the membership.
    pub(super) changes: watch::Sender<()>,
    /// Notified when a reconcile has ended.
    pub(super) ended: Notify,
    readiness: watch::Sender<Readiness>,
    pub(super) group: Arc<str>,
    writes: Writes,
    pub(super) metrics: Arc<dyn ShardMetrics>,
}

/// The readiness of the sharded controllers.
#[derive(Clone, Copy, Debug, Default)]
struct Readiness {
    /// At least one controller takes part.
    wanted: bool,
    /// The number of controllers that are filling their caches.
    preparing: usize,
}

/// Held while a controller fills its caches. The process joins the group only after that.
pub(crate) struct Preparation(Shard);

/// The permit of a running reconcile. Dropping it ends the reconcile.
pub(crate) struct Permit(Option<(Arc<Shared>, Ticket)>);

/// The moves of one controller's keys.
pub(crate) struct Moves {
    shard: Shard,
    changes: Option<watch::Receiver<()>>,
    /// The generation of the last returned move; `None` before the first one.
    delivered: Option<u64>,
}

/// A change of the assignment: the keys that this process gains and loses.
pub(crate) struct Move {
    /// The assignments since the last move, in order; `None` if some of them are no longer stored.
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

    /// Reports whether this process owns an object at this moment.
    #[must_use]
    pub fn owns<K: Resource>(&self, key: &ObjectRef<K>) -> bool {
        self.owns_of(&K::api_resource(), key)
    }

    /// Like [`Self::owns`], for a resource that is known only at run time.
    #[must_use]
    pub fn owns_of<K>(&self, resource: &ApiResource, key: &ObjectRef<K>) -> bool {
        let Source::Member(shared) = &self.0 else { return true };
        let claims = shared.claims.lock();
        claims.until().is_some_and(|until| Instant::now() < until)
            && claims.assignment().allows(Point::of(resource, key.key()))
    }

    /// Returns the last observed names of the group's members, including this process. Empty without sharding, and
    /// before this process has joined.
    #[must_use]
    pub fn members(&self) -> Vec<Arc<str>> {
        let Source::Member(shared) = &self.0 else { return Vec::new() };
        let assignment = Arc::clone(shared.claims.lock().assignment());
        assignment.rings.last().map(|ring| ring.names().cloned().collect()).unwrap_or_default()
    }

    /// Returns the writes that reconcilers may send.
    pub(super) fn writes(&self) -> Writes {
        match &self.0 {
            Source::Alone => Writes::Any,
            Source::Member(shared) => shared.writes,
        }
    }

    /// Returns the time until which requests may be sent, as currently known; `None` if none may be sent.
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

    /// Begins a reconcile. Returns `None` if another replica owns the key. Waits while the owner is not known.
    /// Cancel-safe.
    pub(crate) async fn begin(&self, point: Point) -> Option<Permit> {
        let Source::Member(shared) = &self.0 else { return Some(Permit(None)) };
        let mut changes = shared.changes.subscribe();
        loop {
            let answer = shared.claims.lock().begin(point, Instant::now());
            match answer {
                Answer::Begun(ticket) => return Some(Permit(Some((Arc::clone(shared), ticket)))),
                Answer::Elsewhere => return None,
                // Cannot fail, because the sender is in `shared`.
                Answer::Undecided => drop(changes.changed().await),
            }
        }
    }

    /// Returns the moves of the keys from now on, starting with the first assignment.
    pub(crate) fn moves(&self) -> Moves {
        let changes = match &self.0 {
            Source::Alone => None,
            Source::Member(shared) => {
                let mut changes = shared.changes.subscribe();
                changes.mark_changed();
                Some(changes)
            }
        };
        Moves { shard: self.clone(), changes, delivered: None }
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
    /// Returns when at least one controller is ready to act and none is filling its caches.
    pub(super) async fn prepared(&self) {
        let mut readiness = self.readiness.subscribe();
        // Cannot fail, because the sender is in `self`.
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
    /// Runs `work` as long as the permit is valid. Returns `None` if the permit was revoked. The permit is checked
    /// before each poll, so that a process that was paused does not continue.
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
    /// Returns the next move; never returns without sharding. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Move {
        let (Source::Member(shared), Some(changes)) = (&self.shard.0, &mut self.changes) else {
            return std::future::pending().await;
        };
        loop {
            // Cannot fail, because the sender is in `shared`.
            drop(changes.changed().await);
            let claims = shared.claims.lock();
            let generation = claims.generation();
            if self.delivered == Some(generation) {
                continue;
            }
            let before = self.delivered.replace(generation).and_then(|delivered| claims.since(delivered));
            return Move { before, after: Arc::clone(claims.assignment()) };
        }
    }
}

impl Move {
    /// Reports whether this process gained the key, even if it lost the key only briefly: a worker may have dropped the
    /// key meanwhile.
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

/// Returns an instant that serves as "no deadline".
fn far_from_now() -> Instant {
    Instant::now() + std::time::Duration::from_hours(24 * 365)
}
