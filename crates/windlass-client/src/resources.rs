//! The implementation of the verbs, for a resource and the type that its objects are decoded into.

use std::fmt;

use serde_json::json;
use windlass_api::{
    ApiResource, ApplyConfiguration, Content, Object, ObjectExt as _, ObjectKey, ObjectRef, Patch, Resource,
    apply::Body,
    k8s_openapi::api::{authentication::v1::TokenRequest, autoscaling::v1::Scale},
};

use crate::{
    Client,
    codec::Codec,
    request::Target,
    verbs::{Apply, Call, Create, Delete, DeleteCollection, Evict, Get, GetOpt, List, PatchOne, Submit, Update, Watch},
};

/// The objects of one resource, decoded as `K`.
///
/// [`Client::resources`] returns it for a kind that is known at compile time. [`Client::dynamic`] and
/// [`Client::metadata`] return it for any other resource.
pub struct Resources<K> {
    pub(crate) client: Client,
    pub(crate) resource: ApiResource,
    pub(crate) codec: Codec<K>,
}

impl Client {
    /// Returns the resource of a kind, with all verbs and further ways to name objects.
    pub fn resources<K: Resource>(&self) -> Resources<K> {
        Resources::typed(self.clone())
    }

    /// Reads an object.
    pub fn get<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Get<K> {
        self.resources().get(key)
    }

    /// Reads an object. Returns `None` if it does not exist.
    pub fn get_opt<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> GetOpt<K> {
        self.resources().get_opt(key)
    }

    /// Lists objects, by default of all namespaces.
    pub fn list<K: Resource>(&self) -> List<K> {
        self.resources().list()
    }

    /// Watches objects, by default of all namespaces.
    pub fn watch<K: Resource>(&self) -> Watch<K> {
        self.resources().watch()
    }

    /// Creates an object in the namespace that it names.
    pub fn create<K: Resource>(&self, object: &K) -> Create<K> {
        self.resources().create(object)
    }

    /// Replaces an object. If the object has a `resourceVersion`, the update fails with a conflict unless this is the
    /// current version.
    pub fn update<K: Resource>(&self, object: &K) -> Update<K> {
        self.resources().update(object)
    }

    /// Replaces the status of an object and leaves its other fields unchanged.
    pub fn update_status<K: Resource>(&self, object: &K) -> Update<K> {
        self.resources().update_status(object)
    }

    /// Patches an object.
    pub fn patch<K: Resource>(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<K> {
        self.resources().patch(key, patch)
    }

    /// Applies an object or an apply configuration (server-side apply): sets the fields that it contains and takes
    /// ownership of them. Required fields of a built-in kind that are not set are not sent, see
    /// [`windlass_api::apply`].
    pub fn apply<C>(&self, configuration: &C) -> Apply<C::Object>
    where
        C: ApplyConfiguration<Object: Resource>,
    {
        self.resources().apply(configuration)
    }

    /// Deletes an object.
    pub fn delete<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Delete<K> {
        self.resources().delete(key)
    }

    /// Deletes the objects of one namespace, by default of the client's default namespace.
    pub fn delete_collection<K: Resource>(&self) -> DeleteCollection<K> {
        self.resources().delete_collection()
    }

    /// Reads the scale of an object.
    pub fn get_scale<K: Resource>(&self, key: impl Into<ObjectRef<K>>) -> Get<Scale> {
        self.resources::<K>().get_scale(key)
    }

    /// Replaces the scale of an object. `scale` contains the object's name and namespace.
    pub fn update_scale<K: Resource>(&self, scale: &Scale) -> Update<Scale> {
        self.resources::<K>().update_scale(scale)
    }

    /// Patches the scale of an object.
    pub fn patch_scale<K: Resource>(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<Scale> {
        self.resources::<K>().patch_scale(key, patch)
    }
}

impl<K: Resource> Resources<K> {
    fn typed(client: Client) -> Self {
        Self { client, resource: K::api_resource(), codec: Codec::typed() }
    }
}

impl<K: Object> Resources<K> {
    /// Returns the resource.
    #[must_use]
    pub const fn api_resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Reads an object.
    pub fn get(&self, key: impl Into<ObjectRef<K>>) -> Get<K> {
        Get::new(self.call_of(key.into().key()))
    }

    /// Reads an object. Returns `None` if it does not exist.
    pub fn get_opt(&self, key: impl Into<ObjectRef<K>>) -> GetOpt<K> {
        GetOpt::new(self.get(key))
    }

    /// Lists objects, by default of all namespaces.
    pub fn list(&self) -> List<K> {
        List::new(self.call(self.target()))
    }

    /// Watches objects, by default of all namespaces.
    pub fn watch(&self) -> Watch<K> {
        Watch::new(self.call(self.target()))
    }

    /// Creates an object in the namespace that it names.
    pub fn create(&self, object: &K) -> Create<K> {
        let target = self.target().within(object.namespace().unwrap_or_default());
        Create::new(self.call(target), object)
    }

    /// Replaces an object. If the object has a `resourceVersion`, the update fails with a conflict unless this is the
    /// current version.
    pub fn update(&self, object: &K) -> Update<K> {
        Update::new(self.call_of(object.object_ref().key()), object)
    }

    /// Replaces the status of an object and leaves its other fields unchanged.
    pub fn update_status(&self, object: &K) -> Update<K> {
        self.update(object).subresource("status")
    }

    /// Patches an object.
    pub fn patch(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<K> {
        PatchOne::new(self.call_of(key.into().key()), patch)
    }

    /// Applies an object or an apply configuration (server-side apply), see [`Client::apply`]. Objects of resources that
    /// are known only at run time are sent as they are.
    pub fn apply<C: ApplyConfiguration<Object = K>>(&self, configuration: &C) -> Apply<K> {
        Apply::new(self.call(self.target()), configuration.body())
    }

    /// Deletes an object.
    pub fn delete(&self, key: impl Into<ObjectRef<K>>) -> Delete<K> {
        Delete::new(self.call_of(key.into().key()))
    }

    /// Deletes the objects of one namespace, by default of the client's default namespace.
    pub fn delete_collection(&self) -> DeleteCollection<K> {
        DeleteCollection::new(self.call(self.target()))
    }

    /// Reads the scale of an object.
    pub fn get_scale(&self, key: impl Into<ObjectRef<K>>) -> Get<Scale> {
        Get::new(self.subresource(key.into().key(), "scale"))
    }

    /// Replaces the scale of an object. `scale` contains the object's name and namespace.
    pub fn update_scale(&self, scale: &Scale) -> Update<Scale> {
        Update::new(self.subresource(scale.object_ref().key(), "scale"), scale)
    }

    /// Patches the scale of an object.
    pub fn patch_scale(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<Scale> {
        PatchOne::new(self.subresource(key.into().key(), "scale"), patch)
    }

    /// Applies the scale of an object (server-side apply). `scale` contains the object's name and namespace.
    pub fn apply_scale(&self, scale: &Scale) -> Apply<Scale> {
        Apply::new(self.call_as(self.target().subresource("scale")), Body::Object(scale))
    }

    /// Posts an object that is not stored. The response is a `Status` instead of an object.
    pub(crate) fn submit(&self, object: &K) -> Submit {
        let target = self.target().within(object.namespace().unwrap_or_default());
        Submit::new(self.call_as(target), serde_json::to_value(object).unwrap_or_default())
    }

    // === Verbs of pods and service accounts, for any type that decodes them ===

    /// Evicts a pod: deletes it if its disruption budget allows.
    pub fn evict(&self, pod: impl Into<ObjectRef<K>>) -> Evict {
        Evict::new(self.subresource(pod.into().key(), "eviction"))
    }

    /// Binds a pod to a node.
    pub fn bind(&self, pod: impl Into<ObjectRef<K>>, node: &str) -> Submit {
        let target = self.target_of(pod.into().key()).subresource("binding");
        let to = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
        let body = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": target.name }, "target": to });
        Submit::new(self.call_as(target), body)
    }

    /// Issues a token for a service account.
    pub fn create_token(&self, account: impl Into<ObjectRef<K>>, request: &TokenRequest) -> Create<TokenRequest> {
        let target = self.target_of(account.into().key()).subresource("token");
        Create::new(self.call_as(target), request)
    }

    fn target(&self) -> Target {
        Target::new(self.resource.clone())
    }

    fn target_of(&self, key: &ObjectKey) -> Target {
        self.target().within(key.namespace.as_deref().unwrap_or_default()).named(&*key.name)
    }

    fn call_of(&self, key: &ObjectKey) -> Call<K> {
        self.call(self.target_of(key))
    }

    fn call(&self, target: Target) -> Call<K> {
        Call::new(self.client.clone(), target, self.codec)
    }

    /// Returns a call on a subresource, whose objects have another type.
    fn subresource<L: Object>(&self, key: &ObjectKey, subresource: &'static str) -> Call<L> {
        self.call_as(self.target_of(key).subresource(subresource))
    }

    /// Returns a call whose response is decoded as another type.
    fn call_as<L: Object>(&self, target: Target) -> Call<L> {
        Call::new(self.client.clone(), target, Codec::plain(Content::Object))
    }
}

// Implemented by hand, because a derive would require `K: Clone`.
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
