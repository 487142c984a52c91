//! Names and parameters of types in Rust source.

use quote::ToTokens as _;
use syn::{GenericArgument, PathArguments, Type};

/// Reports whether a field of this type is optional.
pub(crate) fn is_optional(ty: &Type) -> Result<bool, String> {
    let (name, arguments) = named(ty)?;
    match (name.as_str(), arguments.first()) {
        ("Option", _) => Ok(true),
        ("Box", Some(inner)) => is_optional(inner),
        _ => Ok(false),
    }
}

/// Returns the last segment of a type's path, and its parameters.
pub(crate) fn named(ty: &Type) -> Result<(String, Vec<&Type>), String> {
    let Type::Path(path) = ty else { return Err(format!("unsupported type {}", ty.to_token_stream())) };
    let last = path.path.segments.last().ok_or("a type has no name")?;
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .filter_map(|argument| if let GenericArgument::Type(ty) = argument { Some(ty) } else { None })
            .collect(),
        _ => Vec::new(),
    };
    Ok((last.ident.to_string(), arguments))
}
