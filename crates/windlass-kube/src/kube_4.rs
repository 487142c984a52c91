//! Types of kube 4, such as those of gateway-api 0.22, in Windlass.
//!
//! Such a type contains the metadata of another version of k8s-openapi. It cannot be a Windlass resource itself, because
//! [`Object::metadata`] returns a reference to the metadata of the current version, and because Rust permits one
//! implementation for all types of kube-rs only, which is that for kube 5. Types of kube 5 need no wrapper.
//!
//! Write `Compat<HttpRoute>` instead of `HttpRoute`, or declare an alias per type:
//!
//! ```
//! use windlass_kube::kube_4::Compat;
//!
//! type HttpRoute = Compat<gateway_api::httproutes::HttpRoute>;
//!
//! let controller = windlass_runtime::Controller::<HttpRoute>::new();
//! # drop(controller);
//! ```

use std::ops::{Deref, DerefMut};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core_4::{ClusterResourceScope, CustomResourceExt, NamespaceResourceScope};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
    ser::Error as _,
};
use serde_json::Value;
use windlass_api::{ApiResource, GroupVersionKind, Object, Resource, Scope, crd::CustomResource};

/// An object of a kube 4 type with the metadata of the current k8s-openapi. Dereferences to the object.
///
/// The metadata of Windlass ([`Object::metadata`]) is the one that is written. The field `metadata` of the inner object
/// has the state of its last decoding; changes to it are not written.
///
/// Objects are decoded through a tree of values, which takes about twice as long as for a type of the current version.
#[derive(Clone, Debug, PartialEq)]
pub struct Compat<K> {
    metadata: ObjectMeta,
    object: K,
}

impl<K: Default> Default for Compat<K> {
    fn default() -> Self {
        Self { metadata: ObjectMeta::default(), object: K::default() }
    }
}

/// The scopes of a kind that is known at compile time.
pub trait KnownScope {
    /// The scope as a value.
    const SCOPE: Scope;
}

impl KnownScope for NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl KnownScope for ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}

impl<K: kube_core_4::Resource<DynamicType = ()>> Compat<K> {
    /// Wraps an object. Its metadata is converted.
    ///
    /// # Errors
    /// Returns an error if the metadata cannot be converted.
    pub fn new(object: K) -> Result<Self, serde_json::Error> {
        let metadata = serde_json::from_value(serde_json::to_value(object.meta())?)?;
        Ok(Self { metadata, object })
    }
}

impl<K> Compat<K> {
    /// Returns the inner object, for functions that take a type of kube 4.
    #[must_use]
    pub fn into_inner(self) -> K {
        self.object
    }
}

impl<K> Deref for Compat<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

impl<K> DerefMut for Compat<K> {
    fn deref_mut(&mut self) -> &mut K {
        &mut self.object
    }
}

impl<K: Serialize> Serialize for Compat<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(&self.object).map_err(S::Error::custom)?;
        let metadata = serde_json::to_value(&self.metadata).map_err(S::Error::custom)?;
        let fields = value.as_object_mut().ok_or_else(|| S::Error::custom("an object is not a JSON object"))?;
        fields.insert("metadata".to_owned(), metadata);
        value.serialize(serializer)
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Compat<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let metadata = value.get("metadata").map(ObjectMeta::deserialize).transpose().map_err(D::Error::custom)?;
        let object = serde_json::from_value(value).map_err(D::Error::custom)?;
        Ok(Self { metadata: metadata.unwrap_or_default(), object })
    }
}

impl<K> Object for Compat<K>
where
    K: Serialize + DeserializeOwned + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K> Resource for Compat<K>
where
    K: kube_core_4::Resource<DynamicType = ()>,
    K::Scope: KnownScope,
    Self: Object,
{
    fn api_resource() -> ApiResource {
        let kind = GroupVersionKind::new(K::group(&()), K::version(&()), K::kind(&()));
        let resource = ApiResource::namespaced(kind, K::plural(&()));
        match <K::Scope as KnownScope>::SCOPE {
            Scope::Namespaced => resource,
            Scope::Cluster => resource.cluster_scoped(),
        }
    }
}

impl<K: CustomResourceExt> CustomResource for Compat<K>
where
    Self: Resource,
{
    /// # Panics
    /// Panics if the definition has a field that the current k8s-openapi does not know.
    fn declared() -> CustomResourceDefinition {
        let definition = serde_json::to_value(K::crd()).and_then(serde_json::from_value);
        definition.expect("definitions of both versions of k8s-openapi are those of apiextensions.k8s.io/v1")
    }
}
