//! The API services and the flow control objects of the server.

use serde_json::{Value, json};
use windlass_api::{Status, format_time};

use crate::{
    api_services,
    kinds::flowcontrol,
    object::Tree,
    registry::{Registry, WriteParams},
    resource::{Body, Target},
};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
/// The field managers that create the flow control objects and set their status.
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Creates missing objects.
pub(super) async fn ensure_all(registry: &Registry) -> Result<(), Status> {
    for registration in api_services::built_in(registry) {
        super::ensure(registry, "apiregistration.k8s.io", "apiservices", None, registration).await?;
    }
    for level in flowcontrol::levels() {
        ensure_with_status(registry, "prioritylevelconfigurations", level, None).await?;
    }
    for (schema, status) in flowcontrol::schemas(&format_time(registry.clock().now())) {
        ensure_with_status(registry, "flowschemas", schema, Some(status)).await?;
    }
    Ok(())
}

/// Creates an object with its status, unless it exists.
async fn ensure_with_status(
    registry: &Registry,
    plural: &str,
    object: Value,
    status: Option<Value>,
) -> Result<(), Status> {
    let resources = registry.resources();
    let Some(resource) = resources.get(FLOW_CONTROL, "v1", plural) else { return Ok(()) };
    let target = Target::object(resource, None, object.text(&["metadata", "name"]));
    if registry.peek(&target).await?.is_some() {
        return Ok(());
    }
    let params = |manager: &str| WriteParams { field_manager: manager.to_owned(), ..WriteParams::default() };
    let status = status.map(|status| {
        json!({"apiVersion": resource.api_version(), "kind": resource.kind,
            "metadata": {"name": object.text(&["metadata", "name"])}, "status": status})
    });
    let collection = Target::collection(resource, None);
    match registry.create(&collection, Body::Value(object), params(PRODUCER)).await {
        Ok(_) => {}
        // Another server over the same storage may create it at the same time.
        Err(status) if status.is_already_exists() => return Ok(()),
        Err(status) => return Err(status),
    }
    if let Some(status) = status {
        let target = target.subresource("status");
        registry.apply(&target, status.to_string().as_bytes(), true, params(CONSUMER)).await?;
    }
    Ok(())
}
