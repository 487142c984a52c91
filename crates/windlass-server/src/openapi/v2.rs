//! The document of OpenAPI version 2 for older clients: a single document with restricted schemas.

use serde_json::{Map, Value, json};

use super::{
    custom,
    operations::{Operation, Parameter},
    subjects, v3,
};
use crate::schemas::{self, REFERENCE};
use crate::{descriptions::Schemas, discovery::Group, kubernetes::KubernetesVersion, resource::Shape};

const DEFINITIONS: &str = "#/definitions/";

/// Returns the document.
pub(super) fn document(kubernetes: KubernetesVersion, groups: &[Group<'_>], descriptions: &Schemas) -> Value {
    let mut items = subjects(groups).values().flat_map(v3::path_items).collect::<Vec<_>>();
    items.sort_by(|a, b| a.path.cmp(&b.path));
    let mut paths = Map::new();
    for item in &items {
        let (shared, own) = item.shared_parameters();
        let mut rendered = Map::new();
        for (operation, own) in item.operations.iter().zip(own) {
            rendered.insert(operation.method.to_owned(), render_operation(operation, &own));
        }
        if !shared.is_empty() {
            rendered.insert("parameters".to_owned(), shared.iter().map(render_parameter).collect());
        }
        paths.insert(item.path.clone(), Value::Object(rendered));
    }
    let operations = items.iter().flat_map(|item| &item.operations).collect::<Vec<_>>();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": kubernetes.to_string()},
        "paths": paths,
        "definitions": definitions(kubernetes, groups, &operations, descriptions),
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

fn definitions(
    kubernetes: KubernetesVersion,
    groups: &[Group<'_>],
    operations: &[&Operation],
    descriptions: &Schemas,
) -> Map<String, Value> {
    let mut all = std::collections::BTreeMap::new();
    let bodies = operations.iter().filter_map(|operation| operation.body.as_ref()).map(|body| &body.schema);
    let answers = operations.iter().flat_map(|operation| &operation.responses).map(|response| &response.schema);
    let mut texts = bodies.chain(answers).map(|schema| format!("{REFERENCE}{schema}\"")).collect::<Vec<_>>();
    for resource in groups.iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources) {
        if let Shape::Custom(own) = &resource.shape {
            let name = |kind: &str| custom::schema_name(&resource.group, &resource.version, kind);
            let schema = custom::narrow_schema(resource, &**own, descriptions);
            texts.push(schema.to_string());
            all.insert(name(&resource.kind), convert(schema));
            let list = custom::list_schema(resource, &**own, descriptions);
            texts.push(list.to_string());
            all.insert(name(&resource.list_kind), convert(list));
        }
    }
    let recorded = schemas::of(kubernetes);
    for name in recorded.closure(texts.iter().map(String::as_str)) {
        let mut json = String::new();
        recorded.write(&mut json, name, "", "", descriptions);
        if let Ok(schema) = serde_json::from_str(&json) {
            all.insert(name.to_owned(), convert(schema));
        }
    }
    all.into_iter().collect()
}

/// Converts a schema to version 2: an `allOf` with one reference becomes the reference, defaults are removed, and
/// fields of several types become strings.
fn convert(schema: Value) -> Value {
    let Value::Object(mut object) = schema else { return schema };
    if let Some(Value::Array(mut all)) = object.remove("allOf")
        && all.len() == 1
        && let Some(Value::Object(only)) = all.pop()
    {
        object.extend(only);
    }
    if let Some(Value::String(reference)) = object.get("$ref") {
        let mut narrowed = Map::from_iter([("$ref".to_owned(), reference.replace(REFERENCE, DEFINITIONS).into())]);
        narrowed.extend(object.into_iter().filter(|(key, _)| key.starts_with("x-") || key == "description"));
        return Value::Object(narrowed);
    }
    if object.remove("oneOf").is_some() {
        object.insert("type".to_owned(), "string".into());
    }
    for narrow in ["default", "nullable", "anyOf", "not"] {
        object.remove(narrow);
    }
    let converted = object.into_iter().map(|(key, value)| {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.into_iter().map(|(name, schema)| (name, convert(schema))).collect::<Map<_, _>>().into()
            }
            ("items" | "additionalProperties", schema) => convert(schema),
            (_, other) => other,
        };
        (key, value)
    });
    Value::Object(converted.collect())
}

fn render_operation(operation: &Operation, parameters: &[Parameter]) -> Value {
    let mut out = Map::new();
    out.insert("tags".to_owned(), json!([operation.tag]));
    out.insert("operationId".to_owned(), operation.id.as_str().into());
    if let Some(body) = &operation.body {
        out.insert("consumes".to_owned(), json!(body.media));
    }
    let produced = operation.responses.first().map_or(&[][..], |response| response.media);
    out.insert("produces".to_owned(), json!(produced));
    out.insert("schemes".to_owned(), json!(["https"]));
    let mut parameters = parameters.iter().map(render_parameter).collect::<Vec<_>>();
    if let Some(body) = &operation.body {
        let mut parameter = json!({"name": "body", "in": "body", "schema": reference(&body.schema)});
        if body.required {
            parameter["required"] = true.into();
        }
        parameters.insert(0, parameter);
    }
    if !parameters.is_empty() {
        out.insert("parameters".to_owned(), parameters.into());
    }
    let mut responses = Map::new();
    for response in &operation.responses {
        let described = json!({"description": v3::reason_phrase(response.code), "schema": reference(&response.schema)});
        responses.insert(response.code.to_string(), described);
    }
    responses.insert("401".to_owned(), json!({"description": v3::reason_phrase(401)}));
    out.insert("responses".to_owned(), Value::Object(responses));
    if let Some(action) = operation.action {
        let [group, version, kind] = &operation.kind;
        out.insert("x-kubernetes-action".to_owned(), action.into());
        let kind = json!({"group": group, "version": version, "kind": kind});
        out.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    }
    Value::Object(out)
}

fn render_parameter(parameter: &Parameter) -> Value {
    let Parameter { name, kind, in_path } = parameter;
    if *in_path {
        json!({"uniqueItems": true, "type": kind, "name": name, "in": "path", "required": true})
    } else {
        json!({"uniqueItems": true, "type": kind, "name": name, "in": "query"})
    }
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("{DEFINITIONS}{schema}")})
}
