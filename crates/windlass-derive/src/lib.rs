//! `#[derive(Resource)]`, `#[derive(CustomResource)]`, `#[derive(Schema)]` and `#[rbac]`: what a custom kind is called, what its
//! objects look like, and what its controller needs to be allowed.
//!
//! [`macro@Resource`] emits k8s-openapi's `Resource` and `Metadata`, no more: that makes the type one of Windlass' resources (every
//! typed verb, cache and controller takes it), and one of kube-rs' as well. [`macro@CustomResource`] emits the definition besides, for
//! which the parts of the object have a [`macro@Schema`].
//!
//! What they make of a type is in `windlass-derive-model`: a library, which others than the compiler can ask.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};
use windlass_derive_model as model;

/// Gives a struct with a field `metadata: ObjectMeta` the identity of a kind.
///
/// ```
/// # use windlass_derive::Resource;
/// use k8s_openapi::{Resource as _, apimachinery::pkg::apis::meta::v1::ObjectMeta};
///
/// #[derive(Resource)]
/// #[resource(group = "example.com", version = "v1", k8s_openapi = k8s_openapi)]
/// struct Website {
///     metadata: ObjectMeta,
/// }
///
/// assert_eq!(Website::API_VERSION, "example.com/v1");
/// assert_eq!((Website::KIND, Website::URL_PATH_SEGMENT), ("Website", "websites"));
/// ```
///
/// # Attributes
///
/// | in `#[resource(…)]` | default | what it says |
/// |---|---|---|
/// | `group = "example.com"` | must be given | the API group; empty for the core group |
/// | `version = "v1"` | must be given | `v1`, `v1beta2`, … |
/// | `kind = "Website"` | the name of the struct | the kind |
/// | `plural = "websites"` | the kind in lower case, in the plural | the name in URLs |
/// | `scope = "Cluster"` | `"Namespaced"` | whether objects live in namespaces |
/// | `short_names("ws", …)` | none | kept as the constant `SHORT_NAMES` of the struct |
/// | `verbs("get", "list", …)` | not declared | the verbs of `Client::accessor`: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `delete_collection`, `status`, `scale` |
/// | `client = path` | `::windlass::client` | where windlass-client is to be found, for `verbs` |
/// | `k8s_openapi = path` | `::windlass::api::k8s_openapi` | where k8s-openapi is to be found |
/// | `crate = path` | `::windlass::api` | where windlass-api is to be found |
///
/// # What does not compile
///
/// A kind without metadata:
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", version = "v1", k8s_openapi = k8s_openapi)]
/// struct Website {
///     name: String,
/// }
/// ```
/// A name that no URL can have:
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", version = "v1", plural = "Web Sites", k8s_openapi = k8s_openapi)]
/// struct Website {
///     metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
/// }
/// ```
/// A kind of no version:
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", k8s_openapi = k8s_openapi)]
/// struct Website {
///     metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
/// }
/// ```
/// An attribute that there is not, and a scope that there is not:
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", version = "v1", colour = "red", k8s_openapi = k8s_openapi)]
/// struct Website {
///     metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
/// }
/// ```
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", version = "v1", scope = "Galaxy", k8s_openapi = k8s_openapi)]
/// struct Website {
///     metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
/// }
/// ```
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::resource(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The definition of a kind, and its identity as [`macro@Resource`] gives it.
///
/// It stands on the object itself, whose fields have schemas (but `metadata`, which is the API server's). `#[schema(…)]` on the
/// struct and its fields says more, as for [`macro@Schema`].
///
/// | in `#[resource(…)]`, besides those of [`macro@Resource`] | default | what it says |
/// |---|---|---|
/// | `singular = "website"` | the kind in lower case | the name of one |
/// | `list_kind = "WebsiteList"` | the kind and `List` | the kind of lists |
/// | `categories("all", …)` | none | groups of kinds that are listed together |
/// | `storage` | true of the only version | objects are stored in this version |
/// | `served = false` | true | clients are served this version |
/// | `deprecated`, `deprecated = "text"` | false | clients are warned, in these words or the server's |
/// | `status` | false | the status is written apart |
/// | `scale(spec = "…", status = "…", selector = "…")` | none | where the numbers of replicas are; the selector may be left out |
/// | `column(name = "…", type = "…", path = "…", format = "…", description = "…", priority = 1)` | none | what `kubectl get` shows; repeatable |
/// | `selectable(".spec.color", …)` | none | fields that selectors may name |
/// | `labels("key" = "value", …)`, `annotations(…)` | none | of the definition |
#[proc_macro_derive(CustomResource, attributes(resource, schema, serde))]
pub fn derive_custom_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::custom_resource(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The structural schema of a type: what serde writes of it, and what `#[schema(…)]` says beyond.
///
/// Comments are descriptions. A field is required unless it is an `Option`, or has a default (`#[serde(default)]` or
/// `#[schema(default = …)]`). An `Option` that serde writes as null is nullable: `skip_serializing_if` prevents it.
///
/// serde's `rename`, `rename_all`, `rename_all_fields`, `default`, `skip`, `flatten`, `tag`, `content`, `untagged`, `transparent`,
/// `from`, `try_from` and `into` are honoured. Enums become: texts, where no variant has data; an object with one field of several;
/// an object with a field that names the variant (`tag`); one of several objects, or a number or text (`untagged`).
///
/// | in `#[schema(…)]` | of | what it says |
/// |---|---|---|
/// | `minimum = 0`, `maximum = 10` | numbers | the bounds |
/// | `exclusive_minimum = 0`, `exclusive_maximum = 10` | numbers | the bounds, which are out themselves |
/// | `multiple_of = 5` | numbers | |
/// | `min_length = 1`, `max_length = 63` | texts | in characters |
/// | `pattern = "^[a-z]+$"` | texts | a regular expression in Go's dialect, found anywhere without `^` and `$` |
/// | `format = "date-time"` | texts, numbers | one of the formats that API servers know |
/// | `min_items = 1`, `max_items = 9` | lists | |
/// | `unique_items` | lists | each item is there once: `list_type = "set"` |
/// | `list_type = "atomic"`, `"set"` or `"map"` | lists | who owns what, and whether items are told apart |
/// | `map_keys("name", …)` | lists that are maps | the fields by which items are told apart |
/// | `map_type = "atomic"` or `"granular"` | maps, structs | who owns what |
/// | `min_properties = 1`, `max_properties = 9` | maps, structs | how many entries |
/// | `enum("a", "b")` | anything | the values that there are |
/// | `nullable` | anything | null is a value |
/// | `default = 1`, `default = {"a": [1]}` | fields | what the API server fills in: JSON |
/// | `example = 1` | anything | JSON |
/// | `title = "…"`, `description = "…"` | anything | in place of the comment |
/// | `external_docs(url = "…", description = "…")` | anything | |
/// | `rule(rule = "…", message = "…", message_expression = "…", reason = "…", field_path = "…", optional_old_self)` | anything | a rule in CEL; repeatable |
/// | `immutable` | anything | a rule: once set, it stays |
/// | `at_most_one_of("a", …)`, `exactly_one_of(…)`, `at_least_one_of(…)` | structs | a rule about fields, by the names that serde writes; repeatable |
/// | `preserve_unknown_fields` | objects | what the schema does not know stays |
/// | `embedded_resource` | objects | a whole object of some kind |
/// | `int_or_string` | anything | a number or a text, whatever the type |
/// | `type = "string"` | anything | this, whatever the type |
/// | `schemaless` | anything | whatever JSON has |
/// | `all_of(…)`, `any_of(…)`, `one_of(…)` | anything | schemas as JSON, of which all, some or one must hold besides |
/// | `not = {"required": ["a"]}` | anything | a schema as JSON that must not hold |
/// | `raw = "…"` | anything | a whole schema as JSON, whatever the type |
/// | `as = Type` | anything | the schema of another type |
/// | `items(…)` | lists | the same, of their items |
/// | `values(…)` | maps | the same, of their values |
/// | `optional`, `required` | fields | whether it has to be there, whatever the type |
/// | `skip` | fields | it is not in the schema |
/// | `crate = path` | types | where windlass-api is to be found; `::windlass::api` without it |
#[proc_macro_derive(Schema, attributes(schema, serde))]
pub fn derive_schema(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::schema(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// What an API server has to allow, said beside what does it: of a function, a struct, any item. Repeatable.
///
/// It becomes a constant `RULES` beside the item, which manifests are made of.
///
/// | in `#[rbac(…)]` | what it says |
/// |---|---|
/// | `groups = "apps,batch"` | the groups; `""` or `core` for the core group |
/// | `resources = "deployments,deployments/status"` | the resources, in the plural |
/// | `resource_names = "a,b"` | these objects only |
/// | `urls = "/metrics"` | paths, in place of resources |
/// | `verbs = "get,list,watch"` | what is done with them |
/// | `namespace = "shop"` | only there: a Role, not a ClusterRole |
/// | `role_name = "reader"` | part of another role than the program's own |
/// | `constant = OTHER_RULES` | the name of the constant, where a module has two such items |
/// | `crate = path` | where windlass-api is to be found; `::windlass::api` without it |
#[proc_macro_attribute]
pub fn rbac(arguments: TokenStream, item: TokenStream) -> TokenStream {
    model::rbac(arguments.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

#[cfg(test)]
mod tests {
    /// The tables above are those of `docs/reference/attributes.md`.
    #[test]
    fn the_page_has_every_attribute() {
        let tables = |text: &str, comment: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(comment));
            lines.filter(|line| line.starts_with('|')).map(str::to_owned).collect()
        };
        let ours = tables(include_str!("lib.rs"), "/// ");
        let page = tables(include_str!("../../../docs/reference/attributes.md"), "");
        assert!(ours.len() > 70, "{}", ours.len());
        assert_eq!(page, ours);
    }
}
