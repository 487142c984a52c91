//! Derive macros for custom resources: `#[derive(Resource)]`, `#[derive(CustomResource)]`, `#[derive(Schema)]`,
//! `#[derive(ApplyConfiguration)]`, `#[derive(View)]` and `#[rbac]`. They declare the identity of a kind, its
//! CustomResourceDefinition, its schema, its fields for server-side apply, its views, and the permissions of its controller.
//!
//! [`macro@Resource`] implements only k8s-openapi's `Resource` and `Metadata`. All typed verbs, caches and controllers
//! of Windlass accept such a type, and so does kube-rs. [`macro@CustomResource`] also generates the
//! CustomResourceDefinition, which requires a [`macro@Schema`] for the parts of the object.
//!
//! The code generation is in the library `windlass-derive-model`, which other programs can call, too.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};
use windlass_derive_model as model;

/// Implements the identity of a kind for a struct with a field `metadata: ObjectMeta`.
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
/// | in `#[resource(…)]` | default | meaning |
/// |---|---|---|
/// | `group = "example.com"` | required | the API group; empty for the core group |
/// | `version = "v1"` | required | the API version: `v1`, `v1beta2`, … |
/// | `kind = "Website"` | the name of the struct | the kind |
/// | `plural = "websites"` | the plural of the kind in lower case | the plural name, used in URLs |
/// | `scope = "Cluster"` | `"Namespaced"` | the scope of the objects |
/// | `short_names("ws", …)` | none | the short names; also in the constant `SHORT_NAMES` of the struct |
/// | `verbs("get", "list", …)` | not declared | the verbs of `Client::accessor`: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `delete_collection`, `status`, `scale` |
/// | `client = path` | `::windlass::client` | the path of windlass-client, used by `verbs` |
/// | `k8s_openapi = path` | `::windlass::api::k8s_openapi` | the path of k8s-openapi |
/// | `crate = path` | `::windlass::api` | the path of windlass-api |
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
/// An invalid plural name:
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", version = "v1", plural = "Web Sites", k8s_openapi = k8s_openapi)]
/// struct Website {
///     metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
/// }
/// ```
/// A missing version:
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", k8s_openapi = k8s_openapi)]
/// struct Website {
///     metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
/// }
/// ```
/// An unknown attribute and an unknown scope:
/// ```compile_fail
/// #[derive(windlass_derive::Resource)]
/// #[resource(group = "example.com", version = "v1", color = "red", k8s_openapi = k8s_openapi)]
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

/// Implements the identity of a kind, as [`macro@Resource`] does, and its CustomResourceDefinition.
///
/// Derive it for the type of the whole object. All fields except `metadata` need a [`macro@Schema`]. `#[schema(…)]` is
/// allowed on the struct and its fields, as for [`macro@Schema`].
///
/// | in `#[resource(…)]`, besides those of [`macro@Resource`] | default | meaning |
/// |---|---|---|
/// | `singular = "website"` | the kind in lower case | the singular name |
/// | `list_kind = "WebsiteList"` | the kind with the suffix `List` | the kind of lists |
/// | `categories("all", …)` | none | groups of kinds that are listed together |
/// | `storage` | true for a single version | this is the storage version |
/// | `served = false` | true | whether the version is served |
/// | `deprecated`, `deprecated = "text"` | false | clients get a deprecation warning, with this text or the server's |
/// | `status` | false | the kind has the `status` subresource |
/// | `scale(spec = "…", status = "…", selector = "…")` | none | the paths of the `scale` subresource; the selector is optional |
/// | `column(name = "…", type = "…", path = "…", format = "…", description = "…", priority = 1)` | none | a printer column, shown by `kubectl get`; repeatable |
/// | `selectable(".spec.color", …)` | none | the fields that field selectors may use |
/// | `labels("key" = "value", …)`, `annotations(…)` | none | the labels and annotations of the CustomResourceDefinition |
#[proc_macro_derive(CustomResource, attributes(resource, schema, serde))]
pub fn derive_custom_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::custom_resource(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements the structural schema of a type, from serde's representation of the type and the attributes in
/// `#[schema(…)]`.
///
/// Doc comments become descriptions. A field is required unless it is an `Option` or has a default (`#[serde(default)]`
/// or `#[schema(default = …)]`). An `Option` that serde serializes as null is nullable; use `skip_serializing_if` to
/// avoid this.
///
/// The serde attributes `rename`, `rename_all`, `rename_all_fields`, `default`, `skip`, `flatten`, `tag`, `content`,
/// `untagged`, `transparent`, `from`, `try_from` and `into` are respected. The schema of an enum depends on its
/// representation:
///
/// - without data in any variant: a string with these values
/// - with data: an object with one of several fields
/// - with `tag`: an object with a field that names the variant
/// - with `tag` and `content`: an object with a field that names the variant and one that contains its data
/// - with `untagged`: one of several objects, or an integer or string
///
/// | in `#[schema(…)]` | of | meaning |
/// |---|---|---|
/// | `minimum = 0`, `maximum = 10` | numbers | the inclusive bounds |
/// | `exclusive_minimum = 0`, `exclusive_maximum = 10` | numbers | the exclusive bounds |
/// | `multiple_of = 5` | numbers | |
/// | `min_length = 1`, `max_length = 63` | strings | the length in characters |
/// | `pattern = "^[a-z]+$"` | strings | a regular expression in Go's syntax; matches anywhere unless anchored with `^` and `$` |
/// | `format = "date-time"` | strings, numbers | a format that API servers support |
/// | `min_items = 1`, `max_items = 9` | lists | the number of items |
/// | `unique_items` | lists | no duplicate items; same as `list_type = "set"` |
/// | `list_type = "atomic"`, `"set"` or `"map"` | lists | how field ownership and merging treat the items |
/// | `map_keys("name", …)` | lists of type `map` | the fields that identify an item |
/// | `map_type = "atomic"` or `"granular"` | maps, structs | whether fields are owned as a whole or separately |
/// | `min_properties = 1`, `max_properties = 9` | maps, structs | the number of entries |
/// | `enum("a", "b")` | anything | the valid values |
/// | `nullable` | anything | null is valid |
/// | `default = 1`, `default = {"a": [1]}` | fields | the default that the API server sets, as JSON |
/// | `example = 1` | anything | an example, as JSON |
/// | `title = "…"`, `description = "…"` | anything | the title and description; the latter replaces the doc comment |
/// | `external_docs(url = "…", description = "…")` | anything | a link to documentation |
/// | `rule(rule = "…", message = "…", message_expression = "…", reason = "…", field_path = "…", optional_old_self)` | anything | a validation rule in CEL; repeatable |
/// | `immutable` | anything | a rule that the value cannot change once set |
/// | `at_most_one_of("a", …)`, `exactly_one_of(…)`, `at_least_one_of(…)` | structs | a rule about fields, by their serialized names; repeatable |
/// | `preserve_unknown_fields` | objects | unknown fields are retained |
/// | `embedded_resource` | objects | the value is a whole object of any kind |
/// | `int_or_string` | anything | the schema of an integer or string, whatever the type |
/// | `type = "string"` | anything | the type in the schema, whatever the Rust type |
/// | `schemaless` | anything | any JSON value is valid |
/// | `all_of(…)`, `any_of(…)`, `one_of(…)` | anything | schemas as JSON, of which all, any or exactly one must match in addition |
/// | `not = {"required": ["a"]}` | anything | a schema as JSON that must not match |
/// | `raw = "…"` | anything | the whole schema as JSON, whatever the type |
/// | `as = Type` | anything | the schema of another type |
/// | `items(…)` | lists | these attributes for the items |
/// | `values(…)` | maps | these attributes for the values |
/// | `optional`, `required` | fields | whether the field is required, whatever the type |
/// | `skip` | fields | the field is not in the schema |
/// | `crate = path` | types | the path of windlass-api; defaults to `::windlass::api` |
#[proc_macro_derive(Schema, attributes(schema, serde))]
pub fn derive_schema(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::schema(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Generates the apply configuration of a type: a struct with the suffix `Apply` whose fields are all in an `Option`. An
/// apply sends and owns exactly the fields that are set, including empty ones.
///
/// Derive it for a kind, in addition to [`macro@Resource`] or [`macro@CustomResource`], and for the structs and enums in
/// its fields. The configuration of a kind can be applied with every client. Each field has a setter of the same name. A
/// value of the type converts to a configuration that sets all fields.
///
/// The serde attributes `rename`, `rename_all`, `skip` and `flatten` are respected. Enums, structs without named fields,
/// types of Kubernetes and types of the standard library are set as a whole; items of lists and values of maps are
/// configurations.
///
/// | in `#[apply(…)]` | of | meaning |
/// |---|---|---|
/// | `whole` | types, fields | the value is set as a whole, with all its fields |
/// | `skip` | fields | the configuration has no such field |
/// | `name = "WebsiteFields"` | types | the name of the configuration; defaults to the name of the type with the suffix `Apply` |
/// | `derive(PartialEq, …)` | types | further derives of the configuration, besides `Clone`, `Debug`, `Default`, `Serialize` and `Deserialize` |
/// | `crate = path` | types | the path of windlass-api; defaults to that in `#[resource(…)]`, then to `::windlass::api` |
///
/// # What does not compile
///
/// A type with type parameters:
/// ```compile_fail
/// #[derive(windlass_derive::ApplyConfiguration)]
/// struct WebsiteSpec<T> {
///     size: T,
/// }
/// ```
/// Nor does a field whose type has no configuration: derive it, or add `#[apply(whole)]`.
#[proc_macro_derive(ApplyConfiguration, attributes(apply, resource, serde))]
pub fn derive_apply_configuration(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::apply_configuration(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Generates the view of a type: a struct with the suffix `View`, with an accessor for each field. It reads single fields of
/// an encoded object, such as one in a cache, without decoding the object.
///
/// Derive it for a kind, and for the structs and enums in its fields. An accessor returns the view of the field's type:
/// borrowed strings, numbers, other views, and views of lists and maps. An optional scalar is an `Option`; an absent struct,
/// list or map is empty. Serde's `default` and `alias` do not apply: an absent scalar is its empty value, and a member with
/// another name is not read. A flattened map has all members of the object, not only those without a field.
///
/// The serde attributes `rename`, `rename_all`, `skip` and `flatten` are respected. Enums, structs without named fields, and
/// types that serde reads through another type are decoded as a whole.
///
/// | in `#[view(…)]` | of | meaning |
/// |---|---|---|
/// | `decode` | types, fields | the value is decoded as a whole; the accessor returns an `Option` |
/// | `skip` | fields | the view has no such field |
/// | `name = "WebsiteFields"` | types | the name of the view; defaults to the name of the type with the suffix `View` |
/// | `crate = path` | types | the path of windlass-views; defaults to `::windlass::views` |
///
/// # What does not compile
///
/// A type with type parameters:
/// ```compile_fail
/// #[derive(windlass_derive::View)]
/// struct WebsiteSpec<T> {
///     size: T,
/// }
/// ```
/// Nor does a field whose type has no view: derive it, or add `#[view(decode)]`.
#[proc_macro_derive(View, attributes(view, serde))]
pub fn derive_view(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    model::view(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Declares permissions beside the code that needs them: on a function, a struct or any other item. Repeatable.
///
/// The permissions become a constant `RULES` beside the item, from which the manifests of roles are generated.
///
/// | in `#[rbac(…)]` | meaning |
/// |---|---|
/// | `groups = "apps,batch"` | the groups; `""` or `core` for the core group |
/// | `resources = "deployments,deployments/status"` | the plural names of the resources |
/// | `resource_names = "a,b"` | the names of the objects; all by default |
/// | `urls = "/metrics"` | non-resource URLs instead of resources |
/// | `verbs = "get,list,watch"` | the verbs |
/// | `namespace = "shop"` | a Role in this namespace instead of a ClusterRole |
/// | `role_name = "reader"` | another role than the program's default role |
/// | `constant = OTHER_RULES` | the name of the constant, if a module has several such items |
/// | `crate = path` | the path of windlass-api; defaults to `::windlass::api` |
#[proc_macro_attribute]
pub fn rbac(arguments: TokenStream, item: TokenStream) -> TokenStream {
    model::rbac(arguments.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The examples of README.md.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod tests {
    /// The tables above equal those of `docs/reference/attributes.md`.
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
