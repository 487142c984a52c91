//! Authentication of requests.
//!
//! One static bearer token belongs to the administrator, and users with their own tokens can be added at any time. A token
//! that this server issued to a service account is valid as long as the account and the bound object exist. While one of
//! them is being deleted, the token stays valid until a minute after the deletion timestamp, as in kube-apiserver. Tokens
//! can also be in secrets ([`legacy_tokens`], [`bootstrap_tokens`]), come from other issuers ([`jwt`]), or be known to a
//! webhook ([`token_webhook`]). They are checked in this order, that of kube-apiserver; the first authenticator that knows
//! the token decides. Bearer tokens of all kinds are answered in token reviews, too.
//!
//! By default, a request without credentials is `system:anonymous`. A wrong token is rejected on every path. In-process
//! requests need no token. Users with the permission to impersonate can act as other users. Over TLS, a client certificate
//! signed by the client CA identifies its user, and a front proxy can name the user in headers ([`front_proxy`]). Any other
//! certificate is rejected, unless the request has a valid token.

mod bootstrap_tokens;
mod fetch;
mod front_proxy;
mod handshake;
mod impersonation;
mod jwt;
mod keys;
mod legacy_tokens;
mod static_tokens;
mod token;
mod token_cache;
mod token_file;
mod token_webhook;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use http::{HeaderMap, header::AUTHORIZATION};
use jiff::Timestamp;
use windlass_api::{Clock, Status};

pub use self::{
    front_proxy::FrontProxy,
    jwt::{AuthenticationConfiguration, AuthenticationConfigurationError, OidcOptions},
    token::{KeyError, TokenIssuer},
    token_file::parse_token_file,
    token_webhook::{TokenReviewError, TokenReviewVersion, TokenReviewer, TokenWebhook},
};
pub(crate) use self::{
    handshake::{is_handshake, protocols},
    impersonation::impersonated,
    token::{Bound, Grant, Issuer, TokenError},
};
use self::{
    impersonation::GrantedModes,
    jwt::{AnonymousConfiguration, JwtIssuers},
    token_webhook::TokenCalls,
};
pub(crate) use crate::authn::static_tokens::Tokens;
use crate::authn::token_cache::{Subject, TokenCache, Verified};
use crate::{
    authz::AccessAttributes,
    identity::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED, User},
    kubernetes::KubernetesVersion,
    registry::Registry,
    tls::ClientCertificate,
    warning::Warnings,
};

const EXTRA_SPACE: &str =
    "the provided Authorization header contains extra space before the bearer token, and is ignored";

/// The handling of requests without credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Requests are accepted as those of `system:anonymous`, which has the permissions that its roles grant.
    #[default]
    Allowed,
    /// Requests are rejected with 401, as with `--anonymous-auth=false`.
    Refused,
}

/// The authenticators of a server besides its own tokens and certificates.
#[derive(Debug, Default)]
pub(crate) struct AuthenticationOptions {
    pub(crate) anonymous: Anonymous,
    pub(crate) webhook: Option<TokenWebhook>,
    pub(crate) bootstrap_tokens: bool,
    /// Legacy tokens are valid even if their secrets and accounts are deleted.
    pub(crate) skips_lookup: bool,
    pub(crate) front_proxy: Option<FrontProxy>,
}

/// The user and the audiences of a token.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) user: Arc<User>,
    /// The requested audiences that the token was issued for.
    pub(crate) audiences: Vec<String>,
    /// The annotations of audit events of requests with the token.
    pub(crate) annotations: Vec<(&'static str, String)>,
    /// The warning in responses to requests with the token.
    pub(crate) warning: Option<&'static str>,
}

impl Identity {
    pub(crate) fn new(user: User, audiences: Vec<String>) -> Self {
        Self { user: Arc::new(user), audiences, annotations: Vec::new(), warning: None }
    }
}

/// The credentials of a request over a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials<'r> {
    pub(crate) certificate: &'r ClientCertificate,
    pub(crate) headers: &'r HeaderMap,
    /// The path of the request, which decides about anonymous requests.
    pub(crate) path: &'r str,
}

/// An authenticated user, with the annotations of the audit event.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated {
    pub(crate) user: Arc<User>,
    pub(crate) annotations: Vec<(&'static str, String)>,
}

impl From<Arc<User>> for Authenticated {
    fn from(user: Arc<User>) -> Self {
        Self { user, annotations: Vec::new() }
    }
}

/// The server whose requests are authenticated.
pub(crate) trait Host: Sync {
    /// Returns the wall clock.
    fn clock(&self) -> &Clock;

    /// Returns the served Kubernetes version.
    fn kubernetes(&self) -> KubernetesVersion;

    /// Returns the registry, in which tokens are looked up.
    fn registry(&self) -> impl Future<Output = Result<&Registry, Status>> + Send;

    /// Returns an error if the user lacks the permission.
    fn authorize(&self, user: &User, attempt: &AccessAttributes<'_>)
    -> impl Future<Output = Result<(), Status>> + Send;
}

/// Authenticates requests.
pub(crate) struct Authenticator {
    /// The administrator's token. If `None`, only in-process callers are administrators.
    token: Option<Arc<str>>,
    /// The tokens of all other users.
    tokens: Tokens,
    admin: Arc<User>,
    /// The handling of requests without credentials, if no configuration decides.
    anonymous: Anonymous,
    anonymous_user: Arc<User>,
    /// Set by the first authentication configuration.
    anonymous_configuration: OnceLock<Option<AnonymousConfiguration>>,
    issuers: JwtIssuers,
    webhook: Option<TokenCalls>,
    bootstrap_tokens: bool,
    skips_lookup: bool,
    front_proxy: Option<FrontProxy>,
    issuer: Issuer,
    token_cache: TokenCache,
    granted_modes: GrantedModes,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator").field("token", &self.token.as_ref().map(|_| "…")).finish_non_exhaustive()
    }
}

impl Authenticator {
    pub(crate) fn new(
        token: Option<Arc<str>>,
        tokens: Tokens,
        issuer: TokenIssuer,
        options: AuthenticationOptions,
    ) -> Self {
        let user = |name: &str, uid: &str, groups: &[&str]| {
            let groups = groups.iter().copied().map(str::to_owned).collect();
            Arc::new(User { name: name.to_owned(), uid: uid.to_owned(), groups, ..User::default() })
        };
        Self {
            token,
            tokens,
            admin: user("admin", "admin", &[MASTERS, AUTHENTICATED]),
            anonymous: options.anonymous,
            anonymous_user: user(ANONYMOUS, "", &[UNAUTHENTICATED]),
            anonymous_configuration: OnceLock::new(),
            issuers: JwtIssuers::default(),
            webhook: options.webhook.map(TokenCalls::new),
            bootstrap_tokens: options.bootstrap_tokens,
            skips_lookup: options.skips_lookup,
            front_proxy: options.front_proxy,
            issuer: Issuer::new(issuer),
            token_cache: TokenCache::default(),
            granted_modes: GrantedModes::default(),
        }
    }

    /// Replaces the issuers of JSON web tokens. Only the first configuration can set the handling of anonymous requests.
    pub(crate) fn configure(
        &self,
        configuration: &AuthenticationConfiguration,
    ) -> Result<(), AuthenticationConfigurationError> {
        if self.anonymous_configuration.get().is_some_and(|initial| *initial != configuration.anonymous) {
            let why = "anonymous: Forbidden: changed from initial configuration file";
            return Err(AuthenticationConfigurationError::Invalid(vec![why.to_owned()]));
        }
        self.issuers.configure(configuration, self.issuer.audiences())?;
        self.anonymous_configuration.get_or_init(|| configuration.anonymous.clone());
        Ok(())
    }

    /// Fetches the keys of all issuers, without waiting for them.
    pub(crate) fn prefetch(&self) {
        self.issuers.prefetch();
    }

    /// Returns the settings of front proxies.
    pub(crate) fn front_proxy(&self) -> Option<&FrontProxy> {
        self.front_proxy.as_ref()
    }

    /// Reports whether a request without credentials is accepted.
    fn accepts_anonymous(&self, path: &str) -> bool {
        match self.anonymous_configuration.get() {
            None | Some(None) => self.anonymous == Anonymous::Allowed,
            Some(Some(AnonymousConfiguration { enabled, conditions })) => {
                *enabled && (conditions.is_empty() || conditions.iter().any(|condition| condition.path == path))
            }
        }
    }

    /// Returns the tokens of all users except the administrator.
    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Returns the user of in-process requests.
    pub(crate) fn admin(&self) -> Arc<User> {
        self.admin.clone()
    }

    /// Returns the issuer of service account tokens.
    pub(crate) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// Returns the cache of granted impersonation modes.
    fn granted_modes(&self) -> &GrantedModes {
        &self.granted_modes
    }

    /// Returns the user of a request, by the connection's certificate or else the token in the headers.
    pub(crate) async fn authenticate(
        &self,
        host: &impl Host,
        credentials: Credentials<'_>,
        warnings: &Warnings,
    ) -> Result<Authenticated, Status> {
        let Credentials { certificate, headers, path } = credentials;
        let (certificate, is_known) = match (certificate, &self.front_proxy) {
            (ClientCertificate::Proxy { name, otherwise }, Some(proxy)) if proxy.allows(name) => {
                if let Some(user) = proxy.user(headers) {
                    return Ok(Arc::new(user).into());
                }
                (&**otherwise, true)
            }
            (ClientCertificate::Proxy { otherwise, .. }, _) => (&**otherwise, false),
            (certificate, _) => (certificate, !matches!(certificate, ClientCertificate::Unknown)),
        };
        if let ClientCertificate::Of(user) = certificate {
            return Ok(Arc::clone(user).into());
        }
        let token = match bearer(headers, warnings) {
            Some(token) => Some(Cow::Borrowed(token)),
            None => handshake::token(headers)?.map(Cow::Owned),
        };
        let Some(token) = token else {
            let is_known = is_known && !matches!(certificate, ClientCertificate::Unknown);
            if is_known && self.accepts_anonymous(path) {
                return Ok(Arc::clone(&self.anonymous_user).into());
            }
            return Err(Status::unauthorized());
        };
        match self.identify(host, &token, self.issuer.audiences()).await {
            // The server's own writes have no name, and plugins exempt them.
            Ok(Identity { user, .. }) if user.name.is_empty() => Err(Status::unauthorized()),
            Ok(Identity { user, annotations, warning, .. }) => {
                warnings.extend(warning.map(str::to_owned));
                Ok(Authenticated { user, annotations })
            }
            Err(TokenError::Unavailable(status)) => Err(status),
            Err(error) => {
                tracing::debug!(%error, "rejected a token");
                Err(Status::unauthorized())
            }
        }
    }

    /// Returns the identity of a token. The token must be issued for at least one of `audiences`. The authenticators are
    /// asked in the order of kube-apiserver.
    pub(crate) async fn identify(
        &self,
        host: &impl Host,
        sent: &[u8],
        audiences: &[String],
    ) -> Result<Identity, TokenError> {
        let own = audiences.iter().filter(|audience| self.issuer.audiences().contains(audience));
        let own: Vec<String> = own.cloned().collect();
        let admin = self
            .token
            .as_ref()
            .is_some_and(|token| constant_time_eq(token.as_bytes(), sent))
            .then(|| self.admin.clone());
        if let Some(user) = admin.or_else(|| self.tokens.user(sent))
            && !own.is_empty()
        {
            return Ok(Identity { user, audiences: own, annotations: Vec::new(), warning: None });
        }
        let (key, now) = (token_cache::key(sent, audiences), host.clock().now());
        let mut problems: Vec<String> = Vec::new();
        match self.identify_signed(host, key, sent, audiences, now).await {
            Ok(Some(identity)) => return Ok(identity),
            Ok(None) | Err(TokenError::Unknown) => {}
            Err(TokenError::Invalid(why)) => problems.push(why),
            Err(error @ TokenError::Unavailable(_)) => return Err(error),
        }
        // The authenticators of tokens without audiences are only asked for those of this server.
        if !own.is_empty() && self.bootstrap_tokens {
            let registry = host.registry().await.map_err(TokenError::Unavailable)?;
            let user = bootstrap_tokens::identify(registry, sent, now).await.map_err(TokenError::Unavailable)?;
            if let Some(user) = user {
                return Ok(Identity::new(user, own));
            }
        }
        if !own.is_empty() {
            match self.issuers.identify(sent, now).await {
                Ok(Some(user)) => {
                    let identity = Identity::new(user, own);
                    let verified = Verified { identity: identity.clone(), subject: Subject::Foreign };
                    self.token_cache.insert(key, now, Arc::new(verified));
                    return Ok(identity);
                }
                Ok(None) => {}
                Err(why) => problems.push(why),
            }
        }
        if let Some(webhook) = &self.webhook {
            match webhook.identify(key, sent, audiences, self.issuer.audiences()).await {
                Ok(Some(identity)) => return Ok((*identity).clone()),
                Ok(None) => {}
                Err(why) => problems.push(why),
            }
        }
        if problems.is_empty() { Err(TokenError::Unknown) } else { Err(TokenError::Invalid(problems.join(", "))) }
    }

    /// Returns the identity of a token that this server has signed, or of any token that was verified recently.
    async fn identify_signed(
        &self,
        host: &impl Host,
        key: token_cache::Key,
        sent: &[u8],
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Option<Identity>, TokenError> {
        let verified = if let Some(verified) = self.token_cache.get(&key, now) {
            verified
        } else {
            let verified = if let Some(claims) = self.issuer.verify_legacy(sent, audiences)? {
                Verified { identity: claims.identity(), subject: Subject::Legacy(claims) }
            } else {
                let claims = self.issuer.verify(sent, audiences)?;
                Verified { identity: claims.identity(), subject: Subject::Account(claims) }
            };
            let verified = Arc::new(verified);
            self.token_cache.insert(key, now, Arc::clone(&verified));
            verified
        };
        match &verified.subject {
            Subject::Foreign => {}
            Subject::Legacy(_) if self.skips_lookup => {}
            Subject::Legacy(claims) => {
                let registry = host.registry().await.map_err(TokenError::Unavailable)?;
                return claims.check_live(registry, sent, now).await.map(Some);
            }
            Subject::Account(claims) => {
                claims.check_time(now)?;
                let registry = host.registry().await.map_err(TokenError::Unavailable)?;
                token::check_live(registry, claims, now).await?;
            }
        }
        Ok(Some(verified.identity.clone()))
    }
}

/// Returns the bearer token in the headers; `None` if there is none.
fn bearer<'h>(headers: &'h HeaderMap, warnings: &Warnings) -> Option<&'h [u8]> {
    let header = headers.get(AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes().trim_ascii());
    let mut parts = header.splitn(3, |byte| *byte == b' ');
    let scheme = parts.next().unwrap_or_default();
    let (Some(sent), rest) = (parts.next(), parts.next()) else { return None };
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return None;
    }
    if sent.is_empty() {
        if rest.is_some() {
            warnings.add(EXTRA_SPACE);
        }
        return None;
    }
    Some(sent)
}

/// Compares in constant time, so that the duration does not reveal the first difference.
fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (x, y)| difference | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    fn credentials<'r>(certificate: &'r ClientCertificate, headers: &'r HeaderMap) -> Credentials<'r> {
        Credentials { certificate, headers, path: "/api" }
    }

    async fn ask(token: Option<&str>, header: &str) -> (Result<String, u16>, usize) {
        let warnings = Warnings::default();
        let mut headers = HeaderMap::new();
        if !header.is_empty() {
            headers.insert(AUTHORIZATION, header.parse().unwrap());
        }
        let builder = Server::builder();
        let server = token.map_or_else(Server::builder, |token| builder.token(token)).build();
        let user = server
            .inner()
            .authenticator()
            .authenticate(&**server.inner(), credentials(&ClientCertificate::Nothing, &headers), &warnings)
            .await;
        (user.map(|found| found.user.name.clone()).map_err(|status| status.code), warnings.headers().len())
    }

    #[tokio::test]
    async fn bearer_token_decides_between_admin_anonymous_and_401() {
        let admin = (Ok("admin".to_owned()), 0);
        let anonymous = (Ok("system:anonymous".to_owned()), 0);
        let token = Some("TOKEN");
        assert_eq!(ask(token, "Bearer TOKEN").await, admin);
        assert_eq!(ask(token, "bearer TOKEN x").await, admin);
        assert_eq!(ask(token, "Bearer WRONG").await, (Err(401), 0));
        assert_eq!(ask(token, "").await, anonymous);
        assert_eq!(ask(token, "Bearer").await, anonymous);
        assert_eq!(ask(token, "Basic abc").await, anonymous);
        assert_eq!(ask(token, "Bearer  TOKEN").await, (Ok("system:anonymous".to_owned()), 1));
    }

    #[tokio::test]
    async fn user_tokens_can_be_added_to_a_running_server() {
        let server = Server::builder().user_token("A", User::new("alice").in_groups(["developers"])).build();
        server.add_user_token("B", User::new("bob"));
        let found = async |token: &str, shown: &ClientCertificate| {
            let mut headers = HeaderMap::new();
            if !token.is_empty() {
                headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            }
            let inner = server.inner();
            let credentials = credentials(shown, &headers);
            let found = inner.authenticator().authenticate(&**inner, credentials, &Warnings::default()).await;
            let user = found.map(|found| found.user);
            user.map(|user| format!("{} {}", user.name, user.groups.join(","))).map_err(|status| status.code)
        };
        assert_eq!(found("A", &ClientCertificate::Nothing).await.unwrap(), "alice developers,system:authenticated");
        assert_eq!(found("B", &ClientCertificate::Nothing).await.unwrap(), "bob system:authenticated");
        assert_eq!(found("C", &ClientCertificate::Nothing).await, Err(401));
        // An unknown certificate is rejected, unless there is also a valid token.
        assert_eq!(found("", &ClientCertificate::Unknown).await, Err(401));
        assert_eq!(found("B", &ClientCertificate::Unknown).await.unwrap(), "bob system:authenticated");
        let carol = ClientCertificate::Of(Arc::new(User::new("carol")));
        assert_eq!(found("B", &carol).await.unwrap(), "carol system:authenticated");
    }

    #[tokio::test]
    async fn request_without_credentials_is_rejected_if_anonymous_is_off() {
        let server = Server::builder().token("TOKEN").anonymous(Anonymous::Refused).build();
        let ask = async |headers: &HeaderMap| {
            let inner = server.inner();
            let user = inner
                .authenticator()
                .authenticate(&**inner, credentials(&ClientCertificate::Nothing, headers), &Warnings::default())
                .await;
            user.map(|found| found.user.name.clone()).map_err(|status| status.code)
        };
        let mut headers = HeaderMap::new();
        assert_eq!(ask(&headers).await, Err(401));
        headers.insert(AUTHORIZATION, "Bearer TOKEN".parse().unwrap());
        assert_eq!(ask(&headers).await.unwrap(), "admin");
    }

    #[tokio::test]
    async fn server_without_tokens_rejects_every_token() {
        assert_eq!(ask(None, "Bearer x").await, (Err(401), 0));
    }
}
