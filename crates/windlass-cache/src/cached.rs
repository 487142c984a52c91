//! An object as the cache holds it: metadata parsed, body encoded, decoded on use.

use std::{any::Any, fmt, sync::Arc};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_api::{ApiResource, DynamicObject, Meta, Object, ObjectKey, ObjectRef, PartialObject, TypeMeta};

use crate::{body::Body, error::DecodeError};

/// One state of one object. Cheap to clone; clones share the decoded object.
///
/// It never changes: the object's next state is another `Cached`. Who holds one keeps its bytes alive.
pub struct Cached<K> {
    entry: Arc<Entry<K>>,
}

struct Entry<K> {
    /// Shares its strings with `meta`.
    key: ObjectKey,
    meta: Meta,
    resource: Arc<ApiResource>,
    body: Body<K>,
}

impl<K> Cached<K> {
    pub(crate) fn new(resource: Arc<ApiResource>, meta: Meta, body: Body<K>) -> Self {
        Self { entry: Arc::new(Entry { key: meta.key(), meta, resource, body }) }
    }

    /// The metadata that is kept parsed. Annotations are not among it.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.entry.meta
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.entry.key
    }

    /// The key, with the kind.
    #[must_use]
    pub fn object_ref(&self) -> ObjectRef<K> {
        self.entry.key.clone().into()
    }

    /// Which resource it is of.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.entry.resource
    }

    /// The object as JSON: as it came, but for managedFields. List items of built-in kinds have no `kind` and no
    /// `apiVersion`.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.entry.body.bytes()
    }

    /// Whether both are the same state of the same object: same uid, same resourceVersion.
    #[must_use]
    pub fn is_same_state(&self, other: &Self) -> bool {
        self.meta().resource_version == other.meta().resource_version && self.meta().uid == other.meta().uid
    }

    /// Whether both are clones of one.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }

    /// Decodes a part of the object into a type of your own, which has only the fields that it needs; much cheaper than
    /// the whole. The result is not kept.
    pub fn project<P: DeserializeOwned>(&self) -> Result<P, DecodeError> {
        self.entry
            .body
            .with_bytes(|bytes| serde_json::from_slice(bytes))
            .map_err(|error| self.undecodable(Arc::new(error)))
    }

    fn undecodable(&self, source: Arc<serde_json::Error>) -> DecodeError {
        DecodeError { kind: self.entry.resource.kind.clone(), key: self.entry.key.clone(), source }
    }
}

impl<K: Object> Cached<K> {
    /// The decoded object: decoded now if nobody asked before, shared by all who ask.
    ///
    /// Dynamic objects that came without `kind` and `apiVersion`, as list items do, have them.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.entry
            .body
            .decode(|object| name_type(object, &self.entry.resource))
            .map_err(|error| self.undecodable(error))
    }
}

/// Types that are known at compile time carry no `TypeMeta`; of the others, two are known here.
fn name_type<K: Object>(object: &mut K, resource: &ApiResource) {
    let object: &mut dyn Any = object;
    let types = match object.downcast_mut::<DynamicObject>() {
        Some(object) => &mut object.types,
        None => match object.downcast_mut::<PartialObject>() {
            Some(object) => &mut object.types,
            None => return,
        },
    };
    if types.is_none() {
        *types = Some(TypeMeta::of(resource));
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { entry: Arc::clone(&self.entry) }
    }
}

impl<K> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached({} {} @{})", self.resource().kind, self.key(), self.meta().resource_version)
    }
}
