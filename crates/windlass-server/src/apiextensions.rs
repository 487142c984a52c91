//! Custom resources: definitions, and the serving of what they define.
//!
//! ```text
//! definition   what a definition says: reading it, its defaults, its rules
//!   └ structural  the rules for its schemas
//! controller   one task per server: accepts names, publishes resources, establishes, cleans up after deletions
//! custom       one version of a defined resource: how bodies are read, its strategy
//!   └ schema      a schema, compiled
//!       └ prune       drops what it does not know, drops nulls, fills in defaults
//!       └ validate    complains about what it does not allow
//!   └ translation a webhook that converts
//! ```
//!
//! Guaranteed: a definition says `Established` only after its routes, discovery and OpenAPI are published, all at once;
//! after it is gone nothing of it is served. Objects are stored in the storage version and converted by changing their
//! apiVersion, or by a webhook (of a list in one call; of what a watch begins with, one by one; scales are read from the stored
//! version). An object that is read is pruned and defaulted by the schema of the version that it is read in.

mod controller;
mod custom;
pub(crate) mod definition;
mod formats;
mod prune;
mod schema;
mod structural;
mod translation;
mod validate;

pub(crate) use self::{
    controller::{Task, set_condition, start},
    definition::{
        FINALIZER, default_definition, prepare_definition, prepare_definition_update, validate_definition,
        validate_definition_update,
    },
};

#[cfg(test)]
mod tests;
