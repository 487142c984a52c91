//! The verbs, once: over a resource and the type that its objects are read as.

use std::fmt;

use bytes::Bytes;
use windlass_api::{
    ApiResource, Object, ObjectExt as _, ObjectKey, ObjectRef, Patch, Resource,
    k8s_openapi::api::autoscaling::v1::Scale,
};

use crate::{
    Client,
    request::{Content, Target},
    verbs::{Apply, Create, Delete, DeleteCollection, Get, GetOpt, List, PatchOne, Update, Watch},
};

/// The objects of one resource, read as `K`.
///
/// [`Client::resources`] gives it for a kind that is known at compile time, [`Client::dynamic`] and
/// [`Client::metadata`] for any other.
pub struct Resources<K> {
    pub(crate) client: Client,
    pub(crate) resource: ApiResource,
    pub(crate) codec: Codec<K>,
}

/// How objects of a resource become bytes and come back, where serde alone does not do.
pub(crate) struct Codec<K> {
    /// What is asked of the server.
    pub(crate) content: Content,
    pub(crate) encode: fn(&ApiResource, &K) -> serde_json::Result<Bytes>,
    /// Adds what the bytes leave out.
    pub(crate) complete: fn(&ApiResource, &mut K),
}

impl<K: Object> Codec<K> {
    /// The bytes say it all.
    pub(crate) const fn plain(content: Content) -> Self {
        Self { content, encode: |_, object| serde_json::to_vec(object).map(Bytes::from), complete: |_, _| {} }
    }
}

impl<K: Resource> Resources<K> {
    pub(crate) fn typed(client: Client) -> Self {
        Self { client, resource: K::api_resource(), codec: Codec::plain(Content::Object) }
    }
}

impl<K: Object> Resources<K> {
    /// Which resource.
    #[must_use]
    pub const fn api_resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Reads an object.
    pub fn get(&self, key: impl Into<ObjectRef<K>>) -> Get<K> {
        Get::new(self, self.target_of(key.into().key()))
    }

    /// Reads an object that may not be there.
    pub fn get_opt(&self, key: impl Into<ObjectRef<K>>) -> GetOpt<K> {
        GetOpt::new(self.get(key))
    }

    /// Lists objects, of all namespaces unless one is given.
    pub fn list(&self) -> List<K> {
        List::new(self, self.target())
    }

    /// Watches objects, of all namespaces unless one is given.
    pub fn watch(&self) -> Watch<K> {
        Watch::new(self, self.target())
    }

    /// Creates an object, in the namespace that it names.
    pub fn create(&self, object: &K) -> Create<K> {
        let target = self.target().within(object.namespace().unwrap_or_default());
        Create::new(self, target, object)
    }

    /// Replaces an object. With a resourceVersion in it, only if that is still its version.
    pub fn update(&self, object: &K) -> Update<K> {
        Update::new(self, self.target_of(object.object_ref().key()), object)
    }

    /// Replaces the status of an object, and nothing else of it.
    pub fn update_status(&self, object: &K) -> Update<K> {
        self.update(object).subresource("status")
    }

    /// Changes an object.
    pub fn patch(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<K> {
        PatchOne::new(self, self.target_of(key.into().key()), patch)
    }

    /// Server-side apply: makes the object have the fields that `object` has, and own them.
    pub fn apply(&self, object: &K) -> Apply<K> {
        Apply::new(self, self.target_of(object.object_ref().key()), object)
    }

    /// Deletes an object.
    pub fn delete(&self, key: impl Into<ObjectRef<K>>) -> Delete<K> {
        Delete::new(self, self.target_of(key.into().key()))
    }

    /// Deletes the objects of one namespace: of the default one, unless another is given.
    pub fn delete_collection(&self) -> DeleteCollection<K> {
        DeleteCollection::new(self, self.target())
    }

    /// Reads the scale of an object.
    pub fn get_scale(&self, key: impl Into<ObjectRef<K>>) -> Get<Scale> {
        Get::new(&self.as_scale(), self.target_of(key.into().key()).subresource("scale"))
    }

    /// Replaces the scale of an object; `scale` names it.
    pub fn update_scale(&self, scale: &Scale) -> Update<Scale> {
        Update::new(&self.as_scale(), self.target_of(scale.object_ref().key()).subresource("scale"), scale)
    }

    /// Changes the scale of an object.
    pub fn patch_scale(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<Scale> {
        PatchOne::new(&self.as_scale(), self.target_of(key.into().key()).subresource("scale"), patch)
    }

    fn target(&self) -> Target {
        Target::new(self.resource.clone())
    }

    fn target_of(&self, key: &ObjectKey) -> Target {
        self.target().within(key.namespace.as_deref().unwrap_or_default()).named(&*key.name)
    }

    /// The same resource, its objects read as what their `scale` subresource shows.
    fn as_scale(&self) -> Resources<Scale> {
        Resources { client: self.client.clone(), resource: self.resource.clone(), codec: Codec::plain(Content::Object) }
    }
}

// By hand, because `K` need not be any of these.
impl<K> Clone for Resources<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), resource: self.resource.clone(), codec: self.codec }
    }
}

impl<K> fmt::Debug for Resources<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resources({})", self.resource.gvr())
    }
}

impl<K> Clone for Codec<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Codec<K> {}
