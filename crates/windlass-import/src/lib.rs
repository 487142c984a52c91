//! Conversion of CustomResourceDefinitions (CRDs) to Rust types, and of Rust types to CRDs: `windlass import`.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! document      YAML files → CRDs, and the conversion of a CRD
//! source        types → the source of a Rust module, for #[derive(CustomResource, Schema)]
//! type_set      a version's schema → structs, enums and attributes
//! model         a Rust module → the CRD of its types
//! interpreter   interprets the code of the derives
//! type_path     names and parameters of types in Rust source
//! normal        CRDs in a normal form, and the differences between two of them
//! keywords      keywords of schemas as arguments of attributes
//! names         names of types, fields and variants
//! error         the errors
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
//! - The types define the same CRD: an import reads its generated source as the derives do, and reports every
//!   difference ([`Imported::differences`]). A part of a schema that types cannot express is kept as JSON.
//! - The same CRD always results in the same text. Names are valid and unique for all names of fields and values.
//!
//! # What is not
//!
//! - Conversion between versions, and the program that generated a CRD, are not part of the types.
//! - Reading and writing a value may lose distinctions of JSON: an optional field that is null is omitted.

mod document;
mod source;
mod type_set;
mod model;
mod interpreter;
mod type_path;
mod normal;
mod keywords;
mod names;
mod error;

pub use document::{Document, Imported, read};
pub use error::Error;
pub use model::definition;
pub use normal::{Difference, differences};
pub use source::{Module, files, one_file};

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
