//! Functions that the derives call. They change together with the derives, without semantic versioning.

use std::collections::BTreeMap;

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition as Column, CustomResourceDefinition, CustomResourceSubresourceScale as Scale,
    ExternalDocumentation, JSON, JSONSchemaProps, SelectableField, ValidationRule,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinitionNames, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};
pub use serde_json::json;
use serde_json::{Value, json as value};

use super::values;
pub use super::{Schema, schema_of, unsupported_schema};
pub use crate::Scope;

/// The attributes of `#[resource(…)]`.
#[derive(Debug)]
pub struct Declaration<'a> {
    /// The singular name. Defaults to the kind in lower case.
    pub singular: Option<&'a str>,
    /// The list kind. Defaults to the kind with the suffix `List`.
    pub list_kind: Option<&'a str>,
    /// The short names.
    pub short_names: &'a [&'a str],
    /// The categories: groups of kinds that are listed together.
    pub categories: &'a [&'a str],
    /// The labels of the CustomResourceDefinition.
    pub labels: &'a [(&'a str, &'a str)],
    /// The annotations of the CustomResourceDefinition.
    pub annotations: &'a [(&'a str, &'a str)],
    /// The scope.
    pub scope: Scope,
    /// `true` if the version is served.
    pub served: bool,
    /// `true` if the version is the storage version.
    pub storage: bool,
    /// The deprecation warning; empty for the server's default text.
    pub deprecated: Option<&'a str>,
    /// `true` if the kind has the `status` subresource.
    pub status: bool,
    /// The paths of the `scale` subresource.
    pub scale: Option<Scale>,
    /// The printer columns.
    pub columns: Vec<Column>,
    /// The selectable fields.
    pub selectable: &'a [&'a str],
    /// The schema of the objects.
    pub schema: JSONSchemaProps,
}

/// The identity of a kind in one version.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The plural name.
    pub plural: &'a str,
}

impl Declaration<'_> {
    /// Returns the CustomResourceDefinition of this version.
    #[must_use]
    pub fn of<K: k8s_openapi::Resource>(self) -> CustomResourceDefinition {
        self.named(Named { group: K::GROUP, version: K::VERSION, kind: K::KIND, plural: K::URL_PATH_SEGMENT })
    }

    /// Returns the CustomResourceDefinition of a version without a type.
    #[must_use]
    pub fn named(self, Named { group, version, kind, plural }: Named<'_>) -> CustomResourceDefinition {
        let texts = |texts: &[&str]| {
            (!texts.is_empty()).then(|| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        let pairs = |pairs: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            (!pairs.is_empty()).then(|| pairs.iter().map(owned).collect::<BTreeMap<_, _>>())
        };
        let subresources = (self.status || self.scale.is_some()).then(|| CustomResourceSubresources {
            scale: self.scale,
            status: self.status.then(|| CustomResourceSubresourceStatus(value!({}))),
        });
        let version = CustomResourceDefinitionVersion {
            additional_printer_columns: (!self.columns.is_empty()).then_some(self.columns),
            deprecated: self.deprecated.map(|_| true),
            deprecation_warning: self.deprecated.filter(|text| !text.is_empty()).map(str::to_owned),
            name: version.to_owned(),
            schema: Some(CustomResourceValidation { open_api_v3_schema: Some(self.schema) }),
            selectable_fields: (!self.selectable.is_empty()).then(|| {
                self.selectable.iter().map(|path| SelectableField { json_path: (*path).to_owned() }).collect()
            }),
            served: self.served,
            storage: self.storage,
            subresources,
        };
        let names = CustomResourceDefinitionNames {
            categories: texts(self.categories),
            kind: kind.to_owned(),
            list_kind: Some(self.list_kind.map_or_else(|| format!("{kind}List"), str::to_owned)),
            plural: plural.to_owned(),
            short_names: texts(self.short_names),
            singular: Some(self.singular.map_or_else(|| kind.to_lowercase(), str::to_owned)),
        };
        let mut definition = CustomResourceDefinition {
            spec: CustomResourceDefinitionSpec {
                group: group.to_owned(),
                names,
                scope: match self.scope {
                    Scope::Namespaced => "Namespaced",
                    Scope::Cluster => "Cluster",
                }
                .to_owned(),
                versions: vec![version],
                ..CustomResourceDefinitionSpec::default()
            },
            ..CustomResourceDefinition::default()
        };
        definition.metadata.name = Some(format!("{plural}.{group}"));
        definition.metadata.labels = pairs(self.labels);
        definition.metadata.annotations = pairs(self.annotations);
        definition
    }
}

// === Structs ===

/// Returns the schema of an object without fields.
#[must_use]
pub fn object() -> JSONSchemaProps {
    values::of_type("object", "")
}

/// Adds a field.
pub fn field(object: &mut JSONSchemaProps, name: &str, schema: JSONSchemaProps, is_optional: bool) {
    object.properties.get_or_insert_default().insert(name.to_owned(), schema);
    if !is_optional {
        object.required.get_or_insert_default().push(name.to_owned());
    }
}

/// Makes a schema nullable, if `may_be` is set.
#[must_use]
pub fn or_null(schema: JSONSchemaProps, may_be: bool) -> JSONSchemaProps {
    JSONSchemaProps { nullable: may_be.then_some(true).or(schema.nullable), ..schema }
}

/// Adds the fields of another object.
pub fn flatten(object: &mut JSONSchemaProps, part: JSONSchemaProps, is_optional: bool) {
    if part.ref_path.is_some() {
        object.ref_path = part.ref_path;
        return;
    }
    if part.type_.as_deref() != Some("object") {
        object.ref_path = Some("only an object is flattened into another".to_owned());
        return;
    }
    if part.additional_properties.is_some() || part.x_kubernetes_preserve_unknown_fields == Some(true) {
        // An object with named and arbitrary fields has no other structural schema.
        object.x_kubernetes_preserve_unknown_fields = Some(true);
    }
    for (name, schema) in part.properties.unwrap_or_default() {
        add(object, name, schema);
    }
    if is_optional {
        return;
    }
    object.required.get_or_insert_default().extend(part.required.unwrap_or_default());
    if let Some(rules) = part.x_kubernetes_validations {
        object.x_kubernetes_validations.get_or_insert_default().extend(rules);
    }
    for alternatives in [
        part.one_of.map(|one_of| JSONSchemaProps { one_of: Some(one_of), ..JSONSchemaProps::default() }),
        part.any_of.map(|any_of| JSONSchemaProps { any_of: Some(any_of), ..JSONSchemaProps::default() }),
    ]
    .into_iter()
    .flatten()
    {
        object.all_of.get_or_insert_default().push(alternatives);
    }
    if let Some(all_of) = part.all_of {
        object.all_of.get_or_insert_default().extend(all_of);
    }
}

/// Sorts the required fields and removes empty lists. The last step.
#[must_use]
pub fn finished(mut object: JSONSchemaProps) -> JSONSchemaProps {
    if let Some(required) = &mut object.required {
        required.sort();
        required.dedup();
    }
    object.required = object.required.filter(|required| !required.is_empty());
    object
}

// === Enums ===

/// Returns the schema of a string with one of these values.
#[must_use]
pub fn texts(names: &[&str]) -> JSONSchemaProps {
    JSONSchemaProps { enum_: Some(jsons(names)), ..values::of_type("string", "") }
}

/// Returns the schema of an object with exactly one of several fields, as serde represents variants with data.
#[must_use]
pub fn keyed(variants: Vec<(&str, JSONSchemaProps)>) -> JSONSchemaProps {
    let mut schema = object();
    let branch = |name: &str| JSONSchemaProps { required: Some(vec![name.to_owned()]), ..JSONSchemaProps::default() };
    schema.one_of = Some(variants.iter().map(|(name, _)| branch(name)).collect());
    for (name, variant) in variants {
        field(&mut schema, name, variant, true);
    }
    schema
}

/// Returns the schema of an object with a field that names the variant, beside the fields of the variant.
#[must_use]
pub fn tagged(tag: &str, variants: Vec<(&str, Option<JSONSchemaProps>)>) -> JSONSchemaProps {
    let names = variants.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let mut schema = object();
    field(&mut schema, tag, texts(&names), false);
    let mut branches = Vec::new();
    for (name, variant) in variants {
        let variant = variant.unwrap_or_else(object);
        let mut required = vec![tag.to_owned()];
        required.extend(variant.required.clone().unwrap_or_default());
        branches.push(JSONSchemaProps { required: Some(required), ..is(tag, name) });
        flatten(&mut schema, variant, true);
    }
    schema.one_of = Some(branches);
    schema
}

/// Returns the schema of an object with a field that names the variant and a field that contains it.
#[must_use]
pub fn tagged_beside(tag: &str, content: &str, variants: Vec<(&str, Option<JSONSchemaProps>)>) -> JSONSchemaProps {
    let names = variants.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let mut schema = object();
    field(&mut schema, tag, texts(&names), false);
    let mut branches = Vec::new();
    let mut contents = Vec::new();
    for (name, variant) in variants {
        let mut branch = is(tag, name);
        let mut required = vec![tag.to_owned()];
        if let Some(variant) = variant {
            required.push(content.to_owned());
            if let Some(fields) = &variant.required {
                let inner = JSONSchemaProps { required: Some(fields.clone()), ..JSONSchemaProps::default() };
                branch.properties.get_or_insert_default().insert(content.to_owned(), inner);
            }
            contents.push(variant);
        }
        branch.required = Some(required);
        branches.push(branch);
    }
    if !contents.is_empty() {
        let mut contents = either(contents);
        // The branches state which fields are required.
        contents.any_of = if contents.x_kubernetes_int_or_string == Some(true) { contents.any_of } else { None };
        contents.required = None;
        field(&mut schema, content, contents, true);
    }
    schema.one_of = Some(branches);
    schema
}

/// Returns the schema of an untagged enum.
#[must_use]
pub fn either(variants: Vec<JSONSchemaProps>) -> JSONSchemaProps {
    if let Some(unsupported_schema) = variants.iter().find(|variant| variant.ref_path.is_some()) {
        return unsupported_schema.clone();
    }
    let type_of = |variant: &JSONSchemaProps| variant.type_.clone().unwrap_or_default();
    let mut types = variants.iter().map(type_of).collect::<Vec<_>>();
    types.sort();
    types.dedup();
    match types.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["integer", "string"] => {
            let mut schema = JSONSchemaProps::default();
            int_or_string(&mut schema);
            schema
        }
        ["object"] if variants.len() > 1 => {
            let branch = |variant: &JSONSchemaProps| {
                let required = variant.required.clone()?;
                Some(JSONSchemaProps { required: Some(required), ..JSONSchemaProps::default() })
            };
            // A variant without required fields matches everything.
            let branches = variants.iter().map(branch).collect::<Option<Vec<_>>>();
            let mut schema = object();
            for variant in variants {
                flatten(&mut schema, variant, true);
            }
            schema.any_of = branches;
            schema
        }
        _ => {
            let mut variants = variants.into_iter();
            let first = variants.next().unwrap_or_default();
            if variants.all(|other| other == first) {
                return first;
            }
            unsupported_schema(
                "its variants are of different types, which no structural schema says: #[schema(schemaless)] leaves it open",
            )
        }
    }
}

/// Returns the schema that restricts a field to one value.
fn is(name: &str, text: &str) -> JSONSchemaProps {
    let value = JSONSchemaProps { enum_: Some(jsons(&[text])), ..JSONSchemaProps::default() };
    JSONSchemaProps { properties: Some([(name.to_owned(), value)].into()), ..JSONSchemaProps::default() }
}

/// Adds a property, which may already exist.
fn add(object: &mut JSONSchemaProps, name: String, schema: JSONSchemaProps) {
    let properties = object.properties.get_or_insert_default();
    match properties.get_mut(&name) {
        None => {
            properties.insert(name, schema);
        }
        Some(known) => {
            let same = JSONSchemaProps { description: known.description.clone(), ..schema } == *known;
            if !same {
                *known = unsupported_schema(format!("`{name}` is there more than once, with different schemas"));
            }
        }
    }
}

fn jsons(texts: &[&str]) -> Vec<JSON> {
    texts.iter().map(|text| JSON(Value::from(*text))).collect()
}

// === Attributes ===

/// Changes the schema of the items of a list.
pub fn items(schema: &mut JSONSchemaProps, change: impl FnOnce(&mut JSONSchemaProps)) {
    let mut items = match schema.items.take() {
        Some(JSONSchemaPropsOrArray::Schema(items)) => items,
        _ => Box::new(unsupported_schema("items(…) is for lists")),
    };
    change(&mut items);
    schema.items = Some(JSONSchemaPropsOrArray::Schema(items));
}

/// Changes the schema of the values of a map.
pub fn values(schema: &mut JSONSchemaProps, change: impl FnOnce(&mut JSONSchemaProps)) {
    let mut values = match schema.additional_properties.take() {
        Some(JSONSchemaPropsOrBool::Schema(values)) => values,
        _ => Box::new(unsupported_schema("values(…) is for maps")),
    };
    change(&mut values);
    schema.additional_properties = Some(JSONSchemaPropsOrBool::Schema(values));
}

/// Changes the schema to an integer or string.
pub fn int_or_string(schema: &mut JSONSchemaProps) {
    let of = |name: &str| values::of_type(name, "");
    schema.type_ = None;
    schema.any_of = Some(vec![of("integer"), of("string")]);
    schema.x_kubernetes_int_or_string = Some(true);
}

/// Changes the schema to accept any value.
pub fn schemaless(schema: &mut JSONSchemaProps) {
    *schema = JSONSchemaProps { description: schema.description.take(), ..values::anything() };
}

/// Replaces the schema with a schema as JSON text.
pub fn raw(schema: &mut JSONSchemaProps, text: &str) {
    let description = schema.description.take();
    *schema = match serde_json::from_str(text) {
        Ok(json) => read(json),
        Err(error) => unsupported_schema(format!("raw: {error}")),
    };
    schema.description = schema.description.take().or(description);
}

/// Decodes a schema from JSON.
#[must_use]
pub fn read(json: Value) -> JSONSchemaProps {
    serde_json::from_value(json).unwrap_or_else(|error| unsupported_schema(format!("this is no schema: {error}")))
}

/// Changes the schema to an embedded object of any kind.
pub fn embedded_resource(schema: &mut JSONSchemaProps) {
    schema.type_ = Some("object".to_owned());
    schema.x_kubernetes_embedded_resource = Some(true);
}

/// Adds a validation rule.
pub fn rule(schema: &mut JSONSchemaProps, rule: ValidationRule) {
    schema.x_kubernetes_validations.get_or_insert_default().push(rule);
}

/// Adds a rule about how many of some fields may be set: `<=`, `==` or `>=` one.
pub fn count_of(schema: &mut JSONSchemaProps, comparison: &str, words: &str, fields: &[&str]) {
    let has = fields
        .iter()
        .map(|field| format!("has(self.{})", crate::escape(field).unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(",");
    rule(
        schema,
        ValidationRule {
            rule: format!("[{has}].filter(x,x==true).size() {comparison} 1"),
            message: Some(format!(
                "{words} of the fields in [{}] {}",
                fields.join(" "),
                if words == "at most one" { "may be set" } else { "must be set" }
            )),
            ..ValidationRule::default()
        },
    );
}
