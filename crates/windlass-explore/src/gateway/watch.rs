//! Watches of the program. Each event passes the gate of its resource.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_api::{BoxError, Status};

use super::{
    Gateway, answer,
    answer::{Answer, Body},
    call::Call,
    frames::{EventHead, Frames, INITIAL_EVENTS_END},
    incarnation::{Counted, Incarnation},
    read::items,
};
use crate::history::{is_recorded, text};

/// A watch of the program.
struct ProgramWatch {
    gateway: Arc<Gateway>,
    process: Arc<Incarnation>,
    resource: String,
    /// The events of the cluster; `None` once they have ended.
    events: Option<Frames>,
    /// The events that the program did not get yet, with their revisions.
    waiting: VecDeque<(u64, Bytes)>,
    /// The revision up to which the program has seen the events; `None` if the watch began with the current state.
    seen: Option<u64>,
    /// `true` until the end of the initial events, which are never held.
    is_initial: bool,
    gates: watch::Receiver<()>,
    /// The event that the connection took last. It counts as undelivered until the connection requests another one.
    taken: Option<Counted>,
    has_ended: bool,
}

impl Gateway {
    /// Begins a watch.
    pub(super) async fn watch(
        self: &Arc<Self>,
        process: &Arc<Incarnation>,
        number: usize,
        call: Call,
        request: Request<Bytes>,
    ) -> Answer {
        let version = call.query.get("resourceVersion").unwrap_or_default();
        let has_initial_events = call.query.get("sendInitialEvents").as_deref() == Some("true");
        let mut watch = ProgramWatch {
            gateway: Arc::clone(self),
            process: Arc::clone(process),
            resource: call.resource(),
            events: None,
            waiting: VecDeque::new(),
            seen: version.parse().ok().filter(|seen| *seen > 0 && !has_initial_events),
            is_initial: has_initial_events,
            gates: self.gates.subscribe(),
            taken: None,
            has_ended: false,
        };
        let view = self.gates.view_of(&watch.resource, &version).filter(|_| version == "0" || has_initial_events);
        let request = match view {
            Some(revision) => match self.stale_watch(&mut watch, &call, request, revision).await {
                Ok(request) => request,
                Err(status) => {
                    self.history.executed(number, status.code);
                    return Answer::Response(answer::failure(&status));
                }
            },
            None => request,
        };
        let response = self.call(request).await;
        self.history.executed(number, response.status().as_u16());
        if response.status() != StatusCode::OK {
            return Answer::Response(response.map(answer::body));
        }
        if is_recorded(&watch.resource) {
            process.watches(&watch.resource);
        }
        let (parts, events) = response.into_parts();
        watch.events = Some(Frames::new(events));
        Answer::Response(http::Response::from_parts(parts, watch.into_body()))
    }

    /// Returns the response to a WebSocket handshake. Clients read it to its end, and watch without a WebSocket then. The
    /// clients of Java do so after the status 200 only.
    pub(super) fn decline_upgrade(&self, number: usize) -> Response<Body> {
        self.history.executed(number, StatusCode::OK.as_u16());
        answer::json(Bytes::new())
    }

    /// Begins a watch with the state as of an earlier revision. Returns the request for the later events.
    async fn stale_watch(
        &self,
        watch: &mut ProgramWatch,
        call: &Call,
        request: Request<Bytes>,
        revision: u64,
    ) -> Result<Request<Bytes>, Status> {
        let (status, mut list) = self.list_at(call, &request, revision).await;
        if status != StatusCode::OK {
            return Err(Status::expired(text(&list, "/message")));
        }
        let kind = text(&list, "/kind").strip_suffix("List").unwrap_or_default().to_owned();
        let version = text(&list, "/apiVersion").to_owned();
        for item in items(&mut list) {
            watch.waiting.push_back((0, event("ADDED", &item)));
        }
        if std::mem::take(&mut watch.is_initial) {
            let annotations = json!({INITIAL_EVENTS_END: "true"});
            let metadata = json!({"resourceVersion": revision.to_string(), "annotations": annotations});
            let bookmark = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
            watch.waiting.push_back((0, event("BOOKMARK", &bookmark)));
        }
        let query = call.query.without(&["resourceVersion", "resourceVersionMatch", "sendInitialEvents"]);
        let target = query.with("resourceVersion", revision.to_string()).on(&call.collection());
        watch.seen = Some(revision);
        let (parts, body) = request.into_parts();
        super::retargeted(&parts, &target, body).ok_or_else(|| Status::bad_request("invalid target"))
    }
}

impl ProgramWatch {
    fn into_body(self) -> Body {
        answer::body(StreamBody::new(stream::unfold(self, |mut watch| async move {
            let event = watch.next().await?;
            Some((Ok::<_, BoxError>(Frame::data(event)), watch))
        })))
    }

    /// Returns the next event that passes the gate, or `None` at the end of the watch.
    async fn next(&mut self) -> Option<Bytes> {
        self.taken = None;
        loop {
            if self.has_ended {
                return None;
            }
            if self.process.is_closed() {
                // Neither events nor the end of the response arrive.
                return std::future::pending().await;
            }
            if self.is_expired() {
                self.has_ended = true;
                let status = Status::expired("The resourceVersion for the provided watch is too old.");
                return Some(event("ERROR", &json!(status)));
            }
            let is_passing = |(revision, _): &(u64, _)| !self.gateway.gates.holds(&self.resource, *revision);
            if self.waiting.front().is_some_and(is_passing)
                && let Some((revision, event)) = self.waiting.pop_front()
            {
                self.seen = Some(revision.max(self.seen.unwrap_or_default())).filter(|seen| *seen > 0);
                self.taken = Some(self.process.undelivered_event());
                return Some(event);
            }
            // The program watches again and gets the held events then.
            let events = self.events.as_mut()?;
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.receive(event).await,
                    None => self.events = None,
                },
                _ = self.gates.changed() => {}
            }
        }
    }

    /// Queues an event of the cluster.
    async fn receive(&mut self, event: Bytes) {
        let head = EventHead::of(&event);
        let mut revision = head.revision;
        if self.is_initial || head.is_error {
            if head.ends_initial_events {
                self.is_initial = false;
                self.seen = Some(revision);
            }
            revision = 0;
        } else if !head.is_bookmark
            && is_recorded(&self.resource)
            && self.gateway.injections.affects_events_of(&self.resource)
        {
            // A fault at this change must strike before the program sees the change.
            self.gateway.history.observed(&self.resource, revision).await;
        }
        self.waiting.push_back((revision, event));
    }

    fn is_expired(&self) -> bool {
        let next = self.waiting.front().map(|(revision, _)| *revision).filter(|revision| *revision > 0);
        self.seen.or(next).is_some_and(|seen| self.gateway.gates.is_expired(&self.resource, seen))
    }
}

/// Returns an encoded event.
fn event(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}
