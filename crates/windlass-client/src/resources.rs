//! The implementation of the verbs, for a resource and the type that its objects are decoded into.

use std::fmt;

use bytes::Bytes;
use memchr::memmem;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;
use windlass_api::{
    ApiResource, Content, Object, ObjectExt as _, ObjectKey, ObjectRef, Patch, Resource,
    k8s_openapi::api::{authentication::v1::TokenRequest, autoscaling::v1::Scale},
};

use crate::{
    Client,
    request::Target,
    verbs::{Apply, Create, Delete, DeleteCollection, Evict, Get, GetOpt, List, PatchOne, Submit, Update, Watch},
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

/// The encoding and decoding of a resource's objects, for kinds for which serde alone does not suffice.
pub(crate) struct Codec<K> {
    /// The requested content: whole objects or their metadata.
    pub(crate) content: Content,
    pub(crate) encode: fn(&ApiResource, &K) -> serde_json::Result<Bytes>,
    /// Adds the fields that the encoded form omits.
    pub(crate) complete: fn(&ApiResource, &mut K),
}

impl<K: Object> Codec<K> {
    /// The codec of objects whose encoded form is complete.
    pub(crate) const fn plain(content: Content) -> Self {
        Self { content, encode: |_, object| serde_json::to_vec(object).map(Bytes::from), complete: |_, _| {} }
    }
}

impl<K: Resource> Resources<K> {
    pub(crate) fn typed(client: Client) -> Self {
        let codec = Codec { encode: encode_typed, ..Codec::plain(Content::Object) };
        Self { client, resource: K::api_resource(), codec }
    }
}

/// The size of most encoded objects, in bytes; few are larger.
const USUAL_SIZE: usize = 1024;

/// Encodes an object with `apiVersion` and `kind`. Built-in types write both themselves; custom types may lack them.
fn encode_typed<K: Resource>(resource: &ApiResource, object: &K) -> serde_json::Result<Bytes> {
    // Reserve room for both in front of the object, so that most objects are not moved afterwards.
    let mut bytes = Vec::with_capacity(USUAL_SIZE);
    bytes.extend_from_slice(br#"{"apiVersion":"#);
    serde_json::to_writer(&mut bytes, &resource.api_version())?;
    let version_ends = bytes.len();
    bytes.extend_from_slice(br#","kind":"#);
    serde_json::to_writer(&mut bytes, &resource.kind)?;
    let head_ends = bytes.len();
    serde_json::to_writer(&mut bytes, object)?;

    let own = &bytes[head_ends..];
    // A built-in type starts with `apiVersion` and has both fields.
    if own.starts_with(br#"{"apiVersion":"#) {
        return Ok(Bytes::from(bytes).slice(head_ends..));
    }
    #[derive(Deserialize)]
    struct Types {
        #[serde(rename = "apiVersion")]
        api_version: Option<IgnoredAny>,
        kind: Option<IgnoredAny>,
    }
    let mentions = |key: &[u8]| memmem::find(own, key).is_some();
    // Most objects without their own `apiVersion` and `kind` contain no nested ones either.
    let types = if mentions(br#""apiVersion":"#) || mentions(br#""kind":"#) {
        serde_json::from_slice(own)?
    } else {
        Types { api_version: None, kind: None }
    };
    // The object has at least `metadata`, so a comma after the header is valid JSON.
    bytes[head_ends] = b',';
    match (types.api_version, types.kind) {
        (None, None) => {}
        (None, Some(_)) => drop(bytes.drain(version_ends..head_ends)),
        (Some(_), None) => drop(bytes.drain(1..=version_ends)),
        (Some(_), Some(_)) => drop(bytes.drain(1..=head_ends)),
    }
    Ok(bytes.into())
}

impl<K: Object> Resources<K> {
    /// Returns the resource.
    #[must_use]
    pub const fn api_resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Reads an object.
    pub fn get(&self, key: impl Into<ObjectRef<K>>) -> Get<K> {
        Get::new(self, self.target_of(key.into().key()))
    }

    /// Reads an object. Returns `None` if it does not exist.
    pub fn get_opt(&self, key: impl Into<ObjectRef<K>>) -> GetOpt<K> {
        GetOpt::new(self.get(key))
    }

    /// Lists objects, by default of all namespaces.
    pub fn list(&self) -> List<K> {
        List::new(self, self.target())
    }

    /// Watches objects, by default of all namespaces.
    pub fn watch(&self) -> Watch<K> {
        Watch::new(self, self.target())
    }

    /// Creates an object in the namespace that it names.
    pub fn create(&self, object: &K) -> Create<K> {
        let target = self.target().within(object.namespace().unwrap_or_default());
        Create::new(self, target, object)
    }

    /// Replaces an object. If the object has a `resourceVersion`, the update fails with a conflict unless this is the
    /// current version.
    pub fn update(&self, object: &K) -> Update<K> {
        Update::new(self, self.target_of(object.object_ref().key()), object)
    }

    /// Replaces the status of an object and leaves its other fields unchanged.
    pub fn update_status(&self, object: &K) -> Update<K> {
        self.update(object).subresource("status")
    }

    /// Patches an object.
    pub fn patch(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<K> {
        PatchOne::new(self, self.target_of(key.into().key()), patch)
    }

    /// Applies an object (server-side apply): sets the fields that `object` contains and takes ownership of them.
    pub fn apply(&self, object: &K) -> Apply<K> {
        Apply::new(self, self.target_of(object.object_ref().key()), object)
    }

    /// Deletes an object.
    pub fn delete(&self, key: impl Into<ObjectRef<K>>) -> Delete<K> {
        Delete::new(self, self.target_of(key.into().key()))
    }

    /// Deletes the objects of one namespace, by default of the client's default namespace.
    pub fn delete_collection(&self) -> DeleteCollection<K> {
        DeleteCollection::new(self, self.target())
    }

    /// Reads the scale of an object.
    pub fn get_scale(&self, key: impl Into<ObjectRef<K>>) -> Get<Scale> {
        Get::new(&self.cast(), self.target_of(key.into().key()).subresource("scale"))
    }

    /// Replaces the scale of an object. `scale` contains the object's name and namespace.
    pub fn update_scale(&self, scale: &Scale) -> Update<Scale> {
        Update::new(&self.cast(), self.target_of(scale.object_ref().key()).subresource("scale"), scale)
    }

    /// Patches the scale of an object.
    pub fn patch_scale(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<Scale> {
        PatchOne::new(&self.cast(), self.target_of(key.into().key()).subresource("scale"), patch)
    }

    /// Applies the scale of an object (server-side apply). `scale` contains the object's name and namespace.
    pub fn apply_scale(&self, scale: &Scale) -> Apply<Scale> {
        Apply::new(&self.cast(), self.target_of(scale.object_ref().key()).subresource("scale"), scale)
    }

    /// Posts an object that is not stored. The response is a `Status` instead of an object.
    pub(crate) fn submit(&self, object: &K) -> Submit {
        let target = self.target().within(object.namespace().unwrap_or_default());
        Submit::new(&self.cast(), target, serde_json::to_value(object).unwrap_or_default())
    }

    // === Verbs of pods and service accounts, for any type that decodes them ===

    /// Evicts a pod: deletes it if its disruption budget allows.
    pub fn evict(&self, pod: impl Into<ObjectRef<K>>) -> Evict {
        Evict::new(&self.cast(), self.target_of(pod.into().key()).subresource("eviction"))
    }

    /// Binds a pod to a node.
    pub fn bind(&self, pod: impl Into<ObjectRef<K>>, node: &str) -> Submit {
        let target = self.target_of(pod.into().key()).subresource("binding");
        let to = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
        let body = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": target.name }, "target": to });
        Submit::new(&self.cast(), target, body)
    }

    /// Issues a token for a service account.
    pub fn create_token(&self, account: impl Into<ObjectRef<K>>, request: &TokenRequest) -> Create<TokenRequest> {
        let target = self.target_of(account.into().key()).subresource("token");
        Create::new(&self.cast(), target, request)
    }

    fn target(&self) -> Target {
        Target::new(self.resource.clone())
    }

    fn target_of(&self, key: &ObjectKey) -> Target {
        self.target().within(key.namespace.as_deref().unwrap_or_default()).named(&*key.name)
    }

    /// Returns the same resource with objects decoded as the type of a subresource.
    fn cast<L: Object>(&self) -> Resources<L> {
        Resources { client: self.client.clone(), resource: self.resource.clone(), codec: Codec::plain(Content::Object) }
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

impl<K> Clone for Codec<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Codec<K> {}
