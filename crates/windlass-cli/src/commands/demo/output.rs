//! The output of the demo: events in the control plane as they happen.

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Stdout},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use windlass_api::{ApiResource, ObjectKey};
use windlass_cache::{Cached, Notification};
use windlass_runtime::{Change, Outcome, ReconcileEvent};

use super::view::{Line, PodState, View};
use crate::recorder::Write;

/// The writer of the output. Clones write to the same output.
#[derive(Clone)]
pub(super) struct Output(Arc<Inner>);

struct Inner {
    began: Instant,
    output_state: Mutex<OutputState>,
    /// Notified when the output is closed.
    closed: Notify,
}

struct OutputState {
    view: View<Out>,
    /// The first write error, for example because the reader closed the output.
    broken: Option<io::Error>,
    events: usize,
    reconciles: usize,
    seen: Vec<String>,
}

/// Buffered, so that a line and the panel below it reach the terminal in one piece.
pub(super) type Out = BufWriter<Stdout>;

/// The kinds that are shown. Updates of nodes and leases are too frequent.
const CAST: &[&str] = &["Deployment", "ReplicaSet", "Pod"];

impl Output {
    pub(super) fn new(view: View<Out>) -> Self {
        let output_state = OutputState { view, broken: None, events: 0, reconciles: 0, seen: Vec::new() };
        Self(Arc::new(Inner { began: Instant::now(), output_state: Mutex::new(output_state), closed: Notify::new() }))
    }

    /// Waits until the output is closed.
    pub(super) async fn closed(&self) {
        self.0.closed.notified().await;
    }

    /// Writes a line.
    pub(super) fn write(&self, line: &Line) {
        let at = self.0.began.elapsed();
        let output_state = &mut *self.0.output_state.lock();
        if let Line::Seen(text) = line {
            output_state.seen.push(text.clone());
        }
        let written = output_state.view.line(at, line);
        self.record_failure(output_state, written);
    }

    /// Writes an event of a controller.
    pub(super) fn reconciled(&self, event: &ReconcileEvent<'_>) {
        match event {
            ReconcileEvent::Triggered(trigger) => {
                self.0.output_state.lock().events += 1;
                if !CAST.contains(&&*trigger.resource.kind) || is_aside(trigger.controller, trigger.change) {
                    return;
                }
                let change = match trigger.change {
                    Change::Added => "added",
                    Change::Updated => "changed",
                    Change::Deleted => "deleted",
                };
                let object = named(trigger.resource, trigger.object);
                self.write(&Line::Event { change, object, key: key(trigger.controller, trigger.key) });
            }
            ReconcileEvent::Finished(finished) => {
                self.0.output_state.lock().reconciles += 1;
                let outcome = match finished.outcome {
                    Outcome::Done(_) if !matches!(finished.controller, "deployment" | "replicaset") => return,
                    Outcome::Done(action) if action.delay().is_some() => "done for now".to_owned(),
                    Outcome::Done(_) => "done".to_owned(),
                    Outcome::Gone => "deleted, nothing to do".to_owned(),
                    Outcome::Failed { message, .. } => format!("retry, because {}", headline(message)),
                    other => format!("{other:?}"),
                };
                let key = key(finished.controller, finished.key);
                self.write(&Line::Reconciled { key, took: finished.duration, outcome });
            }
            _ => {}
        }
    }

    /// Writes a request that reached the server.
    pub(super) fn wrote(&self, write: &Write<'_>) {
        let resource = write.target.split('/').next().unwrap_or_default();
        if matches!(resource, "pods" | "replicasets" | "deployments") {
            let request = format!("{} {}", write.method, write.target);
            self.write(&Line::Write { request, status: write.status, meaning: meaning(write.status, write.reason) });
        }
    }

    /// Updates a pod in the panel.
    pub(super) fn pod(&self, notification: &Notification<Pod>) {
        let (object, gone) = match notification {
            Notification::Added { object, .. } | Notification::Updated { new: object, .. } => (object, false),
            Notification::Deleted(deleted) => (&deleted.object, true),
        };
        let state = if gone { None } else { state(object) };
        let output_state = &mut *self.0.output_state.lock();
        let painted = output_state.view.pod(object.meta().name(), state);
        self.record_failure(output_state, painted);
    }

    /// Writes the summary: results, number of requests, duration.
    pub(super) fn sum_up(&self, requests: &BTreeMap<&'static str, usize>, complete: bool) -> io::Result<()> {
        let took = self.0.began.elapsed();
        let (seen, events, reconciles) = {
            let output_state = &mut *self.0.output_state.lock();
            let closed = output_state.view.close();
            self.record_failure(output_state, closed);
            (output_state.seen.clone(), output_state.events, output_state.reconciles)
        };
        self.write(&Line::Act(
            if complete { "The loop works. Seen:" } else { "Not everything was observed. Seen:" }.to_owned(),
        ));
        for text in seen {
            self.write(&Line::Note(format!("  ✓ {text}")));
        }
        let total: usize = requests.values().sum();
        let verbs: Vec<_> = requests.iter().map(|(verb, count)| format!("{count} {verb}")).collect();
        let summary = format!(
            "{total} requests ({}), {events} events became keys, {reconciles} reconciles, {:.1} s",
            verbs.join(", "),
            took.as_secs_f64()
        );
        self.write(&Line::Note(summary));
        match self.0.output_state.lock().broken.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn record_failure(&self, output_state: &mut OutputState, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            output_state.broken.get_or_insert(error);
            self.0.closed.notify_one();
        }
    }
}

/// Explains a response that looks like an error but is part of the loop.
fn meaning(status: u16, reason: &str) -> &'static str {
    match (status, reason) {
        (409, "AlreadyExists") => " (it already exists)",
        (409, _) => " (another client wrote first: it is read again and retried)",
        (404, _) => " (it is already deleted)",
        _ => "",
    }
}

/// Returns the state for the panel; `None` for a pod that cannot be decoded.
fn state(pod: &Cached<Pod>) -> Option<PodState> {
    if pod.meta().is_deleting() {
        return Some(PodState::Ending);
    }
    let pod = pod.get().ok()?;
    let status = pod.status.as_ref();
    let ready = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    });
    let scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    Some(match (ready, scheduled) {
        (true, _) => PodState::Ready,
        (false, true) => PodState::Starting,
        (false, false) => PodState::Pending,
    })
}

fn named(resource: &ApiResource, object: &ObjectKey) -> String {
    format!("{} {}", resource.kind, object.name)
}

/// Reports whether an event is not worth showing: the kubelet ignores a deleted pod.
fn is_aside(controller: &str, change: Change) -> bool {
    controller == "kubelet" && change == Change::Deleted
}

/// Returns the error without its causes: a conflict needs no further explanation.
fn headline(message: &str) -> String {
    message.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ")
}

fn key(controller: &str, key: &ObjectKey) -> String {
    format!("{controller} {key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_conflict_is_explained() {
        assert!(meaning(409, "Conflict").contains("retried"));
        assert!(meaning(409, "AlreadyExists").contains("already exists"));
        assert_eq!((meaning(404, "NotFound"), meaning(201, "")), (" (it is already deleted)", ""));
    }

    #[test]
    fn failure_is_printed_in_one_short_line() {
        let message = "update pods \"p\": the server answered 409 Conflict: Operation cannot be fulfilled: and so on";
        assert_eq!(headline(message), "update pods \"p\": the server answered 409 Conflict");
        assert_eq!(headline("timed out"), "timed out");
    }
}
