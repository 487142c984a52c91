//! From the source of a type to the code that tells its identity, definition and schema: what stands behind the macros of
//! `windlass-derive`, where the attributes are documented.
//!
//! ```text
//! identity           #[resource(…)]: group, version, names          → expand
//! custom_resource    #[resource(…)]: the rest of the definition
//! schema             structs and enums, as serde writes them (serde_attributes, case)
//!  └ markers         #[schema(…)]
//! rbac               #[rbac(…)]
//! ```
//!
//! It is a crate of its own because a macro's cannot be called: `windlass import` reads the types that it has written as the
//! compiler will, and so knows what they say before anybody compiles them.
//!
//! Guaranteed: each function gives the very code that the macro of its name gives; what is wrong with the source is an error
//! that points at it. Not guaranteed: the form of the code, which follows `windlass_api::crd::derived`.

mod case;
mod custom_resource;
mod expand;
mod identity;
mod markers;
mod rbac;
mod schema;
mod serde_attributes;

use proc_macro2::TokenStream;
use syn::{DeriveInput, Result};

pub use case::Case;
pub use identity::plural_of;

/// The code of `#[derive(Resource)]`.
pub fn resource(input: &DeriveInput) -> Result<TokenStream> {
    Ok(expand::resource(&input.ident, &identity::Identity::read(input)?))
}

/// The code of `#[derive(CustomResource)]`.
pub fn custom_resource(input: &DeriveInput) -> Result<TokenStream> {
    custom_resource::derive(input)
}

/// The code of `#[derive(Schema)]`.
pub fn schema(input: &DeriveInput) -> Result<TokenStream> {
    schema::derive(input)
}

/// The code of `#[rbac(…)]`, of its arguments and what it stands before.
pub fn rbac(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    rbac::expand(arguments, item)
}

/// What `#[schema(…)]` may say, in the order of the alphabet.
pub fn keywords() -> Vec<&'static str> {
    markers::keywords()
}

/// The description of a type or field: what the comment above it says. None where there is no comment.
pub fn documentation(attributes: &[syn::Attribute]) -> Option<String> {
    schema::documentation(attributes)
}
