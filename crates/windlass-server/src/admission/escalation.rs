//! Escalation checks for roles and bindings: a user cannot grant permissions that they do not hold.
//!
//! In kube-apiserver these checks are part of the storage of roles. Here they are the last plugin of the chain, so that
//! they see a role after webhooks have changed it.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Status;

use crate::registry::{Admission, Attributes, Operation};
use crate::{
    authz::{
        AccessAttributes, Authorizer, GROUP, Object, RoleName, Rule, is_policy, missing, missing_roles_error, quoted,
    },
    codec::go_quote,
    object::{Tree, metadata_mut},
    registry::Registry,
};

/// Rejects roles and bindings that grant more permissions than their author has.
#[derive(Debug)]
pub(crate) struct NoEscalation(pub(crate) Arc<Authorizer>);

/// The metadata fields that the garbage collector may change in an object.
const GC_FIELDS: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];

impl Admission for NoEscalation {
    fn handles(&self, write: &Attributes) -> bool {
        // The server's own writes have no user.
        let user = &write.context.user;
        write.operation != Operation::Delete
            && is_policy(&write.resource)
            && !user.name.is_empty()
            && !self.0.is_unrestricted(user)
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if write.old.as_ref().is_some_and(|old| only_gc_fields_changed(&write.object, old)) {
                return Ok(());
            }
            if write.resource.kind.ends_with("Binding") {
                return self.check_binding(registry, write).await;
            }
            self.check_role(registry, write).await
        })
    }
}

impl NoEscalation {
    /// Checks that the author of a role holds its permissions.
    async fn check_role(&self, registry: &Registry, write: &Attributes) -> Result<(), Status> {
        if self.is_allowed(registry, write, "escalate", &write.resource.plural, &write.context.name).await? {
            return Ok(());
        }
        self.check(registry, write, &Rule::all_of(&write.object)).await?;
        let is_aggregated = |role: &Value| !role.items(&["aggregationRule", "clusterRoleSelectors"]).is_empty();
        if (is_aggregated(&write.object) || write.old.as_ref().is_some_and(is_aggregated))
            && self.check(registry, write, &Rule::everything()).await.is_err()
        {
            return Err(forbidden(write, "must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    /// Checks that the author of a binding holds the permissions of the bound role.
    async fn check_binding(&self, registry: &Registry, write: &Attributes) -> Result<(), Status> {
        let resource = match write.object.text(&["roleRef", "kind"]) {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            other => {
                return Err(Status::unclassified(format!("unsupported role reference kind: {}", go_quote(other))));
            }
        };
        let role = RoleName::of(&write.object, &write.namespace);
        if self.is_allowed(registry, write, "bind", resource, &role.name).await? {
            return Ok(());
        }
        let rules = self.0.with_grants(registry.storage(), |grants| grants.rules(&role).map(<[Rule]>::to_vec)).await?;
        // For a missing role kube-apiserver reports the kind of the request.
        let rules = rules.ok_or_else(|| Status::not_found(&write.resource.group_resource(), &role.name))?;
        self.check(registry, write, &rules).await
    }

    async fn is_allowed(
        &self,
        registry: &Registry,
        write: &Attributes,
        verb: &str,
        resource: &str,
        name: &str,
    ) -> Result<bool, Status> {
        let namespace = &write.namespace;
        let object = Object::Resource { group: GROUP, version: "*", resource, subresource: "", namespace, name };
        let decision =
            self.0.decide(registry.storage(), &write.context.user, &AccessAttributes::new(verb, object)).await?;
        Ok(decision.is_allowed())
    }

    async fn check(&self, registry: &Registry, write: &Attributes, rules: &[Rule]) -> Result<(), Status> {
        let user = &write.context.user;
        let (held, missing_roles) = self.0.rules_of(registry.storage(), user, &write.namespace).await?;
        let missing = missing(&held, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<String> = missing.into_iter().collect();
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            go_quote(&user.name),
            quoted(&user.groups),
            missing.join("\n")
        );
        if let Some(missing_roles) = missing_roles_error(&missing_roles, RoleName::plural) {
            why.push_str(&format!("; resolution errors: [{missing_roles}]"));
        }
        Err(forbidden(write, why))
    }
}

/// Returns the `Status` that rejects a write. In kube-apiserver it does not come from a plugin, so it has no generated name.
fn forbidden(write: &Attributes, why: impl std::fmt::Display) -> Status {
    Status::forbidden(&write.resource.group_resource(), &write.name, why)
}

/// Reports whether a write changes only the fields that the garbage collector changes.
fn only_gc_fields_changed(new: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        let metadata = metadata_mut(&mut object);
        for field in GC_FIELDS {
            metadata.shift_remove(field);
        }
        object
    };
    rest(new) == rest(old)
}
