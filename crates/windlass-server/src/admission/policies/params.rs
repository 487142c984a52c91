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

/// A parameter of a binding. It is decoded when it is used, so that only one of many is in memory.
#[derive(Debug)]
pub(super) enum Param {
    /// The policy or the binding has no parameters.
    Absent,
    Stored(ParamResource, Item),
}

impl Param {
    /// Returns the object. `None` if there are no parameters.
    pub(super) async fn value(&self) -> Result<Option<Value>, Status> {
        let Self::Stored(resource, item) = self else { return Ok(None) };
        let object = resource.stored_to_hub(item.value()).await?;
        let object = resource.hub_to_requested(&object).into_owned();
        Ok(Some(set_type_meta(object, &resource.group, &resource.version, &resource.kind)))
    }
}

/// Returns the parameters of a binding: one for each evaluation of the policy. A policy or a binding without parameters
/// is evaluated once, without a value. The error is a message.
pub(super) async fn params(
    registry: &Registry,
    resource: Option<&ParamResource>,
    reference: Option<&Value>,
    namespace: &str,
) -> Result<Vec<Param>, String> {
    let (Some(resource), Some(reference)) = (resource, reference) else { return Ok(vec![Param::Absent]) };
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
    Ok(found.into_iter().map(|item| Param::Stored(Arc::clone(resource), item)).collect())
}

async fn found(
    registry: &Registry,
    resource: &ParamResource,
    reference: &Value,
    namespace: Option<&str>,
) -> Result<Vec<Item>, Status> {
    let name = reference.text(&["name"]);
    if !name.is_empty() {
        let found = registry.peek_recent(&Target::object(resource, namespace, name)).await?;
        return Ok(found.into_iter().collect());
    }
    let mut items = registry.peek_all(&Target::collection(resource, namespace)).await?;
    let selector = reference.at(&["selector"]).map(label_selector).unwrap_or_default();
    if !selector.is_empty() {
        items.retain(|item| {
            let meta = item.encoded.meta().ok();
            selector.matches(|label| meta.as_ref()?.label(label))
        });
    }
    Ok(items)
}

#[cfg(test)]
mod tests;
