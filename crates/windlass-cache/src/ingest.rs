//! From the bytes of an event or a list item to a cache entry.

use std::{marker::PhantomData, sync::Arc};

use windlass_api::{ApiResource, Meta};

use crate::{body::Body, cached::Cached, error::UnreadableObject, scan};

/// What becomes of `metadata.managedFields`, which is about half of a typical object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManagedFields {
    /// They are cut out before the object is stored.
    #[default]
    Drop,
    /// They are kept.
    Keep,
}

/// What a metadata-only list or watch calls its objects.
const PARTIAL: &[u8] = b"PartialObjectMetadata";

pub(crate) struct Ingest<K> {
    resource: Arc<ApiResource>,
    managed_fields: ManagedFields,
    kind: PhantomData<fn() -> K>,
}

impl<K> Ingest<K> {
    pub(crate) fn new(resource: Arc<ApiResource>, managed_fields: ManagedFields) -> Self {
        Self { resource, managed_fields, kind: PhantomData }
    }

    /// Reads an object. An object of the right kind that does not say its kind is one, too: list items do not.
    pub(crate) fn read(&self, object: &[u8]) -> Result<Cached<K>, UnreadableObject> {
        let body = match scan::layout(object) {
            Some(layout) => {
                self.check_kind(layout.kind.map(|range| &object[range]))?;
                let cut = layout.managed_fields.filter(|_| self.managed_fields == ManagedFields::Drop);
                let cut = cut.unwrap_or(object.len()..object.len());
                Body::copied([&object[..cut.start], &object[cut.end..]])
            }
            None => match scan::rewrite(object) {
                Ok((rewritten, kind)) => {
                    self.check_kind(kind.as_ref().map(String::as_bytes))?;
                    let keep = self.managed_fields == ManagedFields::Keep;
                    Body::owned(if keep { object.to_vec() } else { rewritten })
                }
                // The reading of the metadata says what is wrong.
                Err(_) => Body::copied([object, b""]),
            },
        };
        let meta = body.with_bytes(Meta::parse).map_err(UnreadableObject::Meta)?;
        if meta.name.is_empty() {
            return Err(UnreadableObject::Nameless);
        }
        Ok(Cached::new(Arc::clone(&self.resource), meta, body))
    }

    fn check_kind(&self, found: Option<&[u8]>) -> Result<(), UnreadableObject> {
        match found {
            Some(found) if found != self.resource.kind.as_bytes() && found != PARTIAL => Err(UnreadableObject::Kind {
                expected: self.resource.kind.clone(),
                found: String::from_utf8_lossy(found).into_owned(),
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use windlass_api::{DynamicObject, Resource};

    use super::*;

    fn ingest<K>(managed_fields: ManagedFields) -> Ingest<K> {
        Ingest::new(Arc::new(Pod::api_resource()), managed_fields)
    }

    const POD: &[u8] = br#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"3","managedFields":[{}],"labels":{"x":"y"}},"spec":{"containers":[]}}"#;

    #[test]
    fn an_object_loses_its_managed_fields_unless_they_are_kept() {
        let dropped = ingest::<Pod>(ManagedFields::Drop).read(POD).unwrap();
        assert_eq!(dropped.get().unwrap().metadata.managed_fields, None);
        assert_eq!((dropped.meta().label("x"), dropped.key().to_string()), (Some("y"), "n/a".to_owned()));
        let kept = ingest::<Pod>(ManagedFields::Keep).read(POD).unwrap();
        assert_eq!(&*kept.bytes(), POD);
    }

    #[test]
    fn a_body_pins_nothing_but_itself() {
        let cached = ingest::<Pod>(ManagedFields::Drop).read(POD).unwrap();
        assert_eq!(cached.bytes().len(), POD.len() - r#","managedFields":[{}]"#.len());
        assert!(!POD.as_ptr_range().contains(&cached.bytes().as_ptr()));
    }

    #[test]
    fn a_list_item_of_a_dynamic_kind_learns_its_type_when_decoded() {
        let types =
            ingest::<DynamicObject>(ManagedFields::Drop).read(POD).unwrap().get().unwrap().types.clone().unwrap();
        assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "Pod"));
    }

    #[test]
    fn a_body_that_does_not_decode_names_key_and_kind() {
        let odd = br#"{"metadata":{"name":"a","namespace":"n"},"spec":{"containers":"none"}}"#;
        let cached = ingest::<Pod>(ManagedFields::Drop).read(odd).unwrap();
        assert_eq!(cached.get().unwrap_err().to_string(), "decoding Pod n/a");
    }

    #[test]
    fn a_projection_reads_only_its_fields() {
        #[derive(serde::Deserialize)]
        struct Named {
            spec: Spec,
        }
        #[derive(serde::Deserialize)]
        struct Spec {
            containers: Vec<u8>,
        }
        let named: Named = ingest::<Pod>(ManagedFields::Drop).read(POD).unwrap().project().unwrap();
        assert!(named.spec.containers.is_empty());
    }

    #[test]
    fn what_is_not_one_of_the_resource_s_objects_is_refused_by_reason() {
        let read = |text: &str| ingest::<Pod>(ManagedFields::Drop).read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(read(r#"{"kind":"Table","metadata":{"name":"a"}}"#), "the object is a Table, not a Pod");
        assert_eq!(read(r#"{"k\u0069nd":"Table","metadata":{"name":"a"}}"#), "the object is a Table, not a Pod");
        assert_eq!(read(r#"{"metadata":{"namespace":"n"}}"#), "the object has no name");
        for odd in ["", "garbage", "[1]", r#"{"metadata":"#, r#"{"metadata":{"name":3}}"#] {
            assert_eq!(read(odd), "the metadata cannot be read", "{odd}");
        }
        let partial = r#"{"kind":"PartialObjectMetadata","metadata":{"name":"a"}}"#;
        assert!(ingest::<Pod>(ManagedFields::Drop).read(partial.as_bytes()).is_ok());
    }
}
