//! What a project tells a cluster of itself: the definitions of its kinds, the roles that its controllers need, its webhooks.
//!
//! ```text
//! Manifests     what the project has, said in one place
//!  ├ roles      rules merged into as few as say the same
//!  ├ webhook    who is asked before objects are written
//!  ├ policy     the rules of definitions, as policies that an API server judges itself
//!  ├ check      what a cluster would refuse, found before: CEL rules are compiled, paths and patterns read
//!  └ yaml       files: the same text for the same types, whatever the machine
//! main          the program of a project that writes them; `windlass generate` runs it
//! ```
//!
//! Guaranteed: files are written only if nothing is wrong, and hold no nulls, no times, no status. Not guaranteed: that a cluster
//! takes what is said of other programs' objects, such as the Service that a webhook names.

mod check;
mod command;
mod files;
mod manifests;
mod policy;
mod roles;
mod webhook;
mod yaml;

pub use check::Problem;
pub use command::main;
pub use files::{File, Part};
pub use manifests::{Manifests, Problems};
pub use policy::{Enforcement, Policy};
pub use webhook::Webhook;

#[cfg(test)]
mod tests;
