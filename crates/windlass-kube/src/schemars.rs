//! The schemas of schemars as schemas of Windlass.

use std::marker::PhantomData;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube_core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::{JsonSchema, generate::SchemaSettings, transform::AddNullable};
use serde_json::Value;
use windlass_api::crd::{Schema, unsupported_schema};

/// The schema of a type with `schemars::JsonSchema`, for the kinds of Windlass: `#[schema(as = Schemars<Settings>)]`.
///
/// The schema is structural, and equals that of `#[derive(kube::CustomResource)]`: subschemas are inlined, and the shapes
/// of serde that API servers reject are rewritten. A type without a structural schema, such as one that contains itself,
/// gets a [placeholder](unsupported_schema) with the reason.
///
/// ```
/// use windlass_api::crd::schema_of;
/// use windlass_kube::Schemars;
///
/// #[derive(schemars::JsonSchema)]
/// struct Settings {
///     #[schemars(range(min = 1))]
///     workers: u8,
/// }
///
/// let schema = serde_json::to_value(schema_of::<Schemars<Settings>>())?;
/// assert_eq!(schema["properties"]["workers"]["minimum"], 1.0);
/// assert_eq!(schema["required"], serde_json::json!(["workers"]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Schemars<T: ?Sized>(PhantomData<T>);

impl<T: JsonSchema + ?Sized> Schema for Schemars<T> {
    fn schema() -> JSONSchemaProps {
        let settings = SchemaSettings::openapi3()
            .with(|settings| {
                settings.inline_subschemas = true;
                settings.meta_schema = None;
            })
            .with_transform(AddNullable::default())
            .with_transform(StructuralSchemaRewriter)
            .with_transform(OptionalEnum)
            .with_transform(OptionalIntOrString);
        let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        let name = T::schema_name();
        if has_reference(&schema) {
            return unsupported_schema(format!("{name} contains itself, and a structural schema ends"));
        }
        serde_json::from_value(schema).unwrap_or_else(|error| unsupported_schema(format!("{name}: {error}")))
    }
}

/// Reports whether a schema has references. They remain only where inlining does not end.
fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        _ => false,
    }
}
