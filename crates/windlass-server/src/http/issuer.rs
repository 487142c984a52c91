//! OpenID Connect documents for verifying tokens: the issuer and its public key.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::{Body, Exchange, Failure, json, media, respond};
use crate::state::State;

/// The caching policy of the documents.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// A document about the issuer.
pub(super) struct IssuerDocument {
    content: Value,
    media_type: &'static str,
}

/// Returns the document at a path; `None` for any other path.
pub(super) fn document(server: &State, path: &str) -> Option<IssuerDocument> {
    let issuer = server.authenticator().issuer();
    match path {
        "/.well-known/openid-configuration" | "/.well-known/openid-configuration/" => Some(IssuerDocument {
            content: issuer.configuration(&server.address().to_string()),
            media_type: "application/json",
        }),
        "/openid/v1/jwks" | "/openid/v1/jwks/" => {
            Some(IssuerDocument { content: issuer.key_set(), media_type: "application/jwk-set+json" })
        }
        _ => None,
    }
}

/// Sends the document.
pub(super) fn answer(exchange: &Exchange, document: &IssuerDocument) -> Result<Response<Body>, Failure> {
    exchange.only_get()?;
    let media_type = document.media_type;
    let accept = exchange.header(header::ACCEPT).unwrap_or_default();
    media::accepts_one_of(accept, &[media_type])?;
    let body = Body::whole(json::encode(&document.content));
    let mut response = respond::respond(StatusCode::OK, HeaderValue::from_static(media_type), body);
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE_CONTROL);
    Ok(response)
}
