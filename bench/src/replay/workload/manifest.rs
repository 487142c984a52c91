//! Server-set parts of objects: metadata and managed fields.

use serde_json::{Map, Value, json};

use super::template::{Mark, mark};

/// Adds name, namespace, owner and server-set metadata. `managed` lists the managers and their parts of the object.
pub(super) fn with_meta(name: &str, labels: Value, annotations: Value, owner: Option<&str>, rest: Value) -> Value {
    let mut metadata = json!({
        "name": format!("{name}-{}", mark(Mark::Number)),
        "namespace": format!("namespace-{}", mark(Mark::Namespace)),
        "uid": mark(Mark::Uid),
        "resourceVersion": mark(Mark::Version),
        "generation": 1,
        "creationTimestamp": "2026-11-21T08:15:00Z",
        "labels": labels,
        "annotations": annotations,
    });
    if let Some(owner) = owner {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{owner}-{}", mark(Mark::OwnerHash)),
            "uid": mark(Mark::Owner), "controller": true, "blockOwnerDeletion": true,
        }]);
    }
    let mut created = Map::new();
    let of_meta = ["labels", "annotations", "ownerReferences"].into_iter().filter(|key| !metadata[key].is_null());
    let of_meta: Map<_, _> = of_meta.map(|key| (format!("f:{key}"), fields(&metadata[key]))).collect();
    created.insert("f:metadata".to_owned(), of_meta.into());
    let mut managers = Vec::new();
    let entry = |manager: &str, subresource: Option<&str>, fields: Value| {
        let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": mark(Mark::Time),
            "fieldsType": "FieldsV1", "fieldsV1": fields});
        if let Some(subresource) = subresource {
            entry["subresource"] = subresource.into();
        }
        entry
    };
    for (key, value) in rest.as_object().into_iter().flatten().filter(|(key, _)| *key != "status") {
        created.insert(format!("f:{key}"), fields(value));
    }
    managers.push(entry("kube-controller-manager", None, created.into()));
    if let Some(status) = rest.get("status") {
        managers.push(entry("kubelet", Some("status"), json!({"f:status": fields(status)})));
    }
    metadata["managedFields"] = managers.into();
    let mut object = json!({"metadata": metadata});
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// Lists with a single owner, although their items have names.
const ATOMIC: [&str; 1] = ["containerStatuses"];

/// Returns the field set of a value in the format of managedFields. List items are identified by their keys, if they
/// have any.
fn fields(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let field = |(key, value): (&String, &Value)| {
                (format!("f:{key}"), if ATOMIC.contains(&key.as_str()) { json!({}) } else { fields(value) })
            };
            members.iter().map(field).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => {
            let named = items.iter().filter_map(|item| {
                let key = ["name", "mountPath", "type", "containerPort", "uid"]
                    .into_iter()
                    .find(|key| !item[key].is_null())?;
                let mut fields = fields(item);
                fields["."] = json!({});
                Some((format!("k:{}", json!({key: item[key]})), fields))
            });
            named.collect::<Map<_, _>>().into()
        }
        _ => json!({}),
    }
}
