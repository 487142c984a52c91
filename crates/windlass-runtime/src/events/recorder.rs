//! Recorders of events, and the queue to the writer.

use std::{
    fmt::{self, Debug},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::Instant,
};
use windlass_api::{
    Clock, Entropy, ObjectExt as _, Resource,
    k8s_openapi::{
        api::core::v1::{Event, EventSource, ObjectReference},
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    },
};
use windlass_client::Client;

use super::Note;

/// The maximum number of events that wait to be written.
const QUEUE: usize = 1000;
/// The minimum interval between two log lines about dropped events.
const DROP_REPORT: Duration = Duration::from_secs(10);
/// The maximum length of an object's name.
const NAME_LIMIT: usize = 253;

/// Records events with one component as their source. Clones have the same component.
///
/// Controllers use [`Context::recorder`](crate::Context::recorder). For other work, or another component name, use
/// [`Cluster::recorder`](crate::Cluster::recorder).
///
/// ```
/// use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
/// use windlass_runtime::events::{Note, Recorder};
///
/// let (recorder, mut recorded) = Recorder::captured("painter");
/// recorder.record(&ConfigMap::default(), Note::normal("Painted", "painted it blue"));
/// assert_eq!(recorded.lines(), ["Normal Painted painted it blue"]);
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    component: Arc<str>,
    host: Option<Arc<str>>,
    sender: EventSender,
}

/// The events of a recorder for tests.
#[derive(Debug)]
pub struct RecordedEvents(Queue);

/// The recorders' end of a manager's event queue. Clones send to the same queue.
#[derive(Clone)]
pub(crate) struct EventSender {
    queue: mpsc::Sender<QueuedEvent>,
    /// The client that the events are written with; `None` for that of the manager.
    credentials: Option<Client>,
    clock: Clock,
    entropy: Entropy,
    /// The number in the name of the last event.
    last: Arc<AtomicI64>,
    dropped: Arc<Mutex<Dropped>>,
}

/// The events that were dropped because the queue was full.
#[derive(Debug, Default)]
struct Dropped {
    /// Those since the last log line.
    count: u64,
    reported: Option<Instant>,
}

/// The events that wait to be written.
pub(crate) type Queue = mpsc::Receiver<QueuedEvent>;

/// A recorded event.
#[derive(Debug)]
pub(crate) struct QueuedEvent {
    pub(super) event: Event,
    /// The client whose credentials the event is written with; `None` for the client of the manager.
    pub(super) credentials: Option<Client>,
}

/// Returns a reference to an object, for [`Recorder::record_about`]. Set `field_path` to refer to a part of it.
pub fn reference<K: Resource>(object: &K) -> ObjectReference {
    object.object_reference()
}

// === impl Recorder ===

impl Recorder {
    /// Creates a recorder whose events are captured for a test.
    #[must_use]
    pub fn captured(component: impl Into<Arc<str>>) -> (Self, RecordedEvents) {
        let (sender, queue) = EventSender::new(Clock::system(), Entropy::seeded(0));
        (sender.recorder(component), RecordedEvents(queue))
    }

    /// Returns a recorder whose events are written with the connections and the credentials of another client of the same
    /// server. By default, they are written with those of the cluster that the recorder comes from.
    #[must_use]
    pub fn with_credentials_of(mut self, client: &Client) -> Self {
        self.sender = self.sender.with_credentials_of(client);
        self
    }

    /// Returns a recorder with the same component and a host name.
    #[must_use]
    pub fn on_host(mut self, host: impl Into<Arc<str>>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Records an event about an object. Returns at once; events that cannot be written are logged.
    pub fn record<K: Resource>(&self, about: &K, note: Note) {
        self.record_about(reference(about), note);
    }

    /// Records an event about an object reference, or a part of the referenced object.
    pub fn record_about(&self, about: ObjectReference, note: Note) {
        let event = self.event(about, note);
        let queued = QueuedEvent { event, credentials: self.sender.credentials.clone() };
        let sent = self.sender.queue.try_send(queued);
        let is_full = matches!(sent, Err(TrySendError::Full(_)));
        if let Some(count) = self.sender.dropped.lock().due(is_full, Instant::now()) {
            tracing::warn!(component = &*self.component, count, "dropped events: the queue is full");
        }
        match sent {
            Ok(()) => {}
            Err(TrySendError::Full(QueuedEvent { event, .. })) => {
                tracing::trace!(component = &*self.component, message = event.message, "dropped an event");
            }
            Err(TrySendError::Closed(QueuedEvent { event, .. })) => {
                tracing::debug!(
                    component = &*self.component,
                    message = event.message,
                    "dropped an event: the writer has stopped"
                );
            }
        }
    }

    fn event(&self, about: ObjectReference, note: Note) -> Event {
        let now = self.sender.clock.now();
        // Events of cluster-scoped objects are stored in the default namespace.
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta {
                name: Some(self.sender.name(about.name.as_deref().unwrap_or_default())),
                namespace: Some(namespace),
                annotations: Some(note.annotations).filter(|annotations| !annotations.is_empty()),
                ..ObjectMeta::default()
            },
            involved_object: about,
            reason: Some(note.reason.into_owned()),
            message: Some(note.message),
            action: note.action,
            related: note.related,
            type_: Some(note.severity.as_str().to_owned()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some(self.component.to_string()),
                host: self.host.as_deref().map(str::to_owned),
            }),
            reporting_component: Some(self.component.to_string()),
            reporting_instance: Some(self.host.as_deref().unwrap_or_default().to_owned()),
            ..Event::default()
        }
    }
}

// === impl Dropped ===

impl Dropped {
    /// Counts an event if it `is_dropped`. Returns the number of dropped events if it is time to log them.
    fn due(&mut self, is_dropped: bool, now: Instant) -> Option<u64> {
        self.count += u64::from(is_dropped);
        let is_recent = self.reported.is_some_and(|reported| now.duration_since(reported) < DROP_REPORT);
        if self.count == 0 || is_recent {
            return None;
        }
        self.reported = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

// === impl EventSender ===

impl EventSender {
    pub(crate) fn new(clock: Clock, entropy: Entropy) -> (Self, Queue) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let (last, dropped) = (Arc::default(), Arc::default());
        (Self { queue: sender, credentials: None, clock, entropy, last, dropped }, queue)
    }

    pub(crate) fn with_credentials_of(self, client: &Client) -> Self {
        Self { credentials: Some(client.clone()), ..self }
    }

    pub(crate) fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        Recorder { component: component.into(), host: None, sender: self.clone() }
    }

    /// Returns a unique name for an event about the object. The time in nanoseconds makes it unique and sorts the
    /// events of an object.
    fn name(&self, object: &str) -> String {
        let now = i64::try_from(self.clock.now().as_nanosecond()).unwrap_or(i64::MAX);
        // Names stay unique if the clock stops or goes back.
        let after = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_default();
        let name = format!("{object}.{:x}", now.max(last.saturating_add(1)));
        if is_subdomain(&name) { name } else { self.entropy.uuid() }
    }
}

impl Debug for EventSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSender").finish_non_exhaustive()
    }
}

/// Reports whether a name is a valid DNS subdomain, as most kinds require.
fn is_subdomain(name: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        is_edge(bytes.first()) && is_edge(bytes.last()) && bytes.iter().all(|byte| *byte == b'-' || is_edge(Some(byte)))
    };
    name.len() <= NAME_LIMIT && name.split('.').all(is_label)
}

// === impl RecordedEvents ===

impl RecordedEvents {
    pub(crate) fn new(queue: Queue) -> Self {
        Self(queue)
    }

    /// Returns the events since the last call.
    pub fn take(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.0.try_recv().ok()).map(|queued| queued.event).collect()
    }

    /// Returns the events since the last call, each as `Type Reason message`.
    pub fn lines(&mut self) -> Vec<String> {
        let text = |part: Option<String>| part.unwrap_or_default();
        let line = |event: Event| format!("{} {} {}", text(event.type_), text(event.reason), text(event.message));
        self.take().into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::k8s_openapi::{
        api::{apps::v1::Deployment, core::v1::Node},
        jiff::Timestamp,
    };

    use super::*;

    #[test]
    fn event_names_reporter_action_and_object() {
        let (recorder, mut recorded) = Recorder::captured("kubelet");
        let mut deployment = Deployment::default();
        deployment.metadata.name = Some("web".to_owned());
        deployment.metadata.namespace = Some("shop".to_owned());
        deployment.metadata.uid = Some("1".to_owned());
        recorder.clone().on_host("node-0").record(&deployment, Note::warning("Stuck", "no way").annotated("a", "b"));
        let events = recorded.take();
        let [event] = events.as_slice() else { panic!("one was recorded: {events:?}") };
        assert_eq!(event.involved_object, reference(&deployment));
        assert_eq!(event.involved_object.api_version.as_deref(), Some("apps/v1"));
        assert_eq!(event.metadata.namespace.as_deref(), Some("shop"));
        assert_eq!(event.metadata.annotations.as_ref().unwrap()["a"], "b");
        assert_eq!(event.reporting_instance.as_deref(), Some("node-0"));

        recorder.record(&Node::default(), Note::normal("Seen", "it is there"));
        let of_node = recorded.take().remove(0);
        assert_eq!(of_node.metadata.namespace.as_deref(), Some("default"), "nodes have no namespace");
    }

    #[test]
    fn event_name_is_unique_and_valid() {
        let clock = Clock::from_fn(|| Timestamp::from_nanosecond(0x1234_5678).unwrap());
        let (sender, _queue) = EventSender::new(clock, Entropy::seeded(1));
        assert_eq!([sender.name("web"), sender.name("web")], ["web.12345678", "web.12345679"]);
        assert_eq!(sender.name("system:node").len(), 36, "a role's name may be invalid for events");
        assert_eq!(sender.name(&"x".repeat(250)).len(), 36);
    }

    #[test]
    fn dropped_events_are_logged_once_per_interval() {
        let (mut dropped, start) = (Dropped::default(), Instant::now());
        assert_eq!(dropped.due(false, start), None);
        assert_eq!(dropped.due(true, start), Some(1));
        for _ in 0..1000 {
            assert_eq!(dropped.due(true, start + DROP_REPORT / 2), None);
        }
        assert_eq!(dropped.due(false, start + DROP_REPORT), Some(1000), "the next recorded event reports the rest");
        assert_eq!(dropped.due(false, start + DROP_REPORT * 2), None);
    }

    #[tokio::test]
    async fn recording_never_blocks() {
        let (recorder, mut recorded) = Recorder::captured("c");
        for _ in 0..QUEUE + 5 {
            recorder.record(&Node::default(), Note::normal("Seen", "again"));
        }
        assert_eq!(recorded.take().len(), QUEUE);
        let dropped = recorder.sender.dropped.lock();
        assert!(dropped.reported.is_some() && dropped.count == 4, "{dropped:?}");
        drop((recorded, dropped));
        recorder.record(&Node::default(), Note::normal("Seen", "by nobody"));
    }
}
