//! The kinds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass::{CustomResource, Schema, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// A bucket of an object storage.
#[derive(Clone, Debug, Default, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "storage.example.com",
    version = "v1",
    short_names("bkt"),
    column(name = "Phase", type = "string", path = ".status.phase"),
    column(name = "Objects", type = "integer", path = ".status.objects"),
    status
)]
pub(crate) struct Bucket {
    /// The standard object metadata.
    pub metadata: ObjectMeta,
    /// The desired state of the bucket.
    pub spec: BucketSpec,
    /// The observed state of the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<BucketStatus>,
}

/// The desired state of a bucket.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub(crate) struct BucketSpec {
    /// The region of the storage.
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z-]+$")]
    pub region: String,
    /// The maximum number of objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub quota: Option<i64>,
    /// The rules for the end of an object's life.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 8)]
    pub rules: Vec<Rule>,
    /// The tags of the bucket.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

/// The end of an object's life.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Rule {
    /// Deletes objects after a number of days.
    ExpireAfter {
        /// The number of days.
        days: u32,
    },
    /// Deletes objects with this prefix.
    ExpirePrefix(String),
}

/// The observed state of a bucket.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub(crate) struct BucketStatus {
    /// The phase of the bucket.
    pub phase: Phase,
    /// The number of objects in the bucket.
    pub objects: i64,
}

/// The phase of a bucket.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, Schema)]
pub(crate) enum Phase {
    /// The bucket has not been created.
    #[default]
    Pending,
    /// The bucket can be used.
    Ready,
}
