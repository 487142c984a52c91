//! Custom resources: CustomResourceDefinitions (CRDs), and the resources that they define.
//!
//! ```text
//! crd   the content of a CRD: parsing, defaults, validation
//!   └ structural  validation of its schemas
//!   └ v1beta1     CRDs in a version that Kubernetes has removed
//! controller   one task per server: accepts names, publishes resources, establishes CRDs, deletes their objects
//! custom       one version of a custom resource: its decoder and its strategy
//!   └ schema      a compiled schema
//!       └ prune       drops unknown fields and nulls, applies defaults
//!       └ validate    validates objects
//!   └ translator  the conversion by a webhook or by the rules of the program
//!       └ conversion_webhook a conversion webhook
//! ```
//!
//! Guaranteed: a CRD becomes `Established` only after its routes, discovery and OpenAPI have been published, in one
//! step. After the CRD is deleted, nothing of it is served. Objects are stored in the storage version. They are
//! converted by a change of their apiVersion, or by a webhook. The webhook converts a list in one call, and the initial
//! state of a watch in pages. An object that is read is pruned and defaulted by the schema of the requested version.

mod controller;
mod conversion_webhook;
pub(crate) mod crd;
mod custom;
mod formats;
mod prune;
mod schema;
mod structural;
mod translator;
pub(crate) mod v1beta1;
mod validate;

pub(crate) use self::controller::{begin_deletion, start};
pub use self::v1beta1::{DefinitionError, definition_to_v1};
pub(crate) use crate::apiextensions::crd::{
    default_definition, prepare_definition, prepare_definition_update, validate_definition, validate_definition_update,
    validate_unapproved_definition,
};

#[cfg(test)]
mod tests;
