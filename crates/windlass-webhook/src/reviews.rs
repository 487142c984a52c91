//! Who somebody is, and what somebody may do: the webhooks that an API server asks when it is told to with
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

/// Tells who has sent a token.
pub trait Authenticator: Send + Sync + 'static {
    /// Whose it is. `audiences` are those that the API server answers to; without any it asks for none. An error is told to
    /// the API server, and leaves the caller unknown, as does a panic.
    fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
    ) -> impl Future<Output = Result<Authentication, BoxError>> + Send;
}

/// Whose a token is.
#[derive(Clone, Debug, PartialEq)]
pub enum Authentication {
    /// Somebody's.
    Authenticated {
        /// Whose.
        user: UserInfo,
        /// Those of the audiences asked for that the token is for. Empty: it is for the API server's own.
        audiences: Vec<String>,
    },
    /// Nobody's that is known here.
    Unknown,
}

/// Decides what somebody may do.
pub trait Authorizer: Send + Sync + 'static {
    /// Whether this may be done. An error is told to the API server, and counts as no opinion, as does a panic.
    fn authorize(&self, asked: &SubjectAccessReviewSpec) -> impl Future<Output = Result<Decision, BoxError>> + Send;
}

/// Whether something may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow {
        /// For people.
        reason: String,
    },
    /// It may not, whatever other authorizers say.
    Deny {
        /// For people.
        reason: String,
    },
    /// That is for others to say.
    NoOpinion {
        /// For people.
        reason: String,
    },
}

/// An [`Authenticator`] of whatever type.
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

/// An [`Authorizer`] of whatever type.
pub(crate) trait DynAuthorizer: Send + Sync {
    fn authorize<'a>(&'a self, asked: &'a SubjectAccessReviewSpec) -> BoxFuture<'a, Result<Decision, BoxError>>;
}

impl<A: Authorizer> DynAuthorizer for A {
    fn authorize<'a>(&'a self, asked: &'a SubjectAccessReviewSpec) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(Authorizer::authorize(self, asked))
    }
}

/// What somebody's code says, or why it says nothing, in words for the API server.
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
