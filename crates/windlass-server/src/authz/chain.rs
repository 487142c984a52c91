//! The authorizers of a server, in turn.

use std::sync::Arc;

use super::webhook::AuthorizationWebhook;

/// Authorizers that are asked one after the other: the first that allows or forbids a request decides.
///
/// Made from an [`AuthorizationConfiguration`](super::AuthorizationConfiguration).
#[derive(Clone, Debug)]
pub struct AuthorizerChain(Arc<[Link]>);

/// One authorizer.
#[derive(Debug)]
pub(crate) enum Link {
    Rbac,
    /// Has no opinion on anything: a kubelet has what its roles give it.
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

    pub(super) fn asks_webhooks(&self) -> bool {
        self.0.iter().any(|link| matches!(link, Link::Webhook(_)))
    }
}
