//! What happens in the control plane, told as it happens.

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

/// The teller. Clones tell the same story.
#[derive(Clone)]
pub(super) struct Story(Arc<Inner>);

struct Inner {
    began: Instant,
    told: Mutex<Told>,
    /// Told when nobody reads any more.
    unread: Notify,
}

struct Told {
    view: View<Out>,
    /// The first failure to write; whoever reads the story may have gone.
    broken: Option<io::Error>,
    events: usize,
    reconciles: usize,
    seen: Vec<String>,
}

/// Buffered, so that a line and the panel below it reach the terminal in one piece.
pub(super) type Out = BufWriter<Stdout>;

/// The kinds that the story is about. Nodes beat and leases are renewed all the time; that would drown it.
const CAST: &[&str] = &["Deployment", "ReplicaSet", "Pod"];

impl Story {
    pub(super) fn new(view: View<Out>) -> Self {
        let told = Told { view, broken: None, events: 0, reconciles: 0, seen: Vec::new() };
        Self(Arc::new(Inner { began: Instant::now(), told: Mutex::new(told), unread: Notify::new() }))
    }

    /// Waits until what is told cannot be written: whoever read it has gone.
    pub(super) async fn unread(&self) {
        self.0.unread.notified().await;
    }

    /// Tells a line.
    pub(super) fn tell(&self, line: &Line) {
        let at = self.0.began.elapsed();
        let told = &mut *self.0.told.lock();
        if let Line::Seen(text) = line {
            told.seen.push(text.clone());
        }
        let written = told.view.line(at, line);
        self.note(told, written);
    }

    /// A step of a controller.
    pub(super) fn reconciled(&self, event: &ReconcileEvent<'_>) {
        match event {
            ReconcileEvent::Triggered(trigger) => {
                self.0.told.lock().events += 1;
                if !CAST.contains(&&*trigger.resource.kind) || is_aside(trigger.controller, trigger.change) {
                    return;
                }
                let change = match trigger.change {
                    Change::Added => "added",
                    Change::Updated => "changed",
                    Change::Deleted => "deleted",
                };
                let object = named(trigger.resource, trigger.object);
                self.tell(&Line::Event { change, object, key: key(trigger.controller, trigger.key) });
            }
            ReconcileEvent::Finished(finished) => {
                self.0.told.lock().reconciles += 1;
                let outcome = match finished.outcome {
                    Outcome::Done(_) if !matches!(finished.controller, "deployment" | "replicaset") => return,
                    Outcome::Done(action) if action.delay().is_some() => "done for now".to_owned(),
                    Outcome::Done(_) => "done".to_owned(),
                    Outcome::Gone => "gone, nothing to do".to_owned(),
                    Outcome::Failed { message, .. } => format!("again, because {}", headline(message)),
                    other => format!("{other:?}"),
                };
                let key = key(finished.controller, finished.key);
                self.tell(&Line::Reconciled { key, took: finished.duration, outcome });
            }
            _ => {}
        }
    }

    /// A write that reached the server.
    pub(super) fn wrote(&self, write: &Write<'_>) {
        let resource = write.target.split('/').next().unwrap_or_default();
        if matches!(resource, "pods" | "replicasets" | "deployments") {
            let request = format!("{} {}", write.method, write.target);
            self.tell(&Line::Write { request, status: write.status, meaning: meaning(write.status, write.reason) });
        }
    }

    /// A change of a pod, for the panel.
    pub(super) fn pod(&self, notification: &Notification<Pod>) {
        let (object, gone) = match notification {
            Notification::Added { object, .. } | Notification::Updated { new: object, .. } => (object, false),
            Notification::Deleted(deleted) => (&deleted.object, true),
        };
        let state = if gone { None } else { state(object) };
        let told = &mut *self.0.told.lock();
        let painted = told.view.pod(object.meta().name(), state);
        self.note(told, painted);
    }

    /// Says in the end what was seen, how many requests it took and how long.
    pub(super) fn sum_up(&self, requests: &BTreeMap<&'static str, usize>, complete: bool) -> io::Result<()> {
        let took = self.0.began.elapsed();
        let (seen, events, reconciles) = {
            let told = &mut *self.0.told.lock();
            let closed = told.view.close();
            self.note(told, closed);
            (told.seen.clone(), told.events, told.reconciles)
        };
        self.tell(&Line::Act(
            if complete { "The loop works. Seen:" } else { "Not everything was seen. Seen:" }.to_owned(),
        ));
        for text in seen {
            self.tell(&Line::Note(format!("  ✓ {text}")));
        }
        let total: usize = requests.values().sum();
        let verbs: Vec<_> = requests.iter().map(|(verb, count)| format!("{count} {verb}")).collect();
        let summary = format!(
            "{total} requests ({}), {events} events became keys, {reconciles} reconciles, {:.1} s",
            verbs.join(", "),
            took.as_secs_f64()
        );
        self.tell(&Line::Note(summary));
        match self.0.told.lock().broken.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn note(&self, told: &mut Told, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            told.broken.get_or_insert(error);
            self.0.unread.notify_one();
        }
    }
}

/// What the loop makes of an answer that looks like trouble and is none.
fn meaning(status: u16, reason: &str) -> &'static str {
    match (status, reason) {
        (409, "AlreadyExists") => " (it is there already)",
        (409, _) => " (somebody else wrote first: it is read anew and tried again)",
        (404, _) => " (it is gone already)",
        _ => "",
    }
}

/// As the panel shows it; a pod that cannot be decoded is not shown.
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

/// Whether an event leads to nothing that is worth telling: the scheduler is done with a pod once it is bound, and
/// nobody on a node mourns it.
fn is_aside(controller: &str, change: Change) -> bool {
    match controller {
        "scheduler" => change != Change::Added,
        "kubelet" => change == Change::Deleted,
        _ => false,
    }
}

/// What failed and how, without the causes: a conflict explains itself.
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
    fn a_conflict_is_explained_to_those_who_meet_it_first() {
        assert!(meaning(409, "Conflict").contains("tried again"));
        assert!(meaning(409, "AlreadyExists").contains("there already"));
        assert_eq!((meaning(404, "NotFound"), meaning(201, "")), (" (it is gone already)", ""));
    }

    #[test]
    fn a_failure_is_told_in_one_short_line() {
        let message = "update pods \"p\": the server answered 409 Conflict: Operation cannot be fulfilled: and so on";
        assert_eq!(headline(message), "update pods \"p\": the server answered 409 Conflict");
        assert_eq!(headline("timed out"), "timed out");
    }
}
