//! `#[rbac(…)]`: permissions declared beside the code that needs them.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{
    Attribute, Error, LitStr, Path, Result, Visibility,
    meta::ParseNestedMeta,
    parse::{Parse, ParseStream, Parser as _},
};

use crate::markers::some_or_none;

/// A rule with its attributes.
#[derive(Default)]
struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    resource_names: Vec<String>,
    urls: Vec<String>,
    verbs: Vec<String>,
    namespace: Option<LitStr>,
    role_name: Option<LitStr>,
}

/// The options for all rules of an item.
#[derive(Default)]
struct Options {
    constant: Option<Ident>,
    api: Option<Path>,
}

/// An item: its attributes, and the remaining tokens.
struct Item {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    rest: TokenStream,
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        Ok(Self { attributes: input.call(Attribute::parse_outer)?, visibility: input.parse()?, rest: input.parse()? })
    }
}

/// Returns the item, followed by a constant with its rules.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let mut item = syn::parse2::<Item>(item)?;
    let mut options = Options::default();
    let mut rules = vec![Rule::read(arguments, &mut options)?];
    let is_rbac = |attribute: &Attribute| attribute.path().segments.last().is_some_and(|last| last.ident == "rbac");
    for attribute in item.attributes.iter().filter(|attribute| is_rbac(attribute)) {
        rules.push(Rule::read(attribute.meta.require_list()?.tokens.clone(), &mut options)?);
    }
    item.attributes.retain(|attribute| !is_rbac(attribute));
    let Item { attributes, visibility, rest } = item;
    let api = options.api.map_or_else(|| quote!(::windlass::api), |path| quote!(#path));
    let constant = options.constant.map_or_else(|| quote!(RULES), |name| quote!(#name));
    let rules = rules.iter().map(|rule| rule.expand(&api));
    Ok(quote! {
        #(#attributes)* #visibility #rest

        /// The permissions that the program requires.
        #[allow(unreachable_pub, reason = "manifests are created elsewhere")]
        pub const #constant: &[#api::rbac::Rule] = &[#(#rules),*];
    })
}

impl Rule {
    fn read(arguments: TokenStream, options: &mut Options) -> Result<Self> {
        let mut rule = Self::default();
        let span = arguments.clone().into_iter().next().map_or_else(proc_macro2::Span::call_site, |first| first.span());
        let parser = syn::meta::parser(|meta| rule.take(&meta, options));
        parser.parse2(arguments)?;
        if rule.verbs.is_empty() {
            return Err(Error::new(span, "the verbs are missing: verbs = \"get,list,watch\""));
        }
        if rule.resources.is_empty() == rule.urls.is_empty() {
            return Err(Error::new(span, "a rule needs resources or urls: resources = \"deployments\""));
        }
        if !rule.urls.is_empty() && rule.namespace.is_some() {
            return Err(Error::new(span, "urls cannot have a namespace"));
        }
        if !rule.resources.is_empty() && rule.groups.is_empty() {
            return Err(Error::new(span, "the groups are missing: groups = \"apps\", or \"\" for the core group"));
        }
        Ok(rule)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>, options: &mut Options) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "groups" => {
                // In RBAC rules, the core group has an empty name.
                let groups =
                    words(meta, true)?.into_iter().map(|group| if group == "core" { String::new() } else { group });
                self.groups = groups.collect();
            }
            "resources" => self.resources = words(meta, false)?,
            "resource_names" => self.resource_names = words(meta, false)?,
            "urls" => self.urls = words(meta, false)?,
            "verbs" => self.verbs = words(meta, false)?,
            "namespace" => self.namespace = Some(meta.value()?.parse()?),
            "role_name" => self.role_name = Some(meta.value()?.parse()?),
            "constant" => options.constant = Some(meta.value()?.parse()?),
            "crate" => options.api = Some(meta.value()?.call(Path::parse_mod_style)?),
            _ => {
                return Err(meta.error(
                    "expected groups, resources, resource_names, urls, verbs, namespace, role_name, constant or crate",
                ));
            }
        }
        Ok(())
    }

    fn expand(&self, api: &TokenStream) -> TokenStream {
        let Self { groups, resources, resource_names, urls, verbs, namespace, role_name } = self;
        let or_none = |text: &Option<LitStr>| some_or_none(text.as_ref().map(|text| quote!(#text)));
        let (namespace, role_name) = (or_none(namespace), or_none(role_name));
        quote! {
            #api::rbac::Rule {
                groups: &[#(#groups),*],
                resources: &[#(#resources),*],
                resource_names: &[#(#resource_names),*],
                urls: &[#(#urls),*],
                verbs: &[#(#verbs),*],
                namespace: #namespace,
                role_name: #role_name,
            }
        }
    }
}

/// Parses `= "a,b"`.
fn words(meta: &ParseNestedMeta<'_>, may_be_empty: bool) -> Result<Vec<String>> {
    let text: LitStr = meta.value()?.parse()?;
    let words = text.value().split([',', ';']).map(|word| word.trim().to_owned()).collect::<Vec<_>>();
    if !may_be_empty && words.iter().any(String::is_empty) {
        return Err(Error::new(text.span(), "expected comma-separated words"));
    }
    Ok(words)
}
