//! What people ask for, and what they are told.

use serde::{Deserialize, Serialize};
use windlass::{CustomResource, Schema, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// A page that people write into.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "example.com",
    version = "v1",
    status,
    short_names("gb"),
    column(name = "Entries", type = "integer", path = ".status.entries")
)]
pub struct Guestbook {
    /// Its name, and what else every object has.
    pub metadata: ObjectMeta,
    /// What people ask for.
    #[serde(default)]
    pub spec: GuestbookSpec,
    /// What they are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<GuestbookStatus>,
}

/// As it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct GuestbookSpec {
    /// Stands above the entries.
    #[schema(max_length = 80, default = "Guestbook")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// What people wrote.
    #[serde(default)]
    pub entries: Vec<String>,
}

/// As it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct GuestbookStatus {
    /// So many entries are on the page.
    pub entries: usize,
}
