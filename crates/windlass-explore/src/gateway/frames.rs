//! The events of a watch response in JSON.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use windlass_server::Body;

/// The annotation of the bookmark that ends the initial events.
pub(crate) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The events of a response, one line each.
#[derive(Debug)]
pub(crate) struct Frames {
    body: Body,
    /// The beginning of the next event.
    pending: BytesMut,
}

/// The parts of an event that decide when it is delivered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct EventHead {
    pub(crate) is_error: bool,
    pub(crate) is_bookmark: bool,
    /// `true` for the bookmark that ends the initial events.
    pub(crate) ends_initial_events: bool,
    pub(crate) revision: u64,
}

impl Frames {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, pending: BytesMut::new() }
    }

    /// Returns the next event with its line end. Returns `None` at the end of the response, also after a failure: clients
    /// then watch again. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                return Some(self.pending.split_to(end + 1).freeze());
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(bytes) = frame.into_data() {
                self.pending.extend_from_slice(&bytes);
            }
        }
    }
}

impl EventHead {
    /// Reads an event. An event that cannot be read counts as one without a revision, which is never held.
    pub(crate) fn of(event: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "type")]
            kind: String,
            object: Object,
        }
        #[derive(Deserialize)]
        struct Object {
            #[serde(default)]
            metadata: Metadata,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata {
            resource_version: String,
            annotations: Option<serde_json::Map<String, serde_json::Value>>,
        }
        let Ok(event) = serde_json::from_slice::<Event>(event) else { return Self::default() };
        let annotations = event.object.metadata.annotations.unwrap_or_default();
        let is_bookmark = event.kind == "BOOKMARK";
        Self {
            is_error: event.kind == "ERROR",
            is_bookmark,
            ends_initial_events: is_bookmark && annotations.contains_key(INITIAL_EVENTS_END),
            revision: event.object.metadata.resource_version.parse().unwrap_or_default(),
        }
    }
}
