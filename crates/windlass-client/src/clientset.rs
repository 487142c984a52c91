//! Accessors for every built-in resource: `clientset.core_v1().pods("default").get("test")`.
//!
//! `cargo xtask clientset` generates the module `groups` from the discovery documents of a real kube-apiserver of the
//! pinned minor version: the groups, versions and resources, their scopes, verbs and subresources. An accessor has no
//! method for a verb that its resource does not support.
//!
//! The types are those of the minor version that the program selects on k8s-openapi, 1.33 or newer. Resources that this
//! version does not have are absent: `resource_v1` and `volume_attributes_classes` exist from 1.34, the mutating
//! admission policies from 1.36. Resources that are newer than the pinned minor version have no accessor.
//!
//! What is not guaranteed: a server may not serve all of these resources. It then answers 404.
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
//! A component status can be read but not created:
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
    /// Creates a clientset from a client.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the client of the accessors.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the accessor of a custom resource in a namespace. Use the empty namespace for cluster-scoped kinds.
    pub fn custom<K: Resource>(&self, namespace: impl Into<String>) -> Accessor<Custom<K>> {
        self.client.custom(namespace)
    }
}

/// Returns a scheme with every built-in kind registered, for objects whose kind is only known at run time.
///
/// The scheme sets no defaults and converts no versions; the server does both. Each call returns a new scheme, to which
/// a program can add its kinds.
///
/// ```
/// use windlass_api::{Strictness, k8s_openapi::api::apps::v1::Deployment};
///
/// let scheme = windlass_client::clientset::scheme();
/// let decoded = scheme.decode(br#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{}}"#, Strictness::Strict)?;
/// assert!(decoded.object.is::<Deployment>());
/// # Ok::<_, windlass_api::SchemeError>(())
/// ```
// Inline: the decoders of all kinds are compiled only in programs that call it.
#[must_use]
#[inline]
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
