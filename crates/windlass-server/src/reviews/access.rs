//! Access reviews and rules reviews.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use windlass_api::Status;

use super::{Review, ReviewContext, check, selectors};
use crate::{
    authz::{AccessAttributes, Object, RoleName, Rule, missing_roles_error},
    identity::User,
    kubernetes::KubernetesVersion,
    object::{Errors, Field, Path, Tree, as_object},
};

const SPEC: Path<'static> = Path::new("spec");

/// Answers a `SelfSubjectAccessReview`.
pub(super) async fn create_self_subject_access_review(mut review: Review<'_>) -> Result<Value, Status> {
    let mut errors = Errors::of(review.context.registry.resources().kubernetes());
    validate_attributes(&review.object, &mut errors);
    validate_metadata(&review.object, &["managedFields"], "must be empty", &mut errors);
    check(errors)?;
    review.admit().await?;
    with_decision(review.context, review.object, review.context.user).await
}

/// Answers a `SubjectAccessReview`.
pub(super) async fn create_subject_access_review(mut review: Review<'_>) -> Result<Value, Status> {
    let mut errors = Errors::of(review.context.registry.resources().kubernetes());
    validate_attributes(&review.object, &mut errors);
    validate_subject(&review.object, &mut errors);
    validate_metadata(&review.object, &["managedFields"], "must be empty", &mut errors);
    check(errors)?;
    review.admit().await?;
    let user = subject(&review.object);
    with_decision(review.context, review.object, &user).await
}

/// Answers a `LocalSubjectAccessReview`.
pub(super) async fn create_local_subject_access_review(mut review: Review<'_>) -> Result<Value, Status> {
    let object = &review.object;
    let mut errors = Errors::of(review.context.registry.resources().kubernetes());
    validate_attributes(object, &mut errors);
    validate_subject(object, &mut errors);
    validate_metadata(object, &["managedFields", "namespace"], "must be empty except for namespace", &mut errors);
    if let Some(attributes) = object.at(&["spec", "resourceAttributes"]) {
        let namespace = attributes.text(&["namespace"]);
        if namespace != object.text(&["metadata", "namespace"]) {
            let path = SPEC.child("resourceAttributes.namespace");
            errors.invalid(&path, namespace, "must match metadata.namespace");
        }
    }
    if let Some(attributes) = object.at(&["spec", "nonResourceAttributes"]) {
        let path = SPEC.child("nonResourceAttributes");
        errors.invalid(&path, &path_attributes(attributes), "disallowed on this kind of request");
    }
    check(errors)?;
    review.admit().await?;
    let user = subject(&review.object);
    with_decision(review.context, review.object, &user).await
}

/// Answers a `SelfSubjectRulesReview`.
pub(super) async fn create_self_subject_rules_review(mut review: Review<'_>) -> Result<Value, Status> {
    let namespace = review.object.text(&["spec", "namespace"]).to_owned();
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    review.admit().await?;
    let Review { context, mut object, .. } = review;
    let (rules, missing_roles) = context.server.rules_of(context.user, &namespace).await?;
    let is_node = context.server.authorizer.is_node(context.user);
    let has_webhooks = context.server.has_webhooks();
    let list = |has_part: fn(&Rule) -> bool, show: fn(&Rule) -> Value| -> Vec<Value> {
        rules.iter().filter(|rule| has_part(rule)).map(show).collect()
    };
    let mut status = json!({
        "resourceRules": list(|rule| !rule.resources.is_empty(), |rule| {
            let Rule { verbs, groups, resources, names, .. } = rule;
            json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
        }),
        "nonResourceRules": list(|rule| !rule.paths.is_empty(), |rule| {
            json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths})
        }),
        "incomplete": is_node || has_webhooks,
    });
    let unresolved =
        [(is_node, "node"), (has_webhooks, "webhook")].into_iter().filter(|(is_incomplete, _)| *is_incomplete);
    let unresolved = unresolved.map(|(_, name)| format!("{name} authorizer does not support user rule resolution"));
    let problems: Vec<String> = unresolved.chain(missing_roles_error(&missing_roles, RoleName::singular)).collect();
    if !problems.is_empty() {
        status["evaluationError"] = problems.join(", ").into();
    }
    let review = as_object(&mut object);
    review.insert("metadata".to_owned(), json!({}));
    review.insert("spec".to_owned(), json!({}));
    review.insert("status".to_owned(), status);
    Ok(object)
}

/// Returns the review with the decision.
async fn with_decision(context: &ReviewContext<'_>, mut review: Value, user: &User) -> Result<Value, Status> {
    let selected_node = selectors::required_field(&review, "spec.nodeName").map(Cow::into_owned);
    let attributes = AccessAttributes { selected_node: selected_node.as_deref(), ..attributes(&review) };
    let decision = context.server.decide(user, &attributes).await?;
    let mut status = json!({"allowed": decision.is_allowed()});
    if decision.is_denied() {
        status["denied"] = true.into();
    }
    let problems = [decision.problem().to_owned(), selectors::problem(&review)];
    let problems = problems.into_iter().filter(|problem| !problem.is_empty()).collect::<Vec<_>>().join(", ");
    for (field, text) in [("reason", decision.reason()), ("evaluationError", problems)] {
        if !text.is_empty() {
            status[field] = text.into();
        }
    }
    as_object(&mut review).insert("status".to_owned(), status);
    Ok(review)
}

/// Returns the attributes of the request in a review.
fn attributes(review: &Value) -> AccessAttributes<'_> {
    if let Some(path) = review.at(&["spec", "nonResourceAttributes"]) {
        return AccessAttributes::new(path.text(&["verb"]), Object::Path(path.text(&["path"])));
    }
    let text = |field| review.text(&["spec", "resourceAttributes", field]);
    let object = Object::Resource {
        group: text("group"),
        version: text("version"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
    };
    AccessAttributes::new(text("verb"), object)
}

fn subject(review: &Value) -> User {
    let groups = review.items(&["spec", "groups"]).iter().filter_map(Value::as_str).map(str::to_owned);
    let texts = |values: &Value| -> Vec<String> {
        values.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = review.entries(&["spec", "extra"]).map(|(key, values)| (key.clone(), texts(values)));
    User {
        name: review.text(&["spec", "user"]).to_owned(),
        uid: review.text(&["spec", "uid"]).to_owned(),
        groups: groups.collect(),
        extra: extra.collect(),
    }
}

fn validate_subject(review: &Value, errors: &mut Errors) {
    if review.text(&["spec", "user"]).is_empty() && review.items(&["spec", "groups"]).is_empty() {
        errors.invalid(&SPEC.child("user"), "", "at least one of user or group must be specified");
    }
}

fn validate_attributes(review: &Value, errors: &mut Errors) {
    let resource = review.at(&["spec", "resourceAttributes"]);
    let is_old = errors.kubernetes() < KubernetesVersion::V1_37;
    let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    match (resource, review.at(&["spec", "nonResourceAttributes"])) {
        (Some(_), Some(path)) if is_old => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.invalid(&SPEC.child("nonResourceAttributes"), &path_attributes(path), why);
        }
        (Some(_), Some(path)) => errors.invalid(&SPEC, &path_attributes(path), why),
        (None, None) if is_old => errors.invalid(&SPEC.child("resourceAttributes"), &Value::Null, why),
        (None, None) => errors.invalid(&SPEC, &Value::Null, why),
        _ => {}
    }
    selectors::validate(&Field::object(review).child("spec.resourceAttributes"), errors);
}

fn validate_metadata(review: &Value, but: &[&str], why: &str, errors: &mut Errors) {
    let nothing = Value::Object(Map::new());
    let metadata = review.get("metadata").unwrap_or(&nothing);
    let filled = |entry: &(&String, &Value)| !but.contains(&entry.0.as_str()) && !entry.1.is_null();
    if metadata.entries(&[]).any(|entry| filled(&entry)) {
        errors.invalid(&Path::new("metadata"), metadata, why);
    }
}

/// Formats path attributes with Go's field names, as kube-apiserver does.
fn path_attributes(attributes: &Value) -> Value {
    json!({"Path": attributes.text(&["path"]), "Verb": attributes.text(&["verb"])})
}
