//! Authentication and authorization webhooks: an API server calls them if it is started with
//! `--authentication-token-webhook-config-file` and `--authorization-webhook-config-file`.

mod access;
mod token;

use std::future::Future;

use futures::future::BoxFuture;
use windlass_api::{
    BoxError, ErrorChain,
    k8s_openapi::api::{authentication::v1::UserInfo, authorization::v1::SubjectAccessReviewSpec},
};

pub(crate) use self::{access::Access, token::Tokens};
use crate::{WebhookMetrics, review::contained};

/// Authenticates bearer tokens.
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the user of a token. `audiences` are the audiences of the API server; the list may be empty. An error is
    /// reported to the API server and leaves the client unauthenticated, as does a panic.
    fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
    ) -> impl Future<Output = Result<Authentication, BoxError>> + Send;
}

/// The result of the authentication of a token.
#[derive(Clone, Debug, PartialEq)]
pub enum Authentication {
    /// The token belongs to a user.
    Authenticated {
        /// The user.
        user: UserInfo,
        /// The requested audiences for which the token is valid. Empty if it is valid for the API server's own
        /// audiences.
        audiences: Vec<String>,
    },
    /// The token is not known to this authenticator.
    Unknown,
}

/// Authorizes requests.
pub trait Authorizer: Send + Sync + 'static {
    /// Decides about a request. An error is reported to the API server and counts as no opinion, as does a panic.
    fn authorize(&self, asked: &SubjectAccessReviewSpec) -> impl Future<Output = Result<Decision, BoxError>> + Send;
}

/// The decision of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow {
        /// The reason, for users.
        reason: String,
    },
    /// The request is denied, regardless of other authorizers.
    Deny {
        /// The reason, for users.
        reason: String,
    },
    /// Other authorizers decide.
    NoOpinion {
        /// The reason, for users.
        reason: String,
    },
}

/// An [`Authenticator`] as a trait object.
pub(crate) trait DynAuthenticator: Send + Sync {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> BoxFuture<'a, Result<Authentication, BoxError>>;
}

impl<A: Authenticator> DynAuthenticator for A {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
    ) -> BoxFuture<'a, Result<Authentication, BoxError>> {
        Box::pin(Authenticator::authenticate(self, token, audiences))
    }
}

/// An [`Authorizer`] as a trait object.
pub(crate) trait DynAuthorizer: Send + Sync {
    fn authorize<'a>(&'a self, asked: &'a SubjectAccessReviewSpec) -> BoxFuture<'a, Result<Decision, BoxError>>;
}

impl<A: Authorizer> DynAuthorizer for A {
    fn authorize<'a>(&'a self, asked: &'a SubjectAccessReviewSpec) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(Authorizer::authorize(self, asked))
    }
}

/// Returns the result of a handler, or an error message for the API server.
async fn answered<T>(
    work: impl Future<Output = Result<T, BoxError>>,
    metrics: &dyn WebhookMetrics,
) -> Result<T, String> {
    match contained(work).await {
        Ok(answer) => answer.map_err(|error| ErrorChain(&*error).to_string()),
        Err(panic) => {
            metrics.panicked();
            Err(format!("panic: {panic} [recovered]"))
        }
    }
}

#[cfg(test)]
mod tests;
