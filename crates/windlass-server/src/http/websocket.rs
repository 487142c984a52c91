//! The handshakes of watches and commands over a WebSocket, as in kube-apiserver.
//!
//! Its response has the messages as its body, one per frame, such as the events of a watch. The connection sends them
//! ([`server`](crate::server)).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{
        CONNECTION, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
        UPGRADE,
    },
};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::{
    body::Body,
    protocol::{MessageType, UpgradedProtocol},
};
use crate::authn;

/// The only version of the protocol.
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// The constant that a server appends to the key of a handshake (RFC 6455, section 1.3).
const ACCEPTED: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Answers the handshake of a watch with the messages of a body, or with an error if it is incomplete.
pub(super) fn accept(headers: &HeaderMap, messages: Body, kind: MessageType) -> Response<Body> {
    if let Err(refused) = key(headers) {
        return refused;
    }
    // kube-apiserver requires an origin, and accepts any.
    if !headers.get(ORIGIN).is_some_and(is_origin) {
        return refused(StatusCode::FORBIDDEN, "");
    }
    let mut protocols = authn::protocols(headers);
    let protocol = protocols.next();
    if protocols.next().is_some() {
        return refused(StatusCode::BAD_REQUEST, "");
    }
    switch(headers, protocol, messages, kind)
}

/// Answers a handshake with the messages of a body and a subprotocol, or with an error if it is incomplete.
pub(super) fn switch(headers: &HeaderMap, protocol: Option<&str>, messages: Body, kind: MessageType) -> Response<Body> {
    let key = match key(headers) {
        Ok(key) => key,
        Err(refused) => return refused,
    };
    let mut response = Response::new(messages);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.extensions_mut().insert(UpgradedProtocol::WebSocket(kind));
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accepted(key));
    if let Some(protocol) = protocol.and_then(|protocol| HeaderValue::from_str(protocol).ok()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response
}

/// Returns the key of a handshake, or the response if it is incomplete.
fn key(headers: &HeaderMap) -> Result<&HeaderValue, Response<Body>> {
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()) else {
        return Err(refused(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    };
    if headers.get(SEC_WEBSOCKET_VERSION) != Some(&VERSION) {
        let mut response = refused(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        response.headers_mut().insert(SEC_WEBSOCKET_VERSION, VERSION);
        return Err(response);
    }
    Ok(key)
}

/// Returns the proof that a server understands the handshake with this key.
fn accepted(key: &HeaderValue) -> HeaderValue {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.as_bytes(), ACCEPTED].concat());
    HeaderValue::from_str(&STANDARD.encode(hash)).expect("base64 consists of visible characters")
}

/// Reports whether a header has the form of an absolute URI or path, as Go parses origins.
fn is_origin(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    text.starts_with('/')
        || text.split_once(':').is_some_and(|(scheme, rest)| {
            let first_is_letter = scheme.starts_with(|first: char| first.is_ascii_alphabetic());
            let is_scheme = scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char));
            first_is_letter && is_scheme && !rest.is_empty()
        })
}

/// Returns the response to a handshake that cannot be accepted. Its connection is closed.
pub(super) fn refused(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
