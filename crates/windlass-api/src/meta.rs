//! The metadata of an encoded object, as caches, indices and handlers read it.

use std::{fmt, sync::Arc};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use thiserror::Error;

use crate::{ObjectKey, ResourceVersion};

/// What of an object's metadata is worth keeping parsed: identity, version, labels, owners, finalizers, times.
///
/// Annotations and managedFields are not here: they are large and seldom read; who needs them decodes the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Unique within namespace and kind.
    #[serde(deserialize_with = "or_default")]
    pub name: Arc<str>,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// Unique over time and space; empty only in objects that no server has stored.
    #[serde(deserialize_with = "or_default")]
    pub uid: Arc<str>,
    /// The version of this state.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: ResourceVersion,
    /// Counts changes of the desired state, for kinds that keep it.
    pub generation: Option<i64>,
    /// When the server stored the object first.
    pub creation_timestamp: Option<Timestamp>,
    /// Set iff the object is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// In the order of the encoding.
    #[serde(deserialize_with = "pairs")]
    pub labels: Labels,
    /// In the order of the encoding.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<OwnerRef>,
    /// In the order of the encoding.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<Arc<str>>,
}

/// Keys and values of labels. A list, not a map: objects have few, and a list is a fraction of a map's size.
pub type Labels = Vec<(Arc<str>, Arc<str>)>;

/// An owner, as an object names it in its metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    /// `apps/v1`
    #[serde(deserialize_with = "or_default")]
    pub api_version: Arc<str>,
    /// `ReplicaSet`
    #[serde(deserialize_with = "or_default")]
    pub kind: Arc<str>,
    /// The owner's name; its namespace is that of the object, if it has one.
    #[serde(deserialize_with = "or_default")]
    pub name: Arc<str>,
    /// Which object of that name is meant.
    #[serde(deserialize_with = "or_default")]
    pub uid: Arc<str>,
    /// Whether this owner manages the object; at most one does.
    #[serde(deserialize_with = "or_default")]
    pub controller: bool,
    /// Whether the owner's foreground deletion waits for the object.
    #[serde(deserialize_with = "or_default")]
    pub block_owner_deletion: bool,
}

/// An object whose metadata cannot be read.
#[derive(Debug, Error)]
#[error("reading an object's metadata")]
pub struct MetaError(#[from] serde_json::Error);

// === impl Meta ===

impl Meta {
    /// Reads the metadata out of an object's JSON; the rest of the object is skipped, not decoded.
    ///
    /// A `metadata` key that occurs twice counts as Go's decoder counts it: the last one wins.
    pub fn parse(object: &[u8]) -> Result<Self, MetaError> {
        #[derive(Deserialize)]
        struct Envelope(#[serde(deserialize_with = "metadata_of")] Meta);
        let Envelope(meta) = serde_json::from_slice(object)?;
        Ok(meta)
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(name, _)| &**name == key).map(|(_, value)| &**value)
    }

    /// The owner that manages the object.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether the object is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

impl OwnerRef {
    /// The group of [`Self::api_version`]; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// `null` is the zero value, as in Go.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    struct Pairs;
    impl<'de> Visitor<'de> for Pairs {
        type Value = Labels;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of strings")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Self::Value::with_capacity(map.size_hint().unwrap_or(0));
            while let Some(key) = map.next_key::<Arc<str>>()? {
                let value = map.next_value::<Option<Arc<str>>>()?.unwrap_or_default();
                match pairs.iter_mut().find(|(known, _)| *known == key) {
                    Some(pair) => pair.1 = value,
                    None => pairs.push((key, value)),
                }
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_any(Pairs)
}

fn metadata_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Meta, D::Error> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = Meta;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Meta, A::Error> {
            let mut meta = Meta::default();
            while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
                if key == "metadata" {
                    meta = map.next_value::<Option<Meta>>()?.unwrap_or_default();
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(meta)
        }
    }
    deserializer.deserialize_map(Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_wherever_it_stands() {
        let meta = Meta::parse(
            br#"{"spec":{"metadata":{"name":"inner"}},"meta\u0064ata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",
            "generation":2,"labels":{"app":"x","tier":null},"annotations":{"big":"text"},"finalizers":["f"],"managedFields":[{}],
            "creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":null,
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ru","controller":true}]}}"#,
        )
        .unwrap();
        assert_eq!(meta.key().to_string(), "n/a");
        assert_eq!(meta.resource_version.as_u64(), Some(7));
        assert_eq!((meta.label("app"), meta.label("tier"), meta.label("none")), (Some("x"), Some(""), None));
        let owner = meta.controller().unwrap();
        assert_eq!((owner.group(), &*owner.name, owner.block_owner_deletion), ("apps", "r", false));
        assert!(!meta.is_deleting());
    }

    #[test]
    fn the_last_of_two_metadata_wins() {
        assert_eq!(&*Meta::parse(br#"{"metadata":{"name":"a"},"metadata":{"name":"b"}}"#).unwrap().name, "b");
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for odd in ["", "[]", "{", r#"{"metadata":3}"#, r#"{"metadata":{"name":3}}"#] {
            assert!(Meta::parse(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
