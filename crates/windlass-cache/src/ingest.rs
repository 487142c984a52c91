//! Conversion of the bytes of an event or list item into a cache entry.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use serde::de::Error as _;
use windlass_api::{
    ApiResource, Meta, MetaError, ObjectKey, ResourceVersion, Uid, jiff::Timestamp, managed_fields::ManagedFieldsMode,
};
use windlass_protobuf::Metadata;

use crate::{
    body::Body,
    cached::Cached,
    error::UnreadableObject,
    interner::Interner,
    memory::Memory,
    options::InformerOptions,
    scan::{self, Encoding, RawTraits, Survey},
};

/// The kind of objects in metadata-only lists and watches.
const PARTIAL: &str = "PartialObjectMetadata";

pub(crate) struct Ingest<K> {
    memory: Arc<Memory>,
    managed_fields: ManagedFieldsMode,
    interner: Interner,
    kind: PhantomData<fn() -> K>,
}

impl<K> Ingest<K> {
    pub(crate) fn new(memory: Arc<Memory>, managed_fields: ManagedFieldsMode) -> Self {
        Self { memory, managed_fields, interner: Interner::default(), kind: PhantomData }
    }

    /// Creates an `Ingest` for objects that belong to no informer.
    pub(crate) fn alone(resource: impl Into<Arc<ApiResource>>, managed_fields: ManagedFieldsMode) -> Self {
        let options = InformerOptions::default();
        Self::new(Arc::new(Memory::new(resource.into(), &options)), managed_fields)
    }

    /// Reads an object. Objects without a `kind` are accepted, because list items have none.
    pub(crate) fn read(&mut self, object: &[u8]) -> Result<Cached<K>, UnreadableObject> {
        if windlass_protobuf::is_protobuf(object) {
            return self.read_protobuf(object);
        }
        let surveyed = scan::survey(object).and_then(|survey| Some((self.meta_of(&survey)?, survey)));
        let (meta, body) = if let Some((meta, survey)) = surveyed {
            self.check_kind(survey.kind)?;
            let cut = survey.managed_fields.filter(|_| self.managed_fields == ManagedFieldsMode::Drop);
            let cut = cut.unwrap_or(object.len()..object.len());
            (meta, [Cow::Borrowed(&object[..cut.start]), Cow::Borrowed(&object[cut.end..])])
        } else {
            let (meta, body) = self.read_fallback(object)?;
            (meta, [body, Cow::Borrowed(&[][..])])
        };
        self.cached(meta, &[&body[0], &body[1]])
    }

    /// Reads an object in protobuf with its envelope. An unusual encoding is converted to JSON.
    fn read_protobuf(&mut self, object: &[u8]) -> Result<Cached<K>, UnreadableObject> {
        let unreadable = |error| UnreadableObject::Meta(MetaError::from(serde_json::Error::custom(error)));
        let metadata = Metadata::read(object).map_err(unreadable)?;
        let Some((meta, metadata)) = metadata.and_then(|metadata| Some((self.meta_of_protobuf(&metadata)?, metadata)))
        else {
            return self.read(&windlass_protobuf::to_json(object).map_err(unreadable)?);
        };
        self.check_kind(Some(metadata.kind))?;
        let drop = self.managed_fields == ManagedFieldsMode::Drop;
        match drop.then(|| metadata.without_managed_fields(object)).flatten() {
            Some(parts) => self.cached(meta, &parts.slices()),
            None => self.cached(meta, &[object]),
        }
    }

    fn cached(&self, meta: Meta, body: &[&[u8]]) -> Result<Cached<K>, UnreadableObject> {
        if meta.name().is_empty() {
            return Err(UnreadableObject::Nameless);
        }
        self.memory.add_plain(body.iter().map(|part| part.len()).sum());
        Ok(Cached::new(Arc::clone(&self.memory), meta, Body::copied(body)))
    }

    /// Returns the metadata, or `None` if the object has to be converted to JSON.
    fn meta_of_protobuf(&mut self, metadata: &Metadata<'_>) -> Option<Meta> {
        let time = |seconds: Option<i64>| match seconds {
            Some(seconds) => Timestamp::from_second(seconds).ok().map(Some),
            None => Some(None),
        };
        let key = ObjectKey {
            namespace: metadata.namespace.map(|namespace| self.interner.string(namespace)),
            name: metadata.name.into(),
        };
        let traits = RawTraits {
            labels: metadata.labels,
            owners: metadata.owner_references,
            finalizers: metadata.finalizers,
            encoding: Encoding::Protobuf,
        };
        Some(
            Meta::new(key)
                .with_uid(Uid::new(metadata.uid))
                .with_resource_version(ResourceVersion::new(metadata.resource_version))
                .with_generation(metadata.generation)
                .with_creation_timestamp(time(metadata.creation_timestamp)?)
                .with_deletion_timestamp(time(metadata.deletion_timestamp)?)
                .with_traits(self.interner.traits(&traits)?),
        )
    }

    /// Returns the metadata, or `None` if it has to be parsed with serde.
    fn meta_of(&mut self, survey: &Survey<'_>) -> Option<Meta> {
        let time = |text: Option<&str>| text.map_or(Some(None), |text| text.parse().ok().map(Some));
        let key = ObjectKey {
            namespace: survey.namespace.map(|namespace| self.interner.string(namespace)),
            name: survey.name.into(),
        };
        Some(
            Meta::new(key)
                .with_uid(Uid::new(survey.uid))
                .with_resource_version(ResourceVersion::new(survey.resource_version))
                .with_generation(survey.generation)
                .with_creation_timestamp(time(survey.creation_timestamp)?)
                .with_deletion_timestamp(time(survey.deletion_timestamp)?)
                .with_traits(self.interner.traits(&survey.traits)?),
        )
    }

    fn read_fallback<'j>(&self, object: &'j [u8]) -> Result<(Meta, Cow<'j, [u8]>), UnreadableObject> {
        let meta = Meta::parse(object).map_err(UnreadableObject::Meta)?;
        // If the metadata parses, rewriting normally works, too. Otherwise the object is stored unchanged.
        let Ok((rewritten, kind)) = scan::rewrite(object) else { return Ok((meta, Cow::Borrowed(object))) };
        self.check_kind(kind.as_deref())?;
        let keep = self.managed_fields == ManagedFieldsMode::Keep;
        Ok((meta, if keep { Cow::Borrowed(object) } else { Cow::Owned(rewritten) }))
    }

    fn check_kind(&self, found: Option<&str>) -> Result<(), UnreadableObject> {
        match found {
            Some(found) if found != self.memory.resource.kind && found != PARTIAL => {
                Err(UnreadableObject::Kind { expected: self.memory.resource.kind.clone(), found: found.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use windlass_api::{DynamicObject, ObjectExt as _, Resource};

    use super::*;
    use crate::options::Decoding;

    fn ingest<K>(managed_fields: ManagedFieldsMode) -> Ingest<K> {
        Ingest::alone(Pod::api_resource(), managed_fields)
    }

    const POD: &[u8] = br#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"3","managedFields":[{}],"labels":{"x":"y"}},"spec":{"containers":[]}}"#;

    #[test]
    fn an_object_loses_its_managed_fields_unless_they_are_kept() {
        let dropped = ingest::<Pod>(ManagedFieldsMode::Drop).read(POD).unwrap();
        assert_eq!(dropped.get().unwrap().metadata.managed_fields, None);
        assert_eq!((dropped.meta().label("x"), dropped.key().to_string()), (Some("y"), "n/a".to_owned()));
        let kept = ingest::<Pod>(ManagedFieldsMode::Keep).read(POD).unwrap();
        assert_eq!(&*kept.bytes(), POD);
    }

    #[test]
    fn a_body_pins_nothing_but_itself() {
        let cached = ingest::<Pod>(ManagedFieldsMode::Drop).read(POD).unwrap();
        assert_eq!(cached.bytes().len(), POD.len() - r#","managedFields":[{}]"#.len());
        assert!(!POD.as_ptr_range().contains(&cached.bytes().as_ptr()));
    }

    #[test]
    fn a_list_item_of_a_dynamic_kind_learns_its_type_when_decoded() {
        let types =
            ingest::<DynamicObject>(ManagedFieldsMode::Drop).read(POD).unwrap().get().unwrap().types.clone().unwrap();
        assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "Pod"));
    }

    #[test]
    fn decode_error_names_kind_key_and_field() {
        let odd = br#"{"metadata":{"name":"a","namespace":"n"},"spec":{"containers":"none"}}"#;
        let cached = ingest::<Pod>(ManagedFieldsMode::Drop).read(odd).unwrap();
        #[derive(serde::Deserialize, Debug)]
        #[expect(dead_code, reason = "decoding it always fails")]
        struct Narrow {
            spec: std::collections::BTreeMap<String, Vec<u8>>,
        }
        let message = "decoding spec.containers of Pod n/a";
        assert_eq!(cached.get().unwrap_err().to_string(), message);
        assert_eq!(cached.project::<Narrow>().unwrap_err().to_string(), message);
        assert_eq!(cached.at::<Vec<u8>>(&["spec", "containers"]).unwrap_err().to_string(), message);
        assert_eq!(cached.project::<u8>().unwrap_err().to_string(), "decoding Pod n/a");
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
        let named: Named = ingest::<Pod>(ManagedFieldsMode::Drop).read(POD).unwrap().project().unwrap();
        assert!(named.spec.containers.is_empty());
    }

    fn within(budget: usize) -> Ingest<DynamicObject> {
        let options = InformerOptions::default().budget(budget);
        Ingest::new(Arc::new(Memory::new(Arc::new(Pod::api_resource()), &options)), ManagedFieldsMode::Drop)
    }

    fn pod(number: usize) -> String {
        let containers: Vec<_> =
            (0..8).map(|n| format!(r#"{{"name":"container-{n}","image":"registry.example/app:{number}"}}"#)).collect();
        let containers = containers.join(",");
        format!(r#"{{"metadata":{{"name":"pod-{number}","uid":"{number}"}},"spec":{{"containers":[{containers}]}}}}"#)
    }

    #[test]
    fn recently_used_decoded_objects_are_kept() {
        // The budget has room for all bodies. A quarter of it has room for three decoded objects, but the floor is
        // higher.
        let mut ingest = within(4 * 3 * 6 * pod(100).len());
        let objects: Vec<_> = (100..150).map(|number| ingest.read(pod(number).as_bytes()).unwrap()).collect();
        for object in &objects {
            object.get().unwrap();
            objects[0].get().unwrap();
        }
        let kept: Vec<_> = (0..50).filter(|at| objects[*at].entry().body.has_decoded()).collect();
        assert!(kept.len() <= 17 && [0, 48, 49].iter().all(|used| kept.contains(used)), "{kept:?}");
        drop(objects);
        assert!(ingest.memory.is_unused(), "{:?}", ingest.memory);
    }

    #[test]
    fn objects_read_once_are_evicted_first() {
        // The budget has room for 640 decoded objects, 20 of them for objects that were read once.
        let mut ingest = within(4 * 640 * 6 * pod(100).len());
        let objects: Vec<_> = (100..300).map(|number| ingest.read(pod(number).as_bytes()).unwrap()).collect();
        let kept = || (0..200).filter(|at| objects[*at].entry().body.has_decoded()).collect::<Vec<_>>();
        for object in &objects[..100] {
            object.get().unwrap();
        }
        assert_eq!(kept(), (80..100).collect::<Vec<_>>());
        for object in &objects[..50] {
            object.get().unwrap();
        }
        objects[90].get().unwrap();
        for object in &objects[100..] {
            object.get().unwrap();
        }
        assert_eq!(kept(), (0..50).chain([90]).chain(180..200).collect::<Vec<_>>());
    }

    #[test]
    fn early_decoded_objects_ignore_the_budget() {
        let options = InformerOptions::default().budget(0).decoding(Decoding::Early);
        let memory = Memory::new(Arc::new(Pod::api_resource()), &options);
        let mut ingest = Ingest::<DynamicObject>::new(Arc::new(memory), ManagedFieldsMode::Drop);
        let objects: Vec<_> = (0..50).map(|number| ingest.read(pod(number).as_bytes()).unwrap()).collect();
        for object in &objects {
            object.get().unwrap();
        }
        for object in &objects {
            assert!(object.entry().body.has_decoded() && Arc::ptr_eq(&object.get().unwrap(), &object.get().unwrap()));
        }
    }

    #[test]
    fn the_scanner_and_serde_read_the_same_metadata() {
        for text in [
            std::str::from_utf8(POD).unwrap(),
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"0a1b2c3d-4e5f-4789-8abc-def012345678","resourceVersion":"7",
              "generation":3,"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:06Z","finalizers":["f","g"],
              "labels":{"app":"x","t":null},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true}]}}"#,
            r#"{"spec":{"metadata":{"name":"inner"}},"metadata":{"name":"after","labels":null,"ownerReferences":null,"generation":null}}"#,
        ] {
            let survey = scan::survey(text.as_bytes()).unwrap();
            let meta = ingest::<Pod>(ManagedFieldsMode::Drop).meta_of(&survey).unwrap();
            assert_eq!(meta, Meta::parse(text.as_bytes()).unwrap());
        }
    }

    #[test]
    fn serde_reads_objects_that_the_scanner_cannot() {
        for (text, label) in [
            (r#"{"meta\u0064ata":{"name":"a","labels":{"x":"y"}}}"#, "y"),
            (r#"{"metadata":{"name":"a","labels":{"x":"\u0079"}}}"#, "y"),
            (r#"{"metadata":{"name":"z"},"spec":{},"metadata":{"name":"a","labels":{"x":"y"}}}"#, "y"),
            (r#"{"metadata":{"name":"z"},"spec":{},"m\u0065tadata":{"name":"a","labels":{"x":"y"}}}"#, "y"),
            (r#"{"metadata":{"name":"a","labels":{"x":"1","x":"y"}}}"#, "y"),
        ] {
            let cached = ingest::<DynamicObject>(ManagedFieldsMode::Drop).read(text.as_bytes()).unwrap();
            assert_eq!((&**cached.meta().name(), cached.meta().label("x")), ("a", Some(label)), "{text}");
            assert_eq!(cached.get().unwrap().name(), "a", "{text}");
        }
    }

    #[test]
    fn foreign_objects_are_rejected_with_a_reason() {
        let read = |text: &str| ingest::<Pod>(ManagedFieldsMode::Drop).read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(read(r#"{"kind":"Table","metadata":{"name":"a"}}"#), "the object is a Table, not a Pod");
        assert_eq!(read(r#"{"k\u0069nd":"Table","metadata":{"name":"a"}}"#), "the object is a Table, not a Pod");
        assert_eq!(read(r#"{"metadata":{"namespace":"n"}}"#), "the object has no name");
        for odd in ["", "garbage", "[1]", r#"{"metadata":"#, r#"{"metadata":{"name":3}}"#] {
            assert_eq!(read(odd), "the metadata cannot be read", "{odd}");
        }
        let partial = r#"{"kind":"PartialObjectMetadata","metadata":{"name":"a"}}"#;
        assert!(ingest::<Pod>(ManagedFieldsMode::Drop).read(partial.as_bytes()).is_ok());
    }
}
