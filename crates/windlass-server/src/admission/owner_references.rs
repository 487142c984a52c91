//! The plugin `OwnerReferencesPermissionEnforcement`: a user needs permissions to change the owners of an object.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    aggregation::Aggregation,
    authz::{AccessAttributes, Authorizer, Decision, Object},
    object::{Tree, same},
    registry::Registry,
};

/// Rejects changes of owner references by users who cannot delete the object, and references that block the deletion of
/// owners whose finalizers the user cannot set.
#[derive(Debug)]
pub(crate) struct OwnerReferences {
    pub(crate) authorizer: Arc<Authorizer>,
    /// The other API servers, whose objects can be owners, too.
    pub(crate) aggregation: Arc<Aggregation>,
}

const PATH: [&str; 2] = ["metadata", "ownerReferences"];

impl Admission for OwnerReferences {
    fn handles(&self, write: &Attributes) -> bool {
        let is_pod_status = write.resource.group.is_empty()
            && write.resource.plural == "pods"
            && write.subresource.as_deref() == Some("status");
        matches!(write.operation, Operation::Create | Operation::Update) && !is_pod_status && !write.is_internal()
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let nothing = Value::Null;
            let old = write.old.as_ref().unwrap_or(&nothing);
            let (owners, known) = (write.object.items(&PATH), old.items(&PATH));
            let is_changed =
                owners.len() != known.len() || owners.iter().zip(known).any(|(new, old)| !same(Some(new), Some(old)));
            if !is_changed {
                return Ok(());
            }
            if write.operation != Operation::Create {
                let own = Object::Resource {
                    group: &write.resource.group,
                    version: &write.resource.version,
                    resource: &write.resource.plural,
                    subresource: write.subresource.as_deref().unwrap_or_default(),
                    namespace: &write.namespace,
                    name: &write.name,
                };
                let decision = self.decide(registry, write, "delete", own).await?;
                if !decision.is_allowed() {
                    let why = reasons(&decision);
                    return Err(
                        write.forbidden(format!("cannot set an ownerRef on a resource you can't delete: {why}"))
                    );
                }
            }
            let blocks = |owner: &&Value| owner.flag(&["blockOwnerDeletion"]);
            let is_new = |owner: &&Value| {
                let uid = owner.text(&["uid"]);
                // As in kube-apiserver, the last reference with the UID counts.
                !known.iter().rev().find(|known| known.text(&["uid"]) == uid).is_some_and(|known| blocks(&known))
            };
            let blocking: Vec<&Value> = owners.iter().filter(blocks).filter(is_new).collect();
            if blocking.is_empty() {
                return Ok(());
            }
            let anything = Object::Resource {
                group: "*",
                version: "*",
                resource: "*",
                subresource: "finalizers",
                namespace: "",
                name: "*",
            };
            if self.decide(registry, write, "update", anything).await?.is_allowed() {
                return Ok(());
            }
            for owner in blocking {
                self.check_owner(registry, write, owner).await?;
            }
            Ok(())
        })
    }
}

impl OwnerReferences {
    async fn decide(
        &self,
        registry: &Registry,
        write: &Attributes,
        verb: &str,
        object: Object<'_>,
    ) -> Result<Decision, Status> {
        self.authorizer.decide(registry.storage(), &write.context.user, &AccessAttributes::new(verb, object)).await
    }

    /// Checks that the user may set finalizers of an owner.
    async fn check_owner(&self, registry: &Registry, write: &Attributes, owner: &Value) -> Result<(), Status> {
        let (api_version, kind) = (owner.text(&["apiVersion"]), owner.text(&["kind"]));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resources = registry.resources();
        let mut found = resources
            .all()
            .iter()
            .filter(|resource| resource.group == group && resource.version == version && resource.kind == kind);
        let own = found.next().map(|resource| (resource.plural.clone(), resource.is_namespaced()));
        // Another server replaces a version of this one.
        let Some((resource, is_namespaced)) = self.aggregation.remotes().resource(group, version, kind).or(own) else {
            return Err(write.forbidden(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} \
                 Kind {kind}: no matches for kind {kind:?} in version {api_version:?}"
            )));
        };
        let object = Object::Resource {
            group,
            version,
            resource: &resource,
            subresource: "finalizers",
            namespace: if is_namespaced { &write.namespace } else { "" },
            name: owner.text(&["name"]),
        };
        let decision = self.decide(registry, write, "update", object).await?;
        if decision.is_allowed() {
            return Ok(());
        }
        Err(write.forbidden(format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {}",
            reasons(&decision)
        )))
    }
}

/// Returns the reason and the error of a decision, as Go prints them.
fn reasons(decision: &Decision) -> String {
    let problem = decision.problem();
    format!("{}, {}", decision.reason(), if problem.is_empty() { "<nil>" } else { problem })
}
