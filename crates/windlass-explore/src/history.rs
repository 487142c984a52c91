//! The history of a run: the changes of all objects, and the requests of the program.
//!
//! The observer records each change. The gateway claims the changes that a request of the program has caused, before or
//! after they are recorded. The changes of one resource arrive in the order of their revisions; the history sorts those
//! of different resources at the end.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::{self, Instant},
};

use crate::{
    patterns::Patterns,
    plan::Point,
    record::{Actor, Change, ChangeVerb, ObjectName, Request},
};

mod claim;
mod points;
mod repeats;

pub(crate) use self::{
    claim::{Claim, Target, is_removed},
    points::{Names, changed_fields, generalize, text},
    repeats::Repeats,
};

/// The maximum number of recorded requests.
const MAX_REQUESTS: usize = 200_000;

/// The annotation with the record of a leader election.
const ELECTION: &str = "/metadata/annotations/control-plane.alpha.kubernetes.io~1leader";

/// The time limit for the observer to record a change that is already stored.
const PATIENCE: Duration = Duration::from_secs(5);

/// The history of a run.
#[derive(Debug)]
pub(crate) struct History {
    /// The time zero of the run.
    started: Instant,
    state: Mutex<State>,
    /// Changes with each recorded change.
    advanced: watch::Sender<()>,
    /// Notified when the activity of the cluster may have changed.
    activity: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    step: usize,
    revision_of_step: Vec<u64>,
    /// The current objects.
    objects: BTreeMap<ObjectName, Arc<Value>>,
    names: Names,
    changes: Vec<Recorded>,
    /// The number of changes of each content: points with occurrence 0.
    counts: HashMap<Point, usize>,
    /// Claims to changes that were not recorded yet.
    claims: Vec<Claim>,
    /// The revision up to which each observed resource was recorded and reported.
    observed: HashMap<String, u64>,
    last_change: Instant,
    repeats: Repeats,
    requests: Vec<Request>,
    unrecorded_requests: usize,
}

/// A change, and the number of the request that caused it.
#[derive(Debug)]
struct Recorded {
    change: Change,
    request: Option<usize>,
}

/// The content of a history.
#[derive(Debug)]
pub(crate) struct Entries {
    /// Sorted by revision.
    pub(crate) changes: Vec<Change>,
    pub(crate) requests: Vec<Request>,
    /// The number of requests that were not recorded, because there were too many.
    pub(crate) unrecorded_requests: usize,
    pub(crate) objects: BTreeMap<ObjectName, Arc<Value>>,
    pub(crate) revision_of_step: Vec<u64>,
}

/// Reports whether the changes of a resource are recorded: of all except events and leases.
pub(crate) fn is_recorded(resource: &str) -> bool {
    !matches!(resource, "events" | "events.events.k8s.io" | "leases.coordination.k8s.io")
}

/// Reports whether an object is the record of a leader election, which the leader renews all the time. Clients before
/// client-go 0.24 keep it in an annotation of a `ConfigMap` or of Endpoints.
pub(crate) fn is_election(object: &Value) -> bool {
    object.pointer(ELECTION).is_some()
}

impl History {
    /// Creates an empty history. `patterns` are those of names that the program generates.
    pub(crate) fn new(started: Instant, activity: Arc<Notify>, patterns: Arc<Patterns>) -> Self {
        let state = State {
            step: 0,
            revision_of_step: Vec::new(),
            objects: BTreeMap::new(),
            names: Names::new(patterns),
            changes: Vec::new(),
            counts: HashMap::new(),
            claims: Vec::new(),
            observed: HashMap::new(),
            last_change: started,
            repeats: Repeats::default(),
            requests: Vec::new(),
            unrecorded_requests: 0,
        };
        Self { started, state: Mutex::new(state), advanced: watch::Sender::new(()), activity }
    }

    // === changes ===

    /// Adds an object that existed when the observation began.
    pub(crate) fn add_existing(&self, resource: &str, object: Value) {
        let mut state = self.state.lock();
        let name = name_of(resource, &object);
        state.names.add(&name, &object);
        state.objects.insert(name, Arc::new(object));
    }

    /// Records the new state of an object. Returns the change, or `None` if the state was known.
    pub(crate) fn record(&self, resource: &str, object: Value, is_deleted: bool) -> Option<Change> {
        let mut state = self.state.lock();
        let change = state.change(self.started, resource, object, is_deleted)?;
        if !state.repeats.add(&change) {
            state.last_change = Instant::now();
        }
        let claim = state.claims.iter().position(|claim| claim.matches(&change));
        let index = state.changes.len();
        state.changes.push(Recorded { change, request: None });
        if let Some(claim) = claim {
            let claim = state.claims.swap_remove(claim);
            state.attribute(index, &claim);
        }
        let change = state.changes.last().map(|recorded| recorded.change.clone());
        drop(state);
        self.activity.notify_one();
        change
    }

    /// Marks a resource as recorded up to a revision, after the change was recorded and reported.
    pub(crate) fn advance(&self, resource: &str, revision: u64) {
        let mut state = self.state.lock();
        let observed = state.observed.entry(resource.to_owned()).or_default();
        *observed = revision.max(*observed);
        drop(state);
        self.advanced.send_replace(());
    }

    /// Waits until the changes of a resource are recorded up to a revision, or the time limit has passed.
    pub(crate) async fn observed(&self, resource: &str, revision: u64) {
        self.wait(|state| state.observed.get(resource).is_some_and(|observed| *observed >= revision)).await;
    }

    /// Forgets all changes. The objects remain. The next revision is the beginning of step 0.
    pub(crate) fn begin(&self, revision: u64) {
        let mut state = self.state.lock();
        state.changes.clear();
        state.counts.clear();
        state.revision_of_step = vec![revision];
        state.last_change = Instant::now();
    }

    /// Begins a step at a revision.
    pub(crate) fn begin_step(&self, step: usize, revision: u64) {
        let mut state = self.state.lock();
        state.step = step;
        if state.revision_of_step.len() <= step {
            state.revision_of_step.resize(step + 1, revision);
        }
        state.repeats = Repeats::default();
        state.last_change = Instant::now();
    }

    /// Restarts the time without changes.
    pub(crate) fn touch(&self) {
        self.state.lock().last_change = Instant::now();
        self.activity.notify_one();
    }

    /// Returns the current step and the time since the start.
    pub(crate) fn now(&self) -> (usize, Duration) {
        (self.state.lock().step, self.started.elapsed())
    }

    pub(crate) const fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn last_change(&self) -> Instant {
        self.state.lock().last_change
    }

    /// Returns the highest revision that was recorded.
    pub(crate) fn latest_revision(&self) -> u64 {
        self.state.lock().observed.values().copied().max().unwrap_or_default()
    }

    /// Returns the revision of the change at a point, if it has happened.
    pub(crate) fn revision_at(&self, point: &Point) -> Option<u64> {
        let state = self.state.lock();
        let found = state.changes.iter().find(|recorded| recorded.change.point == *point);
        found.map(|recorded| recorded.change.revision)
    }

    /// Returns the UID of an object that exists or was just removed.
    pub(crate) fn uid_of(&self, object: &ObjectName) -> Option<String> {
        let state = self.state.lock();
        let changed = state.changes.iter().rfind(|recorded| recorded.change.object == *object);
        let existing = || state.objects.get(object).map(|object| text(object, "/metadata/uid").to_owned());
        changed.map(|recorded| recorded.change.uid.clone()).or_else(existing)
    }

    /// Returns the point of a change that would happen now.
    pub(crate) fn next_point(&self, resource: &str, verb: ChangeVerb, object: &Value, fields: Vec<String>) -> Point {
        let state = self.state.lock();
        let mut point = state.content(&name_of(resource, object), verb, object, fields);
        point.occurrence = state.counts.get(&point).copied().unwrap_or_default() + 1;
        point
    }

    // === requests ===

    /// Records the beginning of a request, and returns its number.
    pub(crate) fn begin_request(&self, process: usize, method: &str, target: &str) -> usize {
        let mut state = self.state.lock();
        if state.requests.len() == MAX_REQUESTS {
            state.unrecorded_requests += 1;
            return usize::MAX;
        }
        let step = state.step;
        state.requests.push(Request {
            process,
            started: self.started.elapsed(),
            answered: None,
            step,
            method: method.to_owned(),
            target: target.to_owned(),
            status: None,
            revision: None,
        });
        state.requests.len() - 1
    }

    /// Records the status of the cluster's response to a request.
    pub(crate) fn executed(&self, request: usize, status: u16) {
        if let Some(request) = self.state.lock().requests.get_mut(request) {
            request.status = Some(status);
        }
    }

    /// Records the time at which the program gets the response to a request.
    pub(crate) fn answered(&self, request: usize) {
        let at = self.started.elapsed();
        if let Some(request) = self.state.lock().requests.get_mut(request) {
            request.answered = Some(at);
        }
    }

    /// Attributes changes to a request, waits until they are recorded, and returns their points.
    pub(crate) async fn claim(&self, request: usize, claims: Vec<Claim>) -> Vec<Point> {
        {
            let mut state = self.state.lock();
            for claim in claims {
                state.claim(claim);
            }
        }
        self.wait(|state| {
            !state.claims.iter().any(|claim| claim.request == request)
                && state.caused_by(request).all(|change| {
                    state.observed.get(&change.object.resource).is_some_and(|observed| *observed >= change.revision)
                })
        })
        .await;
        self.state.lock().caused_by(request).map(|change| change.point.clone()).collect()
    }

    /// Ends the history.
    pub(crate) fn take(&self) -> Entries {
        let mut state = self.state.lock();
        let mut changes: Vec<_> =
            std::mem::take(&mut state.changes).into_iter().map(|recorded| recorded.change).collect();
        changes.sort_by_key(|change| change.revision);
        Entries {
            changes,
            requests: std::mem::take(&mut state.requests),
            unrecorded_requests: state.unrecorded_requests,
            objects: std::mem::take(&mut state.objects),
            revision_of_step: std::mem::take(&mut state.revision_of_step),
        }
    }

    async fn wait(&self, is_met: impl Fn(&State) -> bool) {
        let mut advanced = self.advanced.subscribe();
        let met = async {
            while !is_met(&self.state.lock()) {
                // The sender is a field of this value.
                if advanced.changed().await.is_err() {
                    return;
                }
            }
        };
        if time::timeout(PATIENCE, met).await.is_err() {
            tracing::warn!("a change of the program was not observed within {PATIENCE:?}");
        }
    }
}

impl State {
    /// Applies the new state of an object, and returns the change.
    fn change(&mut self, started: Instant, resource: &str, object: Value, is_deleted: bool) -> Option<Change> {
        let name = name_of(resource, &object);
        let before = self.objects.get(&name).cloned();
        let revision = revision_of(&object)?;
        if before.as_deref().and_then(revision_of).is_some_and(|known| known >= revision)
            || is_deleted && before.is_none()
        {
            return None;
        }
        self.names.add(&name, &object);
        let object = Arc::new(object);
        let (verb, fields) = match (&before, is_deleted) {
            (_, true) => (ChangeVerb::Delete, Vec::new()),
            (None, false) => (ChangeVerb::Create, Vec::new()),
            (Some(before), false) => (ChangeVerb::Update, changed_fields(before, &object)),
        };
        let mut point = self.content(&name, verb, &object, fields);
        let count = self.counts.entry(point.clone()).or_default();
        *count += 1;
        point.occurrence = *count;
        let after = if is_deleted {
            self.objects.remove(&name);
            None
        } else {
            self.objects.insert(name.clone(), Arc::clone(&object));
            Some(Arc::clone(&object))
        };
        Some(Change {
            revision,
            at: started.elapsed(),
            step: self.step,
            verb,
            object: name,
            uid: text(&object, "/metadata/uid").to_owned(),
            actor: Actor::Other,
            point,
            before,
            after,
        })
    }

    /// Returns a point without its occurrence.
    fn content(&self, name: &ObjectName, verb: ChangeVerb, object: &Value, fields: Vec<String>) -> Point {
        Point {
            step: self.step,
            verb,
            resource: name.resource.clone(),
            namespace: name.namespace.clone(),
            name: self.names.pattern(name, object),
            fields,
            occurrence: 0,
        }
    }

    /// Applies a claim to a recorded change, or keeps it for a later one.
    fn claim(&mut self, claim: Claim) {
        let is_match = |recorded: &Recorded| recorded.request.is_none() && claim.matches(&recorded.change);
        match self.changes.iter().position(is_match) {
            Some(index) => self.attribute(index, &claim),
            None => self.claims.push(claim),
        }
    }

    fn attribute(&mut self, index: usize, claim: &Claim) {
        let Recorded { change, request } = &mut self.changes[index];
        change.actor = Actor::Program(claim.process);
        *request = Some(claim.request);
        if let Some(request) = self.requests.get_mut(claim.request) {
            request.revision = Some(change.revision);
        }
    }

    fn caused_by(&self, request: usize) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |recorded| recorded.request == Some(request)).map(|recorded| &recorded.change)
    }
}

/// Returns the name of an object of a resource.
pub(crate) fn name_of(resource: &str, object: &Value) -> ObjectName {
    ObjectName {
        resource: resource.to_owned(),
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
    }
}

/// Returns the resource version of an object as a number.
pub(crate) fn revision_of(object: &Value) -> Option<u64> {
    text(object, "/metadata/resourceVersion").parse().ok()
}

#[cfg(test)]
mod tests;
