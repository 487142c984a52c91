//! The verbs, once: over a resource and the type that its objects are read as.

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
        let codec = Codec { encode: encode_typed, ..Codec::plain(Content::Object) };
        Self { client, resource: K::api_resource(), codec }
    }
}

/// What few objects are larger than, in bytes.
const USUAL_SIZE: usize = 1024;

/// The object with its apiVersion and kind, which built-in types write by themselves, and custom ones need not hold.
fn encode_typed<K: Resource>(resource: &ApiResource, object: &K) -> serde_json::Result<Bytes> {
    // Room for both goes before the object, which most need not be moved for then.
    let mut bytes = Vec::with_capacity(USUAL_SIZE);
    bytes.extend_from_slice(br#"{"apiVersion":"#);
    serde_json::to_writer(&mut bytes, &resource.api_version())?;
    let version_ends = bytes.len();
    bytes.extend_from_slice(br#","kind":"#);
    serde_json::to_writer(&mut bytes, &resource.kind)?;
    let head_ends = bytes.len();
    serde_json::to_writer(&mut bytes, object)?;

    let own = &bytes[head_ends..];
    // So begins what a built-in type writes, and it has both.
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
    // Most objects that do not hold their types do not hold those of others either.
    let types = if mentions(br#""apiVersion":"#) || mentions(br#""kind":"#) {
        serde_json::from_slice(own)?
    } else {
        Types { api_version: None, kind: None }
    };
    // There is metadata behind the object's brace, so that a comma is right.
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
        Get::new(&self.cast(), self.target_of(key.into().key()).subresource("scale"))
    }

    /// Replaces the scale of an object; `scale` names it.
    pub fn update_scale(&self, scale: &Scale) -> Update<Scale> {
        Update::new(&self.cast(), self.target_of(scale.object_ref().key()).subresource("scale"), scale)
    }

    /// Changes the scale of an object.
    pub fn patch_scale(&self, key: impl Into<ObjectRef<K>>, patch: Patch) -> PatchOne<Scale> {
        PatchOne::new(&self.cast(), self.target_of(key.into().key()).subresource("scale"), patch)
    }

    /// Server-side apply of the scale of an object; `scale` names it.
    pub fn apply_scale(&self, scale: &Scale) -> Apply<Scale> {
        Apply::new(&self.cast(), self.target_of(scale.object_ref().key()).subresource("scale"), scale)
    }

    /// Posts an object that is not stored, and is answered by a status instead of an object.
    pub(crate) fn submit(&self, object: &K) -> Submit {
        let target = self.target().within(object.namespace().unwrap_or_default());
        Submit::new(&self.cast(), target, serde_json::to_value(object).unwrap_or_default())
    }

    // === of pods and service accounts, by whatever type they are read ===

    /// Evicts a pod: deletes it if its disruption budget allows.
    pub fn evict(&self, pod: impl Into<ObjectRef<K>>) -> Evict {
        Evict::new(&self.cast(), self.target_of(pod.into().key()).subresource("eviction"))
    }

    /// Puts a pod on a node.
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

    /// The same resource, its objects read as what a subresource shows.
    fn cast<L: Object>(&self) -> Resources<L> {
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
