//! The encoding of requests and responses: JSON, protobuf for the resources that have it, or CBOR.
//!
//! The server chooses the encoding of a response from the `Accept` header, which always includes JSON. A request that the
//! server rejects because of its encoding is sent again in JSON, and the resource is remembered.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, header};
use parking_lot::Mutex;
use windlass_api::{GroupResource, PatchKind};

use crate::{config::ContentType, operation::Verb, request::Target};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const CBOR: &str = windlass_cbor::MEDIA_TYPE;
const APPLY_CBOR: &str = windlass_cbor::APPLY_MEDIA_TYPE;

/// The preferred encoding of a client, and the resources for which a server rejected it.
#[derive(Clone, Debug)]
pub(crate) struct Negotiation {
    content_type: ContentType,
    /// Shared by the clones of a client.
    json_only: Arc<Mutex<HashSet<GroupResource>>>,
}

/// A binary encoding of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Protobuf,
    Cbor,
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

    /// Returns the request that prefers a binary encoding; `None` if it is to be sent as it is.
    pub(crate) fn propose(
        &self,
        request: &Request<Bytes>,
        target: &Target,
        verb: Verb,
        body: Encodable,
    ) -> Option<Request<Bytes>> {
        if self.content_type == ContentType::Json || !has_objects(verb) {
            return None;
        }
        let accept = request.headers().get(header::ACCEPT)?.to_str().ok()?;
        let (first, rest) = accept.split_once(',').unwrap_or((accept, ""));
        let parameters = first.strip_prefix(JSON)?;
        if !(parameters.contains("as=PartialObjectMetadata") || parameters.is_empty()) {
            return None;
        }
        let binary = self.binary_for(target, parameters, body)?;
        if self.json_only.lock().contains(&target.resource.group_resource()) {
            return None;
        }
        let (media_type, quality) = match binary {
            Binary::Protobuf => (PROTOBUF, ""),
            // As in client-go.
            Binary::Cbor if accept == JSON => (CBOR, ";q=0.9"),
            Binary::Cbor => (CBOR, ""),
        };
        let comma = if rest.is_empty() { "" } else { "," };
        let accept = format!("{media_type}{parameters},{first}{quality}{comma}{rest}");
        let mut preferred = request.clone();
        preferred.headers_mut().insert(header::ACCEPT, HeaderValue::try_from(accept).ok()?);
        if let Some((content_type, encoded)) = binary.encode(request, verb, body) {
            *preferred.body_mut() = encoded.into();
            preferred.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        Some(preferred)
    }

    /// Returns the encoding of a resource's objects, or of their metadata; `None` for JSON.
    fn binary_for(&self, target: &Target, parameters: &str, body: Encodable) -> Option<Binary> {
        let resource = &target.resource;
        // Metadata has protobuf for each kind. Tables have none.
        let has_protobuf = || {
            let is_known = || windlass_protobuf::knows(&resource.api_version(), &resource.kind);
            body != Encodable::Neither && (!parameters.is_empty() || is_known())
        };
        match self.content_type {
            ContentType::Json => None,
            ContentType::Protobuf => has_protobuf().then_some(Binary::Protobuf),
            ContentType::Cbor => Some(Binary::Cbor),
            ContentType::ProtobufAndCbor => Some(if has_protobuf() { Binary::Protobuf } else { Binary::Cbor }),
        }
    }

    /// Records that the server rejected the encoding of a request for a resource.
    pub(crate) fn refused(&self, target: &Target) {
        let resource = target.resource.group_resource();
        tracing::debug!(%resource, "the server rejected the encoding of this resource; using JSON");
        self.json_only.lock().insert(resource);
    }
}

impl Binary {
    /// Returns the media type and the body of a request; `None` if its body stays as it is.
    fn encode(self, request: &Request<Bytes>, verb: Verb, body: Encodable) -> Option<(&'static str, Vec<u8>)> {
        let content_type = request.headers().get(header::CONTENT_TYPE)?;
        let (media_type, expected) = match (self, verb) {
            (Self::Protobuf, Verb::Create | Verb::Update) if body == Encodable::Both => (PROTOBUF, JSON),
            (Self::Cbor, Verb::Create | Verb::Update) => (CBOR, JSON),
            (Self::Cbor, Verb::Apply) => (APPLY_CBOR, PatchKind::Apply.media_type()),
            _ => return None,
        };
        if content_type != expected {
            return None;
        }
        let encoded = match self {
            Self::Protobuf => windlass_protobuf::to_protobuf(request.body()).ok()?,
            Self::Cbor => windlass_cbor::from_json(request.body()).ok()?,
        };
        Some((media_type, encoded))
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
