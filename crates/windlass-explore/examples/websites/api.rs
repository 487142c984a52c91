//! The kind of websites. Its CustomResourceDefinition is in `crds`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use windlass_derive::Resource;

/// A website with an index, pages and a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(group = "example.dev", version = "v1", crate = windlass_api, k8s_openapi = k8s_openapi)]
pub(crate) struct Website {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: WebsiteSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<WebsiteStatus>,
}

/// The desired state of a website.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebsiteSpec {
    /// The text of the index.
    pub(crate) title: String,
    /// The number of pages.
    pub(crate) replicas: usize,
    /// The theme of the index: `light` or `dark`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) theme: Option<String>,
}

/// The observed state of a website.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WebsiteStatus {
    pub(crate) title: String,
    pub(crate) replicas: usize,
    /// The name of the ConfigMap with the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
}
