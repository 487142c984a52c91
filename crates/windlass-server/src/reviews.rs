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
        Attributes, Operation, Registry, ResponseBody, SubresourceKind, WriteParams, Written, settle_namespace,
    },
    resource::{Body, Item, Shape, Target},
    state::State,
    storage::Revision,
};

/// The API group of token requests.
const TOKENS: &str = "authentication.k8s.io";

/// The user who sends a review, and the server.
pub(crate) struct Reviewer<'a> {
    pub(crate) server: &'a State,
    pub(crate) registry: &'a Registry,
    pub(crate) user: &'a Arc<User>,
}

/// A review: the decoded object and its path.
struct Review<'a> {
    reviewer: &'a Reviewer<'a>,
    target: &'a Target,
    object: Value,
    /// The attributes of the review as a write, without its object.
    write: Attributes,
}

impl Review<'_> {
    /// Runs validating admission, after the review was validated.
    async fn admit(&mut self) -> Result<(), Status> {
        self.write.object = self.object.take();
        let outcome = self.reviewer.registry.validate_admission(&mut self.write).await;
        self.object = self.write.object.take();
        outcome
    }
}

/// Sets the status of a review.
type Handler = for<'a> fn(Review<'a>) -> BoxFuture<'a, Result<Value, Status>>;

/// Returns the function that answers a review, if the target is a review.
fn answerer(target: &Target) -> Option<(Handler, &'static str)> {
    let resource = &target.resource;
    let subresource = target.subresource.as_deref().unwrap_or_default();
    Some(match (resource.group.as_str(), resource.plural.as_str(), subresource) {
        ("authentication.k8s.io", "selfsubjectreviews", "") => (|question| Box::pin(identity::who_am_i(question)), ""),
        ("authentication.k8s.io", "tokenreviews", "") => (|question| Box::pin(identity::whose_token(question)), ""),
        ("authorization.k8s.io", "selfsubjectaccessreviews", "") => (|question| Box::pin(access::may_i(question)), ""),
        ("authorization.k8s.io", "subjectaccessreviews", "") => (|question| Box::pin(access::may_they(question)), ""),
        ("authorization.k8s.io", "localsubjectaccessreviews", "") => {
            (|question| Box::pin(access::may_they_here(question)), "")
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews", "") => {
            (|question| Box::pin(access::what_may_i(question)), "")
        }
        ("", "serviceaccounts", "token") => (|question| Box::pin(tokens::request(question)), tokens::KIND),
        _ => return None,
    })
}

/// Reports whether objects created here are reviews.
pub(crate) fn is_review(target: &Target) -> bool {
    answerer(target).is_some()
}

/// Answers a review.
pub(crate) async fn answer(
    reviewer: &Reviewer<'_>,
    target: &Target,
    body: &Body,
    params: &WriteParams,
) -> Result<Written, Status> {
    let Some((answerer, kind)) = answerer(target) else { return Err(Status::unknown_resource()) };
    let shape = match kind {
        "" => target.resource.shape.clone(),
        kind => {
            let plan = codec::plan(TOKENS, "v1", kind).ok_or_else(Status::unknown_resource)?;
            Shape::BuiltIn(plan)
        }
    };
    let decoded = shape.decode(body, params.field_validation)?;
    params.warnings.extend(decoded.warnings.clone());
    let mut object = decoded.value;
    settle_namespace(target, &mut object)?;
    let metadata = metadata_mut(&mut object);
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"] {
        metadata.shift_remove(key);
    }
    if target.subresource.is_none() {
        metadata.shift_remove("uid");
    }
    // The object of a subresource is of another kind, without managed fields.
    if target.subresource.is_none() {
        reviewer.registry.track(target, None, &mut object, params);
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
        let (group, version) = (TOKENS.to_owned(), "v1".to_owned());
        write.subresource_kind = Some(SubresourceKind { group, version, kind: kind.to_owned() });
    }
    reviewer.registry.admit(&mut write).await?;
    let object = write.object.take();
    let answered = answerer(Review { reviewer, target, object, write }).await?;
    let answered = shape.normalise(answered, windlass_api::FieldValidation::Ignore)?.value;
    let item = Item { encoded: Encoded::new(&answered, shape.style()), revision: Revision(0) };
    Ok(Written { answer: ResponseBody::Object(item), created: true, warnings: decoded.warnings })
}

/// Returns the validation errors of a review. As in kube-apiserver, the error has no kind.
fn check(errors: Errors) -> Result<(), Status> {
    errors.check(&GroupKind::new("authorization.k8s.io", ""), "")
}
