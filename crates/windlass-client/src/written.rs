//! Reports the writes that a server has carried out, for programs that read from caches and want to see their own writes.

use std::{collections::BTreeMap, fmt::Debug};

use serde::Deserialize;
use windlass_api::{ApiResource, Meta, Object, ObjectKey, ResourceVersion, Uid};

use crate::request::Target;

/// Is notified of each write that a server has carried out and answered, on the task of the caller.
///
/// These are the writes of the verbs: create, update, patch, apply, delete and deletecollection, also of the subresources that
/// change the object, and not dry runs. Requests that the caller has built, bindings and evictions are not reported: their
/// answers do not name a version. Nor is a write whose answer was lost.
pub trait WriteObserver: Debug + Send + Sync + 'static {
    /// The server has stored an object.
    fn stored(&self, stored: Stored<'_>);

    /// The server has deleted an object, or has begun to.
    fn removed(&self, resource: &ApiResource, key: ObjectKey, uid: Uid);
}

/// An object that a server has stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stored<'w> {
    /// The resource.
    pub resource: &'w ApiResource,
    /// Namespace and name.
    pub key: ObjectKey,
    /// The version that was stored.
    pub version: ResourceVersion,
    /// The object's labels; `None` if the answer was not decoded, or is not the object.
    pub labels: Option<&'w BTreeMap<String, String>>,
}

/// Reports what an answer to a write says.
pub(crate) fn stored<K: Object>(observer: &dyn WriteObserver, target: &Target, object: &K) {
    let metadata = object.metadata();
    let (Some(name), Some(version)) = (metadata.name.as_deref(), metadata.resource_version.as_deref()) else { return };
    let key = key_of(target, metadata.namespace.as_deref(), name);
    // A scale has the version of its object, but not the labels.
    let is_object = target.subresource.as_deref().is_none_or(|subresource| subresource != "scale");
    let none = BTreeMap::new();
    let labels = is_object.then_some(metadata.labels.as_ref().unwrap_or(&none));
    observer.stored(Stored { resource: &target.resource, key, version: version.into(), labels });
}

/// Reports what an answer to a write says that nobody decodes.
pub(crate) fn stored_encoded(observer: &dyn WriteObserver, target: &Target, body: &[u8]) {
    let Some(meta) = Meta::parse_start(body) else { return };
    let key = key_of(target, meta.namespace().map(|namespace| &**namespace), meta.name());
    let version = meta.resource_version().clone();
    observer.stored(Stored { resource: &target.resource, key, version, labels: None });
}

/// Reports a deletion: `uid` is that of the answer.
pub(crate) fn removed(observer: &dyn WriteObserver, target: &Target, uid: &str) {
    let Some(name) = target.name.as_deref() else { return };
    observer.removed(&target.resource, key_of(target, None, name), Uid::new(uid));
}

/// Reports the deletions that an answer lists.
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
