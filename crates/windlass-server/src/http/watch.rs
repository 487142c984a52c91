//! The body of a watch: one frame per event.
//!
//! There is no task behind it: whoever polls the body drives the watch, and dropping the body ends it. It ends by itself
//! when its time is up, when the server stops, or when it fell too far behind; the client asks again then.

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::{Value, json};
use windlass_api::{Clock, EventType, FieldValidation};

use super::{
    Stopping,
    media::{Representation, View},
    respond::Showing,
};
use crate::{
    encoded::{Style, push_json},
    registry::{ResourceInfo, Shape, WatchItem, WatchSession},
    storage::Revision,
    table::{Header, IncludeObject},
};
struct Watch {
    session: WatchSession,
    representation: Representation,
    include: IncludeObject,
    clock: Clock,
    /// Of the next table.
    header: Header,
    stopping: Stopping,
}

/// The frames of a watch, as JSON with a line feed each.
pub(super) fn frames(
    session: WatchSession,
    representation: Representation,
    include: IncludeObject,
    clock: Clock,
    stopping: Stopping,
) -> impl Stream<Item = Bytes> + Send {
    let watch = Watch { session, representation, include, clock, header: Header::Columns, stopping };
    stream::unfold(watch, |mut watch| async move {
        let frame = watch.next().await?;
        Some((frame, watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<Bytes> {
        let item = tokio::select! {
            biased;
            () = self.stopping.requested() => return None,
            item = self.session.next() => item?,
        };
        let mut out = Vec::with_capacity(256);
        match item {
            WatchItem::Event(event) => {
                if self.representation.view == View::Whole {
                    return Some(event.frame());
                }
                begin(event.kind, &mut out);
                self.show(|showing, header, out| showing.event(&event.item, header, out), &mut out);
            }
            WatchItem::Bookmark { revision, initial_end } => {
                let resource = self.session.resource();
                let object = bookmark(resource, revision, initial_end);
                begin(EventType::Bookmark, &mut out);
                self.show(|showing, header, out| showing.bookmark(&object, header, out), &mut out);
            }
            WatchItem::Error(status) => {
                begin(EventType::Error, &mut out);
                push_json(&status, &mut out);
            }
        }
        out.extend_from_slice(b"}\n");
        Some(out.into())
    }

    fn show(&mut self, show: impl FnOnce(&Showing<'_>, Header, &mut Vec<u8>), out: &mut Vec<u8>) {
        let showing = Showing {
            resource: self.session.resource(),
            representation: self.representation,
            include: self.include,
            now: self.clock.now(),
        };
        show(&showing, self.header, out);
        self.header = Header::Omitted;
    }
}

/// The object of a bookmark, its fields in the order of its kind.
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
            // An object of which nothing is set: what Go never leaves out is there.
            let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
            // Nor what its conversion from the stored type sets.
            match (resource.group.as_str(), kind.as_str()) {
                ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => object["spec"] = json!({"replicas": 0}),
                ("apps", "DaemonSet") => {
                    object["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = "0".into();
                }
                _ => {}
            }
            plan.normalise(&object, FieldValidation::Ignore).map_or(object, |decoded| decoded.value)
        }
        Shape::Custom(_) => json!({"apiVersion": api_version, "kind": kind, "metadata": metadata}),
    }
}

fn begin(kind: EventType, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":");
    push_json(&kind, out);
    out.extend_from_slice(b",\"object\":");
}
