//! The required fields of custom kinds, from their schemas.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use parking_lot::RwLock;

use super::omit::{Field, Keys, Part, Shape};
use crate::crd::CustomResource;

/// A struct of a custom kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Custom<'s>(pub(super) &'s JSONSchemaProps);

/// Returns the schema of a kind. It is computed once per type.
pub(super) fn schema_of<K: CustomResource>() -> Arc<JSONSchemaProps> {
    static SCHEMAS: LazyLock<RwLock<HashMap<TypeId, Arc<JSONSchemaProps>>>> = LazyLock::new(RwLock::default);
    let key = TypeId::of::<K>();
    if let Some(schema) = SCHEMAS.read().get(&key) {
        return Arc::clone(schema);
    }
    let version = K::declared().spec.versions.into_iter().next();
    let schema = version.and_then(|version| version.schema?.open_api_v3_schema).unwrap_or_default();
    Arc::clone(SCHEMAS.write().entry(key).or_insert_with(|| Arc::new(schema)))
}

impl<'s> Shape<'s> for Custom<'s> {
    fn field(self, name: &str) -> Option<Field<'s, Self>> {
        let Self(schema) = self;
        let property = schema.properties.as_ref()?.get(name)?;
        let is_required = schema.required.iter().flatten().any(|required| required == name);
        Some(Field { is_required, part: part(property) })
    }

    fn is_atomic(self) -> bool {
        self.0.x_kubernetes_map_type.as_deref() == Some("atomic")
    }
}

fn part(property: &JSONSchemaProps) -> Part<'_, Custom<'_>> {
    if property.properties.is_some() {
        return Part::Struct(Custom(property));
    }
    match (&property.items, &property.additional_properties) {
        (Some(JSONSchemaPropsOrArray::Schema(item)), _)
            if property.x_kubernetes_list_type.as_deref() == Some("map") =>
        {
            let keys = property.x_kubernetes_list_map_keys.as_deref().unwrap_or_default();
            Part::Items(Keys::List(keys), Custom(item))
        }
        (_, Some(JSONSchemaPropsOrBool::Schema(entry)))
            if property.x_kubernetes_map_type.as_deref() != Some("atomic") =>
        {
            Part::Entries(Custom(entry))
        }
        _ => Part::None,
    }
}
