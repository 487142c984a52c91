//! A cached object: parsed metadata, and an encoded body that is decoded on use.

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_api::{ApiResource, DynamicObject, Meta, Object, ObjectKey, ObjectRef, PartialObject, TypeMeta};

use crate::{
    body::{AnyObject, Body, DecodeResult, DecodeWork, Decoded, Retention},
    decoding::{self, DecodeFailure},
    error::DecodeError,
    memory::{Entry, Memory},
    scan,
};

/// One state of one object. Cheap to clone; clones share the decoded object.
///
/// A `Cached` never changes: the object's next state is another `Cached`. Holding one keeps its bytes in memory.
pub struct Cached<K> {
    entry: Arc<Entry>,
    kind: PhantomData<fn() -> K>,
}

/// The type parameter of objects whose type is not known to the code.
///
/// An informer works with these, so that it is compiled once and not for each kind of a program. Its users get
/// `Cached<K>` from [`Cached::cast`].
#[derive(Debug)]
pub(crate) enum Untyped {}

impl<K> Cached<K> {
    /// Creates an entry. The uncompressed bytes of the body must already be counted.
    pub(crate) fn new(memory: Arc<Memory>, meta: Meta, body: Body) -> Self {
        Self { entry: Arc::new(Entry { meta, memory, body }), kind: PhantomData }
    }

    /// Changes the type parameter. Each object must only be decoded as one type.
    pub(crate) fn cast<T>(self) -> Cached<T> {
        Cached { entry: self.entry, kind: PhantomData }
    }

    /// Returns the parsed metadata. It does not include annotations.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.entry.meta
    }

    /// Returns the object's namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        self.entry.meta.key()
    }

    /// Returns a typed reference to the object.
    #[must_use]
    pub fn object_ref(&self) -> ObjectRef<K> {
        self.key().clone().into()
    }

    /// Returns the object's resource.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.entry.memory.resource
    }

    /// Returns a copy of the object's JSON, as the server sent it but without managedFields. List items of built-in
    /// kinds have no `kind` and no `apiVersion`.
    ///
    /// An object that the server sent in protobuf is converted, which costs about as much as decoding it.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        let encoded = self.encoded();
        if windlass_protobuf::is_protobuf(&encoded) {
            return windlass_protobuf::to_json(&encoded).unwrap_or_default().into();
        }
        encoded
    }

    /// Returns a copy of the object as the server sent it but without managedFields: JSON, or protobuf with its envelope,
    /// which starts with `k8s\0`.
    #[must_use]
    pub fn encoded(&self) -> Bytes {
        // Decompressing a body that was compressed here fails only if memory was damaged. The result is empty then.
        self.entry.body.bytes(&self.entry.memory.unpacker).unwrap_or_default().into()
    }

    /// Reports whether both are the same state of the same object: same UID and same resource version.
    #[must_use]
    pub fn is_same_state(&self, other: &Self) -> bool {
        self.meta().resource_version() == other.meta().resource_version() && self.meta().uid() == other.meta().uid()
    }

    /// Reports whether both are clones of one entry.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }

    /// Decodes a part of the object into a type that has only the fields that you need. This is much cheaper than
    /// decoding the whole object. The result is not retained.
    pub fn project<P: DeserializeOwned>(&self) -> Result<P, DecodeError> {
        let bytes = self.entry.body.bytes(&self.entry.memory.unpacker);
        let decoded = bytes.map_err(DecodeFailure::from).and_then(|bytes| decoding::decode(&bytes));
        decoded.map_err(|failure| self.undecodable(failure))
    }

    /// Decodes the single value at this path; the rest of the object is skipped. Returns `None` if the value is absent
    /// or null.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn node(pod: &windlass_cache::Cached<Pod>) -> Result<Option<String>, windlass_cache::DecodeError> {
    /// pod.at(&["spec", "nodeName"])
    /// # }
    /// ```
    pub fn at<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Option<T>, DecodeError> {
        let memory = &self.entry.memory;
        let found = self.entry.body.with_bytes(&memory.unpacker, |bytes| {
            if windlass_protobuf::is_protobuf(bytes) {
                return Ok(Some(bytes.to_vec()));
            }
            match scan::find(bytes, path) {
                scan::Found::At(at) => Ok(Some(bytes[at].to_vec())),
                scan::Found::Nowhere => Ok(None),
                scan::Found::Unsure => scan::find_fallback(bytes, path),
            }
        });
        let value = found.map_err(DecodeFailure::from).and_then(|value| value.map_err(DecodeFailure::from));
        let decode = |value: Option<Vec<u8>>| match value {
            // The whole object, because no JSON value starts like this.
            Some(value) if windlass_protobuf::is_protobuf(&value) => decoding::decode_at(&value, path),
            Some(value) => decoding::decode(&value),
            None => Ok(None),
        };
        value.and_then(decode).map_err(|failure| self.undecodable(failure.within(path)))
    }

    /// Like [`Self::at`], for a string. A string without escapes is not decoded by serde.
    pub(crate) fn text_at(&self, path: &[&str]) -> Result<Option<Arc<str>>, DecodeError> {
        let plain = self.entry.body.with_bytes(&self.entry.memory.unpacker, |bytes| {
            if windlass_protobuf::is_protobuf(bytes) {
                return windlass_protobuf::value_at::<String>(bytes, path).ok().map(|text| text.map(Into::into));
            }
            match scan::find(bytes, path) {
                scan::Found::At(at) => scan::plain_text(&bytes[at]).map(|text| Some(text.into())),
                scan::Found::Nowhere => Some(None),
                scan::Found::Unsure => None,
            }
        });
        if let Ok(Some(text)) = plain { Ok(text) } else { self.at(path) }
    }

    /// Creates the error and counts it.
    fn undecodable(&self, DecodeFailure { field, source }: DecodeFailure) -> DecodeError {
        let error = DecodeError { kind: self.resource().kind.clone(), key: self.key().clone(), field, source };
        self.entry.memory.metrics.decoding_failed(&error);
        error
    }

    #[cfg(feature = "compression")]
    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Returns the object decoded as its type, which the type parameter does not name.
    pub(crate) fn get_as<T: Object>(&self) -> Result<Arc<T>, DecodeError> {
        let DecodeResult { outcome, work } = self.decode::<T>(Retention::Now);
        if work != DecodeWork::None && outcome.is_ok() {
            self.entry.memory.decoded(&self.entry, work);
        }
        self.typed(outcome)
    }

    fn decode<T: Object>(&self, retention: Retention) -> DecodeResult {
        let memory = &self.entry.memory;
        self.entry.body.decode(retention, &memory.unpacker, &|body| decode_object::<T>(body, &memory.resource))
    }

    fn typed<T: Object>(&self, outcome: Decoded) -> Result<Arc<T>, DecodeError> {
        match outcome {
            Ok(object) => Ok(object.downcast().expect("each object is only decoded as one type")),
            Err(failure) => Err(self.undecodable(DecodeFailure::clone(&failure))),
        }
    }
}

impl<K: Object> Cached<K> {
    /// Returns the decoded object. It is shared by all readers while it is retained, which depends on how often it is
    /// used; see [`InformerOptions::budget`](crate::InformerOptions::budget).
    ///
    /// Dynamic objects without `kind` and `apiVersion`, for example list items, get them from the resource.
    ///
    /// The object is immutable. To change it, clone it:
    ///
    /// ```compile_fail,E0594
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn example(cached: &windlass_cache::Cached<Pod>) -> Result<(), windlass_cache::DecodeError> {
    /// cached.get()?.spec = None; // cannot assign to data in an `Arc`
    /// # Ok(())
    /// # }
    /// ```
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.get_as()
    }

    /// Returns the decoded object for a caller that is likely its only reader. Returns the shared object if one is
    /// retained. An object that is decoded for the first time is not retained, so that `Arc::unwrap_or_clone` does not
    /// have to copy it. The next reader decodes the object again, and that result is retained.
    pub fn get_once(&self) -> Result<Arc<K>, DecodeError> {
        let DecodeResult { outcome, work } = self.decode::<K>(Retention::NextTime);
        if work == DecodeWork::Again && outcome.is_ok() {
            self.entry.memory.decoded(&self.entry, work);
        }
        self.typed(outcome)
    }
}

fn decode_object<K: Object>(body: &[u8], resource: &ApiResource) -> Result<AnyObject, DecodeFailure> {
    let mut object: K = decoding::decode(body)?;
    name_type(&mut object, resource);
    Ok(Arc::new(object))
}

/// Sets the `TypeMeta` of the two dynamic types; typed objects have none.
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
        Self { entry: Arc::clone(&self.entry), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Cached<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cached({} {} @{})", self.resource().kind, self.key(), self.meta().resource_version())
    }
}
