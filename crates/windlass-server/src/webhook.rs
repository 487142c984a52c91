//! Webhook calls for admission and conversion: posts an object and returns the response object.
//!
//! A webhook is trusted by its `caBundle` alone, not by the system's CAs. Each call opens a new connection. A service
//! is addressed by its name in the cluster.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::Value;
use tokio::{net::TcpStream, time};
use tokio_rustls::TlsConnector;
use windlass_api::{BoxError, ErrorChain};

use crate::{object::Tree, trace_context::TraceContext, trust::Bundle};

mod config;
mod users;

pub(crate) use self::{
    config::{validate_client_config, validate_review_versions},
    users::WebhookUsers,
};

/// The maximum size of a response in bytes.
const LIMIT: usize = 16 << 20;

/// The configuration of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'c> {
    /// A `WebhookClientConfig`.
    pub(crate) config: &'c Value,
    pub(crate) timeout: Duration,
    pub(crate) user_agent: &'static str,
    /// The trace context that the webhook receives.
    pub(crate) trace: Option<&'c TraceContext>,
    /// The credentials, by the host of the webhook.
    pub(crate) users: Option<&'c WebhookUsers>,
}

/// The error for a failed call, in kube-apiserver's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration does not specify a URL or a service.
    #[error("{0}")]
    NoEndpoint(String),
    #[error("Post {url:?}: {why}")]
    Failed { url: String, why: String },
}

/// The address of a webhook.
struct Endpoint {
    host: String,
    port: u16,
    /// The path with the query.
    path: String,
}

/// Reports whether a `caBundle` is empty or contains certificates.
pub(crate) fn is_bundle(encoded: &str) -> bool {
    encoded.is_empty()
        || BASE64_STANDARD.decode(encoded).is_ok_and(|pem| {
            let mut certificates = CertificateDer::pem_slice_iter(&pem).peekable();
            certificates.peek().is_some() && certificates.all(|certificate| certificate.is_ok())
        })
}

impl Call<'_> {
    /// Posts an object and returns the webhook's response.
    pub(crate) async fn post(self, review: &Value) -> Result<Value, CallError> {
        let endpoint = Endpoint::of(self.config, self.timeout);
        let endpoint = endpoint.map_err(|error| CallError::NoEndpoint(ErrorChain(&*error).to_string()))?;
        let why = match time::timeout(self.timeout, self.post_to(&endpoint, review)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => ErrorChain(&*error).to_string(),
            Err(_) => "context deadline exceeded".to_owned(),
        };
        Err(CallError::Failed { url: endpoint.url(), why })
    }

    async fn post_to(self, endpoint: &Endpoint, review: &Value) -> Result<Value, BoxError> {
        let bundle = BASE64_STANDARD.decode(self.config.text(&["caBundle"]))?;
        let provider = windlass_tls::provider()?;
        let trusted = Bundle::from_pem(&bundle, provider.clone())?;
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = tls.dangerous().with_custom_certificate_verifier(Arc::new(trusted));
        let credentials = self.users.and_then(|users| users.of(&endpoint.host, endpoint.port));
        let tls = match credentials.map(users::Credentials::identity).transpose()?.flatten() {
            Some((chain, key)) => tls.with_client_auth_cert(chain, key)?,
            None => tls.with_no_client_auth(),
        };
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(endpoint.host.clone())?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut request = Request::post(&endpoint.path)
            .header(header::HOST, &endpoint.host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, self.user_agent)
            .body(Full::new(Bytes::from(review.to_string())))?;
        if let Some(credentials) = credentials.filter(|credentials| !credentials.authorization.is_empty()) {
            request.headers_mut().insert(header::AUTHORIZATION, credentials.authorization.parse()?);
        }
        if let Some(trace) = self.trace {
            trace.add_to(request.headers_mut());
        }
        let answer = async {
            let answer = sender.send_request(request).await?;
            let code = answer.status();
            let body = Limited::new(answer.into_body(), LIMIT).collect().await?.to_bytes();
            Ok::<_, BoxError>((code, body))
        };
        // The connection exists as long as the call: the response arrives before it ends, or never.
        let mut connection = std::pin::pin!(connection);
        let mut answer = std::pin::pin!(answer);
        let (code, body) = tokio::select! {
            biased;
            answer = &mut answer => answer?,
            ended = &mut connection => {
                ended?;
                answer.await?
            }
        };
        if code != StatusCode::OK {
            return Err(format!("the server answered {code}").into());
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

impl Endpoint {
    fn of(config: &Value, timeout: Duration) -> Result<Self, BoxError> {
        let query = format!("timeout={}s", timeout.as_secs());
        if let Some(service) = config.at(&["service"]) {
            let (name, namespace) = (service.text(&["name"]), service.text(&["namespace"]));
            let port = service.int(&["port"]).unwrap_or(443).try_into()?;
            let path = service.text(&["path"]).trim_start_matches('/');
            return Ok(Self { host: format!("{name}.{namespace}.svc"), port, path: format!("/{path}?{query}") });
        }
        let url: Uri = config.text(&["url"]).parse()?;
        let host = url.host().ok_or("the URL names no host")?.trim_matches(['[', ']']).to_owned();
        // kube-apiserver normalizes the path, too: URLs from Go's test environments have an extra slash.
        let parts: Vec<_> = url.path().split('/').filter(|part| !part.is_empty()).collect();
        let path = parts.join("/");
        Ok(Self { host, port: url.port_u16().unwrap_or(443), path: format!("/{path}?{query}") })
    }

    fn url(&self) -> String {
        format!("https://{}:{}{}", self.host, self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhook_address_comes_from_url_or_service() {
        let service = json!({"service": {"name": "hooks", "namespace": "shop", "path": "/mutate", "port": 8443}});
        for (config, expected) in [
            (json!({"url": "https://127.0.0.1:9443//mutate-shop"}), "https://127.0.0.1:9443/mutate-shop?timeout=7s"),
            (json!({"url": "https://hooks.example.com"}), "https://hooks.example.com:443/?timeout=7s"),
            (service, "https://hooks.shop.svc:8443/mutate?timeout=7s"),
        ] {
            let endpoint = Endpoint::of(&config, Duration::from_secs(7)).unwrap();
            assert_eq!(endpoint.url(), expected);
        }
        assert!(Endpoint::of(&json!({"url": "/nowhere"}), Duration::ZERO).is_err());
    }
}
