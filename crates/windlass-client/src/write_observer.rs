//! Notifications of successful writes, for programs that read from caches and need to see their own writes.

use std::{collections::BTreeMap, fmt::Debug};

use serde::Deserialize;
use windlass_api::{ApiResource, Meta, Object, ObjectKey, ResourceVersion, Uid};

use crate::request::Target;

/// An observer of writes. It is called on the caller's task for each write that the server has confirmed.
///
/// Reported are the verbs create, update, patch, apply, delete and deletecollection, including those on subresources
/// that change the object. Dry runs are not reported. Raw requests, bindings and evictions are not reported either,
/// because their responses contain no resource version. A write whose response was lost is not reported.
pub trait WriteObserver: Debug + Send + Sync + 'static {
    /// Called when the server has stored an object.
    fn stored(&self, stored: Stored<'_>);

    /// Called when the server has deleted an object or started its graceful deletion.
    fn removed(&self, resource: &ApiResource, key: ObjectKey, uid: Uid);
}

/// An object that the server has stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stored<'w> {
    /// The resource.
    pub resource: &'w ApiResource,
    /// The namespace and name.
    pub key: ObjectKey,
    /// The stored resource version.
    pub version: ResourceVersion,
    /// The object's labels. `None` if the response was not decoded or does not contain the object.
    pub labels: Option<&'w BTreeMap<String, String>>,
}

/// Reports a write from its decoded response.
pub(crate) fn stored<K: Object>(observer: &dyn WriteObserver, target: &Target, object: &K) {
    let metadata = object.metadata();
    let (Some(name), Some(version)) = (metadata.name.as_deref(), metadata.resource_version.as_deref()) else { return };
    let key = key_of(target, metadata.namespace.as_deref(), name);
    // A scale has the resource version of its object, but not its labels.
    let is_object = target.subresource.as_deref().is_none_or(|subresource| subresource != "scale");
    let none = BTreeMap::new();
    let labels = is_object.then_some(metadata.labels.as_ref().unwrap_or(&none));
    observer.stored(Stored { resource: &target.resource, key, version: version.into(), labels });
}

/// Reports a write from a response that is not decoded for the caller.
pub(crate) fn stored_encoded(observer: &dyn WriteObserver, target: &Target, body: &[u8]) {
    let meta =
        if windlass_protobuf::is_protobuf(body) { windlass_protobuf::meta(body) } else { Meta::parse_start(body) };
    let Some(meta) = meta else { return };
    let key = key_of(target, meta.namespace().map(|namespace| &**namespace), meta.name());
    let version = meta.resource_version().clone();
    observer.stored(Stored { resource: &target.resource, key, version, labels: None });
}

/// Reports a deletion. `uid` is the UID in the response.
pub(crate) fn removed(observer: &dyn WriteObserver, target: &Target, uid: &str) {
    let Some(name) = target.name.as_deref() else { return };
    observer.removed(&target.resource, key_of(target, None, name), Uid::new(uid));
}

/// Reports the deletions that a response lists.
pub(crate) fn removed_all(observer: &dyn WriteObserver, target: &Target, list: &[u8]) {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
        #[serde(default)]
        namespace: Option<String>,
        #[serde(default)]
        uid: String,
    }
    let Ok(list) = serde_json::from_slice::<List>(list) else { return };
    for Item { metadata: Metadata { name, namespace, uid } } in list.items {
        observer.removed(&target.resource, key_of(target, namespace.as_deref(), &name), Uid::new(&uid));
    }
}

fn key_of(target: &Target, namespace: Option<&str>, name: &str) -> ObjectKey {
    let key = ObjectKey::new(name);
    match namespace.or(target.namespace.as_deref()) {
        Some(namespace) => key.within(namespace),
        None => key,
    }
}
