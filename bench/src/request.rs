//! Single requests with the windlass client.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::Value;
use windlass_api::BoxError;
use windlass_client::{Client, Config, ContentType};

use crate::objects::JSON;

/// Returns a client without a rate limit that gets JSON, for benchmarks that read the bodies of events on their own.
pub(crate) fn json_client(kubeconfig: &Path) -> Result<Client, BoxError> {
    let config = Config::from_file(kubeconfig)?.with_content_type(ContentType::Json);
    Ok(Client::new(config)?.without_rate_limit())
}

/// Sends a request and reads the response.
pub(crate) async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Bytes, BoxError> {
    send_as(client, method, path, JSON, body).await
}

/// Like [`send`], with a body of this media type.
pub(crate) async fn send_as(
    client: &Client,
    method: Method,
    path: &str,
    media_type: &str,
    body: &Value,
) -> Result<Bytes, BoxError> {
    let bytes = if body.is_null() { Bytes::new() } else { serde_json::to_vec(body)?.into() };
    let request = Request::builder().method(method.clone()).uri(path).header("Content-Type", media_type).body(bytes)?;
    let response = client.request(request).await?;
    let status = response.status();
    let answer = response.into_body().collect().await?.to_bytes();
    if status.is_success() {
        return Ok(answer);
    }
    Err(format!("{method} {path}: {status}: {}", String::from_utf8_lossy(&answer)).into())
}
