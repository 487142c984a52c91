//! The API types of websites. The CustomResourceDefinition is generated from them.

use serde::{Deserialize, Serialize};
use windlass::{
    CustomResource, Schema,
    api::k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};

/// The type of the condition that reports whether the website is available.
pub const READY: &str = "Ready";

/// A website with a page and its web servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "shop.example.com",
    version = "v1",
    status,
    short_names("web"),
    column(name = "Ready", type = "string", path = ".status.conditions[?(@.type==\"Ready\")].status"),
    column(name = "Replicas", type = "integer", path = ".status.readyReplicas"),
    column(name = "Age", type = "date", path = ".metadata.creationTimestamp")
)]
pub struct Website {
    /// The standard object metadata.
    pub metadata: ObjectMeta,
    /// The desired state of the website.
    pub spec: WebsiteSpec,
    /// The observed state of the website.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WebsiteStatus>,
}

/// The desired state of a website.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// The text of the page.
    #[schema(min_length = 1)]
    pub greeting: String,
    /// The image of the web server; a webhook sets the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The number of web servers; a webhook sets the default.
    #[schema(minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// The observed state of a website.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebsiteStatus {
    /// The generation that the status refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The number of ready web servers.
    pub ready_replicas: i32,
    /// The conditions of the website.
    #[schema(list_type = "map", map_keys("type"))]
    pub conditions: Vec<Condition>,
}
