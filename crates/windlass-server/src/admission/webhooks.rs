//! The plugins `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`, which send writes to webhooks for review.
//!
//! A new or changed configuration takes effect with the next write.

mod annotations;
mod call;
mod hook;

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use windlass_api::{DryRun, FieldValidation, Status};

use self::{
    annotations::MutationAnnotations,
    call::{Answer, Failure, call},
    hook::Hook,
};
use super::{
    evaluation::{Evaluator, Extras, Subject},
    invocation::{Invocation, options, user_info},
};
use crate::{
    authz::Authorizer,
    kinds::conditions::{Conditions, Verdict, evaluate},
    object::Tree,
    patch::{PatchType, apply_patch},
    registry::{Admission, Attributes, Plugin, Registry, WebhookCalls},
    resource::Item,
    webhook::WebhookUsers,
};

const MUTATING: &str = "/registry/mutatingwebhookconfigurations/";
const VALIDATING: &str = "/registry/validatingwebhookconfigurations/";

/// The webhook admission plugins.
#[derive(Debug)]
pub(crate) struct Webhooks {
    conditions: Conditions,
    authorizer: Arc<Authorizer>,
    /// The credentials for mutating and for validating webhooks.
    users: [WebhookUsers; 2],
}

impl Admission for Webhooks {
    fn handles(&self, write: &Attributes) -> bool {
        let policies = ["WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding"];
        let of_admission = write.resource.group == "admissionregistration.k8s.io"
            && policies.iter().any(|end| write.resource.kind.ends_with(end));
        !of_admission && write.context.webhooks == WebhookCalls::Configured
    }

    fn handles_subresource_kinds(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, registry: &'a Registry, write: &'a mut Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let hooks = configured(registry, MUTATING).await?;
            if hooks.is_empty() {
                return Ok(());
            }
            write.reinvocation.begin_round(Plugin::Webhooks, &write.object);
            let round = write.reinvocation.round_number();
            for (index, hook) in hooks.iter().enumerate() {
                let Some(invocation) = self.matching_invocation(registry, hook, write).await? else { continue };
                if !write.reinvocation.should_call(Plugin::Webhooks, &hook.id()) {
                    continue;
                }
                let audited = MutationAnnotations { audit: write.context.audit.clone(), hook, round, index };
                let called = mutate(registry, &self.users[0], hook, &invocation, write, &audited).await;
                audited.mutated(matches!(called, Ok(true)));
                let changed = called?;
                write.reinvocation.record_call(Plugin::Webhooks, hook.id(), hook.is_reinvoked(), changed);
            }
            write.reinvocation.end_round(Plugin::Webhooks, &write.object);
            Ok(())
        })
    }

    fn validate<'a>(&'a self, registry: &'a Registry, write: &'a Attributes) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let hooks = configured(registry, VALIDATING).await?;
            // All webhooks run in parallel, so none sees the others' results.
            let invocations = hooks.iter().map(|hook| async move {
                Ok::<_, Status>(self.matching_invocation(registry, hook, write).await?.map(|found| (hook, found)))
            });
            let invocations: Vec<_> = join_all(invocations).await.into_iter().collect();
            // The audit log counts the webhooks that are called.
            let mut called = 0;
            let calls = invocations.into_iter().map(|invocation| {
                let index = called;
                called += usize::from(matches!(invocation, Ok(Some(_))));
                async move {
                    let Some((hook, invocation)) = invocation? else { return Ok(()) };
                    let ignored = || annotations::failed_open_validating(&write.context.audit, hook, index);
                    match call_webhook(registry, &self.users[1], hook, &invocation, write, ignored).await? {
                        Some(Answer { patch: Some(_), .. }) => {
                            let invalid = Failure::invalid("validating webhook may not return response.patch");
                            hook.failed(&invalid).inspect(|()| ignored())
                        }
                        _ => Ok(()),
                    }
                }
            });
            join_all(calls).await.into_iter().collect()
        })
    }
}

impl Webhooks {
    pub(crate) fn new(authorizer: Arc<Authorizer>, users: [WebhookUsers; 2]) -> Self {
        Self { conditions: Conditions::default(), authorizer, users }
    }

    /// Decides whether a webhook is called, and in which version it gets the object.
    async fn matching_invocation(
        &self,
        registry: &Registry,
        hook: &Hook,
        write: &Attributes,
    ) -> Result<Option<Invocation>, Status> {
        let Some(invocation) = hook.matching_invocation(registry, write).await? else { return Ok(None) };
        if !hook.has_conditions() {
            return Ok(Some(invocation));
        }
        let conditions = hook.conditions(&self.conditions);
        let subject = Subject::of(write, &invocation, Value::Null).await?;
        let mut evaluator = Evaluator::new(&self.authorizer, registry, write);
        let verdict = evaluator.evaluate(move |attempt| {
            let inputs =
                attempt.inputs(&subject, Extras { authorizer: true, for_conditions: true, ..Extras::default() });
            let programs = conditions.iter().filter_map(|condition| condition.program());
            let conditions = conditions.iter().map(|condition| &**condition);
            attempt.run(&inputs, programs, |scope| evaluate(conditions, scope)).unwrap_or_else(Verdict::Failed)
        });
        match verdict.await? {
            Verdict::Matches => Ok(Some(invocation)),
            Verdict::Failed(why) if hook.fails_closed() => {
                Err(Status::forbidden(&write.resource.group_resource(), &write.name, why))
            }
            Verdict::Differs | Verdict::Failed(_) => Ok(None),
        }
    }
}

/// Returns the registered webhooks, ordered by configuration name and index.
async fn configured(registry: &Registry, prefix: &str) -> Result<Vec<Hook>, Status> {
    if registry.storage().is_known_to_be_empty(prefix) {
        return Ok(Vec::new());
    }
    let range = registry.storage().range_recent(prefix).await.map_err(Status::internal)?;
    let mut hooks = Vec::new();
    for stored in &range.values {
        let configuration = Item::stored(stored)?.value();
        let name = configuration.text(&["metadata", "name"]).to_owned();
        let webhooks = configuration.items(&["webhooks"]).iter().cloned().enumerate();
        hooks.extend(webhooks.map(|(index, webhook)| Hook::new(name.clone(), index, webhook)));
    }
    Ok(hooks)
}

/// Calls a mutating webhook, and applies its patch. Returns `true` if the object changed.
async fn mutate(
    registry: &Registry,
    users: &WebhookUsers,
    hook: &Hook,
    invocation: &Invocation,
    write: &mut Attributes,
    audited: &MutationAnnotations<'_>,
) -> Result<bool, Status> {
    let answer = call_webhook(registry, users, hook, invocation, write, || audited.failed_open()).await?;
    let Some(patch) = answer.and_then(|answer| answer.patch) else { return Ok(false) };
    let changed = patched(hook, invocation, write, &patch).await?;
    audited.patched(&patch);
    Ok(changed)
}

/// Calls a webhook and returns its answer. Returns `None` if the call failed and the failure policy is `Ignore`, after
/// calling `ignored`.
async fn call_webhook(
    registry: &Registry,
    users: &WebhookUsers,
    hook: &Hook,
    invocation: &Invocation,
    write: &Attributes,
    ignored: impl Fn(),
) -> Result<Option<Answer>, Status> {
    if write.context.dry_run == DryRun::All && !hook.has_no_side_effects() {
        return Err(Status::bad_request(format!("admission webhook {:?} does not support dry run", hook.name())));
    }
    let Some(version) = hook.review_version() else {
        let why =
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return hook.failed(&Failure::other(why)).inspect(|()| ignored()).map(|()| None);
    };
    let uid = registry.entropy().uuid();
    let review = review(version, &uid, invocation, write).await?;
    let answer = match call(hook, version, &uid, &review, &write.context.trace, users).await {
        Ok(answer) => answer,
        Err(failure) => return hook.failed(&failure).inspect(|()| ignored()).map(|()| None),
    };
    for (key, value) in &answer.annotations {
        write.context.audit.annotate_admission(format!("{}/{key}", hook.name()), value.clone());
    }
    write.context.warnings.extend(answer.warnings.iter().cloned());
    if answer.allowed { Ok(Some(answer)) } else { Err(denied(hook, answer)) }
}

async fn review(version: &str, uid: &str, invocation: &Invocation, write: &Attributes) -> Result<Value, Status> {
    let request = request(uid, invocation, write).await?;
    Ok(json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request}))
}

async fn request(uid: &str, invocation: &Invocation, write: &Attributes) -> Result<Value, Status> {
    let (mut kind, resource) = invocation.resource.to_review_value();
    let (mut request_kind, request_resource) = write.resource.to_review_value();
    if let Some(part) = &write.subresource_kind {
        kind = part.to_review_value();
        request_kind = part.to_review_value();
    }
    let subresource = write.subresource.as_deref().unwrap_or_default();
    let object = invocation.object(write, &write.object).await?;
    let old = invocation.object(write, write.old.as_ref().unwrap_or(&Value::Null)).await?;
    let mut request = json!({
        "uid": uid, "kind": kind, "resource": resource, "requestKind": request_kind, "requestResource": request_resource,
        "name": write.name, "namespace": write.review_namespace(), "operation": write.operation.name(),
        "userInfo": user_info(write), "object": object, "oldObject": old,
        "dryRun": write.is_dry_run(), "options": options(write),
    });
    if !subresource.is_empty() {
        request["subResource"] = subresource.into();
        request["requestSubResource"] = subresource.into();
    }
    Ok(request)
}

/// Applies the webhook's patch to the object. Returns `true` if the object changed.
async fn patched(hook: &Hook, invocation: &Invocation, write: &mut Attributes, patch: &[u8]) -> Result<bool, Status> {
    if write.object.is_null() {
        return Err(Status::internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name()
        )));
    }
    let before = invocation.object(write, &write.object).await?;
    let patched = apply_patch(PatchType::Json, patch, &before, None, FieldValidation::Ignore);
    let patched = patched.map_err(|status| Status::internal(status.message))?;
    invocation.replace(write, patched.value, &before, FieldValidation::Ignore).await
}

/// Returns the `Status` of a denial. A code below 400 becomes 400.
fn denied(hook: &Hook, answer: Answer) -> Status {
    // The webhook may omit the kind of its status.
    let mut status = Status { kind: "Status".to_owned(), api_version: "v1".to_owned(), ..answer.status };
    if status.code < 400 {
        status.code = 400;
    }
    "Failure".clone_into(&mut status.status);
    let by = format!("admission webhook {:?} denied the request", hook.name());
    status.message = match (status.message.as_str(), status.reason.as_deref().unwrap_or_default()) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    status
}
