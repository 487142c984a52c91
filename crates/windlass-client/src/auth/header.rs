//! The `Authorization` header.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderValue;

/// Returns the header of a bearer token; `None` if it contains invalid characters.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

/// Returns the header of basic authentication; `None` if it contains invalid characters.
pub(crate) fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
    sensitive(&format!("Basic {pair}"))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
