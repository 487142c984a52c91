//! What serde is told: under which names, and in which shape, a type is written.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{Attribute, Error, LitStr, Result, Token, Type, meta::ParseNestedMeta, parse::ParseStream, token};

use crate::case::Case;

/// Of a type.
#[allow(clippy::struct_excessive_bools, reason = "each is said or is not")]
#[derive(Default)]
pub(crate) struct Container {
    pub(crate) rename_all: Option<Case>,
    pub(crate) rename_all_fields: Option<Case>,
    /// Fields that are missing are filled in.
    pub(crate) has_default: bool,
    pub(crate) is_transparent: bool,
    pub(crate) is_untagged: bool,
    pub(crate) tag: Option<String>,
    pub(crate) content: Option<String>,
    /// The type in whose place this one stands: what is read and written is that.
    pub(crate) proxy: Option<Type>,
}

/// Of a field or a variant.
#[allow(clippy::struct_excessive_bools, reason = "each is said or is not")]
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) rename: Option<String>,
    /// Of the fields of a variant.
    pub(crate) rename_all: Option<Case>,
    pub(crate) has_default: bool,
    /// It is neither read nor written.
    pub(crate) is_skipped: bool,
    /// It is not always written.
    pub(crate) is_left_out: bool,
    pub(crate) is_flat: bool,
    /// Where it says that a function reads or writes the value.
    pub(crate) by_function: Option<Span>,
    /// Where a variant says that it has no tag though others have.
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

fn each(attributes: &[Attribute], mut take: impl FnMut(&str, &ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            take(&name, &meta)
        })?;
    }
    Ok(())
}

/// `= "text"`, or `(serialize = "text", deserialize = "text")`: an API server sees one name.
fn one_text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    if meta.input.peek(Token![=]) {
        return meta.value()?.parse();
    }
    let none = || meta.error("expected a text");
    if !meta.input.peek(token::Paren) {
        return Err(none());
    }
    let mut found: Option<LitStr> = None;
    meta.parse_nested_meta(|side| {
        let text: LitStr = side.value()?.parse()?;
        if found.as_ref().is_some_and(|other| other.value() != text.value()) {
            let why = "what is written under one name is read under another: an API server takes one";
            return Err(Error::new(text.span(), why));
        }
        found = Some(text);
        Ok(())
    })?;
    found.ok_or_else(none)
}

/// Passes over what stands behind a name: serde has understood it.
fn skip(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// Takes what stands before the next comma as it is.
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
