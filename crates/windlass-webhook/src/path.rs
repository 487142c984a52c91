//! URL paths of webhooks.

use std::fmt;

use thiserror::Error;
use windlass_api::ApiResource;

/// The path of a webhook: generated from a kind as in controller-runtime, or custom.
///
/// ```
/// use windlass_api::{Resource, k8s_openapi::api::apps::v1::Deployment};
/// use windlass_webhook::WebhookPath;
///
/// assert_eq!(WebhookPath::mutate(&Deployment::api_resource()).as_str(), "/mutate-apps-v1-deployment");
/// assert!(WebhookPath::custom("/no spaces").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookPath(String);

/// The path is not valid for a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a valid webhook path: expected / or parts of letters, digits, - and _, each after a /")]
pub struct PathError(String);

impl WebhookPath {
    /// Returns `/mutate-<group>-<version>-<kind>`, with dashes in place of the dots in the group, and the kind in lower
    /// case.
    #[must_use]
    pub fn mutate(resource: &ApiResource) -> Self {
        Self::generated("mutate", resource)
    }

    /// Returns `/validate-<group>-<version>-<kind>`, see [`Self::mutate`].
    #[must_use]
    pub fn validate(resource: &ApiResource) -> Self {
        Self::generated("validate", resource)
    }

    /// Returns `/convert`, which serves all kinds.
    #[must_use]
    pub fn convert() -> Self {
        Self("/convert".to_owned())
    }

    /// Creates a custom path. Returns an error unless it matches `^((/[a-zA-Z0-9-_]+)+|/)$`.
    pub fn custom(path: impl Into<String>) -> Result<Self, PathError> {
        let path = path.into();
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if path == "/" || path.strip_prefix('/').is_some_and(|parts| parts.split('/').all(is_part)) {
            Ok(Self(path))
        } else {
            Err(PathError(path))
        }
    }

    /// Returns the path as in a URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn generated(what: &str, resource: &ApiResource) -> Self {
        Self(resource.webhook_path(what))
    }
}

impl fmt::Display for WebhookPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{core::v1::Pod, rbac::v1::ClusterRole};
    use windlass_api::Resource as _;

    use super::*;

    #[test]
    fn paths_are_made_of_group_version_and_kind() {
        let role = ClusterRole::api_resource();
        assert_eq!(WebhookPath::mutate(&role).as_str(), "/mutate-rbac-authorization-k8s-io-v1-clusterrole");
        assert_eq!(WebhookPath::validate(&Pod::api_resource()).as_str(), "/validate--v1-pod");
        assert_eq!(WebhookPath::convert().as_str(), "/convert");
    }

    #[test]
    fn custom_path_allows_letters_digits_dash_underscore() {
        for good in ["/", "/a", "/a-B_9/c"] {
            assert_eq!(WebhookPath::custom(good).unwrap().as_str(), good);
        }
        for bad in ["", "a", "/a/", "//a", "/a b", "/ä", "/a.b"] {
            assert_eq!(WebhookPath::custom(bad), Err(PathError(bad.to_owned())));
        }
    }
}
