//! The plugins `NamespaceAutoProvision` and `NamespaceExists`.

use futures::future::BoxFuture;
use serde_json::json;
use windlass_api::{GroupResource, Status};

use super::classes::cluster_object;
use crate::registry::{Admission, Attributes, Operation, WriteParams};
use crate::{
    registry::Registry,
    resource::{Body, Target},
};

/// Creates the namespace of a new object if it does not exist.
#[derive(Debug)]
pub(crate) struct ProvideNamespaces;

/// Rejects writes in namespaces that do not exist.
#[derive(Debug)]
pub(crate) struct RequireNamespaces;

impl Admission for ProvideNamespaces {
    fn handles(&self, write: &Attributes) -> bool {
        let is_in_namespace = !write.namespace.is_empty() && !write.is_namespace();
        write.operation == Operation::Create && is_in_namespace && !write.is_dry_run()
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if cluster_object(registry, "", "namespaces", &write.namespace).await?.is_some() {
                return Ok(());
            }
            let resources = registry.resources();
            let Some(namespaces) = resources.get("", "v1", "namespaces") else { return Ok(()) };
            let namespace = json!({"metadata": {"name": write.namespace}});
            match registry
                .create(&Target::collection(namespaces, None), Body::Value(namespace), WriteParams::default())
                .await
            {
                Err(status) if status.is_forbidden() => Err(status),
                Err(status) if !status.is_already_exists() => Err(write.forbidden(status.message)),
                _ => Ok(()),
            }
        })
    }
}

impl Admission for RequireNamespaces {
    fn handles(&self, write: &Attributes) -> bool {
        write.operation != Operation::Connect && !write.namespace.is_empty() && !write.is_namespace()
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match cluster_object(registry, "", "namespaces", &write.namespace).await? {
                Some(_) => Ok(()),
                None => Err(Status::not_found(&GroupResource::new("", "namespaces"), &write.namespace)),
            }
        })
    }
}
