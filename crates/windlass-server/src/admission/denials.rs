//! Plugins that only reject: `AlwaysDeny`, `DenyServiceExternalIPs` and `LimitPodHardAntiAffinityTopology`.

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{object::Tree, registry::Registry};

/// Rejects all writes.
#[derive(Debug)]
pub(crate) struct AlwaysDeny;

/// Rejects services with new external IPs.
#[derive(Debug)]
pub(crate) struct DenyServiceExternalIps;

/// Rejects pods that must not share a topology other than the node with certain pods.
#[derive(Debug)]
pub(crate) struct LimitAntiAffinity;

const HOST_NAME: &str = "kubernetes.io/hostname";

fn denied(write: &Attributes) -> BoxFuture<'static, Result<(), Status>> {
    Box::pin(std::future::ready(Err(write.forbidden("admission control is denying all modifications"))))
}

impl Admission for AlwaysDeny {
    fn handles(&self, write: &Attributes) -> bool {
        !write.is_internal()
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, _: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        denied(write)
    }

    fn validate<'a>(&'a self, _: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        denied(write)
    }
}

impl Admission for DenyServiceExternalIps {
    fn handles(&self, write: &Attributes) -> bool {
        let services = write.resource.group.is_empty() && write.resource.plural == "services";
        services && write.subresource.is_none() && matches!(write.operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(&'a self, _: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        const PATH: [&str; 2] = ["spec", "externalIPs"];
        let known = write.old.as_ref().unwrap_or(&Value::Null).items(&PATH);
        let is_new = |address: &Value| !known.contains(address);
        let result = if write.object.items(&PATH).iter().any(is_new) {
            Err(write.forbidden("Use of external IPs is denied by admission control"))
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(result))
    }
}

impl Admission for LimitAntiAffinity {
    fn handles(&self, write: &Attributes) -> bool {
        write.is_pod_write()
    }

    fn validate<'a>(&'a self, _: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        let path = ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        let mut keys = write.object.items(&path).iter().map(|term| term.text(&["topologyKey"]));
        let result = match keys.find(|key| *key != HOST_NAME) {
            None => Ok(()),
            Some(key) => Err(write.forbidden_by_name(format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST_NAME} is \
                 allowed"
            ))),
        };
        Box::pin(std::future::ready(result))
    }
}
