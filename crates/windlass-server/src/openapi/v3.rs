//! Documents of OpenAPI version 3, assembled as text because most of it is recorded text.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{
    Subject, custom, is_custom,
    operations::{self, Operation, Parameter, PathItem},
};
use crate::schemas::{self, META, REFERENCE};
use crate::{descriptions::Schemas, kubernetes::KubernetesVersion, resource::Shape};

/// Returns the document as JSON.
pub(super) fn document(kubernetes: KubernetesVersion, subject: &Subject<'_>, descriptions: &Schemas) -> String {
    let mut paths = path_items(subject);
    paths.sort_by(|a, b| a.path.cmp(&b.path));
    let rendered = paths.iter().map(|item| (item.path.as_str(), render(item).to_string())).collect::<Vec<_>>();

    let (group, version, custom) = match subject {
        Subject::Version(group, version) => (*group, version.name, is_custom(version)),
        Subject::Group(group) => (*group, "", false),
        _ => ("", "", false),
    };
    let own = match subject {
        Subject::Version(_, version) => custom_schemas(version, descriptions),
        _ => Vec::new(),
    };
    let texts = rendered.iter().map(|(_, json)| json.as_str()).chain(own.iter().map(|(_, json)| json.as_str()));
    let recorded = schemas::of(kubernetes);
    let mut names = recorded.closure(texts).into_iter().map(|name| (name.to_owned(), None)).collect::<Vec<_>>();
    names.extend(own.into_iter().map(|(name, json)| (name, Some(json))));
    names.sort();

    let info = if custom {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        json!({"title": "Kubernetes", "version": kubernetes.to_string()})
    };
    let mut out = format!(r#"{{"openapi":"3.0.0","info":{info},"paths":{{"#);
    write_separated(&mut out, &rendered, |out, (path, json)| write_entry(out, path, json));
    out.push_str(r#"},"components":{"schemas":{"#);
    write_separated(&mut out, &names, |out, (name, json)| {
        write_entry(out, name, json.as_deref().unwrap_or_default());
        if json.is_none() {
            recorded.write(out, name, if custom { "" } else { group }, version, descriptions);
        }
    });
    out.push('}');
    if !custom {
        out.push_str(r#","securitySchemes":{"BearerToken":{"type":"apiKey","name":"authorization","in":"header"}}"#);
    }
    out.push_str("}}");
    out
}

/// Returns all paths of the document.
pub(super) fn path_items(subject: &Subject<'_>) -> Vec<PathItem> {
    let discovery = |path: &str, tag: &str, id: &str, schema: String| {
        vec![operations::discovery(path.to_owned(), tag, id.to_owned(), schema)]
    };
    match subject {
        Subject::ServerVersion => {
            discovery("/version/", "version", "getCodeVersion", "io.k8s.apimachinery.pkg.version.Info".to_owned())
        }
        Subject::CoreVersions => discovery("/api/", "core", "getCoreAPIVersions", format!("{META}APIVersions")),
        Subject::Groups => discovery("/apis/", "apis", "getAPIVersions", format!("{META}APIGroupList")),
        Subject::Group(group) => {
            let id = format!("get{}APIGroup", operations::camel_group(group));
            discovery(&format!("/apis/{group}/"), &operations::tag_group(group), &id, format!("{META}APIGroup"))
        }
        Subject::Version(group, version) => {
            let mut all = version.resources.iter().flat_map(|resource| operations::paths(resource)).collect::<Vec<_>>();
            if !is_custom(version) {
                let name = format!("{}{}", operations::camel_group(group), operations::title(version.name));
                let tag = format!("{}_{}", operations::tag_group(group), version.name);
                let path = format!("/{}/", super::root(group, version.name));
                all.extend(discovery(&path, &tag, &format!("get{name}APIResources"), format!("{META}APIResourceList")));
            }
            all
        }
    }
}

/// Returns the schemas of custom resources and their lists.
fn custom_schemas(version: &crate::discovery::Version<'_>, descriptions: &Schemas) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for resource in &version.resources {
        if let Shape::Custom(custom) = &resource.shape {
            let name = |kind: &str| custom::schema_name(&resource.group, &resource.version, kind);
            let schema = custom::schema(resource, &**custom, descriptions);
            all.push((name(&resource.kind), schema.to_string()));
            let list = custom::list_schema(resource, &**custom, descriptions);
            all.push((name(&resource.list_kind), list.to_string()));
        }
    }
    all
}

fn render(item: &PathItem) -> Value {
    let (shared, own) = item.shared_parameters();
    let mut out = Map::new();
    for (operation, own) in item.operations.iter().zip(own) {
        out.insert(operation.method.to_owned(), render_operation(operation, &own));
    }
    if !shared.is_empty() {
        out.insert("parameters".to_owned(), shared.iter().map(render_parameter).collect());
    }
    Value::Object(out)
}

fn render_operation(operation: &Operation, parameters: &[Parameter]) -> Value {
    let mut out = Map::new();
    out.insert("tags".to_owned(), json!([operation.tag]));
    out.insert("operationId".to_owned(), operation.id.as_str().into());
    if !parameters.is_empty() {
        out.insert("parameters".to_owned(), parameters.iter().map(render_parameter).collect());
    }
    if let Some(body) = &operation.body {
        let mut request = json!({"content": content(body.media, &body.schema)});
        if body.required {
            request["required"] = true.into();
        }
        out.insert("requestBody".to_owned(), request);
    }
    let mut responses = Map::new();
    for response in &operation.responses {
        let content = content(response.media, &response.schema);
        responses.insert(
            response.code.to_string(),
            json!({"description": reason_phrase(response.code), "content": content}),
        );
    }
    responses.insert("401".to_owned(), json!({"description": reason_phrase(401)}));
    out.insert("responses".to_owned(), Value::Object(responses));
    if let Some(action) = operation.action {
        let [group, version, kind] = &operation.kind;
        out.insert("x-kubernetes-action".to_owned(), action.into());
        let kind = json!({"group": group, "version": version, "kind": kind});
        out.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    }
    Value::Object(out)
}

/// Returns the reason phrase of a status code.
pub(super) fn reason_phrase(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        401 => "Unauthorized",
        _ => "OK",
    }
}

fn render_parameter(parameter: &Parameter) -> Value {
    let schema = json!({"type": parameter.kind, "uniqueItems": true});
    if parameter.in_path {
        json!({"name": parameter.name, "in": "path", "required": true, "schema": schema})
    } else {
        json!({"name": parameter.name, "in": "query", "schema": schema})
    }
}

fn content(media: &[&str], schema: &str) -> Value {
    let schema = json!({"schema": {"$ref": format!("{REFERENCE}{schema}")}});
    media.iter().map(|media| ((*media).to_owned(), schema.clone())).collect::<Map<_, _>>().into()
}

// === text ===

fn write_separated<T>(out: &mut String, all: &[T], mut one: impl FnMut(&mut String, &T)) {
    for (position, item) in all.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        one(out, item);
    }
}

fn write_entry(out: &mut String, key: &str, json: &str) {
    // Writing into a String cannot fail.
    let _ = write!(out, "{}:{json}", Value::from(key));
}
