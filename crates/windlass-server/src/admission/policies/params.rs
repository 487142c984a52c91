//! The parameters of a binding.

use std::sync::Arc;

use serde_json::Value;
use windlass_api::Status;

use super::{compiled::ParamKind, message};
use crate::{
    admission::invocation::set_type_meta,
    kinds::label_selector,
    object::Tree,
    registry::Registry,
    resource::{Item, ResourceInfo, Target},
};

/// The resource of a policy's parameters.
pub(super) type ParamResource = Arc<ResourceInfo>;

/// Returns the resource of a policy's parameters. The error is a message.
pub(super) fn resource(registry: &Registry, kind: &ParamKind) -> Result<ParamResource, String> {
    let resources = registry.resources();
    let found = resources.all().iter().find(|resource| {
        resource.kind == kind.kind && resource.group == kind.group && resource.version == kind.version
    });
    let missing = || format!("failed to find resource referenced by paramKind: '{kind}'");
    found.cloned().ok_or_else(missing)
}

/// Returns the parameters of a binding: one for each evaluation of the policy. A policy or a binding without parameters
/// is evaluated once, without a value. The error is a message.
pub(super) async fn params(
    registry: &Registry,
    resource: Option<&ParamResource>,
    reference: Option<&Value>,
    namespace: &str,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(resource), Some(reference)) = (resource, reference) else { return Ok(vec![None]) };
    let own = reference.text(&["namespace"]);
    let namespace = match (resource.is_namespaced(), own) {
        (false, "") => None,
        (false, _) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()),
        (true, "") if namespace.is_empty() => {
            let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "") => Some(namespace),
        (true, own) => Some(own),
    };
    let found = found(registry, resource, reference, namespace).await.map_err(|status| message(&status))?;
    if found.is_empty() && reference.text(&["parameterNotFoundAction"]) == "Deny" {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}

async fn found(
    registry: &Registry,
    resource: &ParamResource,
    reference: &Value,
    namespace: Option<&str>,
) -> Result<Vec<Value>, Status> {
    let name = reference.text(&["name"]);
    let items: Vec<Item> = match name {
        "" => registry.peek_all(&Target::collection(resource, namespace)).await?,
        name => registry.peek_recent(&Target::object(resource, namespace, name)).await?.into_iter().collect(),
    };
    let selector = reference.at(&["selector"]).map(label_selector).unwrap_or_default();
    let mut params = Vec::new();
    for item in items {
        let stored = item.value();
        let label = |label: &str| stored.at(&["metadata", "labels", label]).and_then(Value::as_str);
        if name.is_empty() && !selector.is_empty() && !selector.matches(label) {
            continue;
        }
        let object = resource.stored_to_hub(stored).await?;
        let object = resource.hub_to_requested(&object).into_owned();
        params.push(set_type_meta(object, &resource.group, &resource.version, &resource.kind));
    }
    Ok(params)
}
