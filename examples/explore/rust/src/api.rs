//! The kind of websites.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of a website.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "example.dev", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
pub struct WebsiteSpec {
    /// The host name of the route.
    pub host: String,
    /// The number of pods.
    #[serde(default = "one")]
    pub replicas: i32,
}

/// The observed state of a website.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
pub struct WebsiteStatus {
    /// The replicas of the Deployment.
    #[serde(default)]
    pub replicas: i32,
    /// The name of the Secret.
    #[serde(default)]
    pub key: String,
}

fn one() -> i32 {
    1
}
