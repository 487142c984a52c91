//! An object as the cache holds it: metadata parsed, body encoded, decoded on use.

use std::{any::Any, fmt, sync::Arc};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_api::{ApiResource, DynamicObject, Meta, Object, ObjectKey, ObjectRef, PartialObject, TypeMeta};

use crate::{
    body::{Asked, Body, Effort, Keep},
    decoding::{self, Misfit},
    error::DecodeError,
    memory::Memory,
    scan,
};

/// One state of one object. Cheap to clone; clones share the decoded object.
///
/// It never changes: the object's next state is another `Cached`. Who holds one keeps its bytes alive.
pub struct Cached<K> {
    entry: Arc<Entry<K>>,
}

pub(crate) struct Entry<K> {
    meta: Meta,
    memory: Arc<Memory<K>>,
    pub(crate) body: Body<K>,
}

impl<K> Cached<K> {
    /// Of the body, what is uncompressed has been counted already.
    pub(crate) fn new(memory: Arc<Memory<K>>, meta: Meta, body: Body<K>) -> Self {
        Self { entry: Arc::new(Entry { meta, memory, body }) }
    }

    /// The metadata that is kept parsed. Annotations are not among it.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.entry.meta
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.entry.meta.key()
    }

    /// The key, with the kind.
    #[must_use]
    pub fn object_ref(&self) -> ObjectRef<K> {
        self.key().clone().into()
    }

    /// Which resource it is of.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.entry.memory.resource
    }

    /// The object as JSON, copied: as it came, but for managedFields. List items of built-in kinds have no `kind` and no
    /// `apiVersion`.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        // What was compressed here can be read here; if memory was damaged, nothing is left of the object.
        self.entry.body.bytes(&self.entry.memory.unpacker).unwrap_or_default().into()
    }

    /// Whether both are the same state of the same object: same uid, same resourceVersion.
    #[must_use]
    pub fn is_same_state(&self, other: &Self) -> bool {
        self.meta().resource_version() == other.meta().resource_version() && self.meta().uid() == other.meta().uid()
    }

    /// Whether both are clones of one.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }

    /// Decodes a part of the object into a type of your own, which has only the fields that it needs; much cheaper than
    /// the whole. The result is not kept.
    pub fn project<P: DeserializeOwned>(&self) -> Result<P, DecodeError> {
        let bytes = self.entry.body.bytes(&self.entry.memory.unpacker);
        let decoded = bytes.map_err(Misfit::from).and_then(|bytes| decoding::decode(&bytes));
        decoded.map_err(|misfit| self.undecodable(misfit))
    }

    /// Decodes the one value that these keys lead to; the rest of the object is skipped. `None` where there is none, or null.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn node(pod: &windlass_cache::Cached<Pod>) -> Result<Option<String>, windlass_cache::DecodeError> {
    /// pod.at(&["spec", "nodeName"])
    /// # }
    /// ```
    pub fn at<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, DecodeError> {
        let memory = &self.entry.memory;
        let found = self.entry.body.with_bytes(&memory.unpacker, |bytes| match scan::find(bytes, path) {
            scan::Found::At(at) => Ok(Some(bytes[at].to_vec())),
            scan::Found::Nowhere => Ok(None),
            scan::Found::Unsure => scan::find_carefully(bytes, path),
        });
        let value = found.map_err(Misfit::from).and_then(|value| value.map_err(Misfit::from));
        let decode = |value: Option<Vec<u8>>| value.map_or(Ok(None), |value| decoding::decode(&value));
        value.and_then(decode).map_err(|misfit| self.undecodable(misfit.within(path)))
    }

    /// As [`Self::at`], for a text; one without escapes is taken as it stands.
    pub(crate) fn text_at(&self, path: &[&str]) -> Result<Option<Arc<str>>, DecodeError> {
        let plain = self.entry.body.with_bytes(&self.entry.memory.unpacker, |bytes| match scan::find(bytes, path) {
            scan::Found::At(at) => scan::plain_text(&bytes[at]).map(|text| Some(text.into())),
            scan::Found::Nowhere => Some(None),
            scan::Found::Unsure => None,
        });
        if let Ok(Some(text)) = plain { Ok(text) } else { self.at(path) }
    }

    /// Makes the error, and counts it.
    fn undecodable(&self, Misfit { field, source }: Misfit) -> DecodeError {
        let error = DecodeError { kind: self.resource().kind.clone(), key: self.key().clone(), field, source };
        self.entry.memory.metrics.decoding_failed(&error);
        error
    }

    pub(crate) fn entry(&self) -> &Entry<K> {
        &self.entry
    }
}

impl<K: Object> Cached<K> {
    /// The decoded object, shared by all who ask while it is kept: those are that are used again and again, see
    /// [`InformerOptions::budget`](crate::InformerOptions::budget).
    ///
    /// Dynamic objects that came without `kind` and `apiVersion`, as list items do, have them.
    ///
    /// Nobody can change what the others see. To change an object, clone it:
    ///
    /// ```compile_fail,E0594
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(cached: &windlass_cache::Cached<Pod>) -> Result<(), windlass_cache::DecodeError> {
    /// cached.get()?.spec = None; // cannot assign to data in an `Arc`
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        let Asked { outcome, effort } = self.decode(Keep::Now);
        if effort != Effort::None && outcome.is_ok() {
            self.entry.memory.decoded(&self.entry, effort);
        }
        outcome.map_err(|misfit| self.undecodable(Misfit::clone(&misfit)))
    }

    /// The decoded object, for who is likely to be the only one that asks for it: the shared one if there is one. What is
    /// decoded for the first time is not kept, so that the caller can make it its own by `Arc::unwrap_or_clone` for nothing.
    /// Whoever asks next decodes it once more, and that one is kept.
    pub fn get_once(&self) -> Result<Arc<K>, DecodeError> {
        let Asked { outcome, effort } = self.decode(Keep::NextTime);
        if effort == Effort::Again && outcome.is_ok() {
            self.entry.memory.decoded(&self.entry, effort);
        }
        outcome.map_err(|misfit| self.undecodable(Misfit::clone(&misfit)))
    }

    fn decode(&self, keep: Keep) -> Asked<K> {
        let memory = &self.entry.memory;
        self.entry.body.decode(keep, &memory.unpacker, |object| name_type(object, &memory.resource))
    }
}

impl<K> Drop for Entry<K> {
    fn drop(&mut self) {
        let decoded = self.body.is_decoded().then(|| self.body.len());
        self.memory.dropped(self.body.held(), decoded);
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
        write!(f, "Cached({} {} @{})", self.resource().kind, self.key(), self.meta().resource_version())
    }
}
