//! The metadata of an encoded object, as used by caches, indices and handlers.

use std::{collections::HashMap, fmt, sync::Arc};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use thiserror::Error;

use crate::{ObjectKey, ResourceVersion, Uid};

/// The number of labels up to which a search for duplicates compares each with all others.
const FEW: usize = 32;

/// The parsed part of an object's metadata: identity, version, labels, owners, finalizers and times.
///
/// Annotations and `managedFields` are not included, because they are large and seldom read; decode the object to get
/// them. The type is small, because a cache holds one per object: values that many objects share are stored once
/// ([`Traits`]), and times are stored in whole seconds, as the server writes them.
#[derive(Clone, PartialEq, Eq)]
pub struct Meta {
    key: ObjectKey,
    uid: Uid,
    resource_version: ResourceVersion,
    /// The generation, or [`NONE`] for kinds without one.
    generation: i64,
    /// The creation time in seconds, or [`NONE`].
    created: i64,
    /// The deletion time in seconds, or [`NONE`].
    deleted: i64,
    traits: Arc<Traits>,
}

/// Stands for a missing number. Times and generations never have this value.
const NONE: i64 = i64::MIN;

/// The part of the metadata that objects may share with others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Traits {
    /// The labels, in the order of the encoding.
    pub labels: Labels,
    /// The owner references, in the order of the encoding.
    pub owner_references: Box<[OwnerRef]>,
    /// The finalizers, in the order of the encoding.
    pub finalizers: Box<[Arc<str>]>,
}

/// The keys and values of labels. A list instead of a map, because objects have few labels and a list is much smaller.
pub type Labels = Box<[(Arc<str>, Arc<str>)]>;

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    /// The API version, such as `apps/v1`.
    #[serde(deserialize_with = "or_default")]
    pub api_version: Arc<str>,
    /// The kind, such as `ReplicaSet`.
    #[serde(deserialize_with = "or_default")]
    pub kind: Arc<str>,
    /// The owner's name. A namespaced owner is in the namespace of the object.
    #[serde(deserialize_with = "or_default")]
    pub name: Arc<str>,
    /// The owner's UID.
    #[serde(deserialize_with = "or_default")]
    pub uid: Arc<str>,
    /// `true` if this owner is the object's controller; at most one is.
    #[serde(deserialize_with = "or_default")]
    pub controller: bool,
    /// `true` if a foreground deletion of the owner waits for the object.
    #[serde(deserialize_with = "or_default")]
    pub block_owner_deletion: bool,
}

/// The error of metadata that cannot be decoded.
#[derive(Debug, Error)]
#[error("reading an object's metadata")]
pub struct MetaError(#[from] serde_json::Error);

// === impl Meta ===

impl Meta {
    /// Creates metadata that contains only a key.
    #[must_use]
    pub fn new(key: ObjectKey) -> Self {
        Self {
            key,
            uid: Uid::default(),
            resource_version: ResourceVersion::default(),
            generation: NONE,
            created: NONE,
            deleted: NONE,
            traits: Arc::default(),
        }
    }

    /// Returns this metadata with a UID.
    #[must_use]
    pub fn with_uid(self, uid: Uid) -> Self {
        Self { uid, ..self }
    }

    /// Returns this metadata with a resource version.
    #[must_use]
    pub fn with_resource_version(self, resource_version: ResourceVersion) -> Self {
        Self { resource_version, ..self }
    }

    /// Returns this metadata with a generation.
    #[must_use]
    pub fn with_generation(self, generation: Option<i64>) -> Self {
        Self { generation: generation.unwrap_or(NONE), ..self }
    }

    /// Returns this metadata with a creation time, truncated to seconds.
    #[must_use]
    pub fn with_creation_timestamp(self, time: Option<Timestamp>) -> Self {
        Self { created: time.map_or(NONE, Timestamp::as_second), ..self }
    }

    /// Returns this metadata with a deletion time, truncated to seconds.
    #[must_use]
    pub fn with_deletion_timestamp(self, time: Option<Timestamp>) -> Self {
        Self { deleted: time.map_or(NONE, Timestamp::as_second), ..self }
    }

    /// Returns this metadata with labels, owners and finalizers.
    #[must_use]
    pub fn with_traits(self, traits: impl Into<Arc<Traits>>) -> Self {
        Self { traits: traits.into(), ..self }
    }

    /// Parses the metadata in an object's JSON. The rest of the object is skipped without decoding it.
    ///
    /// Of a duplicate `metadata` key, the last one counts, as in Go.
    pub fn parse(object: &[u8]) -> Result<Self, MetaError> {
        #[derive(Deserialize)]
        struct Envelope(#[serde(deserialize_with = "metadata_of")] Encoded);
        let Envelope(encoded) = serde_json::from_slice(object)?;
        Ok(encoded.into())
    }

    /// Parses the key, UID and resource version from the start of an object's JSON, and reads no further than
    /// necessary. Returns `None` if the start does not contain all of them.
    #[must_use]
    pub fn parse_start(start: &[u8]) -> Option<Self> {
        let mut found = Identity::default();
        // The missing end makes the decoder fail, after it has filled in the values.
        let start_of_object = Start { found: &mut found, level: Level::Object };
        let _ = start_of_object.deserialize(&mut serde_json::Deserializer::from_slice(start));
        let Identity { name, namespace, uid, resource_version } = found;
        // UID and version follow name and namespace, both in the order of Go's types and in alphabetical order.
        let key = ObjectKey { namespace, name: name? };
        Some(Self::new(key).with_uid(uid?).with_resource_version(resource_version?))
    }

    /// Returns the namespace and name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the name, unique within the namespace and kind.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.key.name
    }

    /// Returns the namespace; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&Arc<str>> {
        self.key.namespace.as_ref()
    }

    /// Returns the UID, unique over space and time. Empty only for objects that no server has stored.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Returns the resource version.
    #[must_use]
    pub fn resource_version(&self) -> &ResourceVersion {
        &self.resource_version
    }

    /// Returns the generation, which counts the changes of the desired state; `None` for kinds without one.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        Some(self.generation).filter(|generation| *generation != NONE)
    }

    /// Returns the time at which the server created the object.
    #[must_use]
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        time(self.created)
    }

    /// Returns the time of the deletion request; `None` if the object is not being deleted.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        time(self.deleted)
    }

    /// Returns the part that the object may share with others.
    #[must_use]
    pub fn traits(&self) -> &Arc<Traits> {
        &self.traits
    }

    /// Returns the labels, in the order of the encoding.
    #[must_use]
    pub fn labels(&self) -> &[(Arc<str>, Arc<str>)] {
        &self.traits.labels
    }

    /// Returns the owner references, in the order of the encoding.
    #[must_use]
    pub fn owner_references(&self) -> &[OwnerRef] {
        &self.traits.owner_references
    }

    /// Returns the finalizers, in the order of the encoding.
    #[must_use]
    pub fn finalizers(&self) -> &[Arc<str>] {
        &self.traits.finalizers
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }

    /// Returns the owner that is the object's controller.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references().iter().find(|owner| owner.controller)
    }

    /// Reports whether the object has a deletion timestamp.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deleted != NONE
    }
}

fn time(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok()
}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta")
            .field("key", &self.key)
            .field("uid", &self.uid)
            .field("resource_version", &self.resource_version)
            .field("generation", &self.generation())
            .field("creation_timestamp", &self.creation_timestamp())
            .field("deletion_timestamp", &self.deletion_timestamp())
            .field("traits", &self.traits)
            .finish_non_exhaustive()
    }
}

/// The encoded form of metadata.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Encoded {
    #[serde(deserialize_with = "or_default")]
    name: Arc<str>,
    namespace: Option<Arc<str>>,
    #[serde(deserialize_with = "or_default")]
    uid: Uid,
    #[serde(deserialize_with = "or_default")]
    resource_version: ResourceVersion,
    generation: Option<i64>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "pairs")]
    labels: Vec<(Arc<str>, Arc<str>)>,
    #[serde(deserialize_with = "or_default")]
    owner_references: Vec<OwnerRef>,
    #[serde(deserialize_with = "or_default")]
    finalizers: Vec<Arc<str>>,
}

impl From<Encoded> for Meta {
    fn from(encoded: Encoded) -> Self {
        let traits = Traits {
            labels: encoded.labels.into(),
            owner_references: encoded.owner_references.into(),
            finalizers: encoded.finalizers.into(),
        };
        Self::new(ObjectKey { namespace: encoded.namespace, name: encoded.name })
            .with_uid(encoded.uid)
            .with_resource_version(encoded.resource_version)
            .with_generation(encoded.generation)
            .with_creation_timestamp(encoded.creation_timestamp)
            .with_deletion_timestamp(encoded.deletion_timestamp)
            .with_traits(traits)
    }
}

impl OwnerRef {
    /// Returns the group of [`Self::api_version`]; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// Decodes `null` as the zero value, as in Go.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Arc<str>, Arc<str>)>, D::Error> {
    struct Pairs;
    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(Arc<str>, Arc<str>)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Self::Value::with_capacity(map.size_hint().unwrap_or(0));
            // The places of the keys if there are many.
            let mut places: HashMap<Arc<str>, usize> = HashMap::new();
            while let Some(key) = map.next_key::<Arc<str>>()? {
                let value = map.next_value::<Option<Arc<str>>>()?.unwrap_or_default();
                if pairs.len() == FEW {
                    places.extend(pairs.iter().enumerate().map(|(at, (key, _))| (Arc::clone(key), at)));
                }
                let known = if pairs.len() < FEW {
                    pairs.iter().position(|(known, _)| *known == key)
                } else {
                    places.get(&key).copied()
                };
                if let Some(at) = known {
                    pairs[at].1 = value;
                    continue;
                }
                if pairs.len() >= FEW {
                    places.insert(Arc::clone(&key), pairs.len());
                }
                pairs.push((key, value));
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_any(Pairs)
}

fn metadata_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Encoded, D::Error> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = Encoded;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Encoded, A::Error> {
            let mut meta = Encoded::default();
            while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                if key == "metadata" {
                    meta = map.next_value::<Option<Encoded>>()?.unwrap_or_default();
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(meta)
        }
    }
    deserializer.deserialize_map(Object)
}

/// The values found at the start of an object.
#[derive(Default)]
struct Identity {
    name: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
    uid: Option<Uid>,
    resource_version: Option<ResourceVersion>,
}

/// Decodes the values on this level of an object.
struct Start<'i> {
    found: &'i mut Identity,
    level: Level,
}

#[derive(Clone, Copy)]
enum Level {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Start<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Start<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let found = self.found;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match (self.level, &*key) {
                // Use the first `metadata`, because it is unknown whether a duplicate follows.
                (Level::Object, "metadata") => return map.next_value_seed(Self { found, level: Level::Metadata }),
                (Level::Metadata, "name") => found.name = map.next_value()?,
                (Level::Metadata, "namespace") => found.namespace = map.next_value()?,
                (Level::Metadata, "uid") => found.uid = map.next_value()?,
                (Level::Metadata, "resourceVersion") => found.resource_version = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_of_equal_labels_is_used_among_few_and_many() {
        for count in [2, FEW, FEW + 1, 50_000] {
            let all: Vec<String> =
                (0..count).chain([0, count - 1]).enumerate().map(|(at, key)| format!(r#""k{key}":"{at}""#)).collect();
            let meta =
                Meta::parse(format!(r#"{{"metadata":{{"name":"a","labels":{{{}}}}}}}"#, all.join(",")).as_bytes())
                    .unwrap();
            assert_eq!(meta.labels().len(), count);
            assert_eq!(meta.label("k0"), Some(&*count.to_string()));
            assert_eq!(meta.label(&format!("k{}", count - 1)), Some(&*(count + 1).to_string()));
            assert_eq!(meta.labels()[1].0, "k1".into());
        }
    }

    #[test]
    fn metadata_is_found_at_any_position() {
        let meta = Meta::parse(
            br#"{"spec":{"metadata":{"name":"inner"}},"meta\u0064ata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",
            "generation":2,"labels":{"app":"x","tier":null},"annotations":{"big":"text"},"finalizers":["f"],"managedFields":[{}],
            "creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":null,
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru","controller":true}]}}"#,
        )
        .unwrap();
        assert_eq!(meta.key().to_string(), "n/a");
        assert_eq!(meta.resource_version().as_u64(), Some(7));
        assert_eq!((meta.label("app"), meta.label("tier"), meta.label("none")), (Some("x"), Some(""), None));
        let owner = meta.controller().unwrap();
        assert_eq!((owner.group(), &*owner.name, owner.block_owner_deletion), ("apps", "r", false));
        assert!(!meta.is_deleting());
    }

    #[test]
    fn the_last_of_two_metadata_wins() {
        assert_eq!(&**Meta::parse(br#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#).unwrap().name(), "b");
    }

    #[test]
    fn object_prefix_gives_its_identity_or_none() {
        let typed = r#"{"kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"l":"x"#;
        let custom = r#"{"data":{"metadata":{"name":"inner"}},"metadata":{"managedFields":[{}],"name":"a","namespace":"n","resourceVersion":"7","uid":"u"},"spec":{"big":"xx"#;
        for start in [typed, custom] {
            let all = start.find(r#""l":"#).or(start.find(r#"},"spec"#)).unwrap() - 1;
            for end in 0..start.len() {
                match Meta::parse_start(&start.as_bytes()[..end]) {
                    Some(meta) => assert_eq!(
                        (meta.key().to_string(), meta.resource_version().as_u64(), meta.uid()),
                        ("n/a".to_owned(), Some(7), &Uid::new("u")),
                    ),
                    None => assert!(end <= all, "{end}"),
                }
            }
        }
        for nothing in ["", "[", r#"{"spec":{"name":"a"}"#, r#"{"metadata":{"name":"a","namespace":"n"}}"#] {
            assert_eq!(Meta::parse_start(nothing.as_bytes()), None, "{nothing}");
        }
        let whole = br#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}"#;
        assert_eq!(Meta::parse_start(whole).unwrap().key().to_string(), "a");
    }

    #[test]
    fn non_object_is_an_error() {
        for odd in ["", "[]", "{", r#"{"metadata":3}"#, r#"{"metadata":{"name":3}}"#] {
            assert!(Meta::parse(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
