//! The API types of guestbooks.

use serde::{Deserialize, Serialize};
use windlass::{CustomResource, Schema, api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta};

/// A guestbook that is published as a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "example.com",
    version = "v1",
    status,
    short_names("gb"),
    column(name = "Entries", type = "integer", path = ".status.entries")
)]
pub struct Guestbook {
    /// The standard object metadata.
    pub metadata: ObjectMeta,
    /// The desired state of the guestbook.
    #[serde(default)]
    pub spec: GuestbookSpec,
    /// The observed state of the guestbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<GuestbookStatus>,
}

/// The desired state of a guestbook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct GuestbookSpec {
    /// The heading of the page.
    #[schema(max_length = 80, default = "Guestbook")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The entries of the page, in order.
    #[serde(default)]
    pub entries: Vec<String>,
}

/// The observed state of a guestbook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(default)]
pub struct GuestbookStatus {
    /// The number of entries on the page.
    pub entries: usize,
}
