//! `#[derive(CustomResource)]`: the CustomResourceDefinition of a kind.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, LitBool, LitInt, LitStr, Result, Token, meta::ParseNestedMeta};

use crate::{
    expand,
    identity::{Identity, Scope, is_label},
    markers::{Markers, Place, some_or_none, text_or_none, texts},
    schema,
};

/// The attributes of `#[resource(…)]` beyond the identity.
struct Declaration {
    singular: Option<LitStr>,
    list_kind: Option<LitStr>,
    categories: Vec<LitStr>,
    labels: Vec<(LitStr, LitStr)>,
    annotations: Vec<(LitStr, LitStr)>,
    is_served: bool,
    is_stored: bool,
    has_status: bool,
    /// Empty for the server's default text.
    deprecated: Option<String>,
    scale: Option<TokenStream>,
    columns: Vec<TokenStream>,
    selectable: Vec<LitStr>,
}

const EXPECTED: &str = "expected group, version, kind, plural, scope, short_names, verbs, client, k8s_openapi, crate, singular, list_kind, categories, storage, \
                        served, deprecated, status, scale, column, selectable, labels or annotations";

/// Returns the impls of `Resource`, `Metadata` and `CustomResource`.
pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let mut given = Declaration::new();
    let identity = Identity::read_with(input, &mut |name, meta| given.take(name, meta))?;
    if identity.group.is_empty() {
        return Err(Error::new(input.ident.span(), "a custom resource needs a group: the core group is reserved"));
    }
    let markers = Markers::read(&input.attrs, Place::Type)?;
    let schema = schema::schema(input, &markers, &["metadata", "api_version", "kind"])?;
    let resource = expand::resource(&input.ident, &identity);
    let (name, api, declaration) = (&input.ident, &identity.api, given.expand(&identity));
    Ok(quote! {
        #resource

        #[automatically_derived]
        impl #api::crd::CustomResource for #name {
            fn declared() -> #api::crd::derived::CustomResourceDefinition {
                use #api::crd::derived as __derived;
                let schema = #schema;
                #declaration.of::<Self>()
            }
        }
    })
}

/// Returns the identity in the attributes of `#[derive(Resource)]` or `#[derive(CustomResource)]`.
pub(crate) fn identity(input: &DeriveInput) -> Result<Identity> {
    let mut others = Declaration::new();
    Identity::read_with(input, &mut |name, meta| others.take(name, meta))
}

impl Declaration {
    fn new() -> Self {
        Self {
            singular: None,
            list_kind: None,
            categories: Vec::new(),
            labels: Vec::new(),
            annotations: Vec::new(),
            is_served: true,
            is_stored: false,
            has_status: false,
            deprecated: None,
            scale: None,
            columns: Vec::new(),
            selectable: Vec::new(),
        }
    }

    fn take(&mut self, name: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match name {
            "singular" => self.singular = Some(meta.value()?.parse()?),
            "list_kind" => self.list_kind = Some(meta.value()?.parse()?),
            "categories" => {
                for category in texts(meta)? {
                    if !is_label(&category.value()) {
                        return Err(Error::new(category.span(), "a category is one lower-case word"));
                    }
                    self.categories.push(category);
                }
            }
            "storage" => self.is_stored = flag(meta)?,
            "served" => self.is_served = flag(meta)?,
            "status" => self.has_status = flag(meta)?,
            "deprecated" => {
                let text = meta.input.peek(Token![=]).then(|| meta.value()?.parse::<LitStr>()).transpose()?;
                self.deprecated = Some(text.map(|text| text.value()).unwrap_or_default());
            }
            "scale" => self.scale = Some(scale(meta)?),
            "column" => self.columns.push(column(meta)?),
            "selectable" => {
                for path in texts(meta)? {
                    check_path(&path)?;
                    self.selectable.push(path);
                }
            }
            "labels" => pairs(meta, &mut self.labels)?,
            "annotations" => pairs(meta, &mut self.annotations)?,
            _ => return Err(meta.error(EXPECTED)),
        }
        Ok(())
    }

    fn expand(&self, identity: &Identity) -> TokenStream {
        let Self { categories, is_served, is_stored, has_status, columns, selectable, .. } = self;
        let singular = some_or_none(self.singular.as_ref().map(|text| quote!(#text)));
        let list_kind = some_or_none(self.list_kind.as_ref().map(|text| quote!(#text)));
        let deprecated = some_or_none(self.deprecated.as_ref().map(|text| quote!(#text)));
        let scale = some_or_none(self.scale.clone());
        let pairs = |pairs: &[(LitStr, LitStr)]| {
            let pairs = pairs.iter().map(|(key, value)| quote!((#key, #value)));
            quote!(&[#(#pairs),*])
        };
        let (labels, annotations) = (pairs(&self.labels), pairs(&self.annotations));
        let short_names = &identity.short_names;
        let scope = match identity.scope {
            Scope::Namespaced => quote!(Namespaced),
            Scope::Cluster => quote!(Cluster),
        };
        quote! {
            __derived::Declaration {
                singular: #singular,
                list_kind: #list_kind,
                short_names: &[#(#short_names),*],
                categories: &[#(#categories),*],
                labels: #labels,
                annotations: #annotations,
                scope: __derived::Scope::#scope,
                served: #is_served,
                storage: #is_stored,
                deprecated: #deprecated,
                status: #has_status,
                scale: #scale,
                columns: ::std::vec![#(#columns),*],
                selectable: &[#(#selectable),*],
                schema,
            }
        }
    }
}

/// Parses `storage`, or `storage = false`.
fn flag(meta: &ParseNestedMeta<'_>) -> Result<bool> {
    if meta.input.peek(Token![=]) { Ok(meta.value()?.parse::<LitBool>()?.value) } else { Ok(true) }
}

/// Parses `("key" = "value", …)`.
fn pairs(meta: &ParseNestedMeta<'_>, pairs: &mut Vec<(LitStr, LitStr)>) -> Result<()> {
    let list;
    syn::parenthesized!(list in meta.input);
    while !list.is_empty() {
        let key = list.parse()?;
        list.parse::<Token![=]>()?;
        pairs.push((key, list.parse()?));
        if !list.is_empty() {
            list.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

fn scale(meta: &ParseNestedMeta<'_>) -> Result<TokenStream> {
    let [spec, status, selector] = fields(meta, ["spec", "status", "selector"])?;
    let (Some(spec), Some(status)) = (&spec, &status) else {
        return Err(meta.error(
            "expected scale(spec = \".spec.replicas\", status = \".status.replicas\"), optionally with a selector",
        ));
    };
    for path in [Some(spec), Some(status), selector.as_ref()].into_iter().flatten() {
        check_path(path)?;
    }
    let selector = text_or_none(selector.as_ref());
    Ok(quote! {
        __derived::Scale {
            spec_replicas_path: ::std::string::String::from(#spec),
            status_replicas_path: ::std::string::String::from(#status),
            label_selector_path: #selector,
        }
    })
}

fn column(meta: &ParseNestedMeta<'_>) -> Result<TokenStream> {
    const NAMES: [&str; 5] = ["name", "type", "path", "format", "description"];
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    let mut texts: [Option<LitStr>; 5] = Default::default();
    let mut priority = quote!(::std::option::Option::None);
    meta.parse_nested_meta(|meta| {
        if meta.path.is_ident("priority") {
            let number: LitInt = meta.value()?.parse()?;
            priority = quote!(::std::option::Option::Some(#number));
            return Ok(());
        }
        let Some(index) = NAMES.iter().position(|name| meta.path.is_ident(name)) else {
            return Err(meta.error(format!("expected {}, priority", NAMES.join(", "))));
        };
        texts[index] = Some(meta.value()?.parse()?);
        Ok(())
    })?;
    let [name, ty, path, format, description] = texts;
    let (Some(name), Some(ty), Some(path)) = (name, ty, path) else {
        return Err(meta.error("expected column(name = \"Replicas\", type = \"integer\", path = \".spec.replicas\")"));
    };
    if !TYPES.contains(&ty.value().as_str()) {
        return Err(Error::new(ty.span(), format!("the type of a column is one of {}", TYPES.join(", "))));
    }
    check_path(&path)?;
    let (format, description) = (text_or_none(format.as_ref()), text_or_none(description.as_ref()));
    Ok(quote! {
        __derived::Column {
            name: ::std::string::String::from(#name),
            type_: ::std::string::String::from(#ty),
            json_path: ::std::string::String::from(#path),
            format: #format,
            description: #description,
            priority: #priority,
        }
    })
}

/// Parses a list of `name = "text"`. Returns the texts in the order of `names`.
fn fields<const N: usize>(meta: &ParseNestedMeta<'_>, names: [&str; N]) -> Result<[Option<LitStr>; N]> {
    let mut found = [const { None }; N];
    meta.parse_nested_meta(|meta| {
        let Some(index) = names.iter().position(|name| meta.path.is_ident(name)) else {
            return Err(meta.error(format!("expected {}", names.join(", "))));
        };
        found[index] = Some(meta.value()?.parse()?);
        Ok(())
    })?;
    Ok(found)
}

/// Checks that a path starts at the object: `.spec.replicas`.
fn check_path(path: &LitStr) -> Result<()> {
    if path.value().starts_with('.') {
        return Ok(());
    }
    Err(Error::new(path.span(), "a path must start with a dot: \".spec.replicas\""))
}
