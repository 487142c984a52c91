//! The decisions of validating policies.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::Value;
use windlass_api::{Cause, Status, reason};
use windlass_cel::Scope;

use super::{
    active::{ActivePolicy, Snapshot},
    compiled::{Binding, CompiledPolicy, Validation},
    message, namespace_object,
    params::{self, Param},
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
    resource::ResourceInfo,
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

#[derive(Clone, Debug)]
struct Failure {
    message: String,
    /// `None` for the default.
    reason: Option<String>,
}

/// The first denial of a write.
#[derive(Debug)]
struct Denial {
    policy: Arc<CompiledPolicy>,
    binding: Option<Arc<Binding>>,
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

/// The evaluation of all policies for one write.
struct Round<'a> {
    evaluator: Evaluator<'a>,
    registry: &'a Registry,
    write: &'a Attributes,
    /// The values of the variables, for each version in which policies see the write.
    subjects: Vec<(Arc<ResourceInfo>, Arc<Subject>)>,
    /// The first denial.
    denial: Option<Denial>,
}

/// The values of a policy's audit annotations, by their keys.
type Annotations = BTreeMap<String, Vec<String>>;

/// Evaluates all policies that match a write. Returns the first denial.
pub(super) async fn validate(
    authorizer: &Authorizer,
    policies: &Snapshot,
    registry: &Registry,
    write: &Attributes,
) -> Result<(), Status> {
    let evaluator = Evaluator::new(authorizer, registry, write);
    let mut round = Round { evaluator, registry, write, subjects: Vec::new(), denial: None };
    for active in policies.active() {
        round.evaluate_policy(active).await?;
    }
    round.denial.map_or(Ok(()), |denial| Err(denial.into_status(write)))
}

impl Round<'_> {
    fn deny(&mut self, policy: &Arc<CompiledPolicy>, binding: Option<&Arc<Binding>>, failure: Failure) {
        if self.denial.is_none() {
            self.denial = Some(Denial { policy: Arc::clone(policy), binding: binding.cloned(), failure });
        }
    }

    /// Denies the write because a policy or a binding cannot be used, if the failure policy is `Fail`.
    fn misconfigured(&mut self, policy: &Arc<CompiledPolicy>, binding: Option<&Arc<Binding>>, why: &str) {
        if policy.fails_closed {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let message = format!("failed to configure {what}: {why}");
            self.deny(policy, binding, Failure { message, reason: None });
        }
    }

    async fn evaluate_policy(&mut self, active: &ActivePolicy) -> Result<(), Status> {
        let (policy, registry, write) = (&active.policy, self.registry, self.write);
        let invocation = match policy.constraints.matching(registry, write).await {
            Ok(Some(invocation)) => invocation,
            Ok(None) => return Ok(()),
            Err(status) => {
                self.misconfigured(policy, None, &message(&status));
                return Ok(());
            }
        };
        let resource = match policy.param_kind.as_ref().map(|kind| params::resource(registry, kind)).transpose() {
            Ok(resource) => resource,
            Err(why) => {
                self.misconfigured(policy, None, &why);
                return Ok(());
            }
        };
        let mut annotations = Annotations::new();
        for binding in &active.bindings {
            let params = match self.params(binding, resource.as_ref()).await {
                Ok(params) => params,
                Err(why) => {
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            if params.is_empty() {
                continue;
            }
            let subject = match self.subject(&invocation).await {
                Ok(subject) => subject,
                Err(status) => {
                    let why = format!("failed to convert object version: {}", status.message);
                    self.misconfigured(policy, Some(binding), &why);
                    continue;
                }
            };
            for param in params {
                let param = match param.value().await {
                    Ok(param) => param,
                    Err(status) => {
                        self.misconfigured(policy, Some(binding), &message(&status));
                        break;
                    }
                };
                let (compiled, subject) = (Arc::clone(policy), Arc::clone(&subject));
                let evaluated =
                    self.evaluator.evaluate(move |attempt| evaluate(&compiled, &subject, param.as_ref(), attempt));
                let results = evaluated.await?;
                self.act_on(results, policy, binding, &mut annotations);
            }
        }
        for (key, values) in annotations {
            write.context.audit.annotate_admission(format!("{}/{key}", policy.name), values.join(", "));
        }
        Ok(())
    }

    /// Returns the values of the variables in the version of an invocation. Policies share them.
    async fn subject(&mut self, invocation: &Invocation) -> Result<Arc<Subject>, Status> {
        let known = self.subjects.iter().find(|(resource, _)| Arc::ptr_eq(resource, &invocation.resource));
        if let Some((_, subject)) = known {
            return Ok(Arc::clone(subject));
        }
        let namespace = namespace_object(self.registry, self.write).await?;
        let subject = Arc::new(Subject::of(self.write, invocation, namespace).await?);
        self.subjects.push((Arc::clone(&invocation.resource), Arc::clone(&subject)));
        Ok(subject)
    }

    /// Returns the parameters of a binding. Returns none if the binding does not match the write. The error is a message.
    async fn params(&self, binding: &Binding, resource: Option<&params::ParamResource>) -> Result<Vec<Param>, String> {
        if let Some(resources) = &binding.resources {
            let matched = resources.matching(self.registry, self.write).await.map_err(|status| message(&status))?;
            if matched.is_none() {
                return Ok(Vec::new());
            }
        }
        params::params(self.registry, resource, binding.params.as_ref(), self.write.review_namespace()).await
    }

    /// Denies, warns and records, as the binding requires.
    fn act_on(
        &mut self,
        results: Results,
        policy: &Arc<CompiledPolicy>,
        binding: &Arc<Binding>,
        annotations: &mut Annotations,
    ) {
        for (index, failure) in results.failures {
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => self.deny(policy, Some(binding), failure.clone()),
                    "Audit" => record(self.write, binding, index, &failure.message),
                    "Warn" => self.write.context.warnings.extend([format!(
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
                Err(message) => self.deny(policy, Some(binding), Failure { message, reason: None }),
            }
        }
    }
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

impl Denial {
    fn into_status(self, write: &Attributes) -> Status {
        let (policy, why) = (&self.policy.name, &self.failure.message);
        let message = match self.binding.as_deref() {
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
