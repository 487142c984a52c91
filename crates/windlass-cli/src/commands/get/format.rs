//! The formats of `-o`.

use std::{error::Error, str::FromStr};

use serde::Serialize;
use serde_json::{Serializer, Value, json, ser::PrettyFormatter};
use windlass_api::{DynamicObject, JsonPathTemplate};
use windlass_client::{Columns, TextLayout};

/// The format of the output.
#[derive(Clone, Debug)]
pub(super) enum Format {
    /// A table with the server's columns.
    Table(Columns),
    /// The objects as documents.
    Document(Document),
}

/// A format other than a table.
#[derive(Clone, Debug)]
pub(super) enum Document {
    Name,
    Json,
    Yaml,
    JsonPath(JsonPathTemplate),
    /// The names and values of the columns.
    Columns(Vec<(String, JsonPathTemplate)>),
}

/// Specifies whether a template may refer to missing fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    Allowed,
    Refused,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, argument) = text.split_once('=').unwrap_or((text, ""));
        let template = |text: &str| JsonPathTemplate::parse(text).map_err(|error| error.to_string());
        Ok(match (name, argument) {
            ("", "") => Self::Table(Columns::Normal),
            ("wide", "") => Self::Table(Columns::Wide),
            ("name", "") => Self::Document(Document::Name),
            ("json", "") => Self::Document(Document::Json),
            ("yaml", "") => Self::Document(Document::Yaml),
            ("jsonpath", path) if !path.is_empty() => Self::Document(Document::JsonPath(template(&relaxed(path))?)),
            ("custom-columns", columns) if !columns.is_empty() => {
                let column = |column: &str| {
                    let (name, path) = column
                        .split_once(':')
                        .ok_or_else(|| format!("{column:?} is not a column of the form NAME:.metadata.name"))?;
                    Ok((name.to_owned(), template(&relaxed(path))?))
                };
                let columns = columns.split(',').map(column).collect::<std::result::Result<_, String>>()?;
                Self::Document(Document::Columns(columns))
            }
            _ => {
                return Err(format!(
                    "unknown output format {text:?}: expected wide, name, json, yaml, jsonpath=…, custom-columns=…"
                ));
            }
        })
    }
}

/// Completes a path, which may omit the braces and the first dot.
pub(super) fn relaxed(path: &str) -> String {
    if path.contains('{') {
        path.to_owned()
    } else if path.starts_with(['.', '[', '$']) {
        format!("{{{path}}}")
    } else {
        format!("{{.{path}}}")
    }
}

/// Returns an object as a value with its fields in order. Without `managed_fields`, that field is omitted.
pub(super) fn value(object: &DynamicObject, managed_fields: bool) -> Result<Value> {
    let mut value = serde_json::to_value(object)?;
    if !managed_fields && let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    value.sort_all_objects();
    Ok(value)
}

impl Document {
    /// Formats objects as text with a final newline. A single object requested by name is not printed as a list.
    pub(super) fn print(&self, objects: Vec<Value>, single: bool, no_headers: bool, absent: Absent) -> Result<String> {
        Ok(match self {
            Self::Name => objects.iter().map(|object| name(object) + "\n").collect(),
            Self::Columns(columns) => {
                let mut lines = Vec::with_capacity(objects.len() + 1);
                if !no_headers {
                    lines.push(columns.iter().map(|(name, _)| name.clone()).collect());
                }
                lines.extend(objects.iter().map(|object| {
                    let cell =
                        |template: &JsonPathTemplate| Some(template.render(object)).filter(|text| !text.is_empty());
                    columns.iter().map(|(_, path)| cell(path).unwrap_or_else(|| "<none>".to_owned())).collect()
                }));
                TextLayout::default().write(&lines)
            }
            Self::Json => as_json(&document(objects, single))?,
            Self::Yaml => serde_saphyr::to_string(&document(objects, single))?,
            Self::JsonPath(template) => match absent {
                Absent::Allowed => template.render(&document(objects, single)),
                Absent::Refused => template.render_strictly(&document(objects, single))?,
            },
        })
    }
}

/// Returns the object, or a list of the objects.
fn document(mut objects: Vec<Value>, single: bool) -> Value {
    match (single, objects.pop()) {
        (true, Some(object)) => object,
        (_, last) => {
            objects.extend(last);
            json!({"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}})
        }
    }
}

fn as_json(value: &Value) -> Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    ")))?;
    text.push(b'\n');
    Ok(String::from_utf8(text)?)
}

/// Returns `pod/web-0` or `deployment.apps/web`.
fn name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let kind = text("/kind").to_lowercase();
    match text("/apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text("/metadata/name")),
        None => format!("{kind}/{}", text("/metadata/name")),
    }
}
