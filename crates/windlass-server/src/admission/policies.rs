//! The plugins `MutatingAdmissionPolicy` and `ValidatingAdmissionPolicy`, which evaluate the expressions of policies.
//!
//! ```text
//! validation   the decisions of validating policies: denials, warnings, audit annotations
//! mutation     the patches of mutating policies
//!   └ params     the parameters of a binding
//!   └ active     the policies with bindings, compiled when they change
//!       └ compiled   one policy, one binding
//! ```
//!
//! A new or changed policy takes effect with the next write. Policies and their bindings are not subject to policies, and
//! neither are reviews of users and permissions.

mod active;
mod compiled;
mod mutation;
mod params;
mod validation;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::Status;

use self::active::Policies;
use super::matching;
use crate::{
    authz::Authorizer,
    object::Tree,
    registry::{Admission, Attributes, Registry, WebhookCalls},
};

/// The policy admission plugins.
#[derive(Debug)]
pub(crate) struct AdmissionPolicies {
    authorizer: Arc<Authorizer>,
    mutating: Policies,
    validating: Policies,
}

/// The reviews that no policy can reject: rejecting them may break the cluster.
const EXCLUDED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

impl AdmissionPolicies {
    pub(crate) fn new(authorizer: Arc<Authorizer>) -> Self {
        Self { authorizer, mutating: Policies::mutating(), validating: Policies::validating() }
    }
}

impl Admission for AdmissionPolicies {
    fn handles(&self, write: &Attributes) -> bool {
        let (group, plural) = (&*write.resource.group, &*write.resource.plural);
        let is_policy = group == "admissionregistration.k8s.io"
            && (plural.ends_with("admissionpolicies") || plural.ends_with("admissionpolicybindings"));
        write.context.webhooks == WebhookCalls::Configured && !is_policy && !EXCLUDED.contains(&(group, plural))
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match self.mutating.current(registry).await? {
                Some(policies) => mutation::mutate(&self.authorizer, &policies, registry, write).await,
                None => Ok(()),
            }
        })
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match self.validating.current(registry).await? {
                Some(policies) => validation::validate(&self.authorizer, &policies, registry, write).await,
                None => Ok(()),
            }
        })
    }
}

/// Returns the namespace of a write's object as expressions see it. Null for an object without a namespace.
async fn namespace_object(registry: &Registry, write: &Attributes) -> Result<Value, Status> {
    if write.namespace.is_empty() || write.is_namespace() {
        return Ok(Value::Null);
    }
    let mut namespace = matching::namespace(registry, &write.namespace).await?;
    if let Some(fields) = namespace.as_object_mut() {
        fields.retain(|name, _| matches!(name.as_str(), "metadata" | "spec" | "status"));
    }
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !matches!(name.as_str(), "managedFields" | "ownerReferences"));
    }
    Ok(namespace)
}

/// Returns the message of an error.
fn message(status: &Status) -> String {
    status.message.clone()
}

/// Reads a text field; `None` if it is absent or empty.
fn optional(value: &Value, path: &[&str]) -> Option<String> {
    Some(value.text(path)).filter(|text| !text.is_empty()).map(str::to_owned)
}
