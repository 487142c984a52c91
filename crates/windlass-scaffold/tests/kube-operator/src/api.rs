//! The kinds.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state of a bucket.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(
    group = "storage.example.com",
    version = "v1",
    kind = "Bucket",
    namespaced,
    status = "BucketStatus",
    shortname = "bkt",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn = r#"{"name": "Objects", "type": "integer", "jsonPath": ".status.objects"}"#
)]
#[kube(derive = "Default")]
pub struct BucketSpec {
    /// The region of the storage.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z-]+$"))]
    pub region: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub quota: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub rules: Vec<Rule>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// The end of an object's life.
#[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// Deletes objects after a number of days.
    ExpireAfter { days: u32 },
    /// Deletes objects with this prefix.
    ExpirePrefix(String),
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
pub struct BucketStatus {
    pub phase: Phase,
    pub objects: i64,
}

#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, JsonSchema)]
pub enum Phase {
    #[default]
    Pending,
    Ready,
}

/// The answer of the storage: not part of a kind, so its schema stays.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
pub struct Answer {
    #[schemars(length(equal = 2))]
    pub code: String,
}
