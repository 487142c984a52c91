//! The decisions of validating policies.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::Value;
use windlass_api::{Cause, Status, reason};
use windlass_cel::Scope;

use super::{
    active::Snapshot,
    compiled::{Binding, CompiledPolicy, Validation},
    message, namespace_object, params,
};
use crate::{
    admission::{
        evaluation::{Attempt, Evaluator, Extras, Subject},
        invocation::Invocation,
    },
    authz::Authorizer,
    encoded::push_json,
    kinds::{
        conditions::{self, Verdict},
        expressions::{Expression, OutOfBudget, POLICY_BUDGET},
    },
    registry::{Attributes, Registry},
};

/// The maximum length of a message from an expression, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;
/// The maximum length of the value of an audit annotation, in bytes.
const LONGEST_ANNOTATION: usize = 10 * 1024;
const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

/// The results of a policy with one parameter.
#[derive(Debug, Default)]
struct Results {
    /// The failed validations, with their indexes.
    failures: Vec<(usize, Failure)>,
    /// The keys and values of audit annotations. A failure rejects the write.
    annotations: Vec<(String, Result<String, String>)>,
}

#[derive(Debug)]
struct Failure {
    message: String,
    /// `None` for the default.
    reason: Option<String>,
}

/// The first denial of a write.
#[derive(Debug)]
struct Denial<'a> {
    policy: &'a CompiledPolicy,
    binding: Option<&'a Binding>,
    failure: Failure,
}

/// The value of the audit annotation about failed validations.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureRecord<'a> {
    message: &'a str,
    policy: &'a str,
    binding: &'a str,
    expression_index: usize,
    validation_actions: &'a [String],
}

/// Evaluates all policies that match a write. Returns the first denial.
pub(super) async fn validate(
    authorizer: &Authorizer,
    policies: &Snapshot,
    registry: &Registry,
    write: &Attributes,
) -> Result<(), Status> {
    let mut evaluator = Evaluator::new(authorizer, registry, write);
    let mut denial = None;
    for active in policies.active() {
        let policy = &active.policy;
        let mut deny = |binding: Option<&'_ Arc<Binding>>, failure: Failure| {
            if denial.is_none() {
                denial = Some((Arc::clone(policy), binding.cloned(), failure));
            }
        };
        let misconfigured = |what: &str, why: String| Failure { message: format!("{what}: {why}"), reason: None };
        let of_policy = |why| misconfigured("failed to configure policy", why);
        let of_binding = |why| misconfigured("failed to configure binding", why);
        let invocation = match policy.constraints.matching(registry, write).await {
            Ok(Some(invocation)) => invocation,
            Ok(None) => continue,
            Err(status) => {
                if policy.fails_closed {
                    deny(None, of_policy(message(&status)));
                }
                continue;
            }
        };
        let resource = match policy.param_kind.as_ref().map(|kind| params::resource(registry, kind)).transpose() {
            Ok(resource) => resource,
            Err(why) => {
                if policy.fails_closed {
                    deny(None, of_policy(why));
                }
                continue;
            }
        };
        let mut subject = None;
        let mut annotations: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for binding in &active.bindings {
            let matches = match &binding.resources {
                Some(resources) => resources.matching(registry, write).await.map(|matched| matched.is_some()),
                None => Ok(true),
            };
            let matches = matches.map_err(|status| message(&status));
            let params = match matches {
                Ok(false) => continue,
                Ok(true) => {
                    let namespace = write.review_namespace();
                    params::params(registry, resource.as_ref(), binding.params.as_ref(), namespace).await
                }
                Err(why) => Err(why),
            };
            let params = match params {
                Ok(params) => params,
                Err(why) => {
                    if policy.fails_closed {
                        deny(Some(binding), of_binding(why));
                    }
                    continue;
                }
            };
            if params.is_empty() {
                continue;
            }
            let subject = match &mut subject {
                Some(subject) => Arc::clone(subject),
                none => match new_subject(registry, write, &invocation).await {
                    Ok(new) => Arc::clone(none.insert(Arc::new(new))),
                    Err(status) => {
                        if policy.fails_closed {
                            let why = format!("failed to convert object version: {}", status.message);
                            deny(Some(binding), of_binding(why));
                        }
                        continue;
                    }
                },
            };
            for param in params {
                let (policy, subject) = (Arc::clone(policy), Arc::clone(&subject));
                let results =
                    evaluator.evaluate(move |attempt| evaluate(&policy, &subject, param.as_ref(), attempt)).await?;
                for (index, failure) in results.failures {
                    for action in &binding.actions {
                        match action.as_str() {
                            "Deny" => deny(Some(binding), failure.clone()),
                            "Audit" => record(write, binding, index, &failure.message),
                            "Warn" => write.context.warnings.extend([format!(
                                "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                                binding.policy, binding.name, failure.message
                            )]),
                            _ => {}
                        }
                    }
                }
                for (key, value) in results.annotations {
                    match value {
                        Ok(value) => {
                            let values = annotations.entry(key).or_default();
                            if !values.contains(&value) {
                                values.push(value);
                            }
                        }
                        Err(message) => deny(Some(binding), Failure { message, reason: None }),
                    }
                }
            }
        }
        for (key, values) in annotations {
            write.context.audit.annotate_admission(format!("{}/{key}", policy.name), values.join(", "));
        }
    }
    match denial {
        Some((policy, binding, failure)) => {
            Err(Denial { policy: &policy, binding: binding.as_deref(), failure }.into_status(write))
        }
        None => Ok(()),
    }
}

async fn new_subject(registry: &Registry, write: &Attributes, invocation: &Invocation) -> Result<Subject, Status> {
    Subject::of(write, invocation, namespace_object(registry, write).await?).await
}

/// Records a failed validation in the audit log.
fn record(write: &Attributes, binding: &Binding, expression_index: usize, message: &str) {
    let Binding { name, policy, actions, .. } = binding;
    let record = FailureRecord { message, policy, binding: name, expression_index, validation_actions: actions };
    let mut json = Vec::new();
    push_json(&[record], &mut json);
    let json = String::from_utf8(json).unwrap_or_default();
    write.context.audit.annotate_admission(FAILURE_ANNOTATION.to_owned(), json);
}

/// Evaluates a policy with one parameter.
fn evaluate(policy: &CompiledPolicy, subject: &Subject, params: Option<&Value>, attempt: &mut Attempt) -> Results {
    let extras = Extras { params, composition: Some(&policy.composition), ..Extras::default() };
    let failed = |message: String| {
        let failures = if policy.fails_closed { vec![(0, Failure { message, reason: None })] } else { Vec::new() };
        Results { failures, annotations: Vec::new() }
    };
    match conditions_hold(policy, subject, extras, attempt) {
        Verdict::Matches => {}
        Verdict::Differs => return Results::default(),
        Verdict::Failed(why) => return failed(why),
    }
    let inputs = attempt.inputs(subject, Extras { authorizer: true, ..extras });
    let programs = policy.validations.iter().filter_map(|validation| validation.expression.program());
    let ran = attempt.run(&inputs, programs, |scope| {
        let mut budget = POLICY_BUDGET;
        let expressions = policy.validations.iter().map(|validation| &validation.expression);
        let results = expressions.map(|expression| expression.evaluate(scope, &mut budget, Scope::condition));
        (results.collect::<Result<Vec<_>, OutOfBudget>>(), budget)
    });
    let (results, mut budget) = match ran {
        Ok((Ok(results), budget)) => (results, budget),
        Ok((Err(out_of_budget), _)) => return failed(out_of_budget.to_string()),
        Err(why) => return failed(why),
    };
    if attempt.is_incomplete() {
        return Results::default();
    }
    let messages = messages(policy, subject, extras, &mut budget, attempt);
    let mut failures = Vec::new();
    for (index, (validation, result)) in policy.validations.iter().zip(results).enumerate() {
        let message = match (result, &messages) {
            (Err(why), _) => {
                if policy.fails_closed {
                    failures.push((index, Failure { message: why, reason: None }));
                }
                continue;
            }
            (Ok(_), Err(why)) => {
                if policy.fails_closed {
                    let message = format!("failed messageExpression: {why}");
                    failures.push((index, Failure { message, reason: None }));
                }
                continue;
            }
            (Ok(true), Ok(_)) => continue,
            (Ok(false), Ok(messages)) => validation.failure_message(messages[index].as_deref()),
        };
        failures.push((index, Failure { message, reason: validation.reason.clone() }));
    }
    match annotations(policy, subject, extras, attempt) {
        Ok(annotations) => Results { failures, annotations },
        Err(why) => failed(why),
    }
}

fn conditions_hold(policy: &CompiledPolicy, subject: &Subject, extras: Extras<'_>, attempt: &mut Attempt) -> Verdict {
    if policy.conditions.is_empty() {
        return Verdict::Matches;
    }
    let inputs = attempt.inputs(subject, Extras { authorizer: true, for_conditions: true, ..extras });
    let verdict =
        attempt.run(&inputs, policy.condition_programs(), |scope| conditions::evaluate(&policy.conditions, scope));
    verdict.unwrap_or_else(Verdict::Failed)
}

/// Evaluates the message expressions. They have no authorizer.
fn messages(
    policy: &CompiledPolicy,
    subject: &Subject,
    extras: Extras<'_>,
    budget: &mut u64,
    attempt: &mut Attempt,
) -> Result<Vec<Option<String>>, String> {
    let expressions = || policy.validations.iter().map(|validation| validation.message_expression.as_ref());
    if expressions().all(|expression| expression.is_none()) {
        return Ok(vec![None; policy.validations.len()]);
    }
    let inputs = attempt.inputs(subject, extras);
    let programs = expressions().flatten().filter_map(Expression::program);
    attempt.run(&inputs, programs, |scope| {
        let messages = expressions().map(|expression| {
            let Some(expression) = expression else { return Ok(None) };
            // A message that cannot be evaluated is replaced by the fixed message.
            Ok(expression.evaluate(scope, budget, Scope::text)?.ok().and_then(Result::ok).flatten())
        });
        messages.collect::<Result<_, OutOfBudget>>().map_err(|out_of_budget| out_of_budget.to_string())
    })?
}

/// Evaluates the audit annotations.
fn annotations(
    policy: &CompiledPolicy,
    subject: &Subject,
    extras: Extras<'_>,
    attempt: &mut Attempt,
) -> Result<Vec<(String, Result<String, String>)>, String> {
    if policy.annotations.is_empty() {
        return Ok(Vec::new());
    }
    let inputs = attempt.inputs(subject, extras);
    let programs = policy.annotations.iter().filter_map(|annotation| annotation.value.program());
    attempt.run(&inputs, programs, |scope| {
        let mut budget = POLICY_BUDGET;
        let mut annotations = Vec::new();
        for annotation in &policy.annotations {
            let value = annotation.value.evaluate(scope, &mut budget, Scope::text);
            let value = match value.map_err(|out_of_budget| out_of_budget.to_string())? {
                Ok(Ok(Some(text))) if !text.trim().is_empty() => Ok(shortened(text.trim()).to_owned()),
                Ok(Ok(_)) => continue,
                Ok(Err(kind)) => Err(format!(
                    "valueExpression '{}' resulted in unsupported return type: {kind}. Return type must be either \
                     string or null.",
                    annotation.value.source()
                )),
                Err(_) if !policy.fails_closed => continue,
                Err(why) => Err(why),
            };
            annotations.push((annotation.key.clone(), value));
        }
        Ok(annotations)
    })?
}

/// Returns the start of a text that is too long for an annotation.
fn shortened(text: &str) -> &str {
    let mut end = text.len().min(LONGEST_ANNOTATION);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Validation {
    /// Returns the message of a failure. A message from an expression must be one short line.
    fn failure_message(&self, evaluated: Option<&str>) -> String {
        let evaluated = evaluated.map(str::trim).unwrap_or_default();
        if !evaluated.is_empty() && evaluated.len() <= LONGEST_MESSAGE && !evaluated.contains('\n') {
            return evaluated.to_owned();
        }
        match self.message.as_str() {
            "" => format!("failed expression: {}", self.expression.source().trim()),
            message => message.to_owned(),
        }
    }
}

impl Clone for Failure {
    fn clone(&self) -> Self {
        Self { message: self.message.clone(), reason: self.reason.clone() }
    }
}

impl Denial<'_> {
    fn into_status(self, write: &Attributes) -> Status {
        let (policy, why) = (&self.policy.name, &self.failure.message);
        let message = match self.binding {
            Some(Binding { name, .. }) => {
                format!("ValidatingAdmissionPolicy '{policy}' with binding '{name}' denied request: {why}")
            }
            None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
        };
        let mut status = write.forbidden(&message);
        let reason = self.failure.reason.unwrap_or_else(|| reason::INVALID.to_owned());
        status.code = match reason.as_str() {
            "Forbidden" => 403,
            "Unauthorized" => 401,
            "RequestEntityTooLarge" => 413,
            _ => 422,
        };
        status.reason = Some(reason);
        let causes = &mut status.details.get_or_insert_default().causes;
        causes.push(Cause { message, ..Cause::default() });
        status
    }
}
