//! Operators of Windlass, begun: what `windlass init`, `windlass create` and `windlass edit` write.
//!
//! A command is a value, [`Init`], [`CreateApi`], [`CreateWebhook`], [`Edit`] or [`Sources`]; what it would do to a folder is another, [`Changes`], which can be shown
//! as a diff or written.
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
//! # What is guaranteed
//!
//! - A command is computed whole before anything is written: an error leaves the folder as it was.
//! - A file that is there is never overwritten, unless the command is told to (`force`).
//! - What is added to a file that is there, a module or a statement, is put at its place by the file's syntax tree; the text
//!   around stays as it is. What is there already is not added again.
//!
//! # What is not
//!
//! - Nothing is built, and no tool but Git and cargo is needed by what is written.
//! - A file whose place for an addition was taken away is not guessed at: the error names what is missing.

mod api;
mod cargo;
mod changes;
mod configuration;
mod conversion;
mod definition;
mod documents;
mod edit;
mod error;
mod foreign;
mod format;
mod from_kubebuilder;
mod init;
mod kustomization;
mod names;
mod place;
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
pub use from_kubebuilder::{FromKubebuilder, ImportedType, Taken};
pub use init::{Init, Windlass};
pub use names::{Domain, Group, Kind, Plural, ProjectName, Version};
pub use place::Place;
pub use sources::Sources;
pub use webhook::CreateWebhook;
