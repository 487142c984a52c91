//! The requests of each connection. They decide whether the connection is idle.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// At the maximum number of connections, this fraction of them is closed if idle.
const IDLE_SHARE: usize = 16;

/// The open connections of a server.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    /// The origin of all times, which are in milliseconds.
    started: Instant,
    connections: Mutex<Registered>,
}

#[derive(Debug, Default)]
struct Registered {
    next: u64,
    activities: HashMap<u64, Weak<Activity>>,
}

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    open: Arc<OpenConnections>,
    id: u64,
    /// The number of requests in progress.
    running: AtomicUsize,
    /// The number of all requests.
    begun: AtomicUsize,
    /// The time when the connection was opened or its last request ended.
    idle_since: AtomicU64,
    is_upgraded: AtomicBool,
    /// Set when a request was answered before it was read completely.
    has_unread_request: AtomicBool,
    closed: Notify,
}

/// A request in progress, until its response has ended.
#[derive(Debug)]
pub(crate) struct RunningRequest(Arc<Activity>);

impl OpenConnections {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), connections: Mutex::default() })
    }

    /// Registers a new connection.
    pub(crate) fn open(self: &Arc<Self>) -> Arc<Activity> {
        let mut connections = self.connections.lock();
        let id = connections.next;
        connections.next += 1;
        let activity = Arc::new(Activity {
            open: Arc::clone(self),
            id,
            running: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            idle_since: AtomicU64::new(self.now()),
            is_upgraded: AtomicBool::new(false),
            has_unread_request: AtomicBool::new(false),
            closed: Notify::new(),
        });
        connections.activities.insert(id, Arc::downgrade(&activity));
        activity
    }

    /// Closes the connections that have been idle longest: one in sixteen, at least one.
    pub(crate) fn close_idle(&self) {
        let open: Vec<_> = self.connections.lock().activities.values().filter_map(Weak::upgrade).collect();
        let mut idle: Vec<_> = open.iter().filter(|activity| activity.is_idle()).collect();
        idle.sort_unstable_by_key(|activity| activity.idle_since.load(Relaxed));
        for activity in idle.iter().take((open.len() / IDLE_SHARE).max(1)) {
            activity.closed.notify_one();
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Activity {
    /// Counts a request until its response has ended.
    pub(crate) fn begin(self: &Arc<Self>) -> RunningRequest {
        self.running.fetch_add(1, Relaxed);
        self.begun.fetch_add(1, Relaxed);
        RunningRequest(Arc::clone(self))
    }

    /// Waits until the connection must make room for others.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Reports whether a request is being answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.load(Relaxed) > 0
    }

    /// Returns the number of all requests.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Relaxed)
    }

    /// Records that the connection no longer uses HTTP.
    pub(crate) fn upgrade(&self) {
        self.is_upgraded.store(true, Relaxed);
    }

    pub(crate) fn is_upgraded(&self) -> bool {
        self.is_upgraded.load(Relaxed)
    }

    /// Records that a request will not be read completely.
    pub(crate) fn leave_unread(&self) {
        self.has_unread_request.store(true, Relaxed);
    }

    pub(crate) fn has_unread_request(&self) -> bool {
        self.has_unread_request.load(Relaxed)
    }

    fn is_idle(&self) -> bool {
        !self.is_busy() && !self.is_upgraded()
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.open.connections.lock().activities.remove(&self.id);
    }
}

impl RunningRequest {
    pub(crate) fn activity(&self) -> &Activity {
        &self.0
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.open.now(), Relaxed);
        self.0.running.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn longest_idle_connections_are_closed_first() {
        let open = OpenConnections::new();
        let (busy, upgraded) = (open.open(), open.open());
        let request = busy.begin();
        upgraded.upgrade();
        let mut idle = Vec::new();
        for _ in 0..30 {
            time::advance(Duration::from_millis(10)).await;
            idle.push(open.open());
        }
        // This connection had the latest request.
        time::advance(Duration::from_millis(10)).await;
        drop(idle[0].begin());
        open.close_idle();
        let closed: Vec<usize> = (0..30).filter(|place| idle[*place].closed().now_or_never().is_some()).collect();
        assert_eq!(closed, [1, 2]);
        assert!(busy.closed().now_or_never().is_none() && upgraded.closed().now_or_never().is_none());
        drop((busy, request, upgraded, idle));
        assert!(open.connections.lock().activities.is_empty());
    }
}
