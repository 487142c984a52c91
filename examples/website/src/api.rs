//! What people ask for, and what they are told. The definition that the API server gets is made of them.

use serde::{Deserialize, Serialize};
use windlass::{
    CustomResource, Schema,
    api::k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};

/// The condition that says whether people see the website.
pub const READY: &str = "Ready";

/// A page, and as many servers as it takes.
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
    /// Its name, and what else every object has.
    pub metadata: ObjectMeta,
    /// What people ask for.
    pub spec: WebsiteSpec,
    /// What they are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<WebsiteStatus>,
}

/// As it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// What the page says.
    #[schema(min_length = 1)]
    pub greeting: String,
    /// The web server; a webhook sets it where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How many of them; a webhook sets it where it is missing.
    #[schema(minimum = 0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// As it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase", default)]
pub struct WebsiteStatus {
    /// The generation that all of this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many servers answer.
    pub ready_replicas: i32,
    /// What is true of it.
    #[schema(list_type = "map", map_keys("type"))]
    pub conditions: Vec<Condition>,
}
