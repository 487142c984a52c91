//! Custom resources: the schemas of types, and the definitions that tell an API server of a kind.
//!
//! ```text
//! schema      trait Schema: what a value of a type looks like; implemented by `#[derive(Schema)]` for types of one's own
//!  ├ values   … for what the standard library has
//!  └ built_in … for the parts of built-in kinds that people embed, by the recorded schemas of a real server
//! definition  trait CustomResource and Definition: versions become one CustomResourceDefinition
//! objects     made-up objects that a schema takes
//! derived     what the derives call
//! ```
//!
//! Guaranteed: a derived schema is structural, as an API server asks for, but where a type has no such schema: there stands a
//! `$ref` with the reason ([`unfit`]), which no server takes and which the check of the manifests tells.
//!
//! Not guaranteed: that the server accepts what serde writes. A hand-written `Serialize` is not seen. The recorded schemas have
//! no descriptions and no enums: those would refuse what a later server may know.

mod built_in;
mod definition;
#[doc(hidden)]
pub mod derived;
mod objects;
mod schema;
mod values;

pub use definition::{CustomResource, Definition, DefinitionError};
pub use objects::Objects;
pub use schema::{Schema, schema_of, unfit};
