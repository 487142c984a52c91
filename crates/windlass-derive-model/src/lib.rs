//! The code generation of the macros in `windlass-derive`, which documents the attributes. It generates the identity,
//! CustomResourceDefinition and schema of a type from its source.
//!
//! ```text
//! custom_resource   #[derive(CustomResource)]: the CRD of a kind
//! identity          #[resource(…)]: group, version, names
//! expand            the impls of an identity
//! schema            #[derive(Schema)]: structs and enums, as serde writes them
//! markers           #[schema(…)]
//! apply             #[derive(ApplyConfiguration)]: structs with optional fields for server-side apply; #[apply(…)]
//! view              #[derive(View)]: reads of single fields without decoding; #[view(…)]
//! serde_attributes  the attributes of serde
//! case              serde's rules for renaming
//! rbac              #[rbac(…)]
//! ```
//!
//! This is a separate crate because other programs cannot call the functions of a macro crate. `windlass import` reads
//! the types that it has generated with these functions, as the compiler will, to check their meaning before they are
//! compiled.
//!
//! Guaranteed: each function returns exactly the code of the macro of the same name. An error in the source is returned
//! with its position. Not guaranteed: the form of the code, which depends on `windlass_api::crd::derived`.

mod apply;
mod case;
mod custom_resource;
mod expand;
mod identity;
mod markers;
mod rbac;
mod schema;
mod serde_attributes;
mod view;

use proc_macro2::TokenStream;
use syn::{DeriveInput, Result};

pub use case::Case;
pub use identity::plural_of;

/// Returns the code of `#[derive(Resource)]`.
pub fn resource(input: &DeriveInput) -> Result<TokenStream> {
    Ok(expand::resource(&input.ident, &identity::Identity::read(input)?))
}

/// Returns the code of `#[derive(CustomResource)]`.
pub fn custom_resource(input: &DeriveInput) -> Result<TokenStream> {
    custom_resource::derive(input)
}

/// Returns the code of `#[derive(Schema)]`.
pub fn schema(input: &DeriveInput) -> Result<TokenStream> {
    schema::derive(input)
}

/// Returns the code of `#[derive(ApplyConfiguration)]`.
pub fn apply_configuration(input: &DeriveInput) -> Result<TokenStream> {
    apply::derive(input)
}

/// Returns the code of `#[derive(View)]`.
pub fn view(input: &DeriveInput) -> Result<TokenStream> {
    view::derive(input)
}

/// Returns the code of `#[rbac(…)]` from its arguments and its item.
pub fn rbac(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    rbac::expand(arguments, item)
}

/// Returns the keywords of `#[schema(…)]` in alphabetical order.
pub fn keywords() -> Vec<&'static str> {
    markers::keywords()
}

/// Returns the description of a type or field: the text of its doc comment. Returns `None` without a comment.
pub fn documentation(attributes: &[syn::Attribute]) -> Option<String> {
    schema::documentation(attributes)
}

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
