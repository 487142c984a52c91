//! Authorization webhooks: the server posts a `SubjectAccessReview` and reads the decision from its status.
//!
//! Decisions are cached for a limited time, per user (with all of its fields) and request attributes. Selectors of a
//! request are not sent, so a webhook decides about more objects than the request selects.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::{self, Instant};
use windlass_api::{BoxError, ErrorChain};
use windlass_cel::{EvaluationError, LIMIT_PER_CALL, Program};

use super::{AccessAttributes, Object};
use crate::{identity::User, object::Tree};

/// The maximum number of cached decisions.
const CAPACITY: usize = 8192;
/// The maximum length of the texts of a cached request, in bytes.
const MAX_CACHED_LENGTH: usize = 10_000;

/// Sends reviews to a webhook, and returns its answers.
///
/// Implementations need neither a timeout nor a cache.
pub trait AccessReviewer: fmt::Debug + Send + Sync + 'static {
    /// Posts a `SubjectAccessReview`.
    fn review(&self, review: Value) -> BoxFuture<'_, Result<Value, BoxError>>;
}

/// A webhook, its conditions, and its cached decisions.
pub(crate) struct AuthorizationWebhook {
    pub(super) reviewer: Arc<dyn AccessReviewer>,
    /// `v1` or `v1beta1`.
    pub(super) version: String,
    pub(super) timeout: Duration,
    pub(super) on_failure: OnFailure,
    pub(super) conditions: Vec<(String, Program)>,
    /// The time for which an `allowed` decision is cached. `None` disables caching.
    pub(super) allowed_ttl: Option<Duration>,
    /// The time for which any other decision is cached.
    pub(super) denied_ttl: Option<Duration>,
    pub(super) answers: Answers,
}

/// The decision after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    NoOpinion,
    Deny,
}

/// A webhook's decision on a request, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opinion {
    Allows(String),
    Forbids(String),
    None(String),
    Failed { denied: bool, reason: String, problem: String },
}

/// The cached decisions.
#[derive(Default)]
pub(super) struct Answers(Mutex<HashMap<String, (Instant, Opinion)>>);

impl AuthorizationWebhook {
    /// Calls the webhook if its match conditions are true.
    pub(super) async fn opinion(&self, user: &User, attempt: &AccessAttributes<'_>) -> Opinion {
        match self.matches_conditions(user, attempt) {
            Ok(true) => {}
            Ok(false) => return Opinion::None(String::new()),
            Err(problem) => return self.failure_opinion(problem),
        }
        let spec = self.spec(user, attempt);
        let key = spec.to_string();
        if let Some(opinion) = self.answers.get(&key) {
            return opinion;
        }
        let version = &self.version;
        let review = json!({"kind": "SubjectAccessReview", "apiVersion": format!("authorization.k8s.io/{version}"),
            "metadata": {}, "spec": spec, "status": {"allowed": false}});
        let opinion = match time::timeout(self.timeout, self.reviewer.review(review)).await {
            Ok(Ok(answer)) => parse_opinion(&answer),
            Ok(Err(error)) => return self.failure_opinion(ErrorChain(&*error).to_string()),
            Err(_) => return self.failure_opinion("context deadline exceeded".to_owned()),
        };
        let lifetime = if matches!(opinion, Opinion::Allows(_)) { self.allowed_ttl } else { self.denied_ttl };
        if let Some(lifetime) =
            lifetime.filter(|_| attempt.texts().iter().map(|text| text.len()).sum::<usize>() < MAX_CACHED_LENGTH)
        {
            self.answers.insert(key, opinion.clone(), lifetime);
        }
        opinion
    }

    fn failure_opinion(&self, problem: String) -> Opinion {
        Opinion::Failed { denied: self.on_failure == OnFailure::Deny, reason: String::new(), problem }
    }

    /// Reports whether all conditions are true. A false condition takes precedence over conditions that cannot be
    /// evaluated.
    fn matches_conditions(&self, user: &User, attempt: &AccessAttributes<'_>) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let request = condition_request(user, attempt);
        let mut problems = Vec::new();
        for (expression, program) in &self.conditions {
            match program.condition(&[("request", Some(&request))], LIMIT_PER_CALL).result {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(EvaluationError::Exhausted) => {
                    problems.push(format!("expression '{expression}' resulted in error: cost limit exceeded"));
                }
                Err(error) => problems.push(format!("expression '{expression}' resulted in error: {error}")),
            }
        }
        match problems.as_slice() {
            [] => Ok(true),
            [problem] => Err(problem.clone()),
            several => Err(format!("[{}]", several.join(", "))),
        }
    }

    /// Returns the spec of a review, without empty fields.
    fn spec(&self, user: &User, attempt: &AccessAttributes<'_>) -> Value {
        let mut spec = Map::new();
        let texts = |texts: &[(&str, &str)]| -> Value {
            texts
                .iter()
                .filter(|(_, text)| !text.is_empty())
                .map(|(field, text)| ((*field).to_owned(), Value::from(*text)))
                .collect()
        };
        let (field, attributes) = attempt.attributes();
        spec.insert(field.to_owned(), texts(&attributes));
        if !user.name.is_empty() {
            spec.insert("user".to_owned(), user.name.as_str().into());
        }
        if !user.groups.is_empty() {
            let field = if self.version == "v1" { "groups" } else { "group" };
            spec.insert(field.to_owned(), json!(user.groups));
        }
        if !user.extra.is_empty() {
            spec.insert("extra".to_owned(), json!(user.extra));
        }
        if !user.uid.is_empty() {
            spec.insert("uid".to_owned(), user.uid.as_str().into());
        }
        spec.into()
    }
}

impl fmt::Debug for AuthorizationWebhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationWebhook").field("reviewer", &self.reviewer).finish_non_exhaustive()
    }
}

/// Returns the variable `request` of conditions: a spec including empty fields.
fn condition_request(user: &User, attempt: &AccessAttributes<'_>) -> Value {
    let (field, attributes) = attempt.attributes();
    let attributes: Value = attributes.iter().map(|(field, text)| ((*field).to_owned(), Value::from(*text))).collect();
    let mut request = json!({"user": user.name, "groups": user.groups, "extra": user.extra, "uid": user.uid});
    request[field] = attributes;
    request
}

/// Reads the decision from an answer.
fn parse_opinion(answer: &Value) -> Opinion {
    let status = answer.at(&["status"]).unwrap_or(&Value::Null);
    let reason = status.text(&["reason"]).to_owned();
    match (status.flag(&["allowed"]), status.flag(&["denied"])) {
        (true, true) => Opinion::Failed {
            denied: true,
            reason,
            problem: "webhook subject access review returned both allow and deny response".to_owned(),
        },
        (false, true) => Opinion::Forbids(reason),
        (true, false) => Opinion::Allows(reason),
        (false, false) => Opinion::None(reason),
    }
}

impl Answers {
    fn get(&self, key: &str) -> Option<Opinion> {
        let answers = self.0.lock();
        let (end, opinion) = answers.get(key)?;
        (Instant::now() < *end).then(|| opinion.clone())
    }

    fn insert(&self, key: String, opinion: Opinion, lifetime: Duration) {
        let now = Instant::now();
        let mut answers = self.0.lock();
        if answers.len() >= CAPACITY {
            answers.retain(|_, (end, _)| now < *end);
        }
        if answers.len() >= CAPACITY {
            answers.clear();
        }
        answers.insert(key, (now + lifetime, opinion));
    }
}

impl<'a> AccessAttributes<'a> {
    /// Returns the field of a review that describes the request, and its content.
    fn attributes(&self) -> (&'static str, Vec<(&'static str, &'a str)>) {
        match self.object {
            Object::Path(path) => ("nonResourceAttributes", vec![("path", path), ("verb", self.verb)]),
            Object::Resource { group, version, resource, subresource, namespace, name } => (
                "resourceAttributes",
                vec![
                    ("namespace", namespace),
                    ("verb", self.verb),
                    ("group", group),
                    ("version", version),
                    ("resource", resource),
                    ("subresource", subresource),
                    ("name", name),
                ],
            ),
        }
    }

    fn texts(&self) -> Vec<&'a str> {
        self.attributes().1.into_iter().map(|(_, text)| text).collect()
    }
}

#[cfg(test)]
mod tests;
