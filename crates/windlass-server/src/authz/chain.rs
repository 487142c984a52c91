//! The chain of authorizers of a server.

use std::sync::Arc;

use super::webhook::AuthorizationWebhook;

/// A chain of authorizers: the first one that allows or denies a request decides.
///
/// Created from an [`AuthorizationConfiguration`](super::AuthorizationConfiguration).
#[derive(Clone, Debug)]
pub struct AuthorizerChain(Arc<[Link]>);

/// One authorizer.
#[derive(Debug)]
pub(crate) enum Link {
    Rbac,
    /// Has no opinion on any request: a kubelet has the permissions of its roles.
    Node,
    AlwaysAllow,
    AlwaysDeny,
    Webhook(AuthorizationWebhook),
}

impl AuthorizerChain {
    pub(super) fn new(links: Vec<Link>) -> Self {
        Self(links.into())
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.0
    }

    pub(super) fn has_webhooks(&self) -> bool {
        self.0.iter().any(|link| matches!(link, Link::Webhook(_)))
    }
}
