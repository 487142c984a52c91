//! Scaffolding of operator projects: the commands `windlass init`, `windlass create`, `windlass edit` and
//! `windlass migrate`.
//!
//! Each command is a value: [`Init`], [`CreateApi`], [`CreateWebhook`], [`Edit`], [`FromKube`] or
//! [`Sources`]. Its plan is a set of
//! [`Changes`] to a folder, which can be shown as a diff or written.
//!
//! ```
//! use windlass_scaffold::{CreateApi, Init, Windlass};
//!
//! # fn main() -> Result<(), windlass_scaffold::Error> {
//! let folder = tempfile::tempdir().unwrap();
//! Init::new("example.com", "website-operator")?.windlass(Windlass::At("../windlass".into())).plan(folder.path())?.write()?;
//! let api = CreateApi::new("shop", "v1", "Website")?;
//! let changes = api.plan(folder.path())?;
//! assert!(changes.diff().contains("+pub struct WebsiteSpec {"));
//! changes.write()?;
//! assert!(api.plan(folder.path()).unwrap_err().to_string().contains("--force"));
//! # Ok(())
//! # }
//! ```
//!
//! The modules:
//!
//! ```text
//! init, from_kubebuilder         `windlass init`: an empty project, or the APIs of a kubebuilder project
//! api, webhook, conversion       `windlass create`; third_party: controllers of other kinds
//! edit, sources                  `windlass edit` and `windlass import`
//! project, project_location      the PROJECT file, and the folder of a project
//! source, cargo                  edits of Rust files and of Cargo.toml
//! kustomization, crd             edits of kustomizations and CRDs
//! role, configuration            edits of the role and of the webhook configurations
//! documents                      files of several YAML documents
//! templates, format              the templates, and their formatting with rustfmt
//! names, scope                   valid names, and names without collisions
//! changes, error                 the changes of a command, and its errors
//! ```
//!
//! # What is guaranteed
//!
//! - All changes of a command are computed before anything is written: an error leaves the folder unchanged.
//! - Existing files are never overwritten without `force`.
//! - Modules and statements are added to an existing file at positions found in its syntax tree. The remaining text is
//!   unchanged, and existing items are not added again.
//!
//! # What is not guaranteed
//!
//! - The result is not compiled. The generated project needs no tools other than Git and cargo.
//! - If a file has no suitable place for an addition, the command does not guess: the error names what is missing.

mod api;
mod cargo;
mod changes;
mod configuration;
mod conversion;
mod crd;
mod documents;
mod edit;
mod error;
mod third_party;
mod format;
mod from_kube;
mod from_kubebuilder;
mod init;
mod kustomization;
mod names;
mod project_location;
mod project;
mod role;
mod scope;
mod source;
mod sources;
mod templates;
mod webhook;

pub use api::CreateApi;
pub use changes::{Changes, Overwrite};
pub use edit::{Edit, Switch};
pub use error::Error;
pub use from_kube::{FromKube, Leftover, Migration};
pub use from_kubebuilder::{FromKubebuilder, ImportPlan, ImportedType};
pub use init::{Init, Windlass};
pub use names::{Domain, Group, Kind, Plural, ProjectName, Version};
pub use project_location::ProjectLocation;
pub use sources::Sources;
pub use webhook::CreateWebhook;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
