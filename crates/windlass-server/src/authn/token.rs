//! Tokens of service accounts: JSON web tokens that this server signs and verifies.
//!
//! A token names its account, its audiences and its lifetime. It can be bound to a pod, a node or a secret. It becomes
//! invalid when that object or the account is deleted. By default the key is generated from the operating system's
//! random source, never from a seed, and exists as long as the server.

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{Meta, Status};

use super::{
    Identity,
    keys::{Algorithm, PublicKey, SigningKey},
    legacy_tokens::{self, LegacyClaims},
};
use crate::identity::User;
use crate::{codec::go_quote, object::Tree, registry::Registry, resource::Target, tls::write_secret};

/// The default issuer of tokens.
const ISSUER: &str = "https://kubernetes.default.svc";

/// The issuer name and the keys of service account tokens.
///
/// By default the issuer is `https://kubernetes.default.svc`, and a key is generated with the first token. Tokens are then
/// invalid after a restart, even if the storage lasts.
#[must_use]
pub struct TokenIssuer {
    name: Arc<str>,
    others: Vec<Arc<str>>,
    key: Option<SigningKey>,
    verifying: Vec<PublicKey>,
}

/// The error for a key that cannot sign or verify tokens.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key is not valid PEM.
    #[error("cannot parse the key of service account tokens as PEM")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// The key is of an unsupported type.
    #[error(
        "unsupported key of service account tokens: expected RSA of at least 2048 bits, or ECDSA over P-256 or P-384"
    )]
    Kind,
    /// The file of the key could not be read or written.
    #[error("could not use {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

/// Issues and verifies tokens.
pub(crate) struct Issuer {
    name: Arc<str>,
    /// The names of all issuers whose tokens are accepted. They are also the audiences of this server.
    audiences: Vec<String>,
    /// Generated with the first token, unless one was configured.
    key: OnceLock<SigningKey>,
    /// The public keys that verify tokens, in addition to that of `key`.
    verifying: Vec<PublicKey>,
}

/// An object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// `pod`, `node` or `secret`.
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    /// Empty for a node that did not exist.
    pub(crate) uid: String,
}

/// The claims of a new token that vary between tokens.
#[derive(Clone, Debug)]
pub(crate) struct Grant<'g> {
    pub(crate) namespace: &'g str,
    pub(crate) name: &'g str,
    pub(crate) uid: &'g str,
    pub(crate) bound: &'g [Bound],
    pub(crate) audiences: &'g [String],
    /// The lifetime in seconds. `warn_after` is in seconds, too.
    pub(crate) lifetime: i64,
    pub(crate) warn_after: Option<i64>,
    /// The ID of the token itself (`jti`).
    pub(crate) id: &'g str,
}

/// The claims of a token that this server signed for one of the requested audiences.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    namespace: String,
    name: String,
    uid: String,
    id: String,
    bound: Vec<Bound>,
    audiences: Vec<String>,
    /// In seconds since the epoch, like `not_after`.
    not_before: i64,
    not_after: i64,
}

/// The reason for rejecting a token, in kube-apiserver's words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The token was not issued by this server.
    #[error("invalid bearer token")]
    Unknown,
    /// The token was issued by this server and is invalid.
    #[error("[invalid bearer token, {0}]")]
    Invalid(String),
    /// The token could not be checked.
    #[error("the server could not look up the account of a token")]
    Unavailable(#[source] Status),
}

/// The tolerated clock difference between servers, in seconds. Tokens of deleted objects stay valid for the same time.
const LEEWAY: i64 = 60;

const KINDS: [(&str, &str); 3] = [("pod", "pods"), ("secret", "secrets"), ("node", "nodes")];

impl Default for TokenIssuer {
    fn default() -> Self {
        Self::named(ISSUER)
    }
}

impl TokenIssuer {
    /// Creates an issuer with this URL as its name. The URL is also the default audience of tokens.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), others: Vec::new(), key: None, verifying: Vec::new() }
    }

    /// Changes the name. The keys stay.
    pub fn renamed(self, name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Accepts the tokens of another issuer, too, so that the name of this one can be changed.
    pub fn accepting(mut self, name: impl Into<Arc<str>>) -> Self {
        self.others.push(name.into());
        self
    }

    /// Sets the private key to the one in a file. Creates the file, with a generated key, on first use.
    ///
    /// Blocks on the file system.
    pub fn persisted(self, path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { path: path.to_owned(), source };
        if !path.try_exists().map_err(failed)? {
            let key = rcgen::KeyPair::generate().map_err(|error| failed(io::Error::other(error)))?;
            write_secret(path, &key.serialize_pem()).map_err(failed)?;
        }
        self.signing_with(&fs::read_to_string(path).map_err(failed)?)
    }

    /// Sets the private key: RSA, or ECDSA over P-256 or P-384, in PEM.
    pub fn signing_with(self, pem: &str) -> Result<Self, KeyError> {
        Ok(Self { key: Some(SigningKey::from_pem(pem.as_bytes())?), ..self })
    }

    /// Accepts tokens that were signed with other keys, too. `pem` has their public keys, private keys or certificates.
    pub fn verifying_with(mut self, pem: &str) -> Result<Self, KeyError> {
        self.verifying.extend(PublicKey::all_from_pem(pem.as_bytes())?);
        Ok(self)
    }
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenIssuer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Issuer {
    pub(super) fn new(TokenIssuer { name, others, key, verifying }: TokenIssuer) -> Self {
        let audiences = std::iter::once(&name).chain(&others).map(ToString::to_string).collect();
        Self { name, audiences, key: key.map_or_else(OnceLock::new, OnceLock::from), verifying }
    }

    /// Returns the default audience of tokens: this server.
    pub(crate) fn audience(&self) -> &str {
        &self.name
    }

    /// Returns the audiences of this server: the names of all accepted issuers, as in kube-apiserver.
    pub(crate) fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Issues a token.
    pub(crate) fn issue(&self, grant: &Grant<'_>, now: Timestamp) -> Result<String, Status> {
        let now = now.as_second();
        let mut private = json!({"namespace": grant.namespace});
        let mut bound: Vec<&Bound> = grant.bound.iter().collect();
        bound.sort_by_key(|bound| bound.kind);
        for bound in bound {
            private[bound.kind] = bound.claim();
        }
        private["serviceaccount"] = json!({"name": grant.name, "uid": grant.uid});
        if let Some(after) = grant.warn_after {
            private["warnafter"] = (now + after).into();
        }
        let claims = json!({
            "aud": grant.audiences,
            "exp": now + grant.lifetime,
            "iat": now,
            "iss": &*self.name,
            "jti": grant.id,
            "kubernetes.io": private,
            "nbf": now,
            "sub": format!("{}{}:{}", crate::identity::SERVICE_ACCOUNT, grant.namespace, grant.name),
        });
        self.sign(&claims)
    }

    /// Issues a legacy token, for a secret.
    pub(crate) fn issue_legacy(
        &self,
        namespace: &str,
        account: &str,
        uid: &str,
        secret: &str,
    ) -> Result<String, Status> {
        self.sign(&legacy_tokens::claims(namespace, account, uid, secret))
    }

    fn sign(&self, claims: &Value) -> Result<String, Status> {
        let key = self.key();
        let header = json!({"alg": key.public.algorithm.name(), "kid": key.public.id});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", encode(&header), encode(claims));
        let signature = key.sign(text.as_bytes());
        let signature = signature.ok_or_else(|| Status::internal("failed to generate token: no randomness"))?;
        Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Verifies a legacy token. Returns `None` for other tokens.
    pub(super) fn verify_legacy(&self, token: &[u8], audiences: &[String]) -> Result<Option<LegacyClaims>, TokenError> {
        let Some(token) = std::str::from_utf8(token).ok() else { return Ok(None) };
        let Some((text, signature)) = token.rsplit_once('.') else { return Ok(None) };
        let Some((header, payload)) = text.split_once('.') else { return Ok(None) };
        let claims = URL_SAFE_NO_PAD.decode(payload).ok().and_then(|claims| serde_json::from_slice(&claims).ok());
        let Some(claims) = claims.filter(|claims: &Value| claims.text(&["iss"]) == legacy_tokens::ISSUER) else {
            return Ok(None);
        };
        self.verify_signature(text, header, signature)?;
        let shared: Vec<String> =
            audiences.iter().filter(|audience| self.audiences.contains(audience)).cloned().collect();
        if shared.is_empty() {
            return Err(audience_error(&self.audiences, audiences));
        }
        LegacyClaims::read(&claims, shared).map(Some)
    }

    /// Returns an error unless one of the keys verifies the signature.
    fn verify_signature(&self, text: &str, header: &str, signature: &str) -> Result<(), TokenError> {
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        let header = URL_SAFE_NO_PAD.decode(header).unwrap_or_default();
        let header: Value = serde_json::from_slice(&header).unwrap_or_default();
        let verifies = |key: &&PublicKey| {
            key.algorithm.name() == header.text(&["alg"]) && key.verifies(text.as_bytes(), &signature)
        };
        let id = header.text(&["kid"]);
        // A token without the ID of a known key may be signed with any of them.
        let is_known = self.public_keys().any(|key| key.id == id);
        if self.public_keys().filter(|key| !is_known || key.id == id).any(|key| verifies(&key)) {
            return Ok(());
        }
        Err(TokenError::Invalid("go-jose/go-jose: error in cryptographic primitive".to_owned()))
    }

    /// Verifies a token that this server issued for one of `audiences`. [`Claims::check_time`] and [`check_live`] check
    /// whether it is still valid.
    pub(super) fn verify(&self, token: &[u8], audiences: &[String]) -> Result<Claims, TokenError> {
        let token = std::str::from_utf8(token).map_err(|_| TokenError::Unknown)?;
        let (text, signature) = token.rsplit_once('.').ok_or(TokenError::Unknown)?;
        let (header, payload) = text.split_once('.').ok_or(TokenError::Unknown)?;
        let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| TokenError::Unknown)?;
        let claims: Value = serde_json::from_slice(&payload).map_err(|_| TokenError::Unknown)?;
        let issuer = claims.text(&["iss"]);
        if !self.audiences.iter().any(|name| name == issuer) {
            return Err(TokenError::Unknown);
        }
        self.verify_signature(text, header, signature)?;
        let token_audiences: Vec<String> =
            claims.items(&["aud"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let shared: Vec<String> =
            audiences.iter().filter(|audience| token_audiences.contains(audience)).cloned().collect();
        if shared.is_empty() {
            return Err(audience_error(&token_audiences, audiences));
        }
        let own = &claims["kubernetes.io"];
        let reference = |kind: &'static str| {
            own.get(kind).map(|value| Bound {
                kind,
                name: value.text(&["name"]).to_owned(),
                uid: value.text(&["uid"]).to_owned(),
            })
        };
        Ok(Claims {
            namespace: own.text(&["namespace"]).to_owned(),
            name: own.text(&["serviceaccount", "name"]).to_owned(),
            uid: own.text(&["serviceaccount", "uid"]).to_owned(),
            id: claims.text(&["jti"]).to_owned(),
            bound: KINDS.iter().filter_map(|(kind, _)| reference(kind)).collect(),
            audiences: shared,
            not_before: claims.int(&["nbf"]).unwrap_or(i64::MAX),
            not_after: claims.int(&["exp"]).unwrap_or(i64::MIN),
        })
    }

    /// Returns the document at `/.well-known/openid-configuration`. `address` is the `host:port` of this server.
    pub(crate) fn configuration(&self, address: &str) -> Value {
        let algorithms: BTreeSet<Algorithm> = self.public_keys().map(|key| key.algorithm).collect();
        json!({
            "issuer": &*self.name,
            "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms.iter().map(|algorithm| algorithm.name()).collect::<Vec<_>>(),
        })
    }

    /// Returns the document at `/openid/v1/jwks`: the public keys.
    pub(crate) fn key_set(&self) -> Value {
        json!({"keys": self.public_keys().map(PublicKey::web_key).collect::<Vec<_>>()})
    }

    fn key(&self) -> &SigningKey {
        self.key.get_or_init(SigningKey::generate)
    }

    /// Returns the keys that verify tokens, each of them once.
    fn public_keys(&self) -> impl Iterator<Item = &PublicKey> {
        let own = &self.key().public;
        std::iter::once(own).chain(self.verifying.iter().filter(move |key| *key != own))
    }
}

/// Returns the error of a token for other audiences.
fn audience_error(audiences: &[String], requested: &[String]) -> TokenError {
    let list = |items: &[String]| items.iter().map(|item| go_quote(item)).collect::<Vec<_>>().join(" ");
    let (audiences, requested) = (list(audiences), list(requested));
    TokenError::Invalid(format!("token audiences [{audiences}] is invalid for the target audiences [{requested}]"))
}

/// Returns an error unless the token's account and the objects that it is bound to still exist.
pub(super) async fn check_live(registry: &Registry, claims: &Claims, now: Timestamp) -> Result<(), TokenError> {
    let Claims { namespace, name, uid, .. } = claims;
    match found(registry, "serviceaccounts", Some(namespace), name).await? {
        Some(account) if *account.uid() != **uid => {
            let found = account.uid();
            return Err(TokenError::Invalid(format!("service account UID ({found}) does not match claim ({uid})")));
        }
        Some(account) if is_deleted(&account, now) => {
            return Err(TokenError::Invalid(format!("service account {namespace}/{name} has been deleted")));
        }
        Some(_) => {}
        None => return Err(TokenError::Invalid(format!("serviceaccounts {} not found", go_quote(name)))),
    }
    let has_pod = claims.bound.iter().any(|bound| bound.kind == "pod");
    for bound in &claims.bound {
        // The node of a pod is informational only.
        if bound.kind == "node" && has_pod {
            continue;
        }
        let Some((_, plural)) = KINDS.iter().find(|(kind, _)| *kind == bound.kind) else { continue };
        let namespace = (bound.kind != "node").then_some(namespace.as_str());
        match found(registry, plural, namespace, &bound.name).await? {
            Some(object) if *object.uid() != *bound.uid => {
                let (kind, found, claimed) = (bound.kind, object.uid(), &bound.uid);
                let other = format!("{kind} UID ({found}) does not match service account {kind} ref claim ({claimed})");
                return Err(TokenError::Invalid(other));
            }
            Some(object) if !is_deleted(&object, now) => {}
            _ => return Err(TokenError::Invalid("service account token has been invalidated".to_owned())),
        }
    }
    Ok(())
}

/// Reports whether an object that is being deleted no longer validates its tokens.
fn is_deleted(object: &Meta, now: Timestamp) -> bool {
    object.deletion_timestamp().is_some_and(|end| end.as_second() < now.as_second().saturating_sub(LEEWAY))
}

/// Returns the metadata of an object of the core group; `None` if it does not exist.
async fn found(
    registry: &Registry,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<Meta>, TokenError> {
    let table = registry.resources();
    let Some(resource) = table.get("", "v1", plural) else { return Ok(None) };
    let target = Target::object(resource, namespace, name);
    let Some(item) = registry.peek_recent(&target).await.map_err(TokenError::Unavailable)? else { return Ok(None) };
    let meta = item.encoded.meta().map_err(|error| TokenError::Unavailable(Status::internal(error)))?;
    Ok(Some(meta))
}

impl Bound {
    fn claim(&self) -> Value {
        if self.uid.is_empty() { json!({"name": self.name}) } else { json!({"name": self.name, "uid": self.uid}) }
    }
}

impl Claims {
    /// Returns the claims of a token that never expires, for tests.
    #[cfg(test)]
    pub(super) fn of_account(namespace: &str, name: &str, audiences: Vec<String>) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            id: String::new(),
            bound: Vec::new(),
            audiences,
            not_before: i64::MIN,
            not_after: i64::MAX,
        }
    }

    /// Returns an error outside the lifetime of the token.
    pub(super) fn check_time(&self, now: Timestamp) -> Result<(), TokenError> {
        let invalid = |why: &str| Err(TokenError::Invalid(why.to_owned()));
        let now = now.as_second();
        if now > self.not_after.saturating_add(LEEWAY) {
            return invalid("service account token has expired");
        }
        if now < self.not_before.saturating_sub(LEEWAY) {
            return invalid("service account token is not valid yet");
        }
        Ok(())
    }

    /// Returns the identity of the token's account.
    pub(super) fn identity(&self) -> Identity {
        let mut user = User::service_account(&self.namespace, &self.name);
        user.uid.clone_from(&self.uid);
        let mut add_extra = |what: &str, value: String| {
            user.extra.insert(format!("authentication.kubernetes.io/{what}"), vec![value]);
        };
        if !self.id.is_empty() {
            add_extra("credential-id", format!("JTI={}", self.id));
        }
        for bound in self.bound.iter().filter(|bound| bound.kind != "secret") {
            add_extra(&format!("{}-name", bound.kind), bound.name.clone());
            if !bound.uid.is_empty() {
                add_extra(&format!("{}-uid", bound.kind), bound.uid.clone());
            }
        }
        Identity::new(user, self.audiences.clone())
    }
}

#[cfg(test)]
mod tests;
