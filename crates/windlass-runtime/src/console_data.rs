//! The data of a console, recorded as things happen and read on request.

pub(crate) mod history;
pub mod state;
mod step_log;

use std::{
    collections::HashMap,
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use windlass_api::{ApiResource, Clock, Object, ObjectKey, ObjectRef};
use windlass_client::Operation;
use windlass_queue::WorkQueue;

use self::{
    history::{Latencies, Samples},
    state::{ControllerState, InFlight, LastFailure, Step, StepBatch, Totals},
    step_log::StepLog,
};
use crate::{
    Change, Outcome, ReconcileEvent, ReconcileFinished, ReconcileObserver, ReconcileStarted, ReconcileWrote, Trigger,
};

/// The maximum length of a recorded error message.
const MESSAGE: usize = 2_000;

/// A controller and its queue.
pub(crate) struct ControllerEntry {
    name: Arc<str>,
    /// The reconciled resource.
    resource: ApiResource,
    workers: usize,
    /// Returns the number of ready keys.
    depth: Box<dyn Fn() -> usize + Send + Sync>,
}

/// A guard that removes a controller from the console when it is dropped.
#[derive(Debug)]
pub(crate) struct ControllerGuard {
    data: Arc<ConsoleData>,
    name: Arc<str>,
}

/// The data of a console.
pub(crate) struct ConsoleData {
    clock: Clock,
    /// The start of the recording: in milliseconds since the Unix epoch, and as an instant for durations.
    started: (i64, Instant),
    controllers: RwLock<Controllers>,
    log: StepLog,
}

#[derive(Default)]
struct Controllers {
    /// The running controllers, in the order in which they were started.
    all: Vec<Arc<Controller>>,
    by_name: HashMap<Arc<str>, Arc<Controller>>,
}

struct Controller {
    entry: ControllerEntry,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    totals: Totals,
    in_flight: HashMap<ObjectKey, (Arc<str>, Instant)>,
    latencies: Latencies,
    last_failure: Option<LastFailure>,
    samples: Samples,
}

// === impl ControllerEntry ===

impl ControllerEntry {
    pub(crate) fn new<K: Object>(
        name: &Arc<str>,
        resource: &ApiResource,
        workers: usize,
        queue: WorkQueue<ObjectRef<K>>,
    ) -> Self {
        Self { name: Arc::clone(name), resource: resource.clone(), workers, depth: Box::new(move || queue.len()) }
    }
}

// === impl ConsoleData ===

impl ConsoleData {
    pub(crate) fn new(clock: Clock) -> Self {
        let started = (clock.now().as_millisecond(), Instant::now());
        Self { clock, started, controllers: RwLock::default(), log: StepLog::new() }
    }

    /// Adds a controller. Running controllers have unique names.
    pub(crate) fn add_controller(self: &Arc<Self>, entry: ControllerEntry) -> ControllerGuard {
        let controller = Arc::new(Controller { entry, counts: Mutex::default() });
        let name = Arc::clone(&controller.entry.name);
        let mut controllers = self.controllers.write();
        controllers.all.push(Arc::clone(&controller));
        controllers.by_name.insert(Arc::clone(&name), controller);
        drop(controllers);
        ControllerGuard { data: Arc::clone(self), name }
    }

    /// Returns the start of the recording in milliseconds since the Unix epoch, and the time since then.
    pub(crate) fn started(&self) -> (i64, Duration) {
        (self.started.0, self.started.1.elapsed())
    }

    /// Returns the current time in milliseconds since the Unix epoch.
    pub(crate) fn now(&self) -> i64 {
        self.clock.now().as_millisecond()
    }

    pub(crate) fn read(&self) -> Vec<ControllerState> {
        let controllers = self.controllers.read().all.clone();
        controllers.iter().map(|controller| controller.read()).collect()
    }

    /// Returns the newest lines starting at a number, and the number after them.
    pub(crate) fn since(&self, from: u64) -> Option<(StepBatch, u64)> {
        self.log.since(from)
    }

    /// Takes a sample. Must be called at regular intervals, see [`EVERY`](self::history::EVERY).
    pub(crate) fn sample(&self) {
        let controllers = self.controllers.read().all.clone();
        for controller in controllers {
            let depth = u64::try_from((controller.entry.depth)()).unwrap_or(u64::MAX);
            let counts = &mut *controller.counts.lock();
            counts.samples.take(counts.totals.reconciles, counts.totals.failures, depth);
        }
    }

    fn controller(&self, name: &str) -> Option<Arc<Controller>> {
        self.controllers.read().by_name.get(name).cloned()
    }

    fn record(&self, controller: &Controller, key: &ObjectKey, step: Step) {
        self.log.add(self.now(), Arc::clone(&controller.entry.name), key.clone(), step);
    }
}

impl ReconcileObserver for ConsoleData {
    fn observe(&self, event: &ReconcileEvent<'_>) {
        let (name, key) = match event {
            ReconcileEvent::Triggered(Trigger { controller, key, .. })
            | ReconcileEvent::Started(ReconcileStarted { controller, key, .. })
            | ReconcileEvent::Wrote(ReconcileWrote { controller, key, .. })
            | ReconcileEvent::Finished(ReconcileFinished { controller, key, .. }) => (*controller, *key),
        };
        let Some(controller) = self.controller(name) else { return };
        let step = match event {
            ReconcileEvent::Triggered(trigger) => controller.triggered(trigger),
            ReconcileEvent::Started(started) => controller.started(started),
            ReconcileEvent::Wrote(wrote) => controller.wrote(wrote),
            ReconcileEvent::Finished(finished) => controller.finished(finished, self.now()),
        };
        self.record(&controller, key, step);
    }
}

impl Debug for ConsoleData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleData").field("controllers", &self.controllers.read().all.len()).finish_non_exhaustive()
    }
}

// === impl ControllerGuard ===

impl Drop for ControllerGuard {
    fn drop(&mut self) {
        let mut controllers = self.data.controllers.write();
        controllers.all.retain(|controller| controller.entry.name != self.name);
        controllers.by_name.remove(&self.name);
    }
}

// === impl Controller ===

impl Controller {
    fn read(&self) -> ControllerState {
        let ControllerEntry { name, resource, workers, depth } = &self.entry;
        let depth = depth();
        let now = Instant::now();
        let counts = self.counts.lock();
        let in_flight = counts.in_flight.iter().map(|(key, (id, since))| {
            let for_micros = micros(now.duration_since(*since));
            InFlight { key: key.clone(), id: Arc::clone(id), for_micros }
        });
        let mut in_flight: Vec<_> = in_flight.collect();
        in_flight.sort_by_key(|flight| std::cmp::Reverse(flight.for_micros));
        ControllerState {
            name: Arc::clone(name),
            resource: resource.group_resource().to_string(),
            workers: *workers,
            depth,
            in_flight,
            totals: counts.totals,
            latency: counts.latencies.read(),
            last_failure: counts.last_failure.clone(),
            history: counts.samples.read(),
        }
    }

    fn triggered(&self, trigger: &Trigger<'_>) -> Step {
        self.counts.lock().totals.triggers += 1;
        Step::Triggered {
            change: match trigger.change {
                Change::Added => "added",
                Change::Updated => "updated",
                Change::Deleted => "deleted",
            },
            resource: trigger.resource.group_resource().to_string(),
            object: trigger.object.clone(),
        }
    }

    fn started(&self, started: &ReconcileStarted<'_>) -> Step {
        let id: Arc<str> = started.id.into();
        self.counts.lock().in_flight.insert(started.key.clone(), (Arc::clone(&id), Instant::now()));
        Step::Started { id }
    }

    fn wrote(&self, wrote: &ReconcileWrote<'_>) -> Step {
        {
            let totals = &mut self.counts.lock().totals;
            totals.writes += 1;
            match wrote.status {
                Some(409) => totals.conflicts += 1,
                Some(200..400) => {}
                _ => totals.refusals += 1,
            }
        }
        let Operation { verb, resource, subresource, namespace, name } = wrote.operation;
        let part = subresource.as_deref().map(|part| format!("/{part}")).unwrap_or_default();
        let object = name.as_deref().map(|name| match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        });
        Step::Wrote {
            id: wrote.id.into(),
            verb: verb.to_string(),
            resource: format!("{resource}{part}"),
            object,
            status: wrote.status,
            took_micros: micros(wrote.took),
        }
    }

    fn finished(&self, finished: &ReconcileFinished<'_>, now: i64) -> Step {
        let (outcome, message, requeue) = match finished.outcome {
            Outcome::Done(action) => ("done", None, action.delay()),
            Outcome::Gone => ("gone", None, None),
            Outcome::Failed { message, .. } => ("failed", Some(shortened(message)), None),
            Outcome::TimedOut { limit } => ("timedOut", Some(format!("took longer than {limit:?}")), None),
            Outcome::Panicked { message } => ("panicked", Some(shortened(message)), None),
        };
        let took_micros = micros(finished.duration);
        let mut counts = self.counts.lock();
        counts.in_flight.remove(finished.key);
        counts.latencies.add(took_micros);
        let totals = &mut counts.totals;
        totals.reconciles += 1;
        totals.failures += u64::from(message.is_some());
        totals.timeouts += u64::from(outcome == "timedOut");
        totals.panics += u64::from(outcome == "panicked");
        if let Some(message) = &message {
            let (key, message) = (finished.key.clone(), message.clone());
            counts.last_failure = Some(LastFailure { at: now, key, message });
        }
        drop(counts);
        Step::Finished { id: finished.id.into(), outcome, took_micros, message, requeue_millis: requeue.map(millis) }
    }
}

fn shortened(message: &str) -> String {
    match message.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
