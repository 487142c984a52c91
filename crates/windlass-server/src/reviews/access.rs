//! May I, may they, and what may I.

use serde_json::{Map, Value, json};
use windlass_api::Status;

use super::{Question, check};
use crate::{
    authn::User,
    authz::{Attempt, MASTERS, PUBLIC},
    registry::{Errors, Path, Tree, as_object},
};

const SPEC: Path<'static> = Path::new("spec");

/// A `SelfSubjectAccessReview`.
pub(super) fn may_i(question: Question<'_>) -> Result<Value, Status> {
    let mut errors = Errors::default();
    validate_attributes(&question.object, &mut errors);
    validate_metadata(&question.object, &["managedFields"], "must be empty", &mut errors);
    check(errors)?;
    let user = question.asker.user.clone();
    Ok(decided(question.object, &user))
}

/// A `SubjectAccessReview`.
pub(super) fn may_they(question: Question<'_>) -> Result<Value, Status> {
    let mut errors = Errors::default();
    validate_attributes(&question.object, &mut errors);
    validate_subject(&question.object, &mut errors);
    validate_metadata(&question.object, &["managedFields"], "must be empty", &mut errors);
    check(errors)?;
    let user = subject(&question.object);
    Ok(decided(question.object, &user))
}

/// A `LocalSubjectAccessReview`.
pub(super) fn may_they_here(question: Question<'_>) -> Result<Value, Status> {
    let object = question.object;
    let mut errors = Errors::default();
    validate_attributes(&object, &mut errors);
    validate_subject(&object, &mut errors);
    validate_metadata(&object, &["managedFields", "namespace"], "must be empty except for namespace", &mut errors);
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
    let user = subject(&object);
    Ok(decided(object, &user))
}

/// A `SelfSubjectRulesReview`.
pub(super) fn what_may_i(question: Question<'_>) -> Result<Value, Status> {
    let Question { asker, mut object, .. } = question;
    if object.text(&["spec", "namespace"]).is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let mut resources = vec![
        json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]}),
        json!({"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}),
    ];
    let mut paths = vec![
        json!({"verbs": ["get"], "nonResourceURLs": [
            "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version",
            "/version/"
        ]}),
        json!({"verbs": ["get"], "nonResourceURLs": PUBLIC}),
    ];
    if asker.user.may(Attempt::Resource) {
        resources.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        paths.insert(0, json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    let status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    let review = as_object(&mut object);
    review.insert("metadata".to_owned(), json!({}));
    review.insert("spec".to_owned(), json!({}));
    review.insert("status".to_owned(), status);
    Ok(object)
}

/// The review with its answer.
fn decided(mut review: Value, user: &User) -> Value {
    let path = review.at(&["spec", "nonResourceAttributes"]);
    let attempt = match path {
        Some(path) => Attempt::Path { verb: path.text(&["verb"]), path: path.text(&["path"]) },
        None => Attempt::Resource,
    };
    let allowed = user.may(attempt);
    let mut status = json!({"allowed": allowed});
    if allowed && path.is_none() && !user.is_in(MASTERS) {
        status["reason"] = "there are no roles yet: whoever is authenticated may do everything".into();
    }
    as_object(&mut review).insert("status".to_owned(), status);
    review
}

fn subject(review: &Value) -> User {
    let groups = review.items(&["spec", "groups"]).iter().filter_map(Value::as_str).map(str::to_owned);
    User { name: review.text(&["spec", "user"]).to_owned(), groups: groups.collect(), ..User::default() }
}

fn validate_subject(review: &Value, errors: &mut Errors) {
    if review.text(&["spec", "user"]).is_empty() && review.items(&["spec", "groups"]).is_empty() {
        errors.invalid(&SPEC.child("user"), "", "at least one of user or group must be specified");
    }
}

fn validate_attributes(review: &Value, errors: &mut Errors) {
    let resource = review.at(&["spec", "resourceAttributes"]);
    match (resource, review.at(&["spec", "nonResourceAttributes"])) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.invalid(&SPEC.child("nonResourceAttributes"), &path_attributes(path), why);
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.invalid(&SPEC.child("resourceAttributes"), &Value::Null, why);
        }
        _ => {}
    }
    let path = SPEC.child("resourceAttributes");
    for selector in ["fieldSelector", "labelSelector"] {
        let Some(found) = resource.and_then(|resource| resource.at(&[selector])) else { continue };
        let path = path.child(selector);
        let raw = found.text(&["rawSelector"]);
        match (raw.is_empty(), found.items(&["requirements"]).is_empty()) {
            (false, false) => {
                let why = "may not specified at the same time as requirements";
                errors.invalid(&path.child("rawSelector"), raw, why);
            }
            (true, true) => {
                let why = format!("when {path} is specified, requirements or rawSelector is required");
                errors.required(&path.child("requirements"), &why);
            }
            _ => {}
        }
    }
}

fn validate_metadata(review: &Value, but: &[&str], why: &str, errors: &mut Errors) {
    let nothing = Value::Object(Map::new());
    let metadata = review.get("metadata").unwrap_or(&nothing);
    let filled = |entry: &(&String, &Value)| !but.contains(&entry.0.as_str()) && !entry.1.is_null();
    if metadata.entries(&[]).any(|entry| filled(&entry)) {
        errors.invalid(&Path::new("metadata"), metadata, why);
    }
}

/// As the real server shows it: with the names of Go.
fn path_attributes(attributes: &Value) -> Value {
    json!({"Path": attributes.text(&["path"]), "Verb": attributes.text(&["verb"])})
}
