//! An accessor for every built-in resource: `clientset.core_v1().pods("default").get("test")`.
//!
//! `groups` is written by `cargo xtask clientset` from what a real kube-apiserver of the pinned minor serves: which
//! groups, versions and resources there are, which of them are namespaced, and which verbs and subresources each has. A
//! verb that a resource lacks is not a method of its accessor.
//!
//! What is not guaranteed: that the server at hand serves all of them. One that does not answers 404.
//!
//! ```no_run
//! # async fn example() -> windlass_client::Result<()> {
//! use windlass_client::{Client, Clientset};
//!
//! let clientset = Clientset::new(Client::try_default().await?);
//! let pod = clientset.core_v1().pods("default").get("test").await?;
//! let scale = clientset.apps_v1().deployments("default").get_scale("web").await?;
//! for node in clientset.core_v1().nodes().list().labels("zone=a").await? {
//!     println!("{:?}", node.metadata.name);
//! }
//! # let _ = (pod, scale);
//! # Ok(())
//! # }
//! ```
//!
//! A component status can be read, and not be created:
//!
//! ```compile_fail,E0599
//! # fn example(clientset: windlass_client::Clientset) {
//! let statuses = clientset.core_v1().component_statuses();
//! statuses.create(&Default::default());
//! # }
//! ```

mod groups;

use windlass_api::{Resource, Scheme};

pub use groups::*;

use crate::{
    Client,
    accessor::{Accessor, Custom},
};

/// Typed access to all built-in resources. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct Clientset {
    client: Client,
}

impl Clientset {
    /// The resources that a client reaches.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client behind the accessors.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// The objects of a custom kind, in a namespace; the empty one for those of cluster-scoped kinds.
    pub fn custom<K: Resource>(&self, namespace: impl Into<String>) -> Accessor<Custom<K>> {
        self.client.custom(namespace)
    }
}

/// A scheme that knows every built-in kind, for objects whose kind is known only at run time.
///
/// It fills in no defaults and converts nothing: those are the server's. What a program adds is its own.
///
/// ```
/// use windlass_api::{Strictness, k8s_openapi::api::apps::v1::Deployment};
///
/// let scheme = windlass_client::clientset::scheme();
/// let decoded = scheme.decode(br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{}}"#, Strictness::Strict)?;
/// assert!(decoded.object.is::<Deployment>());
/// # Ok::<_, windlass_api::SchemeError>(())
/// ```
#[must_use]
pub fn scheme() -> Scheme {
    let mut scheme = Scheme::new();
    groups::register(&mut scheme).expect("each built-in kind is one type");
    scheme
}

impl From<Client> for Clientset {
    fn from(client: Client) -> Self {
        Self::new(client)
    }
}

#[cfg(test)]
mod tests;
