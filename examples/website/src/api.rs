//! What people ask for, and what they are told. `manifests/install.yaml` says the same to the API server.

use serde::{Deserialize, Serialize};
use windlass::{
    Resource,
    api::k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};

/// The condition that says whether people see the website.
pub const READY: &str = "Ready";

/// A page, and as many servers as it takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Resource)]
#[resource(group = "shop.example.com", version = "v1")]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WebsiteSpec {
    /// What the page says.
    pub greeting: String,
    /// The web server; a webhook sets it where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// How many of them; a webhook sets it where it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// As it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebsiteStatus {
    /// The generation that all of this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many servers answer.
    pub ready_replicas: i32,
    /// What is true of it.
    pub conditions: Vec<Condition>,
}
