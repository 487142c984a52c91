//! The target of a request.

use std::sync::Arc;

use windlass_api::GroupResource;

use super::ResourceInfo;

/// The resource, namespace, name and subresource that a request addresses.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<ResourceInfo>,
    /// The namespace in the path; `None` for cluster-scoped resources and for requests across all namespaces.
    pub(crate) namespace: Option<String>,
    /// The name in the path; `None` for the collection.
    pub(crate) name: Option<String>,
    /// The subresource: `status`, `scale`, and so on. The resource has it.
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// Targets the collection of a resource, in one namespace or in all.
    pub(crate) fn collection(resource: &Arc<ResourceInfo>, namespace: Option<&str>) -> Self {
        let namespace = namespace.map(str::to_owned);
        Self { resource: Arc::clone(resource), namespace, name: None, subresource: None }
    }

    /// Targets one object.
    pub(crate) fn object(resource: &Arc<ResourceInfo>, namespace: Option<&str>, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::collection(resource, namespace) }
    }

    /// Targets a subresource of the same object.
    #[must_use]
    pub(crate) fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Returns the prefix of the collection's keys.
    pub(crate) fn prefix(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}{namespace}/", self.resource.prefix),
            None => self.resource.prefix.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// Returns the key of the named object.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix())
    }
}
