//! `#[derive(Resource)]`: what a custom kind is called, and where its objects live.
//!
//! The derive emits k8s-openapi's `Resource` and `Metadata`, no more: that makes the type one of Windlass' resources (every
//! typed verb, cache and controller takes it), and one of kube-rs' as well. Schemas are not its business.

mod expand;
mod identity;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

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
/// | `k8s_openapi = path` | `::windlass::api::k8s_openapi` | where k8s-openapi is to be found |
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
    match identity::Identity::read(&input) {
        Ok(identity) => expand::resource(&input.ident, &identity).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
