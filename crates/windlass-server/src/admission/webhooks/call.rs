//! One call of a webhook, and the validation of its answer.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize as _;
use serde_json::Value;
use windlass_api::Status;

use super::hook::Hook;
use crate::{
    object::Tree,
    trace_context::TraceContext,
    webhook::{Call, CallError, WebhookUsers},
};

/// The answer of a webhook.
pub(super) struct Answer {
    pub(super) allowed: bool,
    /// The reason for a denial.
    pub(super) status: Status,
    pub(super) warnings: Vec<String>,
    /// Annotations for the audit log.
    pub(super) annotations: Vec<(String, String)>,
    /// A JSON patch.
    pub(super) patch: Option<Vec<u8>>,
}

/// The reason for a failed call: the text after `failed calling webhook`.
#[derive(Debug)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn other(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    pub(super) fn invalid(why: impl fmt::Display) -> Self {
        Self(format!("received invalid webhook response: {why}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sends a review and verifies the response.
pub(super) async fn call(
    hook: &Hook,
    version: &str,
    uid: &str,
    review: &Value,
    trace: &TraceContext,
    users: &WebhookUsers,
) -> Result<Answer, Failure> {
    let call = Call {
        config: hook.client_config(),
        timeout: hook.timeout(),
        user_agent: "kube-apiserver-admission",
        trace: Some(trace),
        users: Some(users),
    };
    let answer = call.post(review).await.map_err(|error| match error {
        CallError::NoEndpoint(why) => Failure::other(format!("could not get REST client: {why}")),
        error @ CallError::Failed { .. } => Failure::other(format!("failed to call webhook: {error}")),
    })?;
    verified(answer, version, uid)
}

/// Checks that the response belongs to this review and is consistent, and returns the answer.
fn verified(review: Value, version: &str, uid: &str) -> Result<Answer, Failure> {
    let response = review.at(&["response"]).filter(|response| response.is_object());
    let response = response.ok_or_else(|| Failure::invalid("webhook response was absent"))?;
    let found = response.text(&["uid"]);
    if version == "v1" {
        if found != uid {
            return Err(Failure::invalid(format_args!("expected response.uid={uid:?}, got {found:?}")));
        }
        let (api_version, kind) = (review.text(&["apiVersion"]), review.text(&["kind"]));
        if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
            return Err(Failure::invalid(format_args!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {api_version}, Kind={kind}"
            )));
        }
    }
    let (patch, patch_type) = (response.text(&["patch"]), response.text(&["patchType"]));
    match (patch, patch_type) {
        ("", "") => {}
        (_, "") if version == "v1" => {
            return Err(Failure::invalid("webhook returned response.patch but not response.patchType"));
        }
        ("", _) if version == "v1" => {
            return Err(Failure::invalid("webhook returned response.patchType but not response.patch"));
        }
        (_, "JSONPatch" | "") => {}
        (_, other) => return Err(Failure::other(format!("unsupported patch type {other:?}"))),
    }
    let patch = (!patch.is_empty()).then(|| BASE64_STANDARD.decode(patch)).transpose();
    let status = response.at(&["status"]).map(Status::deserialize).transpose();
    Ok(Answer {
        allowed: response.flag(&["allowed"]),
        status: status.map_err(Failure::invalid)?.unwrap_or_default(),
        warnings: response.items(&["warnings"]).iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        annotations: response.at(&["auditAnnotations"]).and_then(Value::as_object).map_or_else(Vec::new, |given| {
            let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
            given.iter().filter_map(text).collect()
        }),
        patch: patch
            .map_err(|error| Failure::other(format!("received undecodable patch in webhook response: {error}")))?,
    })
}
