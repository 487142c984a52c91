//! JSON web tokens of OpenID Connect issuers.
//!
//! A token is verified by the issuer that it names. The issuer's keys come from its discovery document. The claims are
//! mapped to the user by fields or expressions, and rules validate both. As in kube-apiserver, the first issuer with an
//! error decides.
//!
//! Not supported: distributed claims (a token whose groups are at another URL is rejected), and ES512.

mod configuration;
mod keys;
mod mapping;
mod provider;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use parking_lot::RwLock;
use serde_json::{Map, Value};

pub(super) use self::configuration::AnonymousConfiguration;
pub use self::configuration::{AuthenticationConfiguration, AuthenticationConfigurationError, OidcOptions};
use self::{configuration::JwtAuthenticator, keys::WebKey, mapping::Mapping, provider::Provider};
use crate::{codec::go_quote, identity::User, object::Tree};

/// The tolerated clock difference for tokens that are not valid yet, in seconds.
const LEEWAY: i64 = 60;

/// The claims of a token.
type Claims = Map<String, Value>;

/// The issuers whose tokens are accepted. They can be replaced while the server runs.
#[derive(Debug, Default)]
pub(super) struct JwtIssuers(RwLock<Arc<[JwtIssuer]>>);

/// An issuer.
#[derive(Debug)]
struct JwtIssuer {
    url: String,
    audiences: Vec<String>,
    algorithms: Vec<String>,
    mapping: Mapping,
    provider: Provider,
}

/// The parts of a token.
struct Parts<'t> {
    /// The header and the payload, which are signed.
    signed: &'t str,
    header: &'t str,
    signature: &'t str,
    claims: Claims,
}

impl JwtIssuers {
    /// Replaces the issuers. Those with the same source of keys keep their keys. `disallowed` has the issuers of service account tokens.
    pub(super) fn configure(
        &self,
        configuration: &AuthenticationConfiguration,
        disallowed: &[String],
    ) -> Result<(), AuthenticationConfigurationError> {
        configuration.validate(disallowed)?;
        let known = Arc::clone(&self.0.read());
        let issuers = configuration.issuers.iter();
        let issuers = issuers.map(|issuer| JwtIssuer::new(issuer, &configuration.algorithms, &known));
        *self.0.write() = issuers.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Fetches the keys of all issuers, so that the first tokens need not wait. Does not wait for the result.
    pub(super) fn prefetch(&self) {
        for issuer in self.0.read().iter() {
            let provider = issuer.provider.clone();
            tokio::spawn(async move { drop(provider.refresh().await) });
        }
    }

    /// Returns the user of a token; `None` if no issuer has issued it.
    pub(super) async fn identify(&self, token: &[u8], now: Timestamp) -> Result<Option<User>, String> {
        let issuers = Arc::clone(&self.0.read());
        if issuers.is_empty() {
            return Ok(None);
        }
        let Some(parts) = std::str::from_utf8(token).ok().and_then(Parts::of) else { return Ok(None) };
        let Some(issuer) = issuers.iter().find(|issuer| issuer.url == parts.issuer()) else { return Ok(None) };
        issuer.identify(parts, now).await.map(Some)
    }
}

impl<'t> Parts<'t> {
    /// Splits a token. Returns `None` if it is no compact JSON web token.
    fn of(token: &'t str) -> Option<Self> {
        let mut parts = token.split('.');
        let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
        Some(Self { signed: token.get(..header.len() + 1 + payload.len())?, header, signature, claims })
    }

    /// Returns the issuer that the token names.
    fn issuer(&self) -> &str {
        match self.claims.get("iss").and_then(Value::as_str).unwrap_or_default() {
            "accounts.google.com" => "https://accounts.google.com",
            issuer => issuer,
        }
    }
}

impl JwtIssuer {
    fn new(
        configured: &JwtAuthenticator,
        algorithms: &[String],
        known: &[Self],
    ) -> Result<Self, AuthenticationConfigurationError> {
        let JwtAuthenticator { issuer, .. } = configured;
        let (url, discovery, authority) = (&*issuer.url, issuer.discovery(), &*issuer.certificate_authority);
        let mut providers = known.iter().map(|known| &known.provider);
        let provider = match providers.find(|provider| provider.has_settings(url, discovery, authority)) {
            Some(provider) => provider.clone(),
            None => Provider::new(url, discovery, authority)
                .map_err(|source| AuthenticationConfigurationError::Client { url: url.to_owned(), source })?,
        };
        let algorithms = if algorithms.is_empty() { vec!["RS256".to_owned()] } else { algorithms.to_vec() };
        Ok(Self {
            url: issuer.url.clone(),
            audiences: issuer.audiences.clone(),
            algorithms,
            mapping: Mapping::new(configured),
            provider,
        })
    }

    async fn identify(&self, parts: Parts<'_>, now: Timestamp) -> Result<User, String> {
        if self.provider.keys().is_none() && (self.provider.refresh().await.is_err() || self.provider.keys().is_none())
        {
            return Err("oidc: authenticator not initialized".to_owned());
        }
        self.verify(&parts).await.map_err(|why| format!("oidc: verify token: {why}"))?;
        self.check(&parts.claims, now).map_err(|why| format!("oidc: verify token: {why}"))?;
        self.mapping.user(parts.claims)
    }

    /// Verifies the signature. Fetches the keys again if none of the known ones verifies it.
    async fn verify(&self, parts: &Parts<'_>) -> Result<(), String> {
        let header = URL_SAFE_NO_PAD.decode(parts.header).ok();
        let header: Option<Value> = header.and_then(|header| serde_json::from_slice(&header).ok());
        let header =
            header.ok_or("oidc: malformed jwt: go-jose/go-jose: compact JWS format must have a valid header")?;
        let signature = URL_SAFE_NO_PAD.decode(parts.signature);
        let signature = signature.map_err(|_| "oidc: malformed jwt: illegal base64 data")?;
        let (algorithm, id) = (header.text(&["alg"]), header.text(&["kid"]));
        if !self.algorithms.iter().any(|known| known == algorithm) {
            let known: Vec<String> = self.algorithms.iter().map(|known| go_quote(known)).collect();
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected [{}] got {}",
                known.join(" "),
                go_quote(algorithm)
            ));
        }
        let verifies = |keys: Option<Arc<[WebKey]>>| {
            let mut keys = keys.iter().flat_map(|keys| keys.iter()).filter(|key| id.is_empty() || key.id == id);
            keys.any(|key| key.verifies(algorithm, parts.signed.as_bytes(), &signature))
        };
        if verifies(self.provider.keys()) {
            return Ok(());
        }
        let fetched = self.provider.refresh().await;
        fetched.map_err(|why| format!("failed to verify signature: fetching keys {why}"))?;
        if verifies(self.provider.keys()) {
            return Ok(());
        }
        Err("failed to verify signature: failed to verify id token signature".to_owned())
    }

    /// Checks the audience and the lifetime.
    fn check(&self, claims: &Claims, now: Timestamp) -> Result<(), String> {
        for field in ["sub", "nonce", "at_hash"] {
            let found = match claims.get(field) {
                None | Some(Value::String(_) | Value::Null) => continue,
                Some(Value::Bool(_)) => "bool",
                Some(Value::Number(_)) => "number",
                Some(Value::Array(_)) => "array",
                Some(Value::Object(_)) => "object",
            };
            return Err(format!(
                "oidc: failed to unmarshal claims: json: cannot unmarshal {found} into Go struct field idToken.{field} of \
                 type string"
            ));
        }
        let audiences: Vec<&str> = match claims.get("aud") {
            Some(Value::String(audience)) => vec![audience],
            Some(Value::Array(audiences)) => audiences.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let list = |items: &[&str]| items.iter().map(|item| go_quote(item)).collect::<Vec<_>>().join(" ");
        let is_known = self.audiences.iter().any(|audience| audiences.contains(&audience.as_str()));
        let wrong_audience = || {
            let expected = match self.audiences.as_slice() {
                [audience] => go_quote(audience),
                several => {
                    let mut sorted: Vec<&str> = several.iter().map(String::as_str).collect();
                    sorted.sort_unstable();
                    format!("[{}]", list(&sorted))
                }
            };
            let label = if self.audiences.len() == 1 { "" } else { "in " };
            format!("oidc: expected audience {label}{expected} got [{}]", list(&audiences))
        };
        if !is_known && self.audiences.len() == 1 {
            return Err(wrong_audience());
        }
        let expiry = seconds(claims.get("exp"));
        if expiry.is_none_or(|expiry| expiry < now) {
            let shown = expiry.map_or_else(
                || "0001-01-01 00:00:00 +0000 UTC".to_owned(),
                |expiry| expiry.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
            );
            return Err(format!("oidc: token is expired (Token Expiry: {shown})"));
        }
        if let Some(start) = seconds(claims.get("nbf"))
            && now.as_second().saturating_add(LEEWAY) < start.as_second()
        {
            let shown = |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string();
            let (now, start) = (shown(now), shown(start));
            return Err(format!("oidc: current time {now} before the nbf (not before) time: {start}"));
        }
        if is_known { Ok(()) } else { Err(wrong_audience()) }
    }
}

/// Reads a time in seconds since the epoch.
fn seconds(claim: Option<&Value>) -> Option<Timestamp> {
    let claim = claim?;
    #[allow(clippy::cast_possible_truncation, reason = "fractions of seconds are ignored, as in go-oidc")]
    let seconds = claim.as_i64().or_else(|| claim.as_f64().map(|seconds| seconds as i64))?;
    Timestamp::from_second(seconds).ok()
}
