//! One call of a webhook: a connection, a request, and an answer that has to be right.

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use windlass_api::{BoxError, ErrorChain, Status};

use super::hook::Hook;
use crate::{registry::Tree, trust::Bundle};

/// The most bytes of an answer.
const LIMIT: usize = 16 << 20;

/// What a webhook says.
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// Why not.
    pub(super) status: Status,
    pub(super) warnings: Vec<String>,
    /// A JSON patch.
    pub(super) patch: Option<Vec<u8>>,
}

/// Why there is no answer: the words after `failed calling webhook`.
#[derive(Debug)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn other(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(super) fn invalid(why: impl fmt::Display) -> Self {
        Self(format!("received invalid webhook response: {why}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a webhook is.
struct Place {
    host: String,
    port: u16,
    /// With the query.
    path: String,
}

/// Sends a review, and checks what comes back.
pub(super) async fn call(hook: &Hook, version: &str, uid: &str, review: &Value) -> Result<Answer, Failure> {
    let config = hook.client_config();
    let place = Place::of(config, hook.timeout())
        .map_err(|error| Failure::other(format!("could not get REST client: {}", ErrorChain(&*error))))?;
    let failed =
        |why: &dyn fmt::Display| Failure::other(format!("failed to call webhook: Post {:?}: {why}", place.url()));
    let posted = timeout(hook.timeout(), post(&place, config.text(&["caBundle"]), review)).await;
    let answer = posted.map_err(|_| failed(&"context deadline exceeded"))?;
    let answer = answer.map_err(|error| failed(&ErrorChain(&*error)))?;
    verified(answer, version, uid)
}

async fn post(place: &Place, bundle: &str, review: &Value) -> Result<Value, BoxError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trusted = Bundle::from_pem(&BASE64_STANDARD.decode(bundle)?, provider.clone())?;
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = tls.dangerous().with_custom_certificate_verifier(Arc::new(trusted)).with_no_client_auth();
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(place.host.clone())?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post(&place.path)
        .header(header::HOST, &place.host)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(review.to_string())))?;
    let answer = async {
        let answer = sender.send_request(request).await?;
        let code = answer.status();
        let body = Limited::new(answer.into_body(), LIMIT).collect().await?.to_bytes();
        Ok::<_, BoxError>((code, body))
    };
    // The connection lives as long as its call: the answer is there before it ends, or never.
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

/// The answer to this review, and none that contradicts itself.
fn verified(review: Value, version: &str, uid: &str) -> Result<Answer, Failure> {
    let response = review.at(&["response"]).filter(|response| response.is_object());
    let response = response.ok_or_else(|| Failure::invalid("webhook response was absent"))?;
    let found = response.text(&["uid"]);
    if version == "v1" {
        if found != uid {
            return Err(Failure::invalid(format_args!("expected response.uid={uid:?}, got {found:?}")));
        }
        let (api_version, kind) = (review.text(&["apiVersion"]), review.text(&["kind"]));
        if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
            return Err(Failure::invalid(format_args!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {api_version}, Kind={kind}"
            )));
        }
    }
    let (patch, patch_type) = (response.text(&["patch"]), response.text(&["patchType"]));
    match (patch, patch_type) {
        ("", "") => {}
        (_, "") if version == "v1" => {
            return Err(Failure::invalid("webhook returned response.patch but not response.patchType"));
        }
        ("", _) if version == "v1" => {
            return Err(Failure::invalid("webhook returned response.patchType but not response.patch"));
        }
        (_, "JSONPatch" | "") => {}
        (_, other) => return Err(Failure::other(format!("unsupported patch type {other:?}"))),
    }
    let patch = (!patch.is_empty()).then(|| BASE64_STANDARD.decode(patch)).transpose();
    let status = response.at(&["status"]).map(Status::deserialize).transpose();
    Ok(Answer {
        allowed: response.flag(&["allowed"]),
        status: status.map_err(Failure::invalid)?.unwrap_or_default(),
        warnings: response.items(&["warnings"]).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        patch: patch
            .map_err(|error| Failure::other(format!("received undecodable patch in webhook response: {error}")))?,
    })
}

impl Place {
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
        // As the real server sends it: the URLs that Go's test environments make have a slash too many.
        let parts: Vec<&str> = url.path().split('/').filter(|part| !part.is_empty()).collect();
        let path = parts.join("/");
        Ok(Self { host, port: url.port_u16().unwrap_or(443), path: format!("/{path}?{query}") })
    }

    fn url(&self) -> String {
        format!("https://{}:{}{}", self.host, self.port, self.path)
    }
}
