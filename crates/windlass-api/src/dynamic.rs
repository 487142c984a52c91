//! Objects of kinds that are known only at run time.

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap as _};
use serde_ignored::Path;
use serde_json::{Map, Value};

use crate::{ApiResource, Content, Object, Resource, TypeMeta, object::reference_of};

/// An object of any kind, with typed metadata and untyped data; corresponds to `Unstructured` in Go.
///
/// Unknown fields survive a read-modify-write, including those of the metadata itself. Unknown fields within entries of
/// the metadata, such as owner references, are lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DynamicObject {
    /// The API version and kind. Absent in list items of built-in kinds, where only the list contains them.
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    pub metadata: ObjectMeta,
    /// The metadata fields that [`ObjectMeta`] does not have, from newer Kubernetes versions.
    pub unknown_metadata: Map<String, Value>,
    /// All other fields of the object.
    pub data: Map<String, Value>,
}

/// The metadata of an object of any kind: `PartialObjectMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartialObject {
    /// The API version and kind. Absent in list items, where only the list contains them.
    #[serde(flatten, default)]
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl DynamicObject {
    /// Creates an object of a kind with only a name.
    #[must_use]
    pub fn new(resource: &ApiResource, name: impl Into<String>) -> Self {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        Self { types: Some(TypeMeta::of(resource)), metadata, ..Self::default() }
    }

    /// Returns this object in a namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.metadata.namespace = Some(namespace.into());
        self
    }

    /// Returns an object reference to this object, for events and statuses; `None` if it has no kind.
    #[must_use]
    pub fn object_reference(&self) -> Option<ObjectReference> {
        self.types.as_ref().map(|types| reference_of(types, &self.metadata))
    }

    /// Converts the object to a type of a known kind. Fields that `K` does not have are dropped.
    ///
    /// Returns an error that names the field if a value does not fit. The object's own `apiVersion` and `kind` are not
    /// checked.
    pub fn to_typed<K: Object>(&self) -> serde_json::Result<K> {
        serde_json::from_value(serde_json::to_value(self)?)
    }

    /// Converts an object of a known kind.
    pub fn from_typed<K: Resource>(object: &K) -> serde_json::Result<Self> {
        let mut dynamic: Self = serde_json::from_value(serde_json::to_value(object)?)?;
        dynamic.types.get_or_insert_with(|| TypeMeta::of(&K::api_resource()));
        Ok(dynamic)
    }
}

/// Encoded metadata: the known fields and the rest.
#[derive(Serialize)]
struct WholeMetadata<'o> {
    #[serde(flatten)]
    known: &'o ObjectMeta,
    #[serde(flatten)]
    unknown: &'o Map<String, Value>,
}

impl Serialize for DynamicObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(TypeMeta { api_version, kind }) = &self.types {
            map.serialize_entry("apiVersion", api_version)?;
            map.serialize_entry("kind", kind)?;
        }
        if self.unknown_metadata.is_empty() {
            map.serialize_entry("metadata", &self.metadata)?;
        } else {
            let whole = WholeMetadata { known: &self.metadata, unknown: &self.unknown_metadata };
            map.serialize_entry("metadata", &whole)?;
        }
        for (field, value) in &self.data {
            map.serialize_entry(field, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for DynamicObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut data = Map::deserialize(deserializer)?;
        let mut text = |field: &'static str| match data.shift_remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(de::Error::custom(format_args!("{field} is {other}, expected a string"))),
        };
        let types = text("apiVersion")?.zip(text("kind")?).map(|(api_version, kind)| TypeMeta { api_version, kind });
        let (metadata, unknown_metadata) = match data.shift_remove("metadata") {
            None | Some(Value::Null) => Default::default(),
            Some(metadata) => split(metadata).map_err(de::Error::custom)?,
        };
        Ok(Self { types, metadata, unknown_metadata, data })
    }
}

/// Splits metadata into its known fields and the rest.
fn split(metadata: Value) -> serde_json::Result<(ObjectMeta, Map<String, Value>)> {
    let mut unknown = Vec::new();
    let known = serde_ignored::deserialize(&metadata, |path| {
        if let Path::Map { parent: Path::Root, key } = path {
            unknown.push(key);
        }
    })?;
    let Value::Object(mut fields) = metadata else { return Ok((known, Map::new())) };
    let unknown = unknown.into_iter().filter_map(|name| fields.shift_remove_entry(&name)).collect();
    Ok((known, unknown))
}

impl Object for DynamicObject {
    const CONTENT: Content = Content::AllFields;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Object for PartialObject {
    const CONTENT: Content = Content::Metadata;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_survive_a_round_trip() {
        let json = r#"{"apiVersion":"x.io/v1","kind":"Foo","metadata":{"name":"a"},"spec":{"n":1},"more":[true]}"#;
        let object: DynamicObject = serde_json::from_str(json).unwrap();
        assert_eq!(object.types.as_ref().unwrap().gvk().to_string(), "x.io/v1, Kind=Foo");
        assert_eq!(serde_json::to_value(&object).unwrap(), serde_json::from_str::<Value>(json).unwrap());
    }

    #[test]
    fn metadata_of_a_later_kubernetes_survives_a_read_modify_write() {
        let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","later":{"x":[1]},"uid":"u"},"spec":{}}"#;
        let mut object: DynamicObject = serde_json::from_str(json).unwrap();
        object.metadata.labels = Some([("l".to_owned(), "v".to_owned())].into());
        let written = serde_json::to_value(&object).unwrap();
        let expected = serde_json::json!({"name": "a", "labels": {"l": "v"}, "later": {"x": [1]}, "uid": "u"});
        assert_eq!(written["metadata"], expected);
    }

    #[test]
    fn invalid_object_error_has_a_reason() {
        let error = |json: &str| serde_json::from_str::<DynamicObject>(json).unwrap_err().to_string();
        assert_eq!(error(r#"{"kind":3,"metadata":{}}"#), "kind is 3, expected a string");
        assert!(error(r#"{"metadata":{"name":[]}}"#).contains("invalid type"));
        assert!(error("[]").contains("expected a map"));
    }

    #[test]
    fn typed_and_dynamic_objects_become_each_other() {
        use k8s_openapi::api::core::v1::ConfigMap;
        let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}"#;
        let typed: ConfigMap = serde_json::from_str(json).unwrap();
        let mut dynamic = DynamicObject::from_typed(&typed).unwrap();
        assert_eq!(dynamic, serde_json::from_str(json).unwrap());
        dynamic.types = None;
        assert_eq!(dynamic.to_typed::<ConfigMap>().unwrap(), typed);
        dynamic.data.insert("data".to_owned(), Value::from(3));
        assert!(dynamic.to_typed::<ConfigMap>().unwrap_err().to_string().contains("invalid type"));
    }

    #[test]
    fn a_list_item_needs_no_type() {
        let object: DynamicObject = serde_json::from_str(r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).unwrap();
        assert_eq!((object.types, object.data["data"]["k"].as_str()), (None, Some("v")));
    }
}
