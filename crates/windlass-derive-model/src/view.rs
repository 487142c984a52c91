//! `#[derive(View)]`: a type that reads the fields of an encoded object without decoding it.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, FieldsNamed, LitStr, Path, Result, ext::IdentExt as _,
    spanned::Spanned as _,
};

use crate::{
    apply::of_option,
    schema,
    serde_attributes::{Container, Part},
};

/// The attributes in `#[view(…)]` on a type.
#[derive(Default)]
struct OfType {
    name: Option<Ident>,
    is_decoded: bool,
    views: Option<Path>,
}

/// The attributes in `#[view(…)]` on a field.
#[derive(Default)]
struct OfField {
    is_decoded: bool,
    is_skipped: bool,
}

/// Returns the view and its impls.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let given = OfType::read(&input.attrs)?;
    let container = Container::read(&input.attrs)?;
    let views = given.views.as_ref().map_or_else(|| quote!(::windlass::views), |path| quote!(#path));
    if let Data::Union(_) = &input.data {
        return Err(Error::new(input.ident.span(), "a union has no fields that could be read"));
    }
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "a type with type parameters has no view"));
    }
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(fields),
            Fields::Unnamed(_) | Fields::Unit => None,
        },
        Data::Enum(_) | Data::Union(_) => None,
    };
    let has_parts = !given.is_decoded && !container.is_transparent && container.proxy.is_none();
    match fields.filter(|_| has_parts) {
        Some(fields) => view(input, &given, fields, &container, &views),
        None => Ok(decoded(&input.ident, &views)),
    }
}

/// Returns the impls of a type that is decoded as a whole.
fn decoded(name: &Ident, views: &TokenStream) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl<'view> #views::Scalar<'view> for #name {
            fn read(view: #views::View<'view>) -> ::std::option::Option<Self> {
                view.decode()
            }
        }

        #[automatically_derived]
        impl #views::HasView for #name {
            type Optional<'view> = ::std::option::Option<Self>;
            type View<'view> = ::std::option::Option<Self>;
        }
    }
}

fn view(
    input: &DeriveInput,
    given: &OfType,
    fields: &FieldsNamed,
    container: &Container,
    views: &TokenStream,
) -> Result<TokenStream> {
    let (source, vis) = (&input.ident, &input.vis);
    let name = given.name.clone().unwrap_or_else(|| format_ident!("{source}View", span = Span::call_site()));
    let accessors = accessors(source, fields, container, views)?;
    let doc = format!(" A view of an encoded [`{source}`].");
    Ok(quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug)]
        #vis struct #name<'view>(#views::View<'view>);

        #[automatically_derived]
        #[allow(dead_code, reason = "a program uses some of the accessors")]
        impl<'view> #name<'view> {
            #(#accessors)*
        }

        #[automatically_derived]
        impl<'view> #views::FromView<'view> for #name<'view> {
            fn from_view(view: #views::View<'view>) -> Self {
                Self(if view.is_present() { view.as_object() } else { view })
            }
        }

        #[automatically_derived]
        impl<'view> ::std::ops::Deref for #name<'view> {
            type Target = #views::View<'view>;

            fn deref(&self) -> &#views::View<'view> {
                &self.0
            }
        }

        #[automatically_derived]
        impl #views::HasView for #source {
            type Optional<'view> = #name<'view>;
            type View<'view> = #name<'view>;
        }
    })
}

fn accessors(
    source: &Ident,
    fields: &FieldsNamed,
    container: &Container,
    views: &TokenStream,
) -> Result<Vec<TokenStream>> {
    let mut accessors = Vec::new();
    for field in &fields.named {
        let Some(ident) = &field.ident else { continue };
        let (given, serde) = (OfField::read(&field.attrs)?, Part::read(&field.attrs)?);
        if given.is_skipped || serde.is_skipped {
            continue;
        }
        if let Some(span) = serde.by_function {
            let why = "the function decodes the field, but a view reads it by its type: implement `Deserialize` for the \
                       type instead, or omit the field with #[view(skip)]";
            return Err(Error::new(span, why));
        }
        let ty = syn::parse2(named(field.ty.to_token_stream(), source))?;
        let field = Field { ty, ..field.clone() };
        accessors.push(accessor(&field, ident, &given, serde, container, views));
    }
    Ok(accessors)
}

/// Replaces `Self` by the name of the type, because the accessors belong to the view.
fn named(tokens: TokenStream, name: &Ident) -> TokenStream {
    let replace = |token| match token {
        TokenTree::Ident(ident) if ident == "Self" => TokenTree::Ident(Ident::new(&name.to_string(), ident.span())),
        TokenTree::Group(group) => {
            let mut replaced = Group::new(group.delimiter(), named(group.stream(), name));
            replaced.set_span(group.span());
            TokenTree::Group(replaced)
        }
        other => other,
    };
    tokens.into_iter().map(replace).collect()
}

fn accessor(
    field: &Field,
    ident: &Ident,
    given: &OfField,
    serde: Part,
    container: &Container,
    views: &TokenStream,
) -> TokenStream {
    let (vis, ty) = (&field.vis, &field.ty);
    let value = if serde.is_flat {
        quote!(self.0)
    } else {
        let plain = ident.unraw().to_string();
        let name =
            serde.rename.unwrap_or_else(|| container.rename_all.map_or(plain.clone(), |case| case.of_field(&plain)));
        quote!(self.0.get::<#views::View<'view>>(#name))
    };
    let (returned, read) = if given.is_decoded {
        let inner = of_option(ty).unwrap_or(ty);
        (quote!(::std::option::Option<#inner>), quote!(#value.decode()))
    } else {
        // The error of a type without a view points to the field.
        (quote_spanned!(ty.span()=> <#ty as #views::HasView>::View<'view>), quote!(#value.read()))
    };
    let text = schema::documentation(&field.attrs).unwrap_or_else(|| format!("Returns the field `{}`.", ident.unraw()));
    let text = format!(" {text}");
    quote! {
        #[doc = #text]
        #[must_use]
        #vis fn #ident(self) -> #returned {
            #read
        }
    }
}

// === Attributes ===

impl OfType {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut given = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("view")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    let text: LitStr = meta.value()?.parse()?;
                    given.name = Some(text.parse()?);
                } else if meta.path.is_ident("decode") {
                    given.is_decoded = true;
                } else if meta.path.is_ident("crate") {
                    given.views = Some(meta.value()?.call(Path::parse_mod_style)?);
                } else {
                    return Err(meta.error("expected name, decode or crate"));
                }
                Ok(())
            })?;
        }
        Ok(given)
    }
}

impl OfField {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut given = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("view")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("decode") {
                    given.is_decoded = true;
                } else if meta.path.is_ident("skip") {
                    given.is_skipped = true;
                } else {
                    return Err(meta.error("expected decode or skip"));
                }
                Ok(())
            })?;
        }
        Ok(given)
    }
}
