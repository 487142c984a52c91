//! The evaluation of expressions about writes.
//!
//! A cheap evaluation runs in place. An expensive one is stopped and repeated on a thread for blocking work. An
//! evaluation that needs the decision of the authorizer is stopped, too, and repeated with the decision.

use std::sync::Arc;

use serde_json::Value;
use windlass_api::{FieldSelector, Status};
use windlass_cel::{
    AccessCheck, AccessDecision, AccessDecisions, AccessTarget, Composition, Inputs, Program, ResourceTarget, Scope,
};

use super::invocation::Invocation;
use crate::{
    authz::{AccessAttributes, Authorizer, Decision, Object},
    identity::User,
    offload::offload,
    registry::{Attributes, Registry},
};

/// The values of the variables that describe a write.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) object: Value,
    pub(super) old: Value,
    pub(super) request: Value,
    /// The request as match conditions see it: with the requested resource.
    condition_request: Value,
    /// The namespace of the object. Null for objects without one.
    pub(super) namespace: Value,
    target: ResourceTarget,
}

/// The variables of an evaluation that not all expressions have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extras<'a> {
    pub(super) params: Option<&'a Value>,
    /// Match conditions have no namespace, and see the requested resource instead of the matched one.
    pub(super) for_conditions: bool,
    pub(super) authorizer: bool,
    pub(super) composition: Option<&'a Composition>,
}

/// One attempt to evaluate expressions.
#[derive(Debug)]
pub(super) struct Attempt {
    decisions: Arc<AccessDecisions>,
    only_cheap: bool,
    pending: Option<AccessCheck>,
    was_stopped: bool,
}

/// Evaluates expressions about one write. Keeps the decisions of the authorizer.
#[derive(Debug)]
pub(super) struct Evaluator<'a> {
    authorizer: &'a Authorizer,
    registry: &'a Registry,
    user: Arc<User>,
    decisions: Arc<AccessDecisions>,
}

// === impl Subject ===

impl Subject {
    /// Creates the values for a view of a write.
    pub(super) async fn of(write: &Attributes, invocation: &Invocation, namespace: Value) -> Result<Self, Status> {
        let request = invocation.request(write);
        let mut condition_request = request.clone();
        condition_request["resource"] = request["requestResource"].clone();
        Ok(Self {
            condition_request,
            object: invocation.object(write, &write.object).await?,
            old: invocation.object(write, write.old.as_ref().unwrap_or(&Value::Null)).await?,
            request,
            namespace,
            target: ResourceTarget {
                group: write.resource.group.clone(),
                resource: write.resource.plural.clone(),
                subresource: write.subresource.clone().unwrap_or_default(),
                namespace: write.review_namespace().to_owned(),
                name: write.name.clone(),
                ..ResourceTarget::default()
            },
        })
    }
}

// === impl Attempt ===

impl Attempt {
    /// Returns the values of the variables for evaluations.
    pub(super) fn inputs<'a>(&self, subject: &'a Subject, extras: Extras<'a>) -> Inputs<'a> {
        let (namespace, request) = if extras.for_conditions {
            (&Value::Null, &subject.condition_request)
        } else {
            (&subject.namespace, &subject.request)
        };
        let values = vec![
            ("object", &subject.object),
            ("oldObject", &subject.old),
            ("request", request),
            ("namespaceObject", namespace),
            ("params", extras.params.unwrap_or(&Value::Null)),
        ];
        Inputs {
            values,
            composition: extras.composition,
            request: extras.authorizer.then_some(&subject.target),
            decisions: Arc::clone(&self.decisions),
            only_cheap: self.only_cheap,
        }
    }

    /// Runs evaluations in a new scope. The error is a message.
    pub(super) fn run<'v, T: Send>(
        &mut self,
        inputs: &'v Inputs<'_>,
        programs: impl IntoIterator<Item = &'v Program>,
        evaluate: impl FnOnce(&Scope<'v>) -> T + Send,
    ) -> Result<T, String> {
        let ran = inputs.evaluate(programs, |scope| (evaluate(scope), scope.pending(), scope.was_stopped()));
        let (value, pending, was_stopped) = ran.map_err(|error| error.to_string())?;
        self.pending = self.pending.take().or(pending);
        self.was_stopped |= was_stopped;
        Ok(value)
    }

    /// Reports whether the attempt is repeated, so that its result does not count.
    pub(super) fn is_incomplete(&self) -> bool {
        self.pending.is_some() || self.was_stopped
    }
}

// === impl Evaluator ===

impl<'a> Evaluator<'a> {
    /// Creates an evaluator for the expressions about a write.
    pub(super) fn new(authorizer: &'a Authorizer, registry: &'a Registry, write: &Attributes) -> Self {
        Self { authorizer, registry, user: Arc::clone(&write.context.user), decisions: Arc::default() }
    }

    /// Evaluates expressions, until an attempt is complete.
    pub(super) async fn evaluate<T: Send + 'static>(
        &mut self,
        compute: impl Fn(&mut Attempt) -> T + Send + Sync + 'static,
    ) -> Result<T, Status> {
        let compute = Arc::new(compute);
        let mut only_cheap = true;
        loop {
            let decisions = Arc::clone(&self.decisions);
            let mut attempt = Attempt { decisions, only_cheap, pending: None, was_stopped: false };
            let (value, attempt) = if only_cheap {
                (compute(&mut attempt), attempt)
            } else {
                let compute = Arc::clone(&compute);
                offload(move || (compute(&mut attempt), attempt)).await?
            };
            if let Some(check) = attempt.pending {
                let decision = self.decide(&check).await?;
                drop(attempt.decisions);
                Arc::make_mut(&mut self.decisions).insert(check, decision);
            } else if attempt.was_stopped {
                only_cheap = false;
            } else {
                return Ok(value);
            }
        }
    }

    async fn decide(&self, check: &AccessCheck) -> Result<AccessDecision, Status> {
        let account = check.account.as_ref().map(|(namespace, name)| User::service_account(namespace, name));
        let user = account.as_ref().unwrap_or(&self.user);
        let object = match &check.target {
            AccessTarget::Path(path) => Object::Path(path),
            AccessTarget::Resource(target) => Object::Resource {
                group: &target.group,
                version: "*",
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: &target.name,
            },
        };
        let selector: Option<FieldSelector> = match &check.target {
            AccessTarget::Resource(target) => target.field_selector.parse().ok(),
            AccessTarget::Path(_) => None,
        };
        let selected_node = selector.as_ref().and_then(|selector| selector.exact("spec.nodeName"));
        let attributes = AccessAttributes { verb: &check.verb, object, selected_node };
        let decision = self.authorizer.decide(self.registry.storage(), user, &attributes).await?;
        let error = match &decision {
            Decision::Failed { problem, .. } => Some(problem.clone()),
            _ => None,
        };
        Ok(AccessDecision { allowed: decision.is_allowed(), reason: decision.reason(), error })
    }
}
