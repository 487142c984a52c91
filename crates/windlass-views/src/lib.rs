//! Views of encoded Kubernetes objects: typed reads of single fields, without decoding the object.
//!
//! A view is a position in the encoded object. Reading a field finds it, and passes everything else without parsing it.
//! Strings are borrowed. Nothing is allocated, except for strings with escapes.
//!
//! ```
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
//! use windlass_views::Document;
//!
//! let metadata = br#"{"name": "web", "labels": {"app": "shop"}, "generation": 3}"#;
//! let document = Document::json(metadata);
//! let view = document.view::<ObjectMeta>();
//! assert_eq!(view.name().as_deref(), Some("web"));
//! assert_eq!(view.labels().get("app").as_deref(), Some("shop"));
//! assert_eq!((view.generation(), view.owner_references().len()), (Some(3), 0));
//! document.check()?; // every field that was read has its type
//! # Ok::<_, windlass_views::ViewError>(())
//! ```
//!
//! [`Document::protobuf`] reads an object in protobuf in the same way. Its views return what they return for its JSON.
//!
//! The views of a cache's objects are `Cached::view` of windlass-cache. The modules and names are those of k8s-openapi,
//! with the suffix `View`: `core::v1::PodView`, with the feature `built-in`. Custom kinds derive theirs.
//!
//! # Absent fields
//!
//! An absent field and `null` are the same. A required scalar is its empty value then, as in the types of k8s-openapi. An
//! optional scalar, and each time, is `None`. Structs, lists and maps are empty: `pod.status().conditions()` needs no
//! test for the status. [`View::is_present`] tells the difference.
//!
//! # Errors
//!
//! A field of another type reads as absent, and the document retains the error, with the field's path. [`Document::check`]
//! returns it. `Cached::view` does so for each call, so that a result never depends on a field that could not be read.
//!
//! # What is guaranteed
//!
//! - A view returns what the decoder returns, for every object that can be decoded. If an object has two members with
//!   one name, the last one counts.
//! - No input makes a view panic.
//! - In JSON, an object of at most 64 members, without escapes in their names, is passed once for all fields that are read of it,
//!   unless reads of many other objects come between. Another object is passed for each field.
//!
//! # What is not guaranteed
//!
//! - Damage within values that are not read goes unnoticed.
//! - A derived view does not know serde's `default` and `alias`: an absent scalar is its empty value, and a member with
//!   another name is not read. A flattened map has all members of its object.
//! - Iteration over a map returns a member with a duplicate name each time.
//!
//! The modules. Each depends only on modules below it:
//!
//! ```text
//! groups         the views of the built-in kinds
//! partial        the view of an object whose kind is not known
//! meta           the views of metadata, conditions and selectors
//! prelude        the names that the generated modules use
//! types          the views of scalars, collections and values of any shape
//! values         views of the scalar types of Kubernetes
//! collections    views of lists and maps
//! view           positions, and reading of values
//! protobuf_path  the paths of values in protobuf
//! json           members, items and scalars in JSON text
//! ```

#[macro_use]
mod macros;

#[cfg(feature = "built-in")]
mod groups;
mod partial;
pub mod meta;
mod prelude;
mod types;
mod values;
mod collections;
mod view;
mod protobuf_path;
mod json;

pub use self::{
    collections::{Items, List, Map, Members},
    partial::PartialObjectView,
    values::{ByteStringView, IntOrStringView, QuantityView},
    view::{Document, FromView, HasView, Scalar, View, ViewError},
};

#[cfg(feature = "built-in")]
pub use self::groups::*;

#[cfg(test)]
mod tests;

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
