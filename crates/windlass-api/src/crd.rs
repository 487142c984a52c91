//! Custom resources: the schemas of types, and the CustomResourceDefinitions of kinds.
//!
//! ```text
//! schema            trait Schema: the structural schema of a type; implemented by `#[derive(Schema)]` for custom types
//!  ├ values         … for types of the standard library
//!  └ built_in       … for embeddable parts of built-in kinds, from the recorded schemas of a real server
//! custom_resource   trait CustomResource and CrdBuilder: combine versions to one CustomResourceDefinition
//! generated_objects generated objects that match a schema
//! derived           functions called by the derives
//! ```
//!
//! Guaranteed: a derived schema is structural, as API servers require. A type without such a schema gets a `$ref` with
//! the reason instead ([`unsupported_schema`]). Servers reject it, and the check of the manifests reports it.
//!
//! Not guaranteed: that the server accepts the serialized objects. A hand-written `Serialize` is not visible to the
//! derive. The recorded schemas contain neither descriptions nor enums, because enums would reject values that later
//! servers support.

mod built_in;
mod custom_resource;
#[doc(hidden)]
pub mod derived;
mod generated_objects;
mod schema;
mod values;

pub(crate) use built_in::built_in_types;
pub use custom_resource::{CrdBuilder, CrdError, CustomResource};
pub use generated_objects::GeneratedObjects;
pub use schema::{Schema, schema_of, unsupported_schema};
