//! Questions that are put as objects: reviews, which are answered and not stored, and requests for tokens.
//!
//! They come in through the same door as other objects (any encoding, strict or not), have a status filled in and are sent
//! back with 201. Nothing of them is kept.

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
    admission::{Attributes, Operation, PartKind},
    authn::User,
    codec,
    encoded::Encoded,
    registry::{
        Answer, Body, Errors, Item, Registry, Shape, Target, Tree, WriteParams, Written, metadata_mut, settle_namespace,
    },
    server::Inner,
    storage::Revision,
};

/// The group of requests for tokens.
const TOKENS: &str = "authentication.k8s.io";

/// Who asks, and whom.
pub(crate) struct Asker<'a> {
    pub(crate) server: &'a Inner,
    pub(crate) registry: &'a Registry,
    pub(crate) user: &'a Arc<User>,
}

/// One question: the object as it came, in normal form, and what its path says.
struct Question<'a> {
    asker: &'a Asker<'a>,
    target: &'a Target,
    object: Value,
    /// The same as a write, without its object.
    write: Attributes,
}

impl Question<'_> {
    /// Lets validating admission reject the question, once it is known to be valid.
    async fn admit(&mut self) -> Result<(), Status> {
        self.write.object = self.object.take();
        let outcome = self.asker.registry.validate_admission(&mut self.write).await;
        self.object = self.write.object.take();
        outcome
    }
}

/// Fills in the answer.
type Answerer = for<'a> fn(Question<'a>) -> BoxFuture<'a, Result<Value, Status>>;

/// Who answers what is created here, if it is a question.
fn answerer(target: &Target) -> Option<(Answerer, &'static str)> {
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

/// Whether what is created here is a question.
pub(crate) fn is_question(target: &Target) -> bool {
    answerer(target).is_some()
}

/// Answers a question.
pub(crate) async fn answer(
    asker: &Asker<'_>,
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
    // Of subresources the fields are those of another kind.
    if target.subresource.is_none() {
        asker.registry.track(target, None, &mut object, params);
    }
    if kind == tokens::KIND {
        tokens::default(&mut object);
    }
    let name = object.text(&["metadata", "name"]).to_owned();
    let mut write = Attributes::of(Operation::Create, target, object, params.asked(target));
    if write.name.is_empty() {
        write.name = name;
    }
    if !kind.is_empty() {
        let (group, version) = (TOKENS.to_owned(), "v1".to_owned());
        write.part = Some(PartKind { group, version, kind: kind.to_owned() });
    }
    asker.registry.admit(&mut write).await?;
    let object = write.object.take();
    let answered = answerer(Question { asker, target, object, write }).await?;
    let answered = shape.normalise(answered, windlass_api::FieldValidation::Ignore)?.value;
    let item = Item { encoded: Encoded::new(&answered, shape.style()), revision: Revision(0) };
    Ok(Written { answer: Answer::Object(item), created: true, warnings: decoded.warnings })
}

/// Fails if there is a complaint about a review, which the real server says without its kind.
fn check(errors: Errors) -> Result<(), Status> {
    errors.check(&GroupKind::new("authorization.k8s.io", ""), "")
}
