//! Traits for objects with metadata, and for kinds that are known at compile time.
//!
//! Every type with the traits of k8s-openapi has them. With the feature `kube`, every type with the `Resource` of
//! kube-rs has them instead. kube-rs implements its trait for the types of k8s-openapi, so the feature only adds types.

#[cfg(not(feature = "kube"))]
mod built_in;
#[cfg(feature = "kube")]
mod kube;

use std::{collections::BTreeMap, fmt::Debug, sync::LazyLock};

use k8s_openapi::{
    api::core::v1::ObjectReference,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{ApiResource, Content, ObjectRef, Scope, TypeMeta};

/// An object with metadata. Its kind may be known only at run time.
///
/// Implemented for every type with k8s-openapi's `Metadata`, for [`DynamicObject`](crate::DynamicObject) and for
/// [`PartialObject`](crate::PartialObject). With the feature `kube`, also for every type with the `Resource` of kube-rs
/// and a kind that is known at compile time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the type of a Kubernetes object",
    note = "the built-in kinds are in `windlass::k8s`; a type of your own becomes one with `#[derive(windlass::Resource)]`",
    note = "it also has to be `Serialize`, `Deserialize`, `Clone` and `Debug`"
)]
pub trait Object: Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static {
    /// The part of an object that the type holds. Requests ask for no more.
    const CONTENT: Content = Content::Object;

    /// Returns the object's metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Returns the object's metadata, mutably.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
}

/// An object whose kind is known at compile time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say of which kind it is",
    note = "a type of your own says so with `#[derive(windlass::Resource)]`, and is `Serialize`, `Deserialize`, `Clone` and `Debug`",
    note = "objects of kinds that are known only at run time are watched by `Watch::dynamic(resource)`"
)]
pub trait Resource: Object {
    /// Returns the group, version, kind, plural name and scope.
    fn api_resource() -> ApiResource;
}

/// Accessors for the metadata of every [`Object`].
pub trait ObjectExt: Object {
    /// Returns the name; empty if it is not set yet.
    fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace; `None` for cluster-scoped objects and if it is not set.
    fn namespace(&self) -> Option<&str> {
        self.metadata().namespace.as_deref()
    }

    /// Returns the UID; `None` before a server has stored the object.
    fn uid(&self) -> Option<&str> {
        self.metadata().uid.as_deref()
    }

    /// Returns the resource version; `None` before a server has stored the object.
    fn resource_version(&self) -> Option<&str> {
        self.metadata().resource_version.as_deref()
    }

    /// Returns the labels, possibly empty.
    fn labels(&self) -> &BTreeMap<String, String> {
        self.metadata().labels.as_ref().unwrap_or_else(|| empty())
    }

    /// Returns the annotations, possibly empty.
    fn annotations(&self) -> &BTreeMap<String, String> {
        self.metadata().annotations.as_ref().unwrap_or_else(|| empty())
    }

    /// Returns the labels, mutably.
    fn labels_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.metadata_mut().labels.get_or_insert_default()
    }

    /// Returns the annotations, mutably.
    fn annotations_mut(&mut self) -> &mut BTreeMap<String, String> {
        self.metadata_mut().annotations.get_or_insert_default()
    }

    /// Returns the owner references, possibly empty.
    fn owner_references(&self) -> &[OwnerReference] {
        self.metadata().owner_references.as_deref().unwrap_or_default()
    }

    /// Returns the owner reference of the object's controller.
    fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references().iter().find(|owner| owner.controller == Some(true))
    }

    /// Returns the finalizers, possibly empty.
    fn finalizers(&self) -> &[String] {
        self.metadata().finalizers.as_deref().unwrap_or_default()
    }

    /// Returns the object's key in caches and queues.
    fn object_ref(&self) -> ObjectRef<Self> {
        ObjectRef::new(self.name()).within(self.namespace().unwrap_or_default())
    }

    /// Reports whether the object has a deletion timestamp.
    fn is_deleting(&self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Reports whether `owner` is the object's controller. Compares UIDs: a recreated object of the same name is a
    /// different owner.
    fn is_controlled_by<O: Object>(&self, owner: &O) -> bool {
        owner.uid().is_some_and(|uid| self.controller().is_some_and(|reference| reference.uid == uid))
    }

    /// Returns an owner reference that names this object as the controller.
    fn controller_ref(&self) -> OwnerReference
    where
        Self: Resource,
    {
        let kind = Self::api_resource();
        OwnerReference {
            api_version: kind.api_version(),
            kind: kind.kind.into_owned(),
            name: self.name().to_owned(),
            uid: self.uid().unwrap_or_default().to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Returns an object reference to this object in its current version, for events and statuses.
    fn object_reference(&self) -> ObjectReference
    where
        Self: Resource,
    {
        reference_of(&TypeMeta::of(&Self::api_resource()), self.metadata())
    }

    /// Returns this object with `owner` as its controller, replacing any other controller. An object without a
    /// namespace gets the owner's.
    #[must_use]
    fn controlled_by<O: Resource>(mut self, owner: &O) -> Self {
        set_controller(self.metadata_mut(), owner);
        self
    }
}

/// Makes `owner` the controller of the object with this metadata, replacing any other controller. An object without a
/// namespace gets the owner's.
pub(crate) fn set_controller<O: Resource>(metadata: &mut ObjectMeta, owner: &O) {
    if metadata.namespace.is_none() {
        metadata.namespace = owner.namespace().map(str::to_owned);
    }
    let owners = metadata.owner_references.get_or_insert_default();
    owners.retain(|reference| reference.controller != Some(true) && Some(&*reference.uid) != owner.uid());
    owners.push(owner.controller_ref());
}

impl<K: Object> ObjectExt for K {}

/// The scopes in k8s-openapi that a top-level object can have.
#[diagnostic::on_unimplemented(message = "objects of scope `{Self}` cannot be addressed on their own")]
pub trait KnownScope {
    /// The scope as a value.
    const SCOPE: Scope;
}

impl KnownScope for k8s_openapi::NamespaceResourceScope {
    const SCOPE: Scope = Scope::Namespaced;
}

impl KnownScope for k8s_openapi::ClusterResourceScope {
    const SCOPE: Scope = Scope::Cluster;
}

pub(crate) fn reference_of(types: &TypeMeta, metadata: &ObjectMeta) -> ObjectReference {
    let ObjectMeta { name, namespace, uid, resource_version, .. } = metadata.clone();
    let (api_version, kind) = (Some(types.api_version.clone()), Some(types.kind.clone()));
    ObjectReference { api_version, kind, name, namespace, uid, resource_version, field_path: None }
}

fn empty() -> &'static BTreeMap<String, String> {
    static EMPTY: LazyLock<BTreeMap<String, String>> = LazyLock::new(BTreeMap::new);
    &EMPTY
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Pod},
    };

    use super::*;

    fn named<K: Object + Default>(name: &str, uid: &str) -> K {
        let mut object = K::default();
        object.metadata_mut().name = Some(name.to_owned());
        object.metadata_mut().uid = Some(uid.to_owned());
        object
    }

    #[test]
    fn built_in_types_know_their_resource() {
        assert_eq!(Deployment::api_resource().path(Some("a")), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!(Namespace::api_resource().scope, Scope::Cluster);
    }

    #[test]
    fn an_object_has_one_controller() {
        let mut owner: Deployment = named("d", "1");
        owner.metadata.namespace = Some("n".to_owned());
        let other: Deployment = named("e", "2");
        let pod = named::<Pod>("p", "3").controlled_by(&other).controlled_by(&owner);
        assert!(pod.is_controlled_by(&owner) && !pod.is_controlled_by(&other));
        assert_eq!(pod.owner_references().len(), 1);
        assert_eq!(pod.object_ref().to_string(), "n/p");
    }

    #[test]
    fn a_reference_names_kind_and_object() {
        let reference = named::<Deployment>("d", "1").object_reference();
        assert_eq!(
            (reference.api_version.as_deref(), reference.kind.as_deref()),
            (Some("apps/v1"), Some("Deployment"))
        );
        assert_eq!((reference.name.as_deref(), reference.uid.as_deref()), (Some("d"), Some("1")));
        let nameless = crate::DynamicObject::default();
        assert_eq!(nameless.object_reference(), None);
    }
}
