//! Writes events.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use windlass_api::{Entropy, ObjectExt, ObjectRef, Patch, format_time, k8s_openapi::api::core::v1::Event};
use windlass_client::{Client, Error};

use super::{Queue, correlator::Correlator};
use crate::shutdown::Stop;

/// How often an event is tried that does not get through.
const TRIES: usize = 12;
/// How long to wait between two tries.
const PAUSE: Duration = Duration::from_secs(10);

/// Writes what the recorders of a manager put into the queue, one after the other.
pub(crate) struct Writer {
    client: Client,
    queue: Queue,
    entropy: Entropy,
    correlator: Correlator,
}

impl Writer {
    pub(crate) fn new(client: Client, queue: Queue, entropy: Entropy) -> Self {
        Self { client, queue, entropy, correlator: Correlator::default() }
    }

    /// Runs until it is stopped, and then until the queue is empty or the server does not answer.
    pub(crate) async fn run(mut self, stop: Stop) {
        loop {
            let event = tokio::select! {
                biased;
                event = self.queue.recv() => event,
                () = stop.requested(), if !self.queue.is_closed() => {
                    self.queue.close();
                    continue;
                }
            };
            let Some(event) = event else { return };
            if let Some(event) = self.correlator.correlate(event, Instant::now()) {
                self.write(&event, &stop).await;
            }
        }
    }

    async fn write(&self, event: &Event, stop: &Stop) {
        for attempt in 1..=TRIES {
            let Err(error) = self.attempt(event).await else { return };
            if !is_worth_another_try(&error) {
                let is_expected = error.is_already_exists()
                    || error.status().is_some_and(|status| status.has_cause("NamespaceTerminating"));
                if !is_expected {
                    tracing::warn!(event = event.message, error = error.chain(), "the server takes no such event");
                }
                return;
            }
            // Clients that lost the same server do not come back all at once.
            let pause = if attempt == 1 { PAUSE.mul_f64(self.fraction()) } else { PAUSE };
            tokio::select! {
                biased;
                () = stop.requested() => break,
                () = sleep(pause) => {}
            }
        }
        tracing::warn!(event = event.message, "an event could not be written");
    }

    /// Counts a stored event up, or stores a new one.
    async fn attempt(&self, event: &Event) -> Result<(), Error> {
        if event.count > Some(1) {
            let patch = json!({
                "count": event.count,
                "message": event.message,
                "lastTimestamp": event.last_timestamp.as_ref().map(|time| format_time(time.0)),
            });
            let target = ObjectRef::<Event>::new(event.name()).within(event.namespace().unwrap_or_default());
            match self.client.patch::<Event>(target, Patch::Strategic(patch)).await {
                Err(error) if error.is_not_found() => {}
                other => return other.map(drop),
            }
        }
        self.client.create(event).await.map(drop)
    }

    /// From 0 to 1.
    fn fraction(&self) -> f64 {
        self.entropy.jitter(Duration::from_secs(1), 1.0).as_secs_f64() - 1.0
    }
}

/// Whether the event did not get through; one that the server refuses, it would refuse again.
fn is_worth_another_try(error: &Error) -> bool {
    matches!(error, Error::Transport { .. } | Error::Decode { .. })
}
