//! The mandatory and suggested objects of priority and fairness: created at the start, and maintained each minute.
//!
//! As in kube-apiserver, a missing object is created again. The spec of a mandatory object is always restored, that of a
//! suggested one only if its annotation `apf.kubernetes.io/autoupdate-spec` allows it. Other objects with this annotation
//! are deleted.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};
use windlass_api::{Status, format_time};

use crate::{
    flow_control::Fairness,
    kinds::flowcontrol,
    object::{Tree, same},
    registry::{DeleteParams, Registry, WebhookCalls, WriteParams},
    resource::{Body, Target},
};

mod consumer;

pub(super) const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const LEVELS: &str = "prioritylevelconfigurations";
const SCHEMAS: &str = "flowschemas";

/// The field managers of the objects and of their status.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// The objects whose spec is fixed.
const MANDATORY: [&str; 2] = ["exempt", "catch-all"];

/// The time between two checks of the objects.
const PERIOD: Duration = Duration::from_mins(1);

/// Creates missing objects, maintains all of them from now on, and applies them.
pub(super) async fn start(registry: &Registry, fairness: Option<&Arc<Fairness>>) -> Result<(), Status> {
    if let Err(error) = ensure_all(registry, fairness.is_some()).await {
        // The compiled-in objects apply, and the maintenance tries again.
        tracing::warn!(%error, "cannot write the objects of priority and fairness");
    }
    if let Some(fairness) = fairness {
        consumer::start(registry, fairness).await?;
    }
    let weak = registry.downgrade();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut ticks = time::interval_at(Instant::now() + PERIOD, PERIOD);
        loop {
            ticks.tick().await;
            let Some(registry) = weak.upgrade() else { return };
            if let Err(error) = maintain(&registry).await {
                tracing::warn!(%error, "cannot maintain the objects of priority and fairness");
            }
        }
    });
    registry.keep_task(tasks);
    Ok(())
}

/// Creates missing objects, and restores the others.
async fn ensure_all(registry: &Registry, is_fair: bool) -> Result<(), Status> {
    for level in flowcontrol::levels() {
        ensure(registry, LEVELS, level, None).await?;
    }
    for (schema, status) in flowcontrol::schemas(&format_time(registry.clock().now())) {
        ensure(registry, SCHEMAS, schema, Some(status).filter(|_| is_fair)).await?;
    }
    Ok(())
}

/// Restores the objects once.
async fn maintain(registry: &Registry) -> Result<(), Status> {
    let (levels, schemas) = (flowcontrol::levels(), flowcontrol::schemas(""));
    let schemas: Vec<Value> = schemas.into_iter().map(|(schema, _)| schema).collect();
    for (plural, objects) in [(LEVELS, &levels), (SCHEMAS, &schemas)] {
        for object in objects {
            ensure(registry, plural, object.clone(), None).await?;
        }
    }
    for (plural, objects) in [(SCHEMAS, &schemas), (LEVELS, &levels)] {
        remove_unwanted(registry, plural, objects).await?;
    }
    Ok(())
}

fn params(manager: &str) -> WriteParams {
    // No policy and no webhook may reject these objects: nobody could delete it any more.
    WriteParams { field_manager: manager.to_owned(), webhooks: WebhookCalls::Never, ..WriteParams::default() }
}

/// Creates an object with its status, or restores an existing one.
async fn ensure(registry: &Registry, plural: &str, object: Value, status: Option<Value>) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(GROUP, "v1", plural) else { return Ok(()) };
    let name = object.text(&["metadata", "name"]).to_owned();
    let target = Target::object(resource, None, &name);
    if let Some(current) = registry.peek(&target).await? {
        let Some(revised) = revised(current.value(), &object) else { return Ok(()) };
        return match registry.update(&target, Body::Value(revised), params(PRODUCER)).await {
            Err(status) if !status.is_conflict() => Err(status),
            _ => Ok(()),
        };
    }
    match registry.create(&Target::collection(resource, None), Body::Value(object), params(PRODUCER)).await {
        Ok(_) => {}
        // Another server over the same storage may create it at the same time.
        Err(status) if status.is_already_exists() => return Ok(()),
        Err(status) => return Err(status),
    }
    match status {
        Some(status) => apply_status(registry, &name, &status).await,
        None => Ok(()),
    }
}

/// Sets the status of a FlowSchema.
async fn apply_status(registry: &Registry, name: &str, status: &Value) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(GROUP, "v1", SCHEMAS) else { return Ok(()) };
    let applied = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": name},
        "status": status});
    let target = Target::object(resource, None, name).subresource("status");
    registry.apply(&target, applied.to_string().as_bytes(), true, params(CONSUMER)).await.map(drop)
}

/// Returns the object as it must be, unless the current one is correct.
fn revised(mut current: Value, wanted: &Value) -> Option<Value> {
    let name = wanted.text(&["metadata", "name"]);
    let annotation = auto_update(&current);
    let updates = MANDATORY.contains(&name) || annotation.unwrap_or_else(|| current["metadata"]["generation"] == 1);
    let mut spec = wanted["spec"].clone();
    // The seats of exempt requests are not fixed.
    if let (Some(exempt), Some(wanted)) = (current.at(&["spec", "exempt"]), spec.get_mut("exempt")) {
        wanted.clone_from(exempt);
    }
    let has_other_spec = updates && !same(Some(&spec), current.at(&["spec"]));
    if annotation == Some(updates) && !has_other_spec {
        return None;
    }
    if has_other_spec {
        current["spec"] = spec;
    }
    current["metadata"]["annotations"][AUTO_UPDATE] = updates.to_string().into();
    Some(current)
}

/// Reads the annotation as Go reads a boolean.
fn auto_update(object: &Value) -> Option<bool> {
    match object.text(&["metadata", "annotations", AUTO_UPDATE]) {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Deletes the objects that the server would update, but does not know. They were suggested by another version.
async fn remove_unwanted(registry: &Registry, plural: &str, wanted: &[Value]) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(GROUP, "v1", plural) else { return Ok(()) };
    for item in registry.peek_all(&Target::collection(resource, None)).await? {
        let object = item.value();
        let name = object.text(&["metadata", "name"]);
        let is_wanted = wanted.iter().any(|wanted| wanted.text(&["metadata", "name"]) == name);
        if is_wanted || auto_update(&object) != Some(true) {
            continue;
        }
        let params = DeleteParams { webhooks: WebhookCalls::Never, ..DeleteParams::default() };
        match registry.delete(&Target::object(resource, None, name), params).await {
            Err(status) if !status.is_not_found() => return Err(status),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str) -> Value {
        let mut level = flowcontrol::levels().into_iter().find(|level| level["metadata"]["name"] == name).unwrap();
        level["metadata"]["generation"] = 1.into();
        level
    }

    #[test]
    fn suggested_objects_are_restored_if_their_annotation_allows_it() {
        let wanted = level("system");
        let mut current = wanted.clone();
        assert_eq!(revised(current.clone(), &wanted), None);
        current["spec"]["limited"]["lendablePercent"] = 1.into();
        assert_eq!(revised(current.clone(), &wanted), Some(wanted.clone()));
        current["metadata"]["annotations"][AUTO_UPDATE] = "F".into();
        assert_eq!(revised(current.clone(), &wanted), None);
        // Without the annotation, a changed object is left alone, and gets the annotation.
        current["metadata"]["annotations"] = json!({});
        current["metadata"]["generation"] = 2.into();
        let mut kept = current.clone();
        kept["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        assert_eq!(revised(current.clone(), &wanted), Some(kept));
        current["metadata"]["generation"] = 1.into();
        assert_eq!(revised(current, &wanted), Some(wanted));
    }

    #[test]
    fn mandatory_objects_are_always_restored_except_for_exempt_seats() {
        let wanted = level("catch-all");
        let mut current = wanted.clone();
        current["spec"]["limited"]["nominalConcurrencyShares"] = 1.into();
        current["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        assert_eq!(revised(current, &wanted), Some(wanted));
        let wanted = level("exempt");
        let mut current = wanted.clone();
        current["spec"]["exempt"]["nominalConcurrencyShares"] = 10.into();
        assert_eq!(revised(current, &wanted), None);
    }
}
