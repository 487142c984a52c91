//! A cached object: parsed metadata, and an encoded body that is decoded on use.

use std::{any::Any, fmt, marker::PhantomData, sync::Arc};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use windlass_api::{ApiResource, DynamicObject, Meta, Object, ObjectKey, ObjectRef, PartialObject, TypeMeta};
use windlass_views::{Document, HasView};

use crate::{
    body::{AnyObject, Body, DecodeResult, DecodeWork, Decoded, Retention},
    decoding::{self, DecodeFailure},
    error::DecodeError,
    memory::{Entry, Memory},
    scan, scratch,
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
    /// An object that the server sent in protobuf is converted, which costs about as much as decoding it. The result is
    /// empty if the object is damaged.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        let encoded = self.encoded();
        if windlass_protobuf::is_protobuf(&encoded) {
            return decoding::to_json(&encoded).unwrap_or_default().into();
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

    /// Reads fields of the object through a view, without decoding it. Strings are borrowed from a buffer of the thread, to
    /// which the body is copied or decompressed. Bodies of up to 64 KiB need no allocation, except for strings with escapes.
    ///
    /// Returns an error, and drops the result of `read`, if a field that `read` has read is not of its type.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # fn is_on(pod: &windlass_cache::Cached<Pod>, node: &str) -> Result<bool, windlass_cache::DecodeError> {
    /// pod.view(|pod| pod.spec().node_name().as_deref() == Some(node) && pod.status().phase().as_deref() == Some("Running"))
    /// # }
    /// ```
    ///
    /// The views of the built-in kinds need the feature `built-in` of windlass-views, or `views` of windlass. Custom kinds
    /// derive theirs. To keep a view for longer, create a [`Document`] of [`bytes`](Self::bytes).
    ///
    /// An object that the server sent in protobuf is read in place, too.
    pub fn view<T>(&self, read: impl for<'a> FnOnce(K::View<'a>) -> T) -> Result<T, DecodeError>
    where
        K: HasView,
    {
        self.view_as::<K, T>(read)
    }

    /// Like [`Self::view`], as a type that the type parameter does not name.
    pub(crate) fn view_as<V: HasView, T>(&self, read: impl for<'a> FnOnce(V::View<'a>) -> T) -> Result<T, DecodeError> {
        scratch::with_buffer(|buffer| -> Result<T, DecodeFailure> {
            self.entry.body.copy_to(buffer, &self.entry.memory.unpacker)?;
            let is_protobuf = windlass_protobuf::is_protobuf(buffer);
            let document = if is_protobuf { Document::protobuf(buffer) } else { Document::json(buffer) };
            let result = read(document.view::<V>());
            document.check()?;
            Ok(result)
        })
        .map_err(|failure| self.undecodable(failure))
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
            Some(value) if windlass_protobuf::is_protobuf(&value) => {
                // Types that do not take the nulls of Go are decoded like JSON.
                decoding::decode_at(&value, path).or_else(|failure| {
                    let json = decoding::to_json(&value).map_err(|_| failure)?;
                    scan::find_fallback(&json, path)?.map_or(Ok(None), |value| decoding::decode(&value))
                })
            }
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
    let mut object: K = decoding::decode_object(body)?;
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use k8s_openapi::api::core::v1::Pod;
    use windlass_api::Resource as _;

    use super::*;
    use crate::{Index, ManagedFieldsMode, ingest::Ingest};

    const POD: &str = r#"{"metadata":{"name":"a","namespace":"n","managedFields":[{"f:x":{}}],"labels":{"app":"web"}},
        "spec":{"nodeName":"n1","containers":[{"name":"c","image":"i:1"},{"name":"d","image":"i:2"}],"priority":"high"},
        "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;

    fn pod(managed_fields: ManagedFieldsMode) -> Cached<Pod> {
        Ingest::alone(Pod::api_resource(), managed_fields).read(POD.as_bytes()).unwrap()
    }

    #[test]
    fn view_reads_fields_without_decoding() {
        for mode in [ManagedFieldsMode::Drop, ManagedFieldsMode::Keep] {
            let pod = pod(mode);
            let read = pod.view(|pod| {
                let ready = pod.status().conditions().iter().find(|condition| condition.type_() == "Ready");
                assert!(matches!(pod.spec().node_name(), Some(Cow::Borrowed("n1"))));
                assert_eq!(pod.metadata().labels().get("app").as_deref(), Some("web"));
                assert_eq!(pod.metadata().managed_fields().len(), usize::from(mode == ManagedFieldsMode::Keep));
                (pod.status().phase().map(Cow::into_owned), ready.map(|ready| ready.status() == "True"))
            });
            assert_eq!(read.unwrap(), (Some("Running".to_owned()), Some(true)));
            assert!(!pod.entry.body.has_decoded());
        }
    }

    #[test]
    fn field_of_another_type_is_a_decode_error() {
        let pod = pod(ManagedFieldsMode::Drop);
        let error = pod.view(|pod| pod.spec().priority()).unwrap_err();
        assert_eq!((error.field.as_deref(), &error.key), (Some("spec.priority"), pod.key()));
        assert_eq!(error.source.to_string(), "a string instead of an integer of 32 bits");
        assert_eq!(pod.get().unwrap_err().field, error.field, "the same field as of the decoder");
    }

    #[test]
    fn view_of_protobuf_reads_its_fields() {
        let json = POD.replace(r#""priority":"high""#, r#""priority":7"#);
        let json = json.replacen('{', r#"{"kind":"Pod","apiVersion":"v1","#, 1).replace(r#"{"f:x":{}}"#, "");
        let body = windlass_protobuf::to_protobuf(json.as_bytes()).unwrap();
        let pod: Cached<Pod> = Ingest::alone(Pod::api_resource(), ManagedFieldsMode::Drop).read(&body).unwrap();
        let read = pod.view(|pod| {
            assert!(matches!(pod.spec().node_name(), Some(Cow::Borrowed("n1"))));
            assert!(matches!(pod.metadata().labels().get("app"), Some(Cow::Borrowed("web"))));
            let images: Vec<_> =
                pod.spec().containers().iter().filter_map(windlass_views::core::v1::ContainerView::image).collect();
            assert_eq!(images, ["i:1", "i:2"]);
            (pod.spec().priority(), pod.status().phase().map(Cow::into_owned))
        });
        assert_eq!(read.unwrap(), (Some(7), Some("Running".to_owned())));
        assert!(!pod.entry.body.has_decoded());
    }

    #[test]
    fn view_can_read_the_same_and_other_objects() {
        let (pod, other) = (pod(ManagedFieldsMode::Drop), pod(ManagedFieldsMode::Keep));
        let is_same = pod.view(|pod_view| {
            assert!(pod.get().is_err());
            other.view(|other| pod_view.spec().node_name() == other.spec().node_name())
        });
        assert!(is_same.unwrap().unwrap());
    }

    #[test]
    fn index_on_view_has_the_values_of_its_function() {
        let pod = pod(ManagedFieldsMode::Drop).cast::<Untyped>();
        let index = Index::<Pod>::on_view("image", |pod| {
            let images = pod.spec().containers().iter().filter_map(windlass_views::core::v1::ContainerView::image);
            images.map(Cow::into_owned).collect::<Vec<_>>()
        });
        let values: Vec<_> = index.values_of(&pod).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(values, ["i:1", "i:2"]);
        let failing = Index::<Pod>::on_view("priority", |pod| pod.spec().priority().map(|value| value.to_string()));
        assert!(failing.values_of(&pod).is_err());
    }
}
