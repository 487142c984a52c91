//! The shared state of a run: the event log, the counts, and the plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::Instant,
};
use windlass_api::EventType;
use windlass_runtime::{Outcome, ReconcileEvent};

use super::{
    plan::{EventFault, Plan, WriteFault},
    scenario::Scenario,
    state::{Change, How, Reader, State},
    timeline::{Entry, EntryKind},
};
use crate::requests::Sent;

/// The state of one run, shared by all of its parts.
pub(crate) struct RunState {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) plan: Plan,
    began: Instant,
    /// More requests than this indicate a loop.
    max_requests: usize,
    commands: mpsc::UnboundedSender<Command>,
    /// The number of steps started.
    pub(crate) step: watch::Sender<usize>,
    notes: Mutex<Notes>,
}

/// A command to the supervisor of the program.
pub(crate) enum Command {
    Crash { incarnation: usize, rewind: Option<String> },
    Depose { incarnation: usize, arrive: oneshot::Sender<()> },
}

/// One execution of the program under test, from its start to its end.
pub(crate) struct Incarnation {
    pub(crate) number: usize,
    gate: watch::Sender<Gate>,
    /// The resource version with which its caches start; `None` for the current one.
    pub(crate) rewind: Option<String>,
}

/// The handling of a program's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Requests wait.
    Blocked,
    /// Requests wait forever.
    Closed,
}

/// The records of a run.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) timeline: Vec<Entry>,
    pub(crate) writes: Vec<WriteSeen>,
    pub(crate) events: Vec<EventSeen>,
    events_of: BTreeMap<String, usize>,
    /// The paths of the resources that were written to.
    pub(crate) paths: BTreeMap<String, String>,
    versions: BTreeMap<String, u64>,
    readers: BTreeMap<String, Reader>,
    pub(crate) state: State,
    /// The objects of each resource when it was first listed.
    pub(crate) baseline: State,
    pub(crate) counts: BTreeMap<(String, How), usize>,
    /// The creations and removals by resource, in order.
    pub(crate) history: Vec<(String, How)>,
    pub(crate) requests: usize,
    /// The newest resource version at the start of the step.
    pub(crate) step_version: Option<String>,
    last_change: Option<Instant>,
    /// The resources and paths of the pending writes, in the order in which they started.
    unanswered: Vec<(String, String)>,
    /// The reconciles that have failed and not succeeded since.
    failing: BTreeMap<String, String>,
    running: BTreeMap<usize, usize>,
    /// The number of active faults.
    busy: usize,
    pub(crate) hits: usize,
    pub(crate) findings: Vec<String>,
}

/// A write of the program under test.
#[derive(Clone, Debug)]
pub(crate) struct WriteSeen {
    pub(crate) is_update: bool,
    /// The step; 0 before the first one.
    pub(crate) step: usize,
}

/// An event that reached a cache of the program under test.
#[derive(Clone, Debug)]
pub(crate) struct EventSeen {
    pub(crate) resource: String,
    pub(crate) n: usize,
    pub(crate) step: usize,
    /// `true` if the object is new to the cache.
    pub(crate) is_new: bool,
}

/// The reason why a run has not settled.
#[derive(Clone, Debug)]
pub(crate) struct NotSettled(pub(crate) String);

// === impl Incarnation ===

impl Incarnation {
    pub(crate) fn new(number: usize, rewind: Option<String>) -> Arc<Self> {
        Arc::new(Self { number, gate: watch::Sender::new(Gate::Open), rewind })
    }

    pub(crate) fn set(&self, gate: Gate) {
        self.gate.send_if_modified(|now| {
            let changes = *now != Gate::Closed && *now != gate;
            if changes {
                *now = gate;
            }
            changes
        });
    }

    /// Reports whether the program has crashed or was stopped.
    fn is_closed(&self) -> bool {
        *self.gate.borrow() == Gate::Closed
    }

    /// Waits until requests may pass. Never returns if the program has crashed or was stopped.
    pub(crate) async fn pass(&self) {
        let mut gate = self.gate.subscribe();
        if gate.wait_for(|gate| *gate == Gate::Open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("program #{}", self.number)
    }
}

// === impl RunState ===

impl RunState {
    pub(crate) fn new(
        scenario: Arc<Scenario>,
        plan: Plan,
        max_requests: usize,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Command>) {
        let (commands, orders) = mpsc::unbounded_channel();
        let step = watch::Sender::new(0);
        let run_state =
            Self { scenario, plan, began: Instant::now(), max_requests, commands, step, notes: Mutex::default() };
        (Arc::new(run_state), orders)
    }

    pub(crate) fn notes(&self) -> parking_lot::MutexGuard<'_, Notes> {
        self.notes.lock()
    }

    pub(crate) fn log(&self, who: impl Into<String>, kind: EntryKind, what: impl Into<String>) {
        let at = self.began.elapsed();
        self.notes.lock().timeline.push(Entry { at, who: who.into(), kind, what: what.into() });
    }

    /// Records a finding.
    pub(crate) fn add_finding(&self, finding: String) {
        let mut notes = self.notes.lock();
        if !notes.findings.contains(&finding) {
            let at = self.began.elapsed();
            notes.timeline.push(Entry { at, who: String::new(), kind: EntryKind::Finding, what: finding.clone() });
            notes.findings.push(finding);
        }
    }

    pub(crate) fn command(&self, command: Command) {
        // If the run is over, the receiver is gone.
        let _ = self.commands.send(command);
    }

    pub(crate) fn is_ignored(&self, resource: &str) -> bool {
        self.scenario.ignored.contains(resource)
    }

    // === requests ===

    /// Counts a request. Returns `false` if there were too many.
    pub(crate) fn admit(&self) -> bool {
        let mut notes = self.notes.lock();
        notes.requests += 1;
        notes.requests <= self.max_requests
    }

    pub(crate) fn overran(&self) -> Option<usize> {
        let requests = self.notes.lock().requests;
        (requests > self.max_requests).then_some(self.max_requests)
    }

    /// Counts a write of the program, and returns its number and its fault.
    pub(crate) fn write(&self, is_update: bool) -> (usize, Option<WriteFault>) {
        let step = *self.step.borrow();
        let mut notes = self.notes.lock();
        notes.writes.push(WriteSeen { is_update, step });
        let n = notes.writes.len();
        let fault = self.plan.at_write(n);
        notes.hits += usize::from(fault.is_some());
        (n, fault)
    }

    /// Returns `true` if a resource has not been listed yet.
    pub(crate) fn is_new(&self, resource: &str) -> bool {
        !self.notes.lock().paths.contains_key(resource)
    }

    /// Records a pending write until the guard is dropped. The server may perform it before its response arrives.
    pub(crate) fn begin_write(self: &Arc<Self>, resource: &str, path: &str) -> Unanswered {
        let place = (resource.to_owned(), path.to_owned());
        self.notes.lock().unanswered.push(place.clone());
        Unanswered { run_state: Arc::clone(self), place }
    }

    /// Returns the resources and paths of the pending writes, in the order in which they started. Watches may already
    /// have shown their effects, and the program may have reacted.
    pub(crate) fn unanswered(&self) -> Vec<(String, String)> {
        let mut seen = BTreeSet::new();
        let mut places = self.notes.lock().unanswered.clone();
        places.retain(|place| seen.insert(place.clone()));
        places
    }

    /// Applies lists of resources in this order, and checks the invariants at the end. A list that is older than the
    /// known state of its resource is skipped.
    pub(crate) fn apply_lists<'l>(&self, lists: impl IntoIterator<Item = (&'l str, &'l str, &'l [u8])>) {
        let mut guard = self.notes.lock();
        let notes = &mut *guard;
        let at = self.began.elapsed();
        let mut has_changed = false;
        for (resource, path, list) in lists {
            for Change { resource, key, how } in notes.take(resource, path, list) {
                has_changed = true;
                let what = format!("{resource} {key} {}", how.words());
                notes.timeline.push(Entry { at, who: "cluster".to_owned(), kind: EntryKind::Change, what });
                *notes.counts.entry((resource.clone(), how)).or_default() += 1;
                if how != How::Changed {
                    notes.history.push((resource, how));
                }
            }
        }
        if !has_changed {
            return;
        }
        notes.last_change = Some(Instant::now());
        let broken: Vec<_> = self.scenario.broken(&notes.state, &notes.history).collect();
        drop(guard);
        for finding in broken {
            self.add_finding(finding);
        }
    }

    // === events ===

    /// Counts an event, and returns the fault of the cache that it is for.
    pub(crate) fn event(
        &self,
        resource: &str,
        event_type: EventType,
        key: &str,
        incarnation: &Incarnation,
    ) -> Option<EventFault> {
        let step = *self.step.borrow();
        let at = self.began.elapsed();
        let mut notes = self.notes.lock();
        let count = notes.events_of.entry(resource.to_owned()).or_default();
        *count += 1;
        let n = *count;
        let is_new = event_type == EventType::Added;
        notes.events.push(EventSeen { resource: resource.to_owned(), n, step, is_new });
        let what = format!("sees {event_type} {resource} {key} (event {resource}:{n})");
        notes.timeline.push(Entry { at, who: incarnation.name(), kind: EntryKind::Event, what });
        let fault = self.plan.at_event(resource, n);
        notes.hits += usize::from(fault.is_some());
        fault
    }

    // === reconciles ===

    /// Records the reconciles of a program's controllers.
    pub(crate) fn observe(&self, incarnation: &Incarnation, event: &ReconcileEvent<'_>) {
        if incarnation.is_closed() {
            // Its tasks are being dropped: a reconcile that starts now never ends.
            return;
        }
        match event {
            ReconcileEvent::Started(started) => {
                *self.notes.lock().running.entry(incarnation.number).or_default() += 1;
                self.log(
                    incarnation.name(),
                    EntryKind::Reconcile,
                    format!("{} reconciles {}", started.controller, started.key),
                );
            }
            ReconcileEvent::Finished(finished) => {
                let id = format!("{} {}", finished.controller, finished.key);
                let (ended, failure) = match finished.outcome {
                    Outcome::Done(action) => match action.delay() {
                        Some(delay) => (format!("succeeded, requeued after {delay:?}"), None),
                        None => ("succeeded".to_owned(), None),
                    },
                    Outcome::Gone => ("the object is gone".to_owned(), None),
                    Outcome::Failed { message, retry } => {
                        let again = !matches!(retry, windlass_runtime::Retry::Never);
                        (format!("failed: {message}"), again.then(|| message.clone()))
                    }
                    Outcome::TimedOut { limit } => (format!("timed out after {limit:?}"), Some("too slow".to_owned())),
                    Outcome::Panicked { message } => {
                        (format!("panicked: {message}"), Some(format!("panicked: {message}")))
                    }
                    other => (format!("ended: {other:?}"), None),
                };
                self.log(
                    incarnation.name(),
                    EntryKind::Reconcile,
                    format!("{} {}: {ended}", finished.controller, finished.key),
                );
                if let Outcome::Panicked { message } = finished.outcome {
                    self.add_finding(format!("{} panicked: {message}", finished.controller));
                }
                let mut notes = self.notes.lock();
                if let Some(running) = notes.running.get_mut(&incarnation.number) {
                    *running = running.saturating_sub(1);
                }
                match failure {
                    Some(message) => {
                        notes.last_change = Some(Instant::now());
                        notes.failing.insert(id, message);
                    }
                    None => drop(notes.failing.remove(&id)),
                }
            }
            _ => {}
        }
    }

    /// Records the end of an execution; none of its tasks is running any more.
    pub(crate) fn ended(&self, incarnation: &Incarnation) {
        let mut notes = self.notes.lock();
        notes.running.remove(&incarnation.number);
        notes.failing.clear();
    }

    // === the end of a step ===

    /// Records an active fault until the guard is dropped.
    pub(crate) fn fault(self: &Arc<Self>) -> Busy {
        self.notes.lock().busy += 1;
        Busy(Arc::clone(self))
    }

    /// Waits until nothing has changed for a while, nothing is in progress or failing, and no fault is active.
    pub(crate) async fn settle(&self) -> Result<(), NotSettled> {
        let (quiet, patience) = (self.scenario.quiet, self.scenario.patience);
        let began = Instant::now();
        self.notes.lock().last_change = Some(began);
        loop {
            let since = self.notes.lock().last_change.unwrap_or(began);
            tokio::time::sleep_until(since + quiet).await;
            if let Some(most) = self.overran() {
                return Err(NotSettled(format!("it has sent more than {most} requests")));
            }
            let (last, reason) = {
                let notes = self.notes.lock();
                (notes.last_change.unwrap_or(began), notes.reason())
            };
            let is_quiet = last.elapsed() >= quiet;
            match reason {
                None if is_quiet => return Ok(()),
                reason if began.elapsed() > patience => {
                    let reason = reason.unwrap_or_else(|| "something still changes".to_owned());
                    return Err(NotSettled(format!("it has not settled within {patience:?}: {reason}")));
                }
                Some(_) if is_quiet => tokio::time::sleep(Duration::from_secs(5)).await,
                _ => {}
            }
        }
    }

    /// Returns the listed resources and their paths.
    pub(crate) fn paths(&self) -> BTreeMap<String, String> {
        self.notes.lock().paths.clone()
    }
}

impl std::fmt::Debug for RunState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunState").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl Notes {
    /// Applies a list of a resource and returns the changes, unless the known state is newer. The first list is the
    /// baseline.
    fn take(&mut self, resource: &str, path: &str, list: &[u8]) -> Vec<Change> {
        let reader = self.readers.entry(resource.to_owned()).or_default();
        let Some((objects, version)) = reader.read(list) else { return Vec::new() };
        let version: u64 = version.parse().unwrap_or(u64::MAX);
        if !self.paths.contains_key(resource) {
            self.paths.insert(resource.to_owned(), path.to_owned());
            self.versions.insert(resource.to_owned(), version);
            self.baseline.0.insert(resource.to_owned(), objects.clone());
            self.state.0.insert(resource.to_owned(), objects);
            return Vec::new();
        }
        if self.versions.get(resource).is_some_and(|known| *known > version) {
            return Vec::new();
        }
        self.versions.insert(resource.to_owned(), version);
        self.state.replace(resource, objects)
    }

    /// Returns the reason why the run has not settled.
    fn reason(&self) -> Option<String> {
        if self.busy > 0 {
            return Some("a fault is still active".to_owned());
        }
        if self.running.values().any(|running| *running > 0) {
            return Some("a reconcile is still in progress".to_owned());
        }
        self.failing.iter().next().map(|(key, message)| format!("{key} fails: {message}"))
    }
}

/// See [`RunState::fault`].
pub(crate) struct Busy(Arc<RunState>);

impl Drop for Busy {
    fn drop(&mut self) {
        let mut notes = self.0.notes.lock();
        notes.busy -= 1;
        notes.last_change = Some(Instant::now());
    }
}

/// See [`RunState::begin_write`].
pub(crate) struct Unanswered {
    run_state: Arc<RunState>,
    place: (String, String),
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let unanswered = &mut self.run_state.notes.lock().unanswered;
        if let Some(index) = unanswered.iter().position(|place| *place == self.place) {
            unanswered.remove(index);
        }
    }
}

impl How {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Created => "is there",
            Self::Changed => "has changed",
            Self::Removed => "is gone",
        }
    }
}

/// Returns the resource of a request.
pub(crate) fn resource_of(sent: &Sent) -> String {
    super::state::name_of(&sent.group, &sent.resource)
}

/// Returns the path that lists all objects of the request's resource.
pub(crate) fn collection_of(sent: &Sent) -> String {
    let Sent { group, version, resource, .. } = sent;
    if group.is_empty() { format!("/api/{version}/{resource}") } else { format!("/apis/{group}/{version}/{resource}") }
}

/// Returns the resources that are ignored by default.
pub(crate) fn usually_ignored() -> BTreeSet<String> {
    ["events", "events.events.k8s.io", "leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io"]
        .map(str::to_owned)
        .into()
}
