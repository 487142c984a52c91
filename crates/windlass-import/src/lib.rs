//! From CustomResourceDefinitions to typed Rust, and from typed Rust to what it defines: `windlass import`.
//!
//! ```text
//! document    files of YAML → definitions
//! shape       a version's schema → structs, enums and attributes (keywords, names)
//! source      … → the text of a module of Rust, which #[derive(CustomResource, Schema)] take
//! model       a module of Rust → the definition that its types have, by the code that the derives write (interpreter)
//! normal      definitions in one form, and where two of them differ
//! ```
//!
//! ```
//! let text = "
//! apiVersion: apiextensions.k8s.io/v1
//! kind: CustomResourceDefinition
//! metadata: {name: sites.shop.example.com}
//! spec:
//!   group: shop.example.com
//!   scope: Namespaced
//!   names: {kind: Site, plural: sites}
//!   versions:
//!   - name: v1
//!     served: true
//!     storage: true
//!     schema:
//!       openAPIV3Schema:
//!         type: object
//!         properties:
//!           spec: {type: object, required: [replicas], properties: {replicas: {type: integer, format: int32, minimum: 1}}}
//! ";
//! let definitions = windlass_import::read("site.yaml", text)?;
//! let imported = definitions[0].import(None)?;
//! assert!(imported.modules[0].text.contains("#[schema(minimum = 1)]\n    pub replicas: i32,"));
//! assert!(imported.differences.is_empty());
//! # Ok::<_, windlass_import::Error>(())
//! ```
//!
//! # What is guaranteed
//!
//! - The types say what the definition says: an import reads its own source as the derives will, and tells each place that
//!   comes out otherwise ([`Imported::differences`]). A part of a schema that types cannot say is kept as it is, as JSON.
//! - The same definition gives the same text. Names are valid and differ, whatever the fields and values are called.
//!
//! # What is not
//!
//! - Who converts between versions, and which program wrote a definition, is not in types.
//! - Values that a type reads and writes may lose a difference that JSON makes: an optional field that is null is left out.

mod document;
mod error;
mod interpreter;
mod keywords;
mod model;
mod names;
mod normal;
mod shape;
mod source;

pub use document::{Document, Imported, read};
pub use error::Error;
pub use model::definition;
pub use normal::{Difference, differences};
pub use source::{Module, files, one_file};
