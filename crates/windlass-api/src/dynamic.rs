//! Objects of kinds that are known only at run time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ApiResource, GroupVersionKind, Object};

/// What an object says of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeMeta {
    /// `apps/v1`
    pub api_version: String,
    /// `Deployment`
    pub kind: String,
}

/// Any object: its metadata typed, all the rest as it came. Go's `Unstructured`.
///
/// Unknown fields survive a read-modify-write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DynamicObject {
    /// Absent in list items of built-in kinds, where the list says it once.
    #[serde(flatten, default)]
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Every other field of the object.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// The metadata of any object, without the rest: what a server sends for `PartialObjectMetadata`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartialObject {
    /// Absent in list items, where the list says it once.
    #[serde(flatten, default)]
    pub types: Option<TypeMeta>,
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
}

impl TypeMeta {
    /// Of a resource.
    #[must_use]
    pub fn of(resource: &ApiResource) -> Self {
        Self { api_version: resource.api_version(), kind: resource.kind.clone().into_owned() }
    }

    /// Group, version and kind; a malformed `apiVersion` counts as a version of the core group.
    #[must_use]
    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        GroupVersionKind::new(group.to_owned(), version.to_owned(), self.kind.clone())
    }
}

impl DynamicObject {
    /// An object of a kind, with a name and nothing else.
    #[must_use]
    pub fn new(resource: &ApiResource, name: impl Into<String>) -> Self {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        Self { types: Some(TypeMeta::of(resource)), metadata, data: Map::new() }
    }

    /// The same object in a namespace.
    #[must_use]
    pub fn within(mut self, namespace: impl Into<String>) -> Self {
        self.metadata.namespace = Some(namespace.into());
        self
    }
}

impl Object for DynamicObject {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Object for PartialObject {
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
    fn a_list_item_needs_no_type() {
        let object: DynamicObject = serde_json::from_str(r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).unwrap();
        assert_eq!((object.types, object.data["data"]["k"].as_str()), (None, Some("v")));
    }
}
