//! Reviews and token requests. They are answered, but not stored.
//!
//! Reviews are decoded like other objects (any encoding, any field validation). The response has code 201 and contains
//! the object with its status.

mod access;
mod identity;
mod selectors;
mod tokens;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use windlass_api::{GroupKind, Status};

use crate::{
    codec,
    encoded::Encoded,
    identity::User,
    object::{Errors, Tree, metadata_mut},
    registry::{
        Attributes, Operation, Registry, ResponseBody, SubresourceKind, WriteParams, Written, record_request,
        set_namespace,
    },
    resource::{Body, Item, Shape, Target},
    state::State,
    storage::Revision,
};

/// The API group of token requests.
const AUTHENTICATION_GROUP: &str = "authentication.k8s.io";

/// The user who sends a review, and the server.
pub(crate) struct ReviewContext<'a> {
    pub(crate) server: &'a State,
    pub(crate) registry: &'a Registry,
    pub(crate) user: &'a Arc<User>,
}

/// A review: the decoded object and its path.
struct Review<'a> {
    context: &'a ReviewContext<'a>,
    target: &'a Target,
    object: Value,
    /// The attributes of the review as a write, without its object.
    write: Attributes,
}

impl Review<'_> {
    /// Runs validating admission, after the review was validated.
    async fn admit(&mut self) -> Result<(), Status> {
        self.write.object = self.object.take();
        let outcome = self.context.registry.validate_admission(&mut self.write).await;
        self.object = self.write.object.take();
        outcome
    }
}

/// Sets the status of a review.
type Handler = for<'a> fn(Review<'a>) -> BoxFuture<'a, Result<Value, Status>>;

/// Returns the function that answers a review, if the target is a review.
fn handler(target: &Target) -> Option<(Handler, &'static str)> {
    let resource = &target.resource;
    let subresource = target.subresource.as_deref().unwrap_or_default();
    Some(match (resource.group.as_str(), resource.plural.as_str(), subresource) {
        ("authentication.k8s.io", "selfsubjectreviews", "") => {
            (|review| Box::pin(identity::create_self_subject_review(review)), "")
        }
        ("authentication.k8s.io", "tokenreviews", "") => (|review| Box::pin(identity::create_token_review(review)), ""),
        ("authorization.k8s.io", "selfsubjectaccessreviews", "") => {
            (|review| Box::pin(access::create_self_subject_access_review(review)), "")
        }
        ("authorization.k8s.io", "subjectaccessreviews", "") => {
            (|review| Box::pin(access::create_subject_access_review(review)), "")
        }
        ("authorization.k8s.io", "localsubjectaccessreviews", "") => {
            (|review| Box::pin(access::create_local_subject_access_review(review)), "")
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews", "") => {
            (|review| Box::pin(access::create_self_subject_rules_review(review)), "")
        }
        ("", "serviceaccounts", "token") => (|review| Box::pin(tokens::create_token_request(review)), tokens::KIND),
        _ => return None,
    })
}

/// Reports whether objects created here are reviews.
pub(crate) fn is_review(target: &Target) -> bool {
    handler(target).is_some()
}

/// Answers a review.
pub(crate) async fn answer(
    context: &ReviewContext<'_>,
    target: &Target,
    body: &Body,
    params: &WriteParams,
) -> Result<Written, Status> {
    let Some((handler, kind)) = handler(target) else { return Err(Status::unknown_resource()) };
    let shape = match kind {
        "" => target.resource.shape.clone(),
        kind => {
            let kubernetes = context.registry.resources().kubernetes();
            let plan = codec::plan_of(kubernetes, AUTHENTICATION_GROUP, "v1", kind);
            Shape::BuiltIn(plan.ok_or_else(Status::unknown_resource)?)
        }
    };
    let decoded = shape.decode(body, params.field_validation)?;
    params.warnings.extend(decoded.warnings);
    let mut object = decoded.value;
    if kind == tokens::KIND && params.audit.is_enabled() {
        let mut complete = object.clone();
        tokens::default(&mut complete);
        record_request(&params.audit, &shape, &complete);
    } else {
        record_request(&params.audit, &shape, &object);
    }
    set_namespace(target, &mut object)?;
    let metadata = metadata_mut(&mut object);
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"] {
        metadata.shift_remove(key);
    }
    if target.subresource.is_none() {
        metadata.shift_remove("uid");
    }
    // The object of a subresource is of another kind, without managed fields.
    if target.subresource.is_none() {
        context.registry.track(target, None, &mut object, params);
    }
    if kind == tokens::KIND {
        tokens::default(&mut object);
    }
    let name = object.text(&["metadata", "name"]).to_owned();
    let mut write = Attributes::new(Operation::Create, target, object, params.context(target));
    if write.name.is_empty() {
        write.name = name;
    }
    if !kind.is_empty() {
        let (group, version) = (AUTHENTICATION_GROUP.to_owned(), "v1".to_owned());
        write.subresource_kind = Some(SubresourceKind { group, version, kind: kind.to_owned() });
    }
    context.registry.admit(&mut write).await?;
    let object = write.object.take();
    let reviewed = handler(Review { context, target, object, write }).await?;
    let reviewed = shape.normalize(reviewed, windlass_api::FieldValidation::Ignore)?.value;
    let item = Item { encoded: Encoded::new(&reviewed, shape.style()), revision: Revision(0) };
    Ok(Written { answer: ResponseBody::Object(item), created: true })
}

/// Returns the validation errors of a review. As in kube-apiserver, the error has no kind.
fn check(errors: Errors) -> Result<(), Status> {
    errors.check(&GroupKind::new("authorization.k8s.io", ""), "")
}
