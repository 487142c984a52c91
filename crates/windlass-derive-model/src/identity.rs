//! The identity of a kind from its attributes. This module detects all errors in the input.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{
    Data, DeriveInput, Error, Fields, LitStr, Path, Result, Token, meta::ParseNestedMeta, parenthesized,
    punctuated::Punctuated, spanned::Spanned,
};

/// The names and the scope of a kind.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    /// The plural name, as in URLs: in lower case.
    pub(crate) plural: String,
    pub(crate) scope: Scope,
    pub(crate) short_names: Vec<String>,
    /// The verbs of the kind's accessor. `None` if no subset is declared.
    pub(crate) verbs: Option<Vec<Ident>>,
    /// The path of windlass-client.
    pub(crate) client: TokenStream,
    /// The path of windlass-api.
    pub(crate) api: TokenStream,
    /// The path of the crate.
    pub(crate) k8s_openapi: TokenStream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// The attributes that were parsed so far.
#[derive(Default)]
struct Given {
    group: Option<String>,
    version: Option<String>,
    kind: Option<String>,
    plural: Option<String>,
    scope: Option<Scope>,
    short_names: Vec<String>,
    verbs: Option<Vec<Ident>>,
    client: Option<Path>,
    api: Option<Path>,
    k8s_openapi: Option<Path>,
}

/// The verbs that `verbs(…)` accepts, and the trait of each in `windlass_client::can`.
const VERBS: [(&str, &str); 10] = [
    ("get", "Get"),
    ("list", "List"),
    ("watch", "Watch"),
    ("create", "Create"),
    ("update", "Update"),
    ("patch", "Patch"),
    ("delete", "Delete"),
    ("delete_collection", "DeleteCollection"),
    ("status", "Status"),
    ("scale", "Scale"),
];

/// A parser of further attributes in `#[resource(…)]`.
type Others<'o> = &'o mut dyn FnMut(&str, &ParseNestedMeta<'_>) -> Result<()>;

impl Identity {
    pub(crate) fn read(input: &DeriveInput) -> Result<Self> {
        let expected = "expected group, version, kind, plural, scope, short_names, verbs, client, k8s_openapi or crate";
        Self::read_with(input, &mut |_, meta| Err(meta.error(expected)))
    }

    pub(crate) fn read_with(input: &DeriveInput, others: Others<'_>) -> Result<Self> {
        check_shape(input)?;
        let mut given = Given::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("resource")) {
            attribute.parse_nested_meta(|meta| given.take(&meta, others))?;
        }
        let missing = |what: &str| {
            let example = "#[resource(group = \"example.com\", version = \"v1\")]";
            Error::new(input.ident.span(), format!("the {what} of the kind is missing: {example}"))
        };
        let api = given.api.map_or_else(|| quote!(::windlass::api), |path| quote!(#path));
        let kind = given.kind.unwrap_or_else(|| input.ident.to_string());
        Ok(Self {
            group: given.group.ok_or_else(|| missing("group"))?,
            version: given.version.ok_or_else(|| missing("version"))?,
            plural: given.plural.unwrap_or_else(|| plural_of(&kind)),
            kind,
            scope: given.scope.unwrap_or(Scope::Namespaced),
            short_names: given.short_names,
            verbs: given.verbs,
            client: given.client.map_or_else(|| quote!(::windlass::client), |path| quote!(#path)),
            k8s_openapi: given.k8s_openapi.map_or_else(|| quote!(#api::k8s_openapi), |path| quote!(#path)),
            api,
        })
    }
}

impl Given {
    fn take(&mut self, meta: &ParseNestedMeta<'_>, others: Others<'_>) -> Result<()> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "group" => once(&mut self.group, meta, |text| {
                // The core group has an empty name.
                text.is_empty() || text.split('.').all(is_label)
            }),
            "version" => once(&mut self.version, meta, is_label),
            "kind" => once(&mut self.kind, meta, |text| is_label(&text.to_ascii_lowercase())),
            "plural" => once(&mut self.plural, meta, is_label),
            "scope" => {
                let text: LitStr = meta.value()?.parse()?;
                self.scope = Some(match text.value().as_str() {
                    "Namespaced" => Scope::Namespaced,
                    "Cluster" => Scope::Cluster,
                    _ => return Err(Error::new(text.span(), "the scope is \"Namespaced\" or \"Cluster\"")),
                });
                Ok(())
            }
            "short_names" => {
                let list;
                parenthesized!(list in meta.input);
                for text in Punctuated::<LitStr, Token![,]>::parse_terminated(&list)? {
                    self.short_names.push(checked(&text, is_label)?);
                }
                Ok(())
            }
            "verbs" => {
                if self.verbs.is_some() {
                    return Err(meta.error("given twice"));
                }
                let list;
                parenthesized!(list in meta.input);
                let verbs = Punctuated::<LitStr, Token![,]>::parse_terminated(&list)?;
                self.verbs = Some(verbs.iter().map(ability).collect::<Result<_>>()?);
                Ok(())
            }
            "client" => {
                self.client = Some(meta.value()?.call(Path::parse_mod_style)?);
                Ok(())
            }
            "k8s_openapi" => {
                self.k8s_openapi = Some(meta.value()?.call(Path::parse_mod_style)?);
                Ok(())
            }
            "crate" => {
                self.api = Some(meta.value()?.call(Path::parse_mod_style)?);
                Ok(())
            }
            other => others(other, meta),
        }
    }
}

/// Returns the trait of a verb.
fn ability(verb: &LitStr) -> Result<Ident> {
    let text = verb.value();
    let known = VERBS.iter().find(|(name, _)| *name == text);
    known.map(|(_, ability)| Ident::new(ability, verb.span())).ok_or_else(|| {
        let names = VERBS.map(|(name, _)| name).join(", ");
        Error::new(verb.span(), format!("unknown verb {text:?}: expected one of {names}"))
    })
}

fn once(slot: &mut Option<String>, meta: &ParseNestedMeta<'_>, is_valid: impl Fn(&str) -> bool) -> Result<()> {
    if slot.is_some() {
        return Err(meta.error("given twice"));
    }
    *slot = Some(checked(&meta.value()?.parse()?, is_valid)?);
    Ok(())
}

fn checked(text: &LitStr, is_valid: impl Fn(&str) -> bool) -> Result<String> {
    let value = text.value();
    if is_valid(&value) {
        return Ok(value);
    }
    let rule = "names consist of lower-case letters, digits and '-', and begin and end with a letter or digit";
    Err(Error::new(text.span(), format!("{value:?} is not a valid name: {rule}")))
}

/// Checks that the input is a struct without type parameters and with metadata.
fn check_shape(input: &DeriveInput) -> Result<()> {
    if !input.generics.params.is_empty() {
        return Err(Error::new(input.generics.span(), "a kind cannot have type parameters"));
    }
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "a kind must be a struct"));
    };
    let has_metadata = match &data.fields {
        Fields::Named(fields) => fields.named.iter().any(|field| field.ident.as_ref().is_some_and(|i| i == "metadata")),
        Fields::Unnamed(_) | Fields::Unit => false,
    };
    if has_metadata {
        return Ok(());
    }
    Err(Error::new(input.ident.span(), "missing metadata: add a field `metadata: ObjectMeta`"))
}

/// Reports whether a text is a DNS label: lower-case letters, digits and dashes, at most 63 characters, and no dash at
/// either end.
pub(crate) fn is_label(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let edges = [text.bytes().next(), text.bytes().next_back()];
    text.len() <= 63
        && edges.into_iter().all(|edge| edge.is_some_and(is_word))
        && text.bytes().all(|byte| is_word(byte) || byte == b'-')
}

/// Returns the plural that Kubernetes guesses: `Policy` → `policies`, `Class` → `classes`.
#[must_use]
pub fn plural_of(kind: &str) -> String {
    let singular = kind.to_lowercase();
    match singular.as_bytes().last() {
        _ if singular.ends_with("endpoints") => singular,
        Some(b's') => singular + "es",
        Some(b'y') => format!("{}ies", &singular[..singular.len() - 1]),
        _ => singular + "s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(attributes: &str) -> std::result::Result<Identity, String> {
        let source = format!("#[resource({attributes})] struct Policy {{ metadata: ObjectMeta }}");
        Identity::read(&syn::parse_str(&source).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn missing_attributes_are_derived_from_the_struct() {
        let identity = read(r#"group = "x.io", version = "v1""#).unwrap();
        assert_eq!((identity.kind.as_str(), identity.plural.as_str()), ("Policy", "policies"));
        assert_eq!((identity.scope, identity.short_names.len()), (Scope::Namespaced, 0));
    }

    #[test]
    fn given_attributes_override_the_defaults() {
        let given =
            r#"group = "", version = "v1", kind = "Odd", plural = "odds", scope = "Cluster", short_names("o", "od")"#;
        let identity = read(given).unwrap();
        assert_eq!((identity.group.as_str(), identity.plural.as_str(), identity.scope), ("", "odds", Scope::Cluster));
        assert_eq!(identity.short_names, ["o", "od"]);
    }

    #[test]
    fn each_mistake_is_named() {
        for (attributes, message) in [
            (r#"version = "v1""#, "the group of the kind is missing"),
            (r#"group = "x.io""#, "the version of the kind is missing"),
            (r#"group = "X", version = "v1""#, "\"X\" is not a valid name"),
            (r#"group = "x", group = "y""#, "given twice"),
            (r#"scope = "Galaxy""#, "the scope is"),
            (r#"color = "red""#, "expected group, version"),
            (r#"short_names("A")"#, "\"A\" is not a valid name"),
            (r#"verbs("fetch")"#, "unknown verb \"fetch\": expected one of get, list"),
            (r#"verbs("get"), verbs("list")"#, "given twice"),
        ] {
            let error = read(attributes).unwrap_err();
            assert!(error.starts_with(message), "{attributes}: {error}");
        }
    }

    #[test]
    fn only_structs_with_metadata_are_kinds() {
        for (source, message) in [
            ("struct A { name: String }", "missing metadata"),
            ("struct A(ObjectMeta);", "missing metadata"),
            ("enum A { B }", "a kind must be a struct"),
            ("struct A<T> { metadata: T }", "a kind cannot have type parameters"),
        ] {
            let error = Identity::read(&syn::parse_str(source).unwrap()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{source}: {error}");
        }
    }

    #[test]
    fn plurals_are_guessed_as_kubernetes_does() {
        for (kind, plural) in
            [("Pod", "pods"), ("Policy", "policies"), ("Class", "classes"), ("MyEndpoints", "myendpoints")]
        {
            assert_eq!(plural_of(kind), plural);
        }
    }
}
