//! Apply configurations of the built-in kinds, for server-side apply.
//!
//! An apply owns the fields in its body. The fields of a configuration are all optional, lists and maps included, so that
//! an apply owns exactly the fields that the program sets: an empty list is sent, and a list that is not set is not.
//!
//! ```
//! use windlass_apply_configurations::{
//!     apps::v1::{DeploymentApply, DeploymentSpecApply},
//!     core::v1::{ContainerApply, PodSpecApply, PodTemplateSpecApply},
//! };
//!
//! let container = ContainerApply::new().name("web").image("nginx");
//! let template = PodTemplateSpecApply::new().label("app", "web").spec(PodSpecApply::new().containers([container]));
//! let web = DeploymentApply::named("web")
//!     .in_namespace("shop")
//!     .spec(DeploymentSpecApply::new().replicas(0).template(template));
//! assert_eq!(
//!     serde_json::to_value(&web)?["spec"],
//!     serde_json::json!({"replicas": 0, "template": {
//!         "metadata": {"labels": {"app": "web"}},
//!         "spec": {"containers": [{"image": "nginx", "name": "web"}]},
//!     }})
//! );
//! # Ok::<_, serde_json::Error>(())
//! ```
//!
//! The client applies a configuration like an object: `client.apply(&web)`. The response is a `Deployment`.
//!
//! # The types
//!
//! - The modules and names are those of k8s-openapi, with the suffix `Apply`: [`apps::v1::DeploymentApply`]. The fields
//!   have the same names, and a setter each.
//! - Kinds are created with `named`; they have `in_namespace`, `label`, `annotation` and `controlled_by`. Their parts are
//!   created with `new`.
//! - Some parts are types of k8s-openapi: `ObjectMeta`, `LabelSelector`, `JSONSchemaProps` and values such as `Quantity`.
//!   Their fields are optional, too.
//! - The types are the same with every minor version of Kubernetes, and contain the fields of 1.36. Kinds that the
//!   selected minor version does not have are missing.
//! - Fields of other minor versions are in `other`, by their name in JSON. No field is lost in conversions.
//!
//! # Existing objects
//!
//! - [`ApplyConfiguration::extract`](windlass_api::ApplyConfiguration::extract) returns the fields that a manager owns, to
//!   change and apply them again.
//! - `From` converts an object, or a part, of k8s-openapi to a configuration with all fields that it serializes. These
//!   include required fields at their default.

#[macro_use]
mod macros;
mod fields;
mod groups;
mod prelude;

pub use self::{fields::OtherFields, groups::*};

#[cfg(test)]
mod tests;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
