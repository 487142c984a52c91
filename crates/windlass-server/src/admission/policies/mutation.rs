//! The patches of mutating policies.

use std::sync::Arc;

use serde_json::Value;
use windlass_api::{Cause, FieldValidation, Status, reason};
use windlass_cel::Scope;

use super::{
    active::Snapshot,
    compiled::{Binding, CompiledPolicy, Mutation},
    message, namespace_object,
    params::{self, Param},
};
use crate::{
    admission::{
        evaluation::{Attempt, Evaluator, Extras, Subject},
        invocation::Invocation,
    },
    authz::Authorizer,
    field_manager,
    kinds::{
        conditions::{self, Verdict},
        expressions::POLICY_BUDGET,
    },
    object::Tree,
    patch::{OperationError, apply_operations},
    registry::{Attributes, HookId, Plugin, Registry, SubresourceKind, merge_type},
    resource::Shape,
};

/// A policy that matches a write, with a binding and a parameter.
#[derive(Debug)]
struct Call {
    policy: Arc<CompiledPolicy>,
    binding: Arc<Binding>,
    invocation: Invocation,
    param: Param,
}

/// An error of a policy.
#[derive(Debug)]
struct PolicyFailure {
    policy: Arc<CompiledPolicy>,
    binding: Option<Arc<Binding>>,
    why: String,
    reason: Option<&'static str>,
}

/// The reason why a mutation is not applied.
#[derive(Debug)]
enum Problem {
    /// The policy failed. Its failure policy decides.
    Policy(String),
    /// The write fails.
    Write(Status),
}

/// Applies the mutations of all policies that match a write.
pub(super) async fn mutate(
    authorizer: &Authorizer,
    policies: &Snapshot,
    registry: &Registry,
    write: &mut Attributes,
) -> Result<(), Status> {
    let mut failures = Vec::new();
    let calls = matching_calls(policies, registry, write, &mut failures).await;
    if !calls.is_empty() {
        write.reinvocation.begin_round(Plugin::Policies, &write.object);
        let called = call_all(authorizer, &calls, registry, write, &mut failures).await;
        write.reinvocation.end_round(Plugin::Policies, &write.object);
        called?;
    }
    failures.retain(|failure| failure.policy.fails_closed);
    denial(&failures, write).map_or(Ok(()), Err)
}

/// Returns the policies that match a write.
async fn matching_calls(
    policies: &Snapshot,
    registry: &Registry,
    write: &Attributes,
    failures: &mut Vec<PolicyFailure>,
) -> Vec<Call> {
    let mut calls = Vec::new();
    for active in policies.active() {
        let policy = &active.policy;
        let mut fail = |binding: Option<&Arc<Binding>>, why: String| {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let why = format!("failed to configure {what}: {why}");
            failures.push(PolicyFailure { policy: Arc::clone(policy), binding: binding.cloned(), why, reason: None });
        };
        let invocation = match policy.constraints.matching(registry, write).await {
            Ok(Some(invocation)) => invocation,
            Ok(None) => continue,
            Err(status) => {
                fail(None, message(&status));
                continue;
            }
        };
        let resource = match policy.param_kind.as_ref().map(|kind| params::resource(registry, kind)).transpose() {
            Ok(resource) => resource,
            Err(why) => {
                fail(None, why);
                continue;
            }
        };
        for binding in &active.bindings {
            if let Some(resources) = &binding.resources {
                match resources.matching(registry, write).await {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    Err(status) => {
                        fail(Some(binding), message(&status));
                        continue;
                    }
                }
            }
            let namespace = write.review_namespace();
            match params::params(registry, resource.as_ref(), binding.params.as_ref(), namespace).await {
                Ok(params) => calls.extend(params.into_iter().map(|param| Call {
                    policy: Arc::clone(policy),
                    binding: Arc::clone(binding),
                    invocation: invocation.clone(),
                    param,
                })),
                Err(why) => fail(Some(binding), why),
            }
        }
    }
    calls
}

async fn call_all(
    authorizer: &Authorizer,
    calls: &[Call],
    registry: &Registry,
    write: &mut Attributes,
    failures: &mut Vec<PolicyFailure>,
) -> Result<(), Status> {
    let namespace = namespace_object(registry, write).await?;
    let mut evaluator = Evaluator::new(authorizer, registry, write);
    let mut any_patched = false;
    for call in calls {
        let policy = &call.policy;
        let mut fail = |why| {
            let (policy, binding) = (Arc::clone(policy), Some(Arc::clone(&call.binding)));
            failures.push(PolicyFailure { policy, binding, why, reason: Some(reason::INVALID) });
        };
        let params = match call.param.value().await {
            Ok(params) => Arc::new(params),
            Err(status) => {
                fail(format!("failed to configure binding: {}", status.message));
                continue;
            }
        };
        if !policy.conditions.is_empty() {
            let subject = Subject::of(write, &call.invocation, Value::Null).await?;
            let (policy, params) = (Arc::clone(policy), Arc::clone(&params));
            let verdict = evaluator.evaluate(move |attempt| {
                let extras = Extras { for_conditions: true, ..extras(&policy, params.as_ref().as_ref()) };
                let inputs = attempt.inputs(&subject, extras);
                let evaluated = attempt
                    .run(&inputs, policy.condition_programs(), |scope| conditions::evaluate(&policy.conditions, scope));
                evaluated.unwrap_or_else(Verdict::Failed)
            });
            match verdict.await? {
                Verdict::Matches => {}
                Verdict::Differs => continue,
                Verdict::Failed(why) => {
                    fail(why);
                    continue;
                }
            }
        }
        let id = call.id(params.as_ref().as_ref());
        if !write.reinvocation.should_call(Plugin::Policies, &id) {
            continue;
        }
        let mut is_patched = false;
        for index in 0..policy.mutations.len() {
            if write.object.is_null() {
                continue;
            }
            match apply(&mut evaluator, call, &params, index, &namespace, write).await {
                Ok(()) => is_patched = true,
                Err(Problem::Policy(why)) => fail(why),
                Err(Problem::Write(status)) => return Err(status),
            }
        }
        any_patched |= is_patched;
        write.reinvocation.record_call(Plugin::Policies, id, policy.is_reinvoked, is_patched);
    }
    if any_patched {
        // The policies that made the changes are evaluated again, too.
        write.reinvocation.schedule(Plugin::Policies);
    }
    Ok(())
}

fn extras<'a>(policy: &'a CompiledPolicy, params: Option<&'a Value>) -> Extras<'a> {
    Extras { params, authorizer: true, composition: Some(&policy.composition), ..Extras::default() }
}

/// Evaluates a mutation and applies its result to the object.
async fn apply(
    evaluator: &mut Evaluator<'_>,
    call: &Call,
    params: &Arc<Option<Value>>,
    index: usize,
    namespace: &Value,
    write: &mut Attributes,
) -> Result<(), Problem> {
    let subject = Subject::of(write, &call.invocation, namespace.clone()).await.map_err(Problem::Write)?;
    let subject = Arc::new(subject);
    let (policy, params, values) = (Arc::clone(&call.policy), Arc::clone(params), Arc::clone(&subject));
    let evaluated = evaluator.evaluate(move |attempt| {
        evaluate(&policy, &policy.mutations[index], params.as_ref().as_ref(), &values, attempt)
    });
    let result = evaluated.await.map_err(Problem::Write)?.map_err(Problem::Policy)?;
    let before = &subject.object;
    check_version(call, write)?;
    let changed = if call.policy.mutations[index].is_json_patch {
        match patched(before, &result)? {
            Some(changed) => changed,
            None => return Ok(()),
        }
    } else {
        merged(&call.invocation, write, before, result).map_err(Problem::Policy)?
    };
    // Objects of custom resources have no type at this point.
    let validation = match (&write.subresource_kind, &call.invocation.resource.shape) {
        (None, Shape::Custom(_)) => FieldValidation::Ignore,
        _ => FieldValidation::Strict,
    };
    let replaced = call.invocation.replace(write, changed, before, validation).await;
    replaced.map(drop).map_err(|status| Problem::Write(internal(status)))
}

/// Returns the error for a result that cannot be decoded.
fn internal(status: Status) -> Status {
    if status.code == 500 { status } else { Status::internal(status.message) }
}

/// Returns an error if a policy sees an object of a built-in kind in another version than the request. As in the real
/// server, it cannot change it.
fn check_version(call: &Call, write: &Attributes) -> Result<(), Problem> {
    let (seen, requested) = (&call.invocation.resource, &write.resource);
    if write.subresource_kind.is_some() || seen.version == requested.version || !matches!(seen.shape, Shape::BuiltIn(_))
    {
        return Ok(());
    }
    Err(Problem::Policy(format!(
        "converting ({}.{}) to ({}.{}): unknown conversion",
        seen.version, seen.kind, requested.version, requested.kind
    )))
}

/// Returns the constructed object or patch of a mutation. The error is a message.
fn evaluate(
    policy: &CompiledPolicy,
    mutation: &Mutation,
    params: Option<&Value>,
    subject: &Subject,
    attempt: &mut Attempt,
) -> Result<Value, String> {
    if let Some(problem) = mutation.expression.problem() {
        return Err(problem.to_owned());
    }
    let inputs = attempt.inputs(subject, extras(policy, params));
    attempt.run(&inputs, mutation.expression.program(), |scope| {
        let mut budget = POLICY_BUDGET;
        let construct = if mutation.is_json_patch { Scope::patch } else { Scope::object };
        let evaluated = mutation.expression.evaluate(scope, &mut budget, construct);
        evaluated.map_err(|out_of_budget| out_of_budget.to_string())??
    })?
}

/// Applies a JSON patch. Returns `None` if a test operation of the patch fails, so that the object stays as it is.
fn patched(object: &Value, patch: &Value) -> Result<Option<Value>, Problem> {
    match apply_operations(patch.items(&[]), object) {
        Ok(patched) => Ok(Some(patched)),
        Err(OperationError::TestFailed) => Ok(None),
        Err(OperationError::Inapplicable(why)) => Err(Problem::Policy(format!("JSON Patch: {why}"))),
    }
}

/// Merges an apply configuration into the object. The error is a message.
fn merged(invocation: &Invocation, write: &Attributes, object: &Value, mut patch: Value) -> Result<Value, String> {
    for field in ["apiVersion", "kind"] {
        if let (Some(fields), Some(value)) = (patch.as_object_mut(), object.at(&[field])) {
            fields.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(SubresourceKind { group, version, kind }) = &write.subresource_kind {
        return Err(format!(
            "error applying patch: failed to convert patch object to typed object: no corresponding type for \
             {group}/{version}, Kind={kind}"
        ));
    }
    let ty = merge_type(&invocation.resource.shape);
    field_manager::merge_into(&ty, object, &patch).map_err(|why| format!("error applying patch: {why}"))
}

impl Call {
    /// Returns the identity of the call with these parameters for reinvocations.
    fn id(&self, params: Option<&Value>) -> HookId {
        let text = |field: &str| params.map(|params| params.text(&["metadata", field])).unwrap_or_default();
        let id = [&*self.policy.name, &*self.binding.name, text("namespace"), text("name")];
        (id.join("/"), 0)
    }
}

/// Returns the `Status` for the failures of policies.
fn denial(failures: &[PolicyFailure], write: &Attributes) -> Option<Status> {
    let first = failures.first()?;
    let mut status = write.forbidden("admission request denied by policy");
    status.message = first.to_string();
    if let Some(reason) = first.reason {
        status.reason = Some(reason.to_owned());
    }
    let causes = failures.iter().map(|failure| Cause { message: failure.to_string(), ..Cause::default() });
    status.details.get_or_insert_default().causes.extend(causes);
    Some(status)
}

impl std::fmt::Display for PolicyFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (policy, why) = (&self.policy.name, &self.why);
        match &self.binding {
            Some(binding) => write!(f, "policy '{policy}' with binding '{}' denied request: {why}", binding.name),
            None => write!(f, "policy {policy:?} denied request: {why}"),
        }
    }
}
