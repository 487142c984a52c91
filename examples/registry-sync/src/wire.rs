//! JSON over HTTP for both registries, with the HTTP client of the Kubernetes client.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::Client;

use crate::RegistryError;

/// The maximum size of a response, in bytes.
const LARGEST: usize = 64 << 20;

/// A connection to a registry.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    client: Client,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Wire {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client, header: None }
    }

    /// Adds a header to each request.
    pub(crate) fn with_header(self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        Self { header: Some((name, value)), ..self }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<(StatusCode, T), RegistryError> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<(StatusCode, T), RegistryError> {
        self.send(Method::POST, path, body.to_string().into()).await
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<(StatusCode, T), RegistryError> {
        self.send(Method::PUT, path, body.to_string().into()).await
    }

    /// Sends a request and decodes the response, regardless of its status: both registries send errors as JSON.
    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, T), RegistryError> {
        let what = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let no_answer = |source: windlass::api::BoxError| RegistryError::NoAnswer { what: what.clone(), source };
        let garbage = |why: String| RegistryError::Garbage { what: what.clone(), why };
        let mut request = Request::builder().method(method.clone()).uri(path).header(CONTENT_TYPE, "application/json");
        if let Some((name, value)) = &self.header {
            request = request.header(name, value);
        }
        let body = http_body_util::Full::new(body);
        let request = request.body(windlass::client::Body::wrap(body)).map_err(|error| garbage(error.to_string()))?;
        let answer = self.client.request(request).await.map_err(|error| no_answer(error.into()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LARGEST).collect().await.map_err(no_answer)?.to_bytes();
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok((status, answer)),
            Err(_) if status.is_server_error() => Err(RegistryError::Refused { what, why: status.to_string() }),
            Err(error) => Err(garbage(error.to_string())),
        }
    }
}
