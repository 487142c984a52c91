//! Authentication of requests.
//!
//! One static bearer token belongs to the administrator. A token that this server issued to a service account is valid
//! as long as the account and the bound object exist. While one of them is being deleted, the token stays valid until a
//! minute after the deletion timestamp, as in kube-apiserver. By default, a request without credentials is
//! `system:anonymous`. A wrong token is rejected on every path. In-process requests need no token. Users with the
//! permission to impersonate can act as other users.
//!
//! Users with their own tokens can be added at any time. Over TLS, a client certificate signed by the client CA
//! identifies its user. Any other certificate is rejected, unless the request has a valid token.

mod handshake;
mod impersonation;
mod static_tokens;
mod keys;
mod token;
mod token_cache;

use std::{borrow::Cow, fmt, sync::Arc};

use http::{HeaderMap, header::AUTHORIZATION};
use windlass_api::{Clock, Status};

use self::impersonation::GrantedModes;
pub use self::token::{KeyError, TokenIssuer};
pub(crate) use self::{
    impersonation::impersonated,
    token::{Bound, Grant, Issuer, TokenError},
};
pub(crate) use crate::authn::static_tokens::Tokens;
use crate::authn::token_cache::{TokenCache, Verified};
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

/// The user and the audiences of a token.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) user: Arc<User>,
    /// The requested audiences that the token was issued for.
    pub(crate) audiences: Vec<String>,
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
    /// The user of requests without credentials. If `None`, they are rejected.
    anonymous: Option<Arc<User>>,
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
    pub(crate) fn new(token: Option<Arc<str>>, tokens: Tokens, issuer: TokenIssuer, anonymous: Anonymous) -> Self {
        let user = |name: &str, uid: &str, groups: &[&str]| {
            let groups = groups.iter().copied().map(str::to_owned).collect();
            Arc::new(User { name: name.to_owned(), uid: uid.to_owned(), groups, ..User::default() })
        };
        Self {
            token,
            tokens,
            admin: user("admin", "admin", &[MASTERS, AUTHENTICATED]),
            anonymous: (anonymous == Anonymous::Allowed).then(|| user(ANONYMOUS, "", &[UNAUTHENTICATED])),
            issuer: Issuer::new(issuer),
            token_cache: TokenCache::default(),
            granted_modes: GrantedModes::default(),
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
        shown: &ClientCertificate,
        headers: &HeaderMap,
        warnings: &Warnings,
    ) -> Result<Arc<User>, Status> {
        if let ClientCertificate::Of(user) = shown {
            return Ok(user.clone());
        }
        let token = match bearer(headers, warnings) {
            Some(token) => Some(Cow::Borrowed(token)),
            None => handshake::token(headers)?.map(Cow::Owned),
        };
        let Some(token) = token else {
            return match &self.anonymous {
                Some(anonymous) if !matches!(shown, ClientCertificate::Unknown) => Ok(anonymous.clone()),
                _ => Err(Status::unauthorized()),
            };
        };
        match self.identify(host, &token, self.issuer.audiences()).await {
            Ok(identity) => Ok(identity.user),
            Err(TokenError::Unavailable(status)) => Err(status),
            Err(_) => Err(Status::unauthorized()),
        }
    }

    /// Returns the identity of a token. The token must be issued for at least one of `audiences`.
    pub(crate) async fn identify(
        &self,
        host: &impl Host,
        sent: &[u8],
        audiences: &[String],
    ) -> Result<Identity, TokenError> {
        let admin = self
            .token
            .as_ref()
            .is_some_and(|token| constant_time_eq(token.as_bytes(), sent))
            .then(|| self.admin.clone());
        if let Some(user) = admin.or_else(|| self.tokens.user(sent)) {
            let own = audiences.iter().filter(|audience| self.issuer.audiences().contains(audience));
            let own: Vec<String> = own.cloned().collect();
            if own.is_empty() {
                return Err(TokenError::Unknown);
            }
            return Ok(Identity { user, audiences: own });
        }
        let (key, now) = (token_cache::key(sent, audiences), host.clock().now());
        let verified = if let Some(verified) = self.token_cache.get(&key, now) {
            verified
        } else {
            let claims = self.issuer.verify(sent, audiences)?;
            let verified = Arc::new(Verified { identity: claims.identity(), claims });
            self.token_cache.insert(key, now, Arc::clone(&verified));
            verified
        };
        verified.claims.check_time(now)?;
        let registry = host.registry().await.map_err(TokenError::Unavailable)?;
        token::check_live(registry, &verified.claims, now).await?;
        Ok(verified.identity.clone())
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
            .authenticate(&**server.inner(), &ClientCertificate::Nothing, &headers, &warnings)
            .await;
        (user.map(|user| user.name.clone()).map_err(|status| status.code), warnings.headers().len())
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
            let user = inner.authenticator().authenticate(&**inner, shown, &headers, &Warnings::default()).await;
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
                .authenticate(&**inner, &ClientCertificate::Nothing, headers, &Warnings::default())
                .await;
            user.map(|user| user.name.clone()).map_err(|status| status.code)
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
