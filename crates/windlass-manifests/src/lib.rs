//! Generation of a project's manifests: the CustomResourceDefinitions of its kinds, the roles of its controllers, and
//! its webhooks.
//!
//! ```text
//! command    the program that writes the files; `windlass generate` runs it
//! manifests  the kinds, rules and webhooks of the project
//! check      errors that a cluster would report: CEL rules are compiled, paths and patterns checked
//! files      the files, in kubebuilder's layout
//! roles      RBAC rules, merged into as few as possible
//! policy     validation rules as policies, which an API server evaluates itself
//! webhook    webhook configurations
//! yaml       reproducible files: the same text for the same types on every machine
//! problem    the errors
//! ```
//!
//! Guaranteed: files are written only if there are no errors, and contain no nulls, timestamps or status. Not
//! guaranteed: that references to other objects, such as the Service of a webhook, are valid in the cluster.

mod command;
mod manifests;
mod check;
mod files;
mod roles;
mod policy;
mod webhook;
mod yaml;
mod problem;

pub use command::main;
pub use files::{File, Part};
pub use manifests::Manifests;
pub use policy::{Enforcement, Policy};
pub use problem::{Problem, Problems};
pub use webhook::Webhook;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests;
