//! `#[derive(ApplyConfiguration)]`: a type with only optional fields for server-side apply.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, FieldsNamed, GenericArgument, LitStr, Path, PathArguments,
    Result, Token, Type, Visibility, ext::IdentExt as _, parenthesized, punctuated::Punctuated, spanned::Spanned as _,
};

use crate::{
    custom_resource, schema,
    serde_attributes::{Container, Part, serde_crate},
};

/// The attributes in `#[apply(…)]` on a type.
#[derive(Default)]
struct OfType {
    name: Option<Ident>,
    derives: Vec<Path>,
    is_whole: bool,
    api: Option<Path>,
}

/// The attributes in `#[apply(…)]` on a field.
#[derive(Default)]
struct OfField {
    is_whole: bool,
    is_skipped: bool,
}

/// A field of the generated type.
struct Member<'f> {
    ident: &'f Ident,
    /// The definition with its attributes.
    definition: TokenStream,
    /// The value from a field of the source type, as an expression of type `Option`.
    value: TokenStream,
    /// The setter.
    setter: TokenStream,
}

/// Returns the configuration type and its impls.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let given = OfType::read(&input.attrs)?;
    let container = Container::read(&input.attrs)?;
    let is_kind = input.attrs.iter().any(|attribute| attribute.path().is_ident("resource"));
    let identity = is_kind.then(|| custom_resource::identity(input)).transpose()?;
    let api = match (&given.api, &identity) {
        (Some(path), _) => quote!(#path),
        (None, Some(identity)) => identity.api.clone(),
        (None, None) => quote!(::windlass::api),
    };
    let fields = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Some(fields),
            Fields::Unnamed(_) | Fields::Unit => None,
        },
        Data::Enum(_) => None,
        Data::Union(_) => return Err(Error::new(input.ident.span(), "a union has no fields that could be owned")),
    };
    let has_parts = !given.is_whole && !container.is_transparent && container.proxy.is_none();
    let Some(fields) = fields.filter(|_| has_parts) else {
        let (name, (impls, types, wheres)) = (&input.ident, input.generics.split_for_impl());
        return Ok(quote! {
            #[automatically_derived]
            impl #impls #api::apply::ApplyField for #name #types #wheres {
                type Apply = Self;

                fn into_apply(self) -> ::std::option::Option<Self> {
                    ::std::option::Option::Some(self)
                }
            }
        });
    };
    if !input.generics.params.is_empty() {
        let why = "a type with type parameters has no apply configuration: add #[apply(whole)] to apply it as a whole";
        return Err(Error::new(input.generics.span(), why));
    }
    let members = members(fields, &input.vis, &container, &api, is_kind)?;
    let configuration = configuration(input, &given, &members, is_kind, &api);
    let kind = is_kind.then(|| kind(input, &given, &api));
    Ok(quote!(#configuration #kind))
}

/// Returns the configuration type with its setters, and its conversion from the source type.
fn configuration(
    input: &DeriveInput,
    given: &OfType,
    members: &[Member<'_>],
    is_kind: bool,
    api: &TokenStream,
) -> TokenStream {
    let (source, vis, name) = (&input.ident, &input.vis, given.name_of(&input.ident));
    let (derives, serde) = (&given.derives, serde_crate(&input.attrs));
    let serde_path = serde.as_ref().map_or_else(|| quote!(::serde), |(_, path)| quote!(#path));
    let serde_attribute = serde.as_ref().map(|(text, _)| quote!(#[serde(crate = #text)]));
    let doc =
        format!(" The fields of a [`{source}`] that an apply sets and owns. A field that is not set is not sent.");
    let metadata_type = quote!(#api::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta);
    let metadata = is_kind.then(|| {
        quote! {
            /// The metadata of the object. Its name is required.
            #[serde(default)]
            pub metadata: #metadata_type,
        }
    });
    let metadata_value = is_kind.then(|| quote!(metadata: source.metadata,));
    let definitions = members.iter().map(|member| &member.definition);
    let setters = members.iter().map(|member| &member.setter);
    let values = members.iter().map(|member| {
        let (ident, value) = (member.ident, &member.value);
        quote!(#ident: #value)
    });
    let new = (!is_kind).then(|| {
        quote! {
            /// Creates a configuration without fields.
            #vis fn new() -> Self {
                <Self as ::std::default::Default>::default()
            }
        }
    });
    quote! {
        #[doc = #doc]
        #[derive(Clone, Debug, Default, #serde_path::Serialize, #serde_path::Deserialize #(, #derives)*)]
        #serde_attribute
        #[must_use]
        #vis struct #name {
            #metadata
            #(#definitions)*
        }

        #[automatically_derived]
        #[allow(dead_code, reason = "a program uses some of the setters")]
        impl #name {
            #new
            #(#setters)*
        }

        #[automatically_derived]
        impl ::std::convert::From<#source> for #name {
            fn from(source: #source) -> Self {
                Self { #metadata_value #(#values),* }
            }
        }

        #[automatically_derived]
        impl #api::apply::ApplyField for #source {
            type Apply = #name;

            fn into_apply(self) -> ::std::option::Option<#name> {
                ::std::option::Option::Some(::std::convert::From::from(self))
            }
        }
    }
}

/// Returns the builder methods for metadata, and the impl that makes the type applicable.
fn kind(input: &DeriveInput, given: &OfType, api: &TokenStream) -> TokenStream {
    let (source, vis, name) = (&input.ident, &input.vis, given.name_of(&input.ident));
    quote! {
        #[automatically_derived]
        #[allow(dead_code, reason = "a program uses some of the methods")]
        impl #name {
            /// Creates a configuration of the object with this name.
            #vis fn named(name: impl ::std::convert::Into<::std::string::String>) -> Self {
                let mut this = <Self as ::std::default::Default>::default();
                this.metadata.name = ::std::option::Option::Some(name.into());
                this
            }

            /// Sets the namespace.
            #vis fn in_namespace(mut self, namespace: impl ::std::convert::Into<::std::string::String>) -> Self {
                self.metadata.namespace = ::std::option::Option::Some(namespace.into());
                self
            }

            /// Adds a label.
            #vis fn label(
                mut self,
                key: impl ::std::convert::Into<::std::string::String>,
                value: impl ::std::convert::Into<::std::string::String>,
            ) -> Self {
                self.metadata.labels.get_or_insert_default().insert(key.into(), value.into());
                self
            }

            /// Adds an annotation.
            #vis fn annotation(
                mut self,
                key: impl ::std::convert::Into<::std::string::String>,
                value: impl ::std::convert::Into<::std::string::String>,
            ) -> Self {
                self.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
                self
            }

            /// Sets the controller of the object. Without a namespace, the object gets the owner's.
            #vis fn controlled_by<O: #api::Resource>(mut self, owner: &O) -> Self {
                #api::apply::set_controller(&mut self.metadata, owner);
                self
            }
        }

        #[automatically_derived]
        impl #api::ApplyConfiguration for #name {
            type Object = #source;

            fn body(&self) -> #api::apply::Body<'_, #source> {
                #api::apply::Body::of_fields(self)
            }
        }
    }
}

fn members<'f>(
    fields: &'f FieldsNamed,
    vis: &Visibility,
    container: &Container,
    api: &TokenStream,
    is_kind: bool,
) -> Result<Vec<Member<'f>>> {
    let mut members = Vec::new();
    for field in &fields.named {
        let Some(ident) = &field.ident else { continue };
        let (given, serde) = (OfField::read(&field.attrs)?, Part::read(&field.attrs)?);
        // The client adds the API version and the kind.
        let is_of_kind = is_kind && ["metadata", "api_version", "kind"].iter().any(|name| ident == name);
        if given.is_skipped || serde.is_skipped || is_of_kind {
            continue;
        }
        if let Some(span) = serde.by_function {
            let why = "the function serializes the type of the field, but a field of an apply configuration is an `Option`: \
                       implement `Serialize` for the type instead, or omit the field with #[apply(skip)]";
            return Err(Error::new(span, why));
        }
        members.push(member(field, ident, vis, &given, serde, container, api));
    }
    Ok(members)
}

fn member<'f>(
    field: &'f Field,
    ident: &'f Ident,
    setter_vis: &Visibility,
    given: &OfField,
    serde: Part,
    container: &Container,
    api: &TokenStream,
) -> Member<'f> {
    let (vis, option) = (&field.vis, of_option(&field.ty));
    let whole = option.unwrap_or(&field.ty);
    let (ty, value) = match (given.is_whole, option) {
        (false, _) => {
            let ty = &field.ty;
            // The error of a type without a configuration points to the field.
            (
                quote_spanned!(ty.span()=> <#ty as #api::apply::ApplyField>::Apply),
                quote_spanned!(ty.span()=> <#ty as #api::apply::ApplyField>::into_apply(source.#ident)),
            )
        }
        (true, Some(_)) => (quote!(#whole), quote!(source.#ident)),
        (true, None) => (quote!(#whole), quote!(::std::option::Option::Some(source.#ident))),
    };
    let serialized = if serde.is_flat {
        quote!(#[serde(flatten, skip_serializing_if = "::std::option::Option::is_none")])
    } else {
        let plain = ident.unraw().to_string();
        let name =
            serde.rename.unwrap_or_else(|| container.rename_all.map_or(plain.clone(), |case| case.of_field(&plain)));
        quote!(#[serde(rename = #name, default, skip_serializing_if = "::std::option::Option::is_none")])
    };
    let text = schema::documentation(&field.attrs).unwrap_or_else(|| format!("The field `{}`.", ident.unraw()));
    let text = format!(" {text}");
    let about = format!(" Sets `{}`, which the apply then owns.", ident.unraw());
    let (argument, set) = if is_number(whole) {
        (quote!(#whole), quote!(value))
    } else {
        (quote!(impl ::std::convert::Into<#ty>), quote!(::std::convert::Into::into(value)))
    };
    Member {
        ident,
        definition: quote! {
            #[doc = #text]
            #serialized
            #vis #ident: ::std::option::Option<#ty>,
        },
        value,
        setter: quote! {
            #[doc = #about]
            #setter_vis fn #ident(mut self, value: #argument) -> Self {
                self.#ident = ::std::option::Option::Some(#set);
                self
            }
        },
    }
}

/// Returns the type in an `Option`, as written.
pub(crate) fn of_option(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// Reports whether a type is a number. With `impl Into<u16>`, a literal would have the type `i32`.
fn is_number(ty: &Type) -> bool {
    const NUMBERS: [&str; 12] = ["i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize", "f32", "f64"];
    matches!(ty, Type::Path(path) if NUMBERS.iter().any(|name| path.path.is_ident(name)))
}

// === Attributes ===

impl OfType {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut given = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("apply")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    let text: LitStr = meta.value()?.parse()?;
                    given.name = Some(text.parse()?);
                } else if meta.path.is_ident("derive") {
                    let list;
                    parenthesized!(list in meta.input);
                    given.derives.extend(Punctuated::<Path, Token![,]>::parse_terminated(&list)?);
                } else if meta.path.is_ident("whole") {
                    given.is_whole = true;
                } else if meta.path.is_ident("crate") {
                    given.api = Some(meta.value()?.call(Path::parse_mod_style)?);
                } else {
                    return Err(meta.error("expected name, derive, whole or crate"));
                }
                Ok(())
            })?;
        }
        Ok(given)
    }

    fn name_of(&self, source: &Ident) -> Ident {
        self.name.clone().unwrap_or_else(|| format_ident!("{source}Apply", span = Span::call_site()))
    }
}

impl OfField {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut given = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("apply")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("whole") {
                    given.is_whole = true;
                } else if meta.path.is_ident("skip") {
                    given.is_skipped = true;
                } else {
                    return Err(meta.error("expected whole or skip"));
                }
                Ok(())
            })?;
        }
        Ok(given)
    }
}
