//! Reads of the program. In a rewound view, reads that may be stale are served as of the earlier revision.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Collected};
use serde_json::{Value, json};
use windlass_api::{GroupResource, Status};
use windlass_client::Verb;

use super::{
    Gateway, answer,
    answer::{Answer, failure},
    call::Call,
    retargeted,
};
use crate::history::text;

/// The parameters that select a page or a revision of a list.
const PAGE: [&str; 5] = ["resourceVersion", "resourceVersionMatch", "limit", "continue", "timeoutSeconds"];

impl Gateway {
    /// Executes a get or a list.
    pub(super) async fn read(&self, number: usize, call: &Call, request: Request<Bytes>) -> Answer {
        let version = call.query.get("resourceVersion").unwrap_or_default();
        let may_be_stale =
            call.subresource.is_empty() && call.query.get("resourceVersionMatch").as_deref() != Some("Exact");
        let Some(revision) = self.gates.view_of(&call.resource(), &version).filter(|_| may_be_stale) else {
            return Answer::Response(self.forward(number, request).await);
        };
        let (status, list) = self.list_at(call, &request, revision).await;
        if status != StatusCode::OK {
            return Answer::Response(self.forward(number, request).await);
        }
        self.history.executed(number, status.as_u16());
        let object = match call.verb {
            Verb::Get => single(list),
            _ => Some(list),
        };
        let Some(object) = object else {
            let resource = GroupResource::new(call.group.clone(), call.plural.clone());
            return Answer::Response(failure(&Status::not_found(&resource, &call.name)));
        };
        Answer::Response(answer::json(object.to_string()))
    }

    /// Lists the objects of a request as of a revision: those of a list or a watch, or the one of a get.
    pub(super) async fn list_at(&self, call: &Call, request: &Request<Bytes>, revision: u64) -> (StatusCode, Value) {
        let query = call.query.without(&PAGE).without(&["watch", "sendInitialEvents", "allowWatchBookmarks"]);
        let mut query = query.with("resourceVersion", revision.to_string()).with("resourceVersionMatch", "Exact");
        if call.verb == Verb::Get {
            query = query.with("fieldSelector", format!("metadata.name%3D{}", call.name));
        }
        let (mut parts, body) = request.clone().into_parts();
        parts.method = Method::GET;
        let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // A list of metadata has a type of its own.
        let accept = accept.replace("as=PartialObjectMetadataList", "as=PartialObjectMetadata");
        let accept = accept.replace("as=PartialObjectMetadata", "as=PartialObjectMetadataList");
        if let Ok(accept) = accept.parse() {
            parts.headers.insert(header::ACCEPT, accept);
        }
        let Some(request) = retargeted(&parts, &query.on(&call.collection()), body) else {
            return (StatusCode::BAD_REQUEST, json!({}));
        };
        let response = self.call(request).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

/// Returns the items of a list with their kind, which lists omit.
pub(super) fn items(list: &mut Value) -> Vec<Value> {
    let kind = text(list, "/kind").strip_suffix("List").unwrap_or_default().to_owned();
    let version = text(list, "/apiVersion").to_owned();
    let items = list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let typed = |mut item: Value| {
        if let Some(fields) = item.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| version.clone().into());
            fields.entry("kind").or_insert_with(|| kind.clone().into());
        }
        item
    };
    items.into_iter().map(typed).collect()
}

fn single(mut list: Value) -> Option<Value> {
    // A table is a list without items, and remains what it is.
    if list.get("items").is_none() { Some(list) } else { items(&mut list).pop() }
}
