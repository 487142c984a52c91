//! The impls for the identity of a kind. This step cannot fail.

use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::identity::{Identity, Scope};

pub(crate) fn resource(name: &Ident, identity: &Identity) -> TokenStream {
    let Identity { group, version, kind, plural, scope, short_names, k8s_openapi, .. } = identity;
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let scope = match scope {
        Scope::Namespaced => quote!(NamespaceResourceScope),
        Scope::Cluster => quote!(ClusterResourceScope),
    };
    let short_names = (!short_names.is_empty()).then(|| {
        quote! {
            #[automatically_derived]
            impl #name {
                /// The short names of the kind.
                pub const SHORT_NAMES: &'static [&'static str] = &[#(#short_names),*];
            }
        }
    });
    let served = identity.verbs.as_ref().map(|verbs| served(name, identity, verbs));
    quote! {
        #[automatically_derived]
        impl #k8s_openapi::Resource for #name {
            const API_VERSION: &'static str = #api_version;
            const GROUP: &'static str = #group;
            const KIND: &'static str = #kind;
            const VERSION: &'static str = #version;
            const URL_PATH_SEGMENT: &'static str = #plural;
            type Scope = #k8s_openapi::#scope;
        }

        #[automatically_derived]
        impl #k8s_openapi::Metadata for #name {
            type Ty = #k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        #short_names

        #served
    }
}

/// Returns the impls of the traits for an accessor's verbs.
fn served(name: &Ident, identity: &Identity, verbs: &[Ident]) -> TokenStream {
    let client = &identity.client;
    quote! {
        #[automatically_derived]
        impl #client::Served for #name {
            type Object = Self;
        }

        #(
            #[automatically_derived]
            impl #client::can::#verbs for #name {}
        )*
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(attributes: &str) -> String {
        let source = format!("#[resource({attributes})] struct Site {{ metadata: ObjectMeta }}");
        let input: syn::DeriveInput = syn::parse_str(&source).unwrap();
        resource(&input.ident, &Identity::read(&input).unwrap()).to_string()
    }

    #[test]
    fn the_core_group_is_not_in_the_api_version() {
        assert!(expanded(r#"group = "", version = "v1""#).contains(r#"API_VERSION : & 'static str = "v1""#));
        assert!(expanded(r#"group = "x.io", version = "v1""#).contains(r#"API_VERSION : & 'static str = "x.io/v1""#));
    }

    #[test]
    fn short_names_are_there_only_if_given() {
        assert!(!expanded(r#"group = "x.io", version = "v1""#).contains("SHORT_NAMES"));
        assert!(expanded(r#"group = "x.io", version = "v1", short_names("s")"#).contains(r#"= & ["s"]"#));
    }

    #[test]
    fn declared_verbs_become_traits() {
        let subset = expanded(r#"group = "x.io", version = "v1", verbs("create", "delete_collection")"#);
        assert!(subset.contains("impl :: windlass :: client :: can :: Create for Site"), "{subset}");
        assert!(subset.contains("can :: DeleteCollection for Site") && !subset.contains("can :: Get"), "{subset}");
        let none = expanded(r#"group = "x.io", version = "v1", verbs(), client = my::client"#);
        assert!(none.contains("impl my :: client :: Served for Site") && !none.contains("can ::"), "{none}");
        assert!(!expanded(r#"group = "x.io", version = "v1""#).contains("Served"));
    }

    #[test]
    fn the_scope_is_a_type() {
        assert!(expanded(r#"group = "x.io", version = "v1", scope = "Cluster""#).contains(":: ClusterResourceScope ;"));
    }
}
