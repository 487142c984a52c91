//! Tokens of an OpenID Connect provider: the auth provider `oidc` of kubeconfigs.
//!
//! The ID token is used until ten seconds before it expires, and then renewed with the refresh token. Both new tokens
//! are written back to the kubeconfig, because many providers accept a refresh token only once. There is no interactive
//! login.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, de::DeserializeOwned};
use tower::ServiceExt as _;
use windlass_api::ErrorChain;

use super::issuer::{Credential, Fresh};
use crate::{
    auth::{AuthError, OidcConfig, OidcError, OidcStore, basic, bearer},
    body::Body,
    config_error::ConfigError,
    connection_options::TlsOptions,
    kubeconfig::{AuthProvider, KubeconfigFiles},
    metrics::MetricsRecorder,
    secret::Secret,
    transport::{self, ConnectionKey, Connections},
};

/// The remaining lifetime below which a token is renewed.
const MARGIN: SignedDuration = SignedDuration::from_secs(10);
/// The maximum size of a response, in bytes.
const ANSWER_LIMIT: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Oidc {
    config: OidcConfig,
    tokens: Mutex<Tokens>,
}

#[derive(Clone, Debug)]
struct Tokens {
    id: Option<Secret>,
    refresh: Option<Secret>,
    /// `true` while the server may still accept the configured ID token.
    offered: bool,
}

#[derive(Deserialize)]
struct Metadata {
    token_endpoint: String,
}

#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
    refresh_token: Option<String>,
}

/// The place of the client ID and secret in a request, which differs between providers.
#[derive(Clone, Copy)]
enum ClientSecret {
    Header,
    Form,
}

impl Oidc {
    pub(super) fn new(config: OidcConfig) -> Self {
        let tokens = Tokens { id: config.id_token.clone(), refresh: config.refresh_token.clone(), offered: false };
        Self { config, tokens: Mutex::new(tokens) }
    }

    /// Returns a token that is valid at `now`. A second call while the token is still valid means that the server
    /// rejected it, so the token is renewed.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Credential, AuthError> {
        let issuer = || self.config.issuer.to_string();
        let named = |source| AuthError::Oidc { issuer: issuer(), source };
        let known = self.tokens.lock().clone();
        let held = match &known.id {
            Some(token) if !known.offered && !token.expose().is_empty() => {
                Some((token.clone(), end(token).map_err(named)?))
            }
            _ => None,
        };
        let (token, end) = if let Some(held) = held.filter(|(_, end)| now < *end - MARGIN) {
            held
        } else {
            let token = self.refresh(&known).await.map_err(named)?;
            let end = end(&token).map_err(named)?;
            (token, end)
        };
        self.tokens.lock().offered = true;
        let header = bearer(token.expose()).ok_or_else(|| AuthError::Unprintable { origin: issuer() })?;
        Ok(Credential { header: Some(header), identity: None, fresh: Fresh::Until(end - MARGIN) })
    }

    async fn refresh(&self, known: &Tokens) -> Result<Secret, OidcError> {
        let refresh = known.refresh.as_ref().filter(|token| !token.expose().is_empty());
        let refresh = refresh.ok_or(OidcError::NoRefreshToken)?;
        let issuer = self.config.issuer.to_string();
        let metadata: Uri = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
            .parse()
            .map_err(|_| OidcError::Answer { url: issuer, what: "address" })?;
        let answer = self.exchange(&metadata, Request::new(Body::empty())).await?;
        let endpoint: Metadata = decode(&metadata, &answer, "token_endpoint")?;
        let endpoint: Uri = endpoint
            .token_endpoint
            .parse()
            .map_err(|_| OidcError::Answer { url: metadata.to_string(), what: "token_endpoint" })?;

        let first = self.exchange(&endpoint, self.refresh_request(refresh, ClientSecret::Header)).await;
        let answer = match first {
            Err(OidcError::Refused { status, .. }) if status.is_client_error() => {
                self.exchange(&endpoint, self.refresh_request(refresh, ClientSecret::Form)).await
            }
            other => other,
        };
        let tokens: TokenResponse = decode(&endpoint, &answer?, "tokens")?;
        let no_token = || OidcError::Answer { url: endpoint.to_string(), what: "id_token" };
        let id = Secret::from(tokens.id_token.filter(|token| !token.is_empty()).ok_or_else(no_token)?);
        let next = tokens.refresh_token.filter(|token| !token.is_empty()).map_or_else(|| refresh.clone(), Secret::from);
        *self.tokens.lock() = Tokens { id: Some(id.clone()), refresh: Some(next.clone()), offered: true };
        self.store(id.clone(), next).await;
        Ok(id)
    }

    fn refresh_request(&self, refresh: &Secret, style: ClientSecret) -> Request<Body> {
        let OidcConfig { client_id, client_secret, .. } = &self.config;
        let secret = client_secret.as_ref().map_or("", Secret::expose);
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/x-www-form-urlencoded"));
        match style {
            ClientSecret::Header => {
                let value = basic(&encode(client_id), &encode(secret));
                headers.extend(value.map(|value| (header::AUTHORIZATION, value)));
            }
            ClientSecret::Form => form.extend([("client_id", &**client_id), ("client_secret", secret)]),
        }
        let pairs: Vec<_> = form.into_iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        *request.body_mut() = pairs.join("&").into();
        request
    }

    async fn exchange(&self, url: &Uri, mut request: Request<Body>) -> Result<Bytes, OidcError> {
        let unusable = |source: ConfigError| OidcError::Config { url: url.to_string(), source: Box::new(source) };
        let unreachable = |source| OidcError::Unreachable { url: url.to_string(), source };
        let mut origin = url.clone().into_parts();
        let path = origin.path_and_query.replace(http::uri::PathAndQuery::from_static("/"));
        *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
        let origin = Uri::from_parts(origin).map_err(|_| unusable(ConfigError::Server { server: url.to_string() }))?;
        let tls =
            TlsOptions { certificate_authority: self.config.certificate_authority.clone(), ..TlsOptions::default() };
        let key = ConnectionKey { tls, ..ConnectionKey::new(origin) };
        let transport =
            transport::connect(key, &Connections::default(), &MetricsRecorder::default()).map_err(unusable)?;
        let response = transport.oneshot(request).await.map_err(unreachable)?;
        if !response.status().is_success() {
            return Err(OidcError::Refused { url: url.to_string(), status: response.status() });
        }
        let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
        Ok(body.map_err(unreachable)?.to_bytes())
    }

    /// Writes new tokens to the kubeconfig. If this fails, only later processes are affected: they need a new login.
    async fn store(&self, id: Secret, refresh: Secret) {
        let Some(OidcStore { file, user }) = self.config.store.clone() else { return };
        let written = tokio::task::spawn_blocking(move || {
            KubeconfigFiles::new([file]).edit(|kubeconfig| {
                let provider = kubeconfig.user_mut(&user).auth_provider.get_or_insert_with(AuthProvider::default);
                provider.config.insert("id-token".to_owned(), id);
                provider.config.insert("refresh-token".to_owned(), refresh);
                Ok(())
            })
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(error = %ErrorChain(&error), "new tokens cannot be stored"),
            Err(error) => tracing::warn!(%error, "new tokens cannot be stored"),
        }
    }
}

/// Returns the expiry time of a token.
fn end(token: &Secret) -> Result<Timestamp, OidcError> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.expose().split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(OidcError::NotAToken);
    };
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).map_err(|_| OidcError::NotAToken)?;
    let claims: Claims = serde_json::from_slice(&claims).map_err(|_| OidcError::NotAToken)?;
    #[allow(clippy::cast_possible_truncation, reason = "the cast saturates, and no such time is a Timestamp")]
    Timestamp::from_second(claims.exp as i64).map_err(|_| OidcError::NotAToken)
}

fn decode<T: DeserializeOwned>(url: &Uri, answer: &[u8], what: &'static str) -> Result<T, OidcError> {
    // The error's own text would contain a part of the response.
    serde_json::from_slice(answer).map_err(|_| OidcError::Answer { url: url.to_string(), what })
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests;
