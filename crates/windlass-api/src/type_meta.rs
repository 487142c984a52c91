//! The API version and kind of an object.

use serde::{Deserialize, Serialize};

use crate::{ApiResource, GroupVersionKind};

/// The `apiVersion` and `kind` of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeMeta {
    /// The API version, such as `apps/v1`.
    pub api_version: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
}

impl TypeMeta {
    /// Returns the API version and kind of a resource.
    #[must_use]
    pub fn of(resource: &ApiResource) -> Self {
        Self { api_version: resource.api_version(), kind: resource.kind.clone().into_owned() }
    }

    /// Returns the group, version and kind. A malformed `apiVersion` is treated as a version of the core group.
    #[must_use]
    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        GroupVersionKind::new(group.to_owned(), version.to_owned(), self.kind.clone())
    }
}
