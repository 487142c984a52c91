//! The body of a watch: one frame per event.
//!
//! No task runs in the background: polling the body drives the watch, and dropping it ends the watch. The watch also
//! ends when its timeout expires, when the server stops, or when it is too slow. The client then watches again.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, Stream, stream};
use serde_json::{Value, json};
use tokio::task;
use windlass_api::{Clock, EventType, FieldValidation};

use super::{
    json::encode,
    media::{Encoding, Representation, View},
    respond::Renderer,
};
use crate::state::Stopping;
use crate::{
    audit::AuditContext,
    codec::{FRAME_PREFIX, cbor_frame, protobuf_frame},
    descriptions::Descriptions,
    encoded::{Style, push_json},
    flow_control::CountedWatch,
    metrics::Watching,
    offload::LARGE,
    registry::{WatchEvent, WatchItem, WatchSession, type_name},
    resource::{ResourceInfo, Shape},
    storage::Revision,
    table::{Header, IncludeObject},
};

/// The rendering of the objects of a watch.
pub(super) struct Rendering {
    pub(super) representation: Representation,
    pub(super) include: IncludeObject,
    pub(super) descriptions: Descriptions,
    pub(super) clock: Clock,
}

struct Watch {
    session: WatchSession,
    rendering: Rendering,
    /// A table with column definitions has been sent.
    has_header: bool,
    stopping: Stopping,
    watching: Watching,
    _counted: CountedWatch,
}

/// Returns the frames of a watch: JSON lines, length-prefixed protobuf messages, or a CBOR sequence. Other requests may run after many
/// bytes.
pub(super) fn frames(
    session: WatchSession,
    rendering: Rendering,
    stopping: Stopping,
    watching: Watching,
    counted: CountedWatch,
) -> impl Stream<Item = Bytes> + Send {
    // Boxed, because the states of the stream would contain several copies of it, for as long as the watch lasts.
    let watch = Box::new(Watch { session, rendering, has_header: false, stopping, watching, _counted: counted });
    stream::unfold((watch, 0), |(mut watch, mut bytes)| async move {
        if bytes >= LARGE {
            bytes = 0;
            task::yield_now().await;
        }
        let frame = watch.next().await?;
        watch.watching.record_event();
        bytes += frame.len();
        Some((frame, (watch, bytes)))
    })
}

/// Returns the content of a WebSocket message with an event. Messages need no length prefix.
pub(super) fn message(frame: Bytes, encoding: Encoding) -> Bytes {
    if encoding == Encoding::Protobuf { frame.slice(FRAME_PREFIX..) } else { frame }
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        let item = if let Some(item) = self.try_next() {
            item
        } else {
            tokio::select! {
                biased;
                () = self.stopping.requested() => return None,
                item = self.session.next() => item?,
            }
        };
        match item {
            WatchItem::Event(event) if self.rendering.representation.view == View::Whole => {
                match self.rendering.representation.encoding {
                    Encoding::Protobuf => event.protobuf_frame(),
                    Encoding::Cbor => event.cbor_frame(),
                    _ => Some(event.frame()),
                }
            }
            WatchItem::Event(event) => self.partial_frame(&event).or_else(|| self.show(event.kind, event.item.value())),
            WatchItem::Bookmark { revision, initial_end } => {
                self.show(EventType::Bookmark, bookmark(self.session.resource(), revision, initial_end))
            }
            WatchItem::Error(status) => self.frame(EventType::Error, &json!(status)),
        }
    }

    /// Returns the next item if it is ready. Waiting would need timers and a place in the list of waiters.
    fn try_next(&mut self) -> Option<WatchItem> {
        if self.stopping.is_requested() || !self.session.is_event_ready() {
            return None;
        }
        // After its end, the session returns `None` again.
        self.session.next().now_or_never().flatten()
    }

    fn show(&mut self, kind: EventType, object: Value) -> Option<Bytes> {
        let renderer = Renderer {
            resource: Arc::clone(self.session.resource()),
            representation: self.rendering.representation,
            include: match self.rendering.include {
                // Without metadata a bookmark would have no resourceVersion.
                IncludeObject::None if kind == EventType::Bookmark => IncludeObject::Metadata,
                include => include,
            },
            descriptions: self.rendering.descriptions.clone(),
            audit: AuditContext::default(),
            now: self.rendering.clock.now(),
        };
        let header = if self.has_header { Header::Omitted } else { renderer.header() };
        let object = renderer.render(object, header);
        self.has_header = true;
        self.frame(kind, &object)
    }

    /// Returns the frame of an event with partial metadata. Returns `None` if the object has to be decoded for another view.
    fn partial_frame(&self, event: &WatchEvent) -> Option<Bytes> {
        let Representation { encoding, view: View::Partial(version) | View::PartialList(version) } =
            self.rendering.representation
        else {
            return None;
        };
        let mut out = Vec::with_capacity(1024);
        if let Encoding::Protobuf | Encoding::Cbor = encoding {
            if !event.item.encoded.render_partial(version.api_version(), event.item.revision, &mut out) {
                return None;
            }
            let kind = type_name(event.kind);
            let frame = match encoding {
                Encoding::Protobuf => protobuf_frame(kind, &out),
                _ => cbor_frame(kind, &out).ok(),
            };
            return frame.map(Bytes::from);
        }
        begin_frame(event.kind, &mut out);
        if !event.item.encoded.render_partial(version.api_version(), event.item.revision, &mut out) {
            return None;
        }
        out.extend_from_slice(b"}\n");
        Some(out.into())
    }

    /// Returns `None` if the object has no encoding of the watch. The watch then ends.
    fn frame(&self, kind: EventType, object: &Value) -> Option<Bytes> {
        match self.rendering.representation.encoding {
            Encoding::Protobuf => return protobuf_frame(type_name(kind), &encode(object)).map(Bytes::from),
            Encoding::Cbor => return cbor_frame(type_name(kind), &encode(object)).ok().map(Bytes::from),
            Encoding::Json | Encoding::PrettyJson | Encoding::Yaml => {}
        }
        let mut out = Vec::with_capacity(256);
        begin_frame(kind, &mut out);
        push_json(object, &mut out);
        out.extend_from_slice(b"}\n");
        Some(out.into())
    }
}

fn begin_frame(kind: EventType, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":");
    push_json(type_name(kind), out);
    out.extend_from_slice(b",\"object\":");
}

/// Returns the object of a bookmark, with its fields in the order of its kind.
fn bookmark(resource: &ResourceInfo, revision: Revision, initial_end: bool) -> Value {
    let (kind, api_version, version) = (&resource.kind, resource.api_version(), revision.0.to_string());
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let metadata = match (resource.shape.style(), initial_end) {
        (_, false) => json!({"resourceVersion": version}),
        (Style::BuiltIn, true) => json!({"resourceVersion": version, "annotations": annotations}),
        (Style::Custom, true) => json!({"annotations": annotations, "resourceVersion": version}),
    };
    match &resource.shape {
        Shape::BuiltIn(plan) => {
            // An empty object still has the fields that Go never omits.
            let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
            // It also has the fields that the conversion from the storage version sets.
            match (resource.group.as_str(), kind.as_str()) {
                ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => object["spec"] = json!({"replicas": 0}),
                ("apps", "DaemonSet") => {
                    object["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "0".into();
                }
                _ => {}
            }
            plan.normalize(object.clone(), FieldValidation::Ignore).map_or(object, |decoded| decoded.value)
        }
        Shape::Custom(_) => json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Frames<R> = fn(WatchSession, Rendering, Stopping, Watching, CountedWatch) -> R;

    const fn size_of_frames<R>(_: Frames<R>) -> usize {
        size_of::<R>()
    }

    /// A server with ten thousand idle watches has as many of these streams.
    #[test]
    fn stream_of_a_watch_is_small() {
        let size = size_of_frames(frames);
        assert!(size <= 1536, "{size} bytes");
    }
}
