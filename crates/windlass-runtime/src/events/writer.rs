//! The task that writes events.

use std::{collections::HashMap, time::Duration};

use serde_json::json;
use tokio::time::{Instant, interval_at, sleep};
use windlass_api::{
    Entropy, ObjectExt, ObjectRef, Patch, format_time,
    k8s_openapi::api::{core::v1::Event as CoreEvent, events::v1::Event as SeriesEvent},
};
use windlass_client::{Client, Error};

use super::{
    EventApi, Queue,
    correlator::Correlator,
    recorder::QueuedEvent,
    series::{QUIET, REFRESH, SeriesCorrelator},
};
use crate::shutdown::Stop;

/// The maximum number of attempts to write an event.
const TRIES: usize = 12;
/// The time between two attempts.
const PAUSE: Duration = Duration::from_secs(10);
/// The random extension of that time, for events.k8s.io.
const JITTER: f64 = 0.25;

/// Writes the events from the recorders' queue, one after the other.
pub(crate) struct Writer {
    client: Client,
    queue: Queue,
    entropy: Entropy,
    correlation: Correlation,
    /// The clients of the recorders with credentials of their own, by component and instance.
    reporters: HashMap<(String, String), Client>,
}

/// The correlation state of the selected API.
enum Correlation {
    Core(Correlator),
    Series(SeriesCorrelator),
}

/// An event to write.
enum Entry {
    Core(CoreEvent),
    Series(SeriesEvent),
}

impl Writer {
    pub(crate) fn new(client: Client, queue: Queue, entropy: Entropy, api: EventApi) -> Self {
        let correlation = match api {
            EventApi::Core => Correlation::Core(Correlator::default()),
            EventApi::Series => Correlation::Series(SeriesCorrelator::default()),
        };
        Self { client, queue, entropy, correlation, reporters: HashMap::new() }
    }

    /// Runs until the stop, and then until the queue is empty or the server does not respond.
    pub(crate) async fn run(mut self, stop: Stop) {
        let [mut finish, mut refresh] = [QUIET, REFRESH].map(|period| interval_at(Instant::now() + period, period));
        loop {
            let entries = tokio::select! {
                biased;
                event = self.queue.recv() => match event {
                    Some(QueuedEvent { event, credentials }) => {
                        self.remember(&event, credentials);
                        self.correlation.observe(event, Instant::now())
                    }
                    None => break,
                },
                () = stop.requested(), if !self.queue.is_closed() => {
                    self.queue.close();
                    continue;
                }
                now = finish.tick() => self.correlation.finish(now),
                _ = refresh.tick() => self.correlation.refresh(),
            };
            for entry in entries {
                self.write(&entry, &stop).await;
            }
        }
        let correlation = std::mem::replace(&mut self.correlation, Correlation::Core(Correlator::default()));
        for entry in correlation.unwritten() {
            self.write(&entry, &stop).await;
        }
    }

    /// Remembers the credentials of an event's reporter. An event is written later than it was recorded, and for several.
    fn remember(&mut self, event: &CoreEvent, credentials: Option<Client>) {
        let Some(credentials) = credentials else { return };
        let reporter = (event.reporting_component.as_deref(), event.reporting_instance.as_deref());
        let reporter = (reporter.0.unwrap_or_default().to_owned(), reporter.1.unwrap_or_default().to_owned());
        self.reporters.insert(reporter, credentials);
    }

    /// Returns the client with the credentials of an event's reporter.
    fn client_for(&self, entry: &Entry) -> Client {
        let client = self.client.clone();
        match self.credentials_for(entry) {
            Some(credentials) => client.with_credentials_of(credentials),
            None => client,
        }
    }

    fn credentials_for(&self, entry: &Entry) -> Option<&Client> {
        let (component, instance) = match entry {
            Entry::Core(event) => (&event.reporting_component, &event.reporting_instance),
            Entry::Series(event) => (&event.reporting_controller, &event.reporting_instance),
        };
        let mut reporter = (component.clone().unwrap_or_default(), instance.clone().unwrap_or_default());
        if let Some(credentials) = self.reporters.get(&reporter) {
            return Some(credentials);
        }
        // A series without an instance has the name of this host.
        reporter.1.clear();
        self.reporters.get(&reporter)
    }

    async fn write(&self, entry: &Entry, stop: &Stop) {
        for attempt in 1..=TRIES {
            let Err(error) = self.attempt(entry).await else { return };
            if !entry.is_worth_another_try(&error) {
                let is_expected = error.is_already_exists()
                    || error.status().is_some_and(|status| status.has_cause("NamespaceTerminating"));
                if !is_expected {
                    tracing::warn!(event = entry.text(), error = error.chain(), "the server rejected an event");
                }
                return;
            }
            // Jitter keeps clients that lost the same server from retrying at the same time.
            let pause = match entry {
                Entry::Core(_) if attempt == 1 => PAUSE.mul_f64(self.fraction()),
                Entry::Core(_) => PAUSE,
                Entry::Series(_) => self.entropy.jitter(PAUSE, JITTER),
            };
            tokio::select! {
                biased;
                () = stop.requested() => break,
                () = sleep(pause) => {}
            }
        }
        tracing::warn!(event = entry.text(), "an event could not be written");
    }

    /// Increments the count of a stored event, or stores a new event.
    async fn attempt(&self, entry: &Entry) -> Result<(), Error> {
        let client = self.client_for(entry);
        match entry {
            Entry::Core(event) => {
                let patch = (event.count > Some(1)).then(|| {
                    json!({
                        "count": event.count,
                        "message": event.message,
                        "lastTimestamp": event.last_timestamp.as_ref().map(|time| format_time(time.0)),
                    })
                });
                put(&client, event, patch).await
            }
            Entry::Series(event) => {
                let patch = event.series.as_ref().map(|series| json!({"series": series}));
                put(&client, event, patch).await
            }
        }
    }

    /// Returns a random number from 0 to 1.
    fn fraction(&self) -> f64 {
        self.entropy.jitter(Duration::from_secs(1), 1.0).as_secs_f64() - 1.0
    }
}

/// Patches a stored event, or stores it.
async fn put<E: windlass_api::Resource>(
    client: &Client,
    event: &E,
    patch: Option<serde_json::Value>,
) -> Result<(), Error> {
    if let Some(patch) = patch {
        let target = ObjectRef::<E>::new(event.name()).within(event.namespace().unwrap_or_default());
        match client.patch::<E>(target, Patch::Strategic(patch)).await {
            Err(error) if error.is_not_found() => {}
            other => return other.map(drop),
        }
    }
    client.create(event).await.map(drop)
}

impl Correlation {
    /// Returns the entries to write for an event.
    fn observe(&mut self, event: CoreEvent, now: Instant) -> Vec<Entry> {
        match self {
            Self::Core(correlator) => correlator.correlate(event, now).map(Entry::Core).into_iter().collect(),
            Self::Series(correlator) => correlator.observe(event, now).map(Entry::Series).into_iter().collect(),
        }
    }

    fn finish(&mut self, now: Instant) -> Vec<Entry> {
        match self {
            Self::Core(_) => Vec::new(),
            Self::Series(correlator) => correlator.finish(now).into_iter().map(Entry::Series).collect(),
        }
    }

    fn refresh(&mut self) -> Vec<Entry> {
        match self {
            Self::Core(_) => Vec::new(),
            Self::Series(correlator) => correlator.refresh().into_iter().map(Entry::Series).collect(),
        }
    }

    fn unwritten(self) -> Vec<Entry> {
        match self {
            Self::Core(_) => Vec::new(),
            Self::Series(correlator) => correlator.unwritten().into_iter().map(Entry::Series).collect(),
        }
    }
}

impl Entry {
    /// Reports whether a write is worth a retry. If the server rejected the event, a retry would fail as well. An
    /// existing event whose series was not found has only just been written.
    fn is_worth_another_try(&self, error: &Error) -> bool {
        let is_late = matches!(self, Self::Series(event) if event.series.is_some()) && error.is_already_exists();
        is_late || matches!(error, Error::Transport { .. } | Error::Decode { .. })
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Core(event) => event.message.as_deref(),
            Self::Series(event) => event.note.as_deref(),
        }
    }
}
