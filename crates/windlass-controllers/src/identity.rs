//! The users that the controllers act as.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;
use windlass_client::Client;
use windlass_runtime::{CachedClient, Manager};

/// A user that a component of a control plane acts as.
///
/// ```
/// use windlass_controllers::Identity;
///
/// let identity = Identity::Controller("deployment-controller");
/// assert_eq!(identity.user(), "system:serviceaccount:kube-system:deployment-controller");
/// assert_eq!(identity.groups(), ["system:serviceaccounts", "system:serviceaccounts:kube-system"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Identity<'a> {
    /// The user `system:kube-controller-manager`, who reads the objects for all controllers.
    ControllerManager,
    /// The service account of a controller in the namespace `kube-system`, such as `deployment-controller`.
    Controller(&'a str),
    /// The user `system:kube-scheduler`.
    Scheduler,
    /// The kubelet of a node.
    Node(&'a str),
    /// An administrator, who installs add-ons: the simulated nodes' StorageClass, and their metrics. Also makes the
    /// changes of stages that kubelets may not make.
    Administrator,
}

/// The clients of the users that the controllers act as.
#[derive(Clone)]
pub(crate) struct Identities(Arc<Inner>);

struct Inner {
    client_of: Box<ClientOf>,
    /// The clients of the nodes, by name. Each step of a pod uses one.
    nodes: Mutex<HashMap<String, Option<Client>>>,
}

type ClientOf = dyn Fn(Identity<'_>) -> Option<Client> + Send + Sync;

impl Identity<'_> {
    /// Returns the name of the user.
    #[must_use]
    pub fn user(&self) -> String {
        match self {
            Self::ControllerManager => "system:kube-controller-manager".to_owned(),
            Self::Controller(name) => format!("system:serviceaccount:kube-system:{name}"),
            Self::Scheduler => "system:kube-scheduler".to_owned(),
            Self::Node(name) => format!("system:node:{name}"),
            Self::Administrator => "admin".to_owned(),
        }
    }

    /// Returns the groups of the user, besides that of all authenticated users.
    #[must_use]
    pub const fn groups(&self) -> &'static [&'static str] {
        match self {
            Self::ControllerManager | Self::Scheduler => &[],
            Self::Controller(_) => &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
            Self::Node(_) => &["system:nodes"],
            Self::Administrator => &["system:masters"],
        }
    }
}

impl Identities {
    pub(crate) fn new(client_of: impl Fn(Identity<'_>) -> Option<Client> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { client_of: Box::new(client_of), nodes: Mutex::default() }))
    }

    /// Returns the client of a user, or `None` if the client of the manager is used.
    pub(crate) fn client(&self, identity: Identity<'_>) -> Option<Client> {
        let Identity::Node(name) = identity else { return (self.0.client_of)(identity) };
        let mut nodes = self.0.nodes.lock();
        if let Some(client) = nodes.get(name) {
            return client.clone();
        }
        let client = (self.0.client_of)(identity);
        nodes.insert(name.to_owned(), client.clone());
        client
    }

    /// Returns a client that acts as a user.
    pub(crate) fn acting(&self, client: &CachedClient, identity: Identity<'_>) -> CachedClient {
        match self.client(identity) {
            Some(credentials) => client.with_credentials_of(&credentials),
            None => client.clone(),
        }
    }

    /// Returns a live client that acts as a user.
    pub(crate) fn acting_live(&self, client: &Client, identity: Identity<'_>) -> Client {
        match self.client(identity) {
            Some(credentials) => client.clone().with_credentials_of(&credentials),
            None => client.clone(),
        }
    }

    /// Adds runnables that act as a user.
    pub(crate) fn add(&self, manager: &mut Manager, identity: Identity<'_>, add: impl FnOnce(&mut Manager)) {
        match self.client(identity) {
            Some(credentials) => {
                manager.with_credentials_of(&credentials, add);
            }
            None => add(manager),
        }
    }
}

impl Default for Identities {
    /// All controllers use the client of the manager.
    fn default() -> Self {
        Self::new(|_| None)
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn client_of_a_node_is_created_once() {
        let created = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&created);
        let identities = Identities::new(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
            None
        });
        for name in ["a", "b", "a", "b"] {
            assert!(identities.clone().client(Identity::Node(name)).is_none());
        }
        assert_eq!(created.load(Ordering::SeqCst), 2);
    }
}
