//! Server-side printing: the `Table` format that kubectl requests.
//!
//! Columns are recorded from kube-apiserver (`data/columns.tsv`). Cells are computed here for each kind; ages are texts
//! relative to the time of the response. A kind without an implementation has the columns name and age. Custom
//! resources define their own columns. If the server has [`Descriptions`], columns have the descriptions of their
//! fields. Descriptions that kube-apiserver writes only for a column are omitted.

mod autoscaling;
mod cells;
mod core;
mod custom;
mod duration;
mod extensions;
mod networking;
mod pods;
mod storage;
mod workloads;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_api::Status;

use crate::{
    descriptions::Descriptions,
    kubernetes::{KubernetesVersion, removed},
    resource::{Column, ResourceInfo, Shape},
};

/// The object that accompanies the cells of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// No object.
    None,
}

/// Controls the column definitions of a table. In a watch only the first table has them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Header<'d> {
    /// `columnDefinitions` lists the columns, with their descriptions if available.
    Columns(&'d Descriptions),
    /// `columnDefinitions` is null.
    Omitted,
}

/// Returns a table with one row per object. `metadata` is the list's metadata, or for a single object metadata with its
/// resourceVersion. Objects need `kind` and `apiVersion` only with [`IncludeObject::Object`].
pub(crate) fn table(
    resource: &ResourceInfo,
    metadata: Value,
    objects: impl IntoIterator<Item = Value>,
    include: IncludeObject,
    header: Header<'_>,
    now: Timestamp,
) -> Value {
    let definitions = match header {
        Header::Omitted => Value::Null,
        Header::Columns(descriptions) => {
            columns(resource).iter().map(|column| column.definition(descriptions)).collect()
        }
    };
    let row = |object| row(resource, object, include, now);
    let rows: Vec<Value> = match extensions::order(&resource.group, &resource.plural) {
        None => objects.into_iter().map(row).collect(),
        Some(order) => {
            let mut objects: Vec<Value> = objects.into_iter().collect();
            objects.sort_by_key(order);
            objects.into_iter().map(row).collect()
        }
    };
    assemble(metadata, definitions, rows)
}

/// Reports whether the rows of a table are sorted. If so, it cannot be rendered row by row.
pub(crate) fn is_ordered(resource: &ResourceInfo) -> bool {
    extensions::order(&resource.group, &resource.plural).is_some()
}

/// Returns a table with one row for a scale of any resource.
pub(crate) fn scale_table(
    metadata: Value,
    scale: Value,
    include: IncludeObject,
    descriptions: &Descriptions,
    now: Timestamp,
) -> Value {
    let columns = [
        ("Name", "string", NAME),
        ("Desired", "integer", DESIRED),
        ("Available", "integer", AVAILABLE),
        ("Age", "string", CREATED),
    ];
    let column = |(name, kind, source)| Column { source, ..Column::new(name, kind) }.definition(descriptions);
    let definitions = columns.map(column).into_iter().collect();
    let cells = json!([
        scale["metadata"]["name"],
        scale["spec"]["replicas"].as_i64().unwrap_or_default(),
        scale["status"]["replicas"].as_i64().unwrap_or_default(),
        cells::age(&scale, now),
    ]);
    let object = match include {
        IncludeObject::Object => scale,
        IncludeObject::Metadata => partial(scale),
        IncludeObject::None => Value::Null,
    };
    assemble(metadata, definitions, vec![json!({"cells": cells, "object": object})])
}

fn assemble(metadata: Value, definitions: Value, rows: Vec<Value>) -> Value {
    let mut table =
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": null, "columnDefinitions": null});
    table["metadata"] = metadata;
    table["columnDefinitions"] = definitions;
    table["rows"] = rows.into();
    table
}

/// Reports whether a built-in resource or subresource can be shown as a table.
pub(crate) fn is_printed(resource: &ResourceInfo, subresource: &str) -> bool {
    match (resource.plural.as_str(), subresource) {
        (_, "") => resource.verbs != ["create"],
        ("pods", "binding" | "ephemeralcontainers" | "eviction" | "resize")
        | ("namespaces", "finalize")
        | ("serviceaccounts", "token")
        | ("certificatesigningrequests", "approval")
        | ("apiservices" | "customresourcedefinitions" | "resourceclaims", "status") => false,
        _ => true,
    }
}

/// Returns the columns of a resource.
pub(crate) fn columns(resource: &ResourceInfo) -> Arc<[Column]> {
    match &resource.shape {
        Shape::Custom(custom) => custom::columns(custom.columns()),
        Shape::BuiltIn(plan) => built_in_columns(plan.kubernetes, &resource.group, &resource.version, &resource.plural),
    }
}

/// Returns the cells of an object in its stored version, one per column.
pub(crate) fn cells(resource: &ResourceInfo, object: &Value, now: Timestamp) -> Vec<Value> {
    match &resource.shape {
        Shape::Custom(custom) => custom::cells(custom.columns(), object, now),
        Shape::BuiltIn(plan) => {
            built_in_cells(plan.kubernetes, &resource.group_kind().group, &resource.plural, object, now)
        }
    }
}

/// Returns the row of an object.
pub(crate) fn row(resource: &ResourceInfo, object: Value, include: IncludeObject, now: Timestamp) -> Value {
    let mut row = Map::new();
    // An object of another version is printed like the stored version.
    let built_in = resource.conversion.as_ref().filter(|_| matches!(resource.shape, Shape::BuiltIn(_)));
    let printed = built_in.map(|conversion| (conversion.to_stored)(object.clone()));
    row.insert("cells".to_owned(), cells(resource, printed.as_ref().unwrap_or(&object), now).into());
    if resource.group.is_empty()
        && resource.kind == "Pod"
        && let Some(conditions) = pods::conditions(&object)
    {
        row.insert("conditions".to_owned(), conditions);
    }
    let object = match include {
        IncludeObject::Object => object,
        IncludeObject::Metadata => partial(printed.unwrap_or(object)),
        IncludeObject::None => Value::Null,
    };
    row.insert("object".to_owned(), object);
    Value::Object(row)
}

/// Returns the `PartialObjectMetadata` of an object: its metadata alone, in the order of the Go struct.
pub(crate) fn partial(mut object: Value) -> Value {
    const ORDER: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    const OWNER: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    const MANAGER: [&str; 7] = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];
    let mut metadata = Map::new();
    if let Some(Value::Object(found)) = object.get_mut("metadata") {
        for key in ORDER {
            if let Some(mut value) = found.get_mut(key).map(Value::take) {
                match key {
                    "ownerReferences" => order_entries(&mut value, &OWNER),
                    "managedFields" => order_entries(&mut value, &MANAGER),
                    _ => {}
                }
                metadata.insert(key.to_owned(), value);
            }
        }
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// Sorts the fields of each entry in this order.
fn order_entries(entries: &mut Value, order: &[&str]) {
    for entry in entries.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        let mut ordered = Map::new();
        for key in order {
            if let Some(value) = entry.get_mut(*key) {
                ordered.insert((*key).to_owned(), value.take());
            }
        }
        *entry = ordered;
    }
}

// === built-in kinds ===

fn recorded(kubernetes: KubernetesVersion) -> &'static HashMap<&'static str, Arc<[Column]>> {
    static RECORDED: [OnceLock<HashMap<&'static str, Arc<[Column]>>>; KubernetesVersion::ALL.len()] =
        [const { OnceLock::new() }; KubernetesVersion::ALL.len()];
    RECORDED[kubernetes.index()].get_or_init(|| parse(&kubernetes.tables().columns))
}

fn built_in_columns(kubernetes: KubernetesVersion, group: &str, version: &str, plural: &str) -> Arc<[Column]> {
    static FALLBACK: OnceLock<Arc<[Column]>> = OnceLock::new();
    let columns_in = |version: &str| recorded(kubernetes).get(format!("{group}/{version}/{plural}").as_str());
    let columns = columns_in(version).or_else(|| columns_in(removed::of_version(group, version)?.successor));
    match columns {
        Some(columns) if cells::printer(kubernetes, group, plural).is_some() || has_created_at(columns) => {
            columns.clone()
        }
        _ => FALLBACK.get_or_init(|| [Column::name(), Column::age("string")].into()).clone(),
    }
}

fn built_in_cells(
    kubernetes: KubernetesVersion,
    group: &str,
    plural: &str,
    object: &Value,
    now: Timestamp,
) -> Vec<Value> {
    if let Some(printer) = cells::printer(kubernetes, group, plural) {
        return printer(object, now);
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let columns = built_in_columns(kubernetes, group, "v1", plural);
    if has_created_at(&columns) {
        return vec![name.into(), object["metadata"]["creationTimestamp"].as_str().unwrap_or(NEVER).into()];
    }
    vec![name.into(), cells::age(object, now)]
}

/// The creation time of objects without one, such as bookmarks.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Reports whether the only column after the name is the creation time.
fn has_created_at(columns: &[Column]) -> bool {
    matches!(columns, [_, second] if second.name == "Created At" && second.kind == "date")
}

/// Returns the fields whose descriptions columns use, in all versions.
pub(crate) fn description_sources() -> impl Iterator<Item = &'static str> {
    let columns =
        recorded(KubernetesVersion::default()).values().flat_map(|columns| columns.iter()).map(|column| column.source);
    columns.chain([NAME, CREATED, DESIRED, AVAILABLE, SECRETS]).filter(|source| !source.is_empty())
}

const NAME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta#name";
const CREATED: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta#creationTimestamp";
const DESIRED: &str = "io.k8s.api.autoscaling.v1.ScaleSpec#replicas";
/// The source of a column that service accounts have before 1.35.
const SECRETS: &str = "io.k8s.api.core.v1.ServiceAccount#secrets";
const AVAILABLE: &str = "io.k8s.api.autoscaling.v1.ScaleStatus#replicas";

fn parse(text: &'static str) -> HashMap<&'static str, Arc<[Column]>> {
    let column = |cell: &'static str| {
        let mut parts = cell.split('|');
        let mut next = || parts.next().unwrap_or_default().to_owned();
        Column {
            name: next(),
            kind: next(),
            format: next(),
            description: String::new(),
            priority: next().parse().unwrap_or_default(),
            source: parts.next().unwrap_or_default(),
        }
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .map(|(resource, cells)| (resource, cells.split('\t').map(column).collect()))
        .collect()
}

// === impl Column, IncludeObject ===

impl Column {
    fn new(name: &str, kind: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            source: "",
        }
    }

    fn name() -> Self {
        Self { format: "name".to_owned(), source: NAME, ..Self::new("Name", "string") }
    }

    fn age(kind: &str) -> Self {
        Self { source: CREATED, ..Self::new("Age", kind) }
    }

    fn definition(&self, descriptions: &Descriptions) -> Value {
        let description = if self.source.is_empty() {
            &self.description
        } else {
            descriptions.column(self.source, description_sources)
        };
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": description, "priority": self.priority,
        })
    }
}

impl IncludeObject {
    /// Parses the query parameter `includeObject`. Empty is the default.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            _ => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {text:?}: \
                 must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
