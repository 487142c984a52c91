//! `#[derive(Schema)]`: the schema of a type, from serde's representation and from attributes.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::{
    Attribute, Data, DataEnum, DeriveInput, Error, Expr, ExprLit, Field, Fields, FieldsNamed, GenericParam, Lit, Meta,
    Result, Type, Variant, ext::IdentExt as _, parse_quote, spanned::Spanned as _,
};

use crate::{
    case::Case,
    markers::{Markers, Place, Presence, some_or_none},
    serde_attributes::{Container, Part},
};

/// Returns the impl of `Schema`.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let markers = Markers::read(&input.attrs, Place::Type)?;
    let api = markers.api.as_ref().map_or_else(|| quote!(::windlass::api), |path| quote!(#path));
    let schema = schema(input, &markers, &[])?;
    let mut generics = input.generics.clone();
    for parameter in &mut generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(#api::crd::Schema));
        }
    }
    let (name, (impls, types, wheres)) = (&input.ident, generics.split_for_impl());
    Ok(quote! {
        #[automatically_derived]
        impl #impls #api::crd::Schema for #name #types #wheres {
            fn schema() -> #api::crd::derived::JSONSchemaProps {
                use #api::crd::derived as __derived;
                #schema
            }
        }
    })
}

/// Returns the schema of a type as an expression, without the fields in `without`.
pub(crate) fn schema(input: &DeriveInput, markers: &Markers, without: &[&str]) -> Result<TokenStream> {
    let container = Container::read(&input.attrs)?;
    let mut names = Vec::new();
    let value = if markers.is_whole {
        quote!(<__derived::JSONSchemaProps as ::std::default::Default>::default())
    } else if let Some(proxy) = markers.stand_in.as_ref().or(container.proxy.as_ref()) {
        quote_spanned!(proxy.span()=> __derived::schema_of::<#proxy>())
    } else {
        match &input.data {
            Data::Struct(data) => match &data.fields {
                Fields::Named(fields) if container.is_transparent => transparent(fields)?,
                Fields::Named(fields) => {
                    named(fields, container.rename_all, container.has_default, without, &mut names)?
                }
                Fields::Unnamed(fields) => match only(fields.unnamed.iter()) {
                    Some(field) => of_field(field)?.value,
                    None => return Err(Error::new(input.ident.span(), TUPLES)),
                },
                Fields::Unit => {
                    let why = "a unit struct is serialized as null, which has no schema: add braces";
                    return Err(Error::new(input.ident.span(), why));
                }
            },
            Data::Enum(data) => variants(input, data, &container)?,
            Data::Union(_) => return Err(Error::new(input.ident.span(), "only structs and enums have schemas")),
        }
    };
    let is_open = names.iter().any(String::is_empty);
    if let Some(unknown) = markers.named.iter().find(|name| !is_open && !names.contains(&name.value())) {
        return Err(Error::new(unknown.span(), format!("no field is serialized as {:?}", unknown.value())));
    }
    Ok(changed(&value, &input.attrs, markers))
}

const TUPLES: &str = "several unnamed fields are serialized as a list of different types, which a structural schema cannot \
                      describe: name the fields";

/// Returns a schema with the changes by attributes.
fn changed(value: &TokenStream, attributes: &[Attribute], markers: &Markers) -> TokenStream {
    let description = (!markers.has_description)
        .then(|| documentation(attributes))
        .flatten()
        .map(|text| quote!(schema.description = ::std::option::Option::Some(::std::string::String::from(#text));));
    let changes = &markers.changes;
    if description.is_none() && changes.is_empty() {
        return value.clone();
    }
    quote! {{
        let mut value = #value;
        {
            let schema = &mut value;
            #description
            #(#changes)*
        }
        value
    }}
}

/// Returns the text of the doc comment.
pub(crate) fn documentation(attributes: &[Attribute]) -> Option<String> {
    let line = |attribute: &Attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &pair.value else { return None };
        Some(text.value())
    };
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(line);
    let text = lines.flat_map(|text| text.split('\n').map(trimmed).collect::<Vec<_>>()).collect::<Vec<_>>().join("\n");
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn trimmed(line: &str) -> String {
    line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

// === Fields ===

struct OfField {
    /// The schema, as an expression.
    value: TokenStream,
    /// An expression that is `true` if the field may be missing.
    is_optional: TokenStream,
}

fn of_field(field: &Field) -> Result<OfField> {
    let markers = Markers::read(&field.attrs, Place::Field)?;
    let serde = Part::read(&field.attrs)?;
    let ty = markers.stand_in.as_ref().unwrap_or(&field.ty);
    if let Some(span) = serde.by_function
        && markers.stand_in.is_none()
        && !markers.is_whole
    {
        let why =
            "the output of the function is unknown: declare it with #[schema(as = Type)] or #[schema(type = \"…\")]";
        return Err(Error::new(span, why));
    }
    let (mut value, of_type) = if markers.is_whole {
        // The type need not have a schema.
        let is_option = is_option(ty);
        (quote!(<__derived::JSONSchemaProps as ::std::default::Default>::default()), quote!(#is_option))
    } else {
        (
            quote_spanned!(ty.span()=> __derived::schema_of::<#ty>()),
            quote_spanned!(ty.span()=> <#ty as __derived::Schema>::OPTIONAL),
        )
    };
    if !serde.is_left_out && !markers.is_whole {
        // `None` is serialized as null.
        value = quote!(__derived::or_null(#value, #of_type));
    }
    let is_optional = match markers.presence {
        Some(Presence::Optional) => quote!(true),
        Some(Presence::Required) => quote!(false),
        None if serde.has_default || markers.has_default => quote!(true),
        None => of_type,
    };
    Ok(OfField { value: changed(&value, &field.attrs, &markers), is_optional })
}

/// Reports whether a type is written as an `Option`.
fn is_option(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Option")
}

/// Returns the schema of an object as an expression. The names of its fields are added to `names`, with an empty name
/// if there are further fields.
fn named(
    fields: &FieldsNamed,
    case: Option<Case>,
    is_default: bool,
    without: &[&str],
    names: &mut Vec<String>,
) -> Result<TokenStream> {
    let mut statements = Vec::new();
    for field in &fields.named {
        let Some(ident) = &field.ident else { continue };
        let name = ident.unraw().to_string();
        let serde = Part::read(&field.attrs)?;
        let markers = Markers::read(&field.attrs, Place::Field)?;
        // A field in `without` is included only if its attributes contain its whole schema.
        if (without.contains(&name.as_str()) && !markers.is_whole) || serde.is_skipped || markers.is_skipped {
            continue;
        }
        let name = serde.rename.unwrap_or_else(|| case.map_or_else(|| name.clone(), |case| case.of_field(&name)));
        let OfField { value, is_optional } = of_field(field)?;
        let is_optional = if is_default { quote!(true) } else { is_optional };
        if serde.is_flat {
            names.push(String::new());
            statements.push(quote!(__derived::flatten(&mut object, #value, #is_optional);));
        } else {
            statements.push(quote!(__derived::field(&mut object, #name, #value, #is_optional);));
            names.push(name);
        }
    }
    if statements.is_empty() {
        return Ok(quote!(__derived::object()));
    }
    Ok(quote! {{
        let mut object = __derived::object();
        #(#statements)*
        __derived::finished(object)
    }})
}

/// Returns the schema of the only serialized field.
fn transparent(fields: &FieldsNamed) -> Result<TokenStream> {
    let mut written = Vec::new();
    for field in &fields.named {
        if !Part::read(&field.attrs)?.is_skipped {
            written.push(field);
        }
    }
    match only(written.into_iter()) {
        Some(field) => Ok(of_field(field)?.value),
        None => Err(Error::new(fields.span(), "a transparent struct must have one serialized field")),
    }
}

// === Variants ===

/// A variant as serde represents it.
struct OfVariant<'v> {
    variant: &'v Variant,
    name: String,
    /// The schema of its data, as an expression.
    data: Option<TokenStream>,
}

fn variants(input: &DeriveInput, data: &DataEnum, container: &Container) -> Result<TokenStream> {
    let mut variants = Vec::new();
    for variant in &data.variants {
        let serde = Part::read(&variant.attrs)?;
        if let Some(span) = serde.untagged {
            return Err(Error::new(span, "either all variants or no variants must have tags"));
        }
        if serde.is_skipped {
            continue;
        }
        variants.push(of_variant(variant, serde, container)?);
    }
    if variants.is_empty() {
        return Err(Error::new(input.ident.span(), "an enum without variants has no values"));
    }
    let names = variants.iter().map(|variant| &variant.name).collect::<Vec<_>>();
    let optional = variants.iter().map(|variant| some_or_none(variant.data.clone()));
    if container.is_untagged {
        let mut all = Vec::new();
        for variant in &variants {
            all.push(variant.data.as_ref().ok_or_else(|| {
                Error::new(variant.variant.ident.span(), "without a tag it is serialized as null, which has no schema")
            })?);
        }
        return Ok(quote!(__derived::either(::std::vec![#(#all),*])));
    }
    match (&container.tag, &container.content) {
        (Some(tag), None) => Ok(quote!(__derived::tagged(#tag, ::std::vec![#((#names, #optional)),*]))),
        (Some(tag), Some(content)) => {
            Ok(quote!(__derived::tagged_beside(#tag, #content, ::std::vec![#((#names, #optional)),*])))
        }
        (None, _) if variants.iter().all(|variant| variant.data.is_none()) => {
            Ok(quote!(__derived::texts(&[#(#names),*])))
        }
        (None, _) => {
            let mut all = Vec::new();
            for variant in &variants {
                all.push(variant.data.as_ref().ok_or_else(|| {
                    let why = "it is serialized as a string and others as objects, which a structural schema cannot describe: \
                               add braces, or #[serde(tag = \"…\")] to the enum";
                    Error::new(variant.variant.ident.span(), why)
                })?);
            }
            Ok(quote!(__derived::keyed(::std::vec![#((#names, #all)),*])))
        }
    }
}

fn of_variant<'v>(variant: &'v Variant, serde: Part, container: &Container) -> Result<OfVariant<'v>> {
    let ident = variant.ident.unraw().to_string();
    let name = serde
        .rename
        .unwrap_or_else(|| container.rename_all.map_or_else(|| ident.clone(), |case| case.of_variant(&ident)));
    let data = match &variant.fields {
        Fields::Unit => None,
        Fields::Named(fields) => {
            let case = serde.rename_all.or(container.rename_all_fields);
            Some(named(fields, case, false, &[], &mut Vec::new())?)
        }
        Fields::Unnamed(fields) => match only(fields.unnamed.iter()) {
            Some(field) => Some(of_field(field)?.value),
            None => return Err(Error::new(variant.fields.to_token_stream().span(), TUPLES)),
        },
    };
    let markers = Markers::read(&variant.attrs, Place::Part)?;
    let data = data.map(|data| changed(&data, &variant.attrs, &markers));
    Ok(OfVariant { variant, name, data })
}
