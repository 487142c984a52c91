//! serde's attributes: the names and the representation of a type.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Attribute, Error, LitStr, Path, Result, Token, Type, meta::ParseNestedMeta, parse::ParseStream, token};

use crate::case::Case;

/// The attributes of a type.
#[allow(clippy::struct_excessive_bools, reason = "independent flags")]
#[derive(Default)]
pub(crate) struct Container {
    pub(crate) rename_all: Option<Case>,
    pub(crate) rename_all_fields: Option<Case>,
    /// `true` if missing fields get a default.
    pub(crate) has_default: bool,
    pub(crate) is_transparent: bool,
    pub(crate) is_untagged: bool,
    pub(crate) tag: Option<String>,
    pub(crate) content: Option<String>,
    /// The type that is serialized and deserialized instead.
    pub(crate) proxy: Option<Type>,
}

/// The attributes of a field or variant.
#[allow(clippy::struct_excessive_bools, reason = "independent flags")]
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) rename: Option<String>,
    /// The naming convention for the fields of a variant.
    pub(crate) rename_all: Option<Case>,
    pub(crate) has_default: bool,
    /// `true` if it is neither serialized nor deserialized.
    pub(crate) is_skipped: bool,
    /// `true` if it may be omitted in the serialized form.
    pub(crate) is_left_out: bool,
    pub(crate) is_flat: bool,
    /// The position of an attribute that names a custom function for serialization or deserialization.
    pub(crate) by_function: Option<Span>,
    /// The position of the attribute of an untagged variant in a tagged enum.
    pub(crate) untagged: Option<Span>,
}

impl Container {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut container = Self::default();
        each(attributes, |name, meta| {
            match name {
                "rename_all" => container.rename_all = Some(Case::named(&one_text(meta)?)?),
                "rename_all_fields" => container.rename_all_fields = Some(Case::named(&one_text(meta)?)?),
                "default" => {
                    container.has_default = true;
                    skip(meta.input)?;
                }
                "transparent" => container.is_transparent = true,
                "untagged" => container.is_untagged = true,
                "tag" => container.tag = Some(one_text(meta)?.value()),
                "content" => container.content = Some(one_text(meta)?.value()),
                "from" | "try_from" | "into" => container.proxy = Some(one_text(meta)?.parse()?),
                _ => skip(meta.input)?,
            }
            Ok(())
        })?;
        Ok(container)
    }
}

impl Part {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut part = Self::default();
        each(attributes, |name, meta| {
            match name {
                "rename" => part.rename = Some(one_text(meta)?.value()),
                "rename_all" => part.rename_all = Some(Case::named(&one_text(meta)?)?),
                "default" => {
                    part.has_default = true;
                    skip(meta.input)?;
                }
                "skip" => part.is_skipped = true,
                "skip_serializing" | "skip_serializing_if" => {
                    part.is_left_out = true;
                    skip(meta.input)?;
                }
                "skip_deserializing" => part.has_default = true,
                "flatten" => part.is_flat = true,
                "with" | "serialize_with" | "deserialize_with" => {
                    part.by_function = Some(meta.path.get_ident().map_or_else(Span::call_site, syn::Ident::span));
                    skip(meta.input)?;
                }
                "untagged" => part.untagged = meta.path.get_ident().map(syn::Ident::span),
                _ => skip(meta.input)?,
            }
            Ok(())
        })?;
        Ok(part)
    }
}

/// Returns the path of serde in `#[serde(crate = "…")]`, as text and parsed.
pub(crate) fn serde_crate(attributes: &[Attribute]) -> Option<(LitStr, Path)> {
    let mut found = None;
    // Errors are reported when the other attributes are read.
    let _ = each(attributes, |name, meta| {
        if name != "crate" {
            return skip(meta.input);
        }
        let text = one_text(meta)?;
        let path = text.parse_with(Path::parse_mod_style)?;
        found = Some((text, path));
        Ok(())
    });
    found
}

fn each(attributes: &[Attribute], mut take: impl FnMut(&str, &ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            take(&name, &meta)
        })?;
    }
    Ok(())
}

/// Parses `= "text"`, or `(serialize = "text", deserialize = "text")` with equal texts, because API servers see only
/// one name.
fn one_text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    if meta.input.peek(Token![=]) {
        return meta.value()?.parse();
    }
    let none = || meta.error("expected a string");
    if !meta.input.peek(token::Paren) {
        return Err(none());
    }
    let mut found: Option<LitStr> = None;
    meta.parse_nested_meta(|side| {
        let text: LitStr = side.value()?.parse()?;
        if found.as_ref().is_some_and(|other| other.value() != text.value()) {
            let why = "the names for serialization and deserialization differ, but an API server accepts only one";
            return Err(Error::new(text.span(), why));
        }
        found = Some(text);
        Ok(())
    })?;
    found.ok_or_else(none)
}

/// Skips the argument of an attribute, which serde has already validated.
fn skip(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// Takes the tokens up to the next comma.
pub(crate) fn until_comma(input: ParseStream<'_>) -> Result<TokenStream> {
    let mut tokens = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        tokens.extend([input.parse::<TokenTree>()?]);
    }
    if tokens.is_empty() {
        return Err(input.error("expected a value"));
    }
    Ok(tokens)
}
