//! Site in version v1beta1 of shop.example.com.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, rustdoc::all, reason = "generated from a CRD")]

use serde::{Deserialize, Serialize};
use windlass::api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass::{CustomResource};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[resource(
    group = "shop.example.com",
    version = "v1beta1",
    singular = "webSite",
    list_kind = "SiteCollection",
    scope = "Cluster",
    short_names("st", "sts2"),
    categories("all", "web"),
    served = false,
    deprecated = "use v1"
)]
#[schema(preserve_unknown_fields)]
pub struct Site {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
}
