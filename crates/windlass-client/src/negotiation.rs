//! The encoding of requests and responses: JSON, or protobuf for the resources that have it.
//!
//! The server chooses the encoding of a response from the `Accept` header, which always includes JSON. A request that the
//! server rejects because of its encoding is sent again in JSON, and the resource is remembered.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, header};
use parking_lot::Mutex;
use windlass_api::GroupResource;

use crate::{config::ContentType, operation::Verb, request::Target};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The preferred encoding of a client, and the resources for which a server rejected it.
#[derive(Clone, Debug)]
pub(crate) struct Negotiation {
    content_type: ContentType,
    /// Shared by the clones of a client.
    json_only: Arc<Mutex<HashSet<GroupResource>>>,
}

/// The parts of an exchange that protobuf can carry without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encodable {
    /// Request and response: both are objects of a type with the fields of its kind.
    Both,
    /// The response. The request has no body, or one that may have unknown fields.
    Response,
    /// Neither: the response may have fields that this library does not know.
    Neither,
}

impl Negotiation {
    pub(crate) fn new(content_type: ContentType) -> Self {
        Self { content_type, json_only: Arc::default() }
    }

    pub(crate) fn set(&mut self, content_type: ContentType) {
        self.content_type = content_type;
    }

    /// Returns the request that prefers protobuf; `None` if it is to be sent as it is.
    pub(crate) fn propose(
        &self,
        request: &Request<Bytes>,
        target: &Target,
        verb: Verb,
        body: Encodable,
    ) -> Option<Request<Bytes>> {
        if self.content_type != ContentType::Protobuf || body == Encodable::Neither || !has_objects(verb) {
            return None;
        }
        let accept = request.headers().get(header::ACCEPT)?.to_str().ok()?;
        let (first, rest) = accept.split_once(',').unwrap_or((accept, ""));
        let parameters = first.strip_prefix(JSON)?;
        // Metadata has protobuf for each kind. Tables have none.
        let resource = &target.resource;
        let is_known = || windlass_protobuf::knows(&resource.api_version(), &resource.kind);
        if !(parameters.contains("as=PartialObjectMetadata") || parameters.is_empty() && is_known()) {
            return None;
        }
        if self.json_only.lock().contains(&resource.group_resource()) {
            return None;
        }
        let comma = if rest.is_empty() { "" } else { "," };
        let accept = format!("{PROTOBUF}{parameters},{first}{comma}{rest}");
        let mut preferred = request.clone();
        preferred.headers_mut().insert(header::ACCEPT, HeaderValue::try_from(accept).ok()?);
        let is_json = request.headers().get(header::CONTENT_TYPE).is_some_and(|value| value == JSON);
        if body == Encodable::Both
            && is_json
            && matches!(verb, Verb::Create | Verb::Update)
            && let Ok(encoded) = windlass_protobuf::to_protobuf(request.body())
        {
            *preferred.body_mut() = encoded.into();
            preferred.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
        }
        Some(preferred)
    }

    /// Records that the server rejected the encoding of a request for a resource.
    pub(crate) fn refused(&self, target: &Target) {
        let resource = target.resource.group_resource();
        tracing::debug!(%resource, "the server has no protobuf of this resource; using JSON");
        self.json_only.lock().insert(resource);
    }
}

/// Reports whether the response to a verb consists of objects of the resource.
const fn has_objects(verb: Verb) -> bool {
    matches!(verb, Verb::Get | Verb::List | Verb::Watch | Verb::Create | Verb::Update | Verb::Patch | Verb::Apply)
}

/// Reports whether a response is protobuf.
pub(crate) fn is_protobuf(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().is_some_and(|ty| ty.trim().eq_ignore_ascii_case(PROTOBUF))
}

#[cfg(test)]
mod tests;
