//! A process of the program, as the gateway sees it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// The time after which a process counts as started, even if it has sent no request.
const START: Duration = Duration::from_secs(10);

/// The time after the first request after which a process counts as started, whatever it watches. A lease of a killed leader
/// takes 15 seconds to expire.
const WATCH: Duration = Duration::from_secs(25);

/// A process of the program.
pub(crate) struct Incarnation {
    number: usize,
    admitted: Instant,
    /// The time of the first request.
    begun: OnceLock<Instant>,
    /// The resources that the process has watched.
    watched: Mutex<BTreeSet<String>>,
    closed: watch::Sender<bool>,
    in_flight: AtomicUsize,
    /// The requests whose response a fault holds.
    stalled: AtomicUsize,
    undelivered: AtomicUsize,
    activity: Arc<Notify>,
}

/// Counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    process: Arc<Incarnation>,
    counter: fn(&Incarnation) -> &AtomicUsize,
}

impl Incarnation {
    pub(crate) fn new(number: usize, activity: Arc<Notify>) -> Self {
        Self {
            number,
            admitted: Instant::now(),
            begun: OnceLock::new(),
            watched: Mutex::default(),
            closed: watch::Sender::new(false),
            in_flight: AtomicUsize::new(0),
            stalled: AtomicUsize::new(0),
            undelivered: AtomicUsize::new(0),
            activity,
        }
    }

    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// Marks the process as started.
    pub(crate) fn begin(&self) {
        if self.begun.set(Instant::now()).is_ok() {
            self.activity.notify_one();
        }
    }

    /// Records a watch of a resource.
    pub(crate) fn watches(&self, resource: &str) {
        if self.watched.lock().insert(resource.to_owned()) {
            self.activity.notify_one();
        }
    }

    /// Returns the resources that the process has watched.
    pub(crate) fn watched(&self) -> BTreeSet<String> {
        self.watched.lock().clone()
    }

    /// Reports whether the process is not closed, and has not sent a request or does not watch everything that is expected.
    /// Without an expectation, it watches anything once it has started.
    ///
    /// A process that waits for a lease, or that loads its classes, has not started. One that never watches has started
    /// after a while.
    pub(crate) fn is_starting(&self, expected: Option<&BTreeSet<String>>) -> bool {
        if self.is_closed() {
            return false;
        }
        let Some(begun) = self.begun.get() else { return self.admitted.elapsed() < START };
        let watched = self.watched.lock();
        let has_started = expected.map_or(!watched.is_empty(), |expected| expected.is_subset(&watched));
        !has_started && begun.elapsed() < WATCH
    }

    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits until the process is closed.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closed = self.closed.subscribe();
        // The sender is dropped with the gateway, and its connections are closed then.
        async move { drop(closed.wait_for(|closed| *closed).await) }
    }

    /// Returns the number of requests without a response, except those whose response a fault holds.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed).saturating_sub(self.stalled.load(Ordering::Relaxed))
    }

    pub(crate) fn undelivered(&self) -> usize {
        self.undelivered.load(Ordering::Relaxed)
    }

    /// Counts a request until the returned value is dropped.
    pub(crate) fn in_flight_request(self: &Arc<Self>) -> Counted {
        Counted::new(self, |process| &process.in_flight)
    }

    /// Counts a request whose response a fault holds until the returned value is dropped.
    pub(crate) fn stalled_request(self: &Arc<Self>) -> Counted {
        let stalled = Counted::new(self, |process| &process.stalled);
        self.activity.notify_one();
        stalled
    }

    /// Counts an undelivered event until the returned value is dropped.
    pub(crate) fn undelivered_event(self: &Arc<Self>) -> Counted {
        Counted::new(self, |process| &process.undelivered)
    }
}

impl Counted {
    fn new(process: &Arc<Incarnation>, counter: fn(&Incarnation) -> &AtomicUsize) -> Self {
        counter(process).fetch_add(1, Ordering::Relaxed);
        Self { process: Arc::clone(process), counter }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.counter)(&self.process).fetch_sub(1, Ordering::Relaxed);
        self.process.activity.notify_one();
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incarnation")
            .field("number", &self.number)
            .field("in_flight", &self.in_flight())
            .field("undelivered", &self.undelivered())
            .finish_non_exhaustive()
    }
}
