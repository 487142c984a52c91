//! The bodies of server-side applies. An apply owns the fields that its body contains.
//!
//! Two sorts of values can be applied ([`ApplyConfiguration`]):
//!
//! - **Objects.** Their types have required fields, which are always encoded: in a Deployment, `spec.selector` and
//!   `spec.template`. The client omits those that are not set, by the rule below.
//! - **Apply configurations** of `#[derive(ApplyConfiguration)]`, whose fields are all optional. Exactly the fields that
//!   are set are sent, including empty ones.
//!
//! # When a field of an object is not set
//!
//! A field is not set if it is not an `Option` in the type, and equals the default of its type: an empty string, list or
//! map, zero, `false`, or a struct of which no field is set. A field in an `Option` is set if it is `Some`, whatever the
//! value. A program sets a struct without a default, such as a `Condition`, as a whole.
//!
//! Three parts are sent as they are: keys of list items, items of lists without keys, and the fields of atomic structs
//! that are not at their default. The server records one owner for all of such a value.
//!
//! - For the built-in kinds of Kubernetes 1.36, this happens by default. A server reads an absent required field as its
//!   default, so the object is the same, and only its ownership differs: a field at its default remains as another
//!   manager set it.
//! - For custom kinds, it does not happen by default, because a server rejects an object without a required field, so
//!   that a required `replicas: 0` could not be applied. To apply parts of a custom kind, use an apply configuration, or
//!   [`omit_custom_defaults`].
//! - Objects of kinds known at run time are sent as they are.

mod built_in;
mod custom;
mod field;
mod omit;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use thiserror::Error;

pub use self::field::ApplyField;
use self::{built_in::BuiltIn, custom::Custom};
use crate::{GroupVersionKind, Object, Resource, crd::CustomResource, managed_fields::Manager};

/// A value that can be applied: an object, or the type that `#[derive(ApplyConfiguration)]` generates for a kind.
///
/// Implemented for every [`Object`], which is its own configuration.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be applied",
    note = "objects can be applied, and the types that `#[derive(ApplyConfiguration)]` generates for a kind"
)]
pub trait ApplyConfiguration: Sized {
    /// The type of the applied object, which the server returns.
    type Object: Object;

    /// Returns the body of an apply.
    fn body(&self) -> Body<'_, Self::Object>;

    /// Returns the fields that a manager has applied to an object, to change and apply them again. Returns `None` if the
    /// manager has applied nothing.
    ///
    /// To extract what it has applied to the status, use [`Manager::subresource`]. An object of a cache has no
    /// managedFields: read it with the live client.
    ///
    /// ```
    /// use windlass_api::{ApplyConfiguration as _, k8s_openapi::api::apps::v1::Deployment, managed_fields::Manager};
    ///
    /// let live: Deployment = serde_json::from_str(
    ///     r#"{"metadata": {"name": "web", "managedFields": [
    ///         {"manager": "me", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
    ///         "spec": {"replicas": 3, "paused": true, "selector": {"matchLabels": {"app": "web"}}}}"#)?;
    /// let mine = Deployment::extract(&live, Manager::new("me"))?.unwrap();
    /// let spec = mine.spec.unwrap();
    /// assert_eq!((spec.replicas, spec.paused, spec.selector.match_labels), (Some(3), None, None));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    fn extract(object: &Self::Object, manager: Manager<'_>) -> Result<Option<Self>, ExtractError>
    where
        Self: DeserializeOwned,
    {
        if object.metadata().managed_fields.is_none() {
            return Err(ExtractError::NoManagedFields);
        }
        let part = manager.extract_value(object)?;
        Ok(part.map(serde_json::from_value).transpose()?)
    }
}

/// The body of an apply.
#[derive(Debug)]
pub enum Body<'b, K> {
    /// An object, of which required fields at their default may be omitted.
    Object(&'b K),
    /// The fields of an apply configuration, without `apiVersion` and `kind`.
    Fields(serde_json::Result<Map<String, Value>>),
}

/// The error of [`ApplyConfiguration::extract`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// The object contains no managedFields, so the owners of its fields are unknown.
    #[error("the object has no managedFields; objects of caches have none, so read it with the live client")]
    NoManagedFields,
    /// The type cannot hold the fields that the manager owns. Usually, it has a required field that another manager owns.
    #[error("the applied fields do not fit the type")]
    Type(#[from] serde_json::Error),
}

impl<K: Object> ApplyConfiguration for K {
    type Object = Self;

    fn body(&self) -> Body<'_, Self> {
        Body::Object(self)
    }
}

impl<'b, K> Body<'b, K> {
    /// Encodes an apply configuration as a body.
    #[must_use]
    pub fn of_fields<C: Serialize>(configuration: &'b C) -> Self {
        Self::Fields(serde_json::to_value(configuration).and_then(serde_json::from_value))
    }
}

/// Makes `owner` the controller of the object with this metadata, for generated configurations. See
/// [`ObjectExt::controlled_by`](crate::ObjectExt::controlled_by).
pub fn set_controller<O: Resource>(metadata: &mut ObjectMeta, owner: &O) {
    crate::object::set_controller(metadata, owner);
}

/// Removes the fields that are [not set](self#when-a-field-of-an-object-is-not-set) from an encoded object of a built-in
/// kind. Leaves objects of other kinds unchanged.
///
/// ```
/// use windlass_api::{GroupVersionKind, apply::omit_defaults, k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec}};
///
/// let scaled = Deployment { spec: Some(DeploymentSpec { replicas: Some(0), ..Default::default() }), ..Default::default() };
/// let mut scaled = serde_json::to_value(&scaled)?;
/// assert!(scaled["spec"]["template"].is_object());
/// omit_defaults(&GroupVersionKind::new("apps", "v1", "Deployment"), &mut scaled);
/// assert_eq!(scaled["spec"], serde_json::json!({"replicas": 0}));
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn omit_defaults(kind: &GroupVersionKind, object: &mut Value) {
    if let (Some(fields), Some(shape)) = (object.as_object_mut(), BuiltIn::of(kind)) {
        omit::omit_defaults(fields, shape);
    }
}

/// Removes the fields that are [not set](self#when-a-field-of-an-object-is-not-set) from an encoded object of a custom
/// kind: the fields that its schema requires and that are at the default of their type, and nulls.
pub fn omit_custom_defaults<K: CustomResource>(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        omit::omit_defaults(fields, Custom(&custom::schema_of::<K>()));
    }
}

#[cfg(test)]
mod tests;
