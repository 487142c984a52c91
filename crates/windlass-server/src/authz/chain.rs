//! The chain of authorizers of a server.

use std::sync::Arc;

use super::webhook::AuthorizationWebhook;

/// A chain of authorizers: the first one that allows or denies a request decides.
///
/// Created from an [`AuthorizationConfiguration`](super::AuthorizationConfiguration).
#[derive(Clone, Debug)]
pub struct AuthorizerChain(Arc<[(String, Link)]>);

/// One authorizer.
#[derive(Debug)]
pub(crate) enum Link {
    Rbac,
    /// The node authorizer.
    Node,
    AlwaysAllow,
    AlwaysDeny,
    Webhook(AuthorizationWebhook),
}

impl AuthorizerChain {
    /// Creates a chain of named authorizers.
    pub(super) fn new(links: Vec<(String, Link)>) -> Self {
        Self(links.into())
    }

    pub(super) fn links(&self) -> &[(String, Link)] {
        &self.0
    }

    /// Returns `true` if the default permissions of nodes apply: with the node authorizer, or if everything is allowed.
    #[must_use]
    pub fn authorizes_nodes(&self) -> bool {
        self.0.iter().any(|(_, link)| matches!(link, Link::Node | Link::AlwaysAllow))
    }

    /// Returns `true` if the default roles apply: with RBAC, or if everything is allowed.
    #[must_use]
    pub fn authorizes_by_roles(&self) -> bool {
        self.0.iter().any(|(_, link)| matches!(link, Link::Rbac | Link::AlwaysAllow))
    }

    pub(super) fn has_rbac(&self) -> bool {
        self.0.iter().any(|(_, link)| matches!(link, Link::Rbac))
    }

    pub(super) fn has_node(&self) -> bool {
        self.0.iter().any(|(_, link)| matches!(link, Link::Node))
    }

    pub(super) fn has_webhooks(&self) -> bool {
        self.0.iter().any(|(_, link)| matches!(link, Link::Webhook(_)))
    }
}
