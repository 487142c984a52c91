//! Signs the approved requests of the built-in signers.

use std::{error::Error, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use windlass_runtime::{Action, Context, Controller, Manager};

use super::{
    CLIENT, CertificateOrder, CertificateSigner, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN, has_condition,
    is_issued, request::Content,
};
use crate::error::{ReconcileError, await_newer_state};

/// The longest validity, and that of requests without one.
const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);
/// The shortest validity.
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
/// The time by which the start of the validity is moved back, because clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// A certificate with a shorter validity ends as requested. That of a longer one ends earlier by [`BACKDATE`].
const SHORT: SignedDuration = SignedDuration::from_hours(8);

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager, signer: CertificateSigner) {
    let reconcile = move |request: Arc<CertificateSigningRequest>, cx: Context| {
        let signer = signer.clone();
        async move { await_newer_state(reconcile(&request, &cx, &signer).await) }
    };
    manager.add(Controller::<CertificateSigningRequest>::new().named("csrsigning").reconcile(reconcile));
}

async fn reconcile(
    request: &CertificateSigningRequest,
    cx: &Context,
    signer: &CertificateSigner,
) -> Result<Action, ReconcileError> {
    let is_ours = [CLIENT, KUBELET_CLIENT, KUBELET_SERVING, LEGACY_UNKNOWN].contains(&&*request.spec.signer_name);
    let is_approved = has_condition(request, "Approved") && !has_condition(request, "Denied");
    if !is_ours || !is_approved || is_issued(request) || has_condition(request, "Failed") {
        return Ok(Action::await_change());
    }
    let content = Content::parse(&request.spec.request.0).map_err(ReconcileError::Certificate)?;
    let now = cx.clock().now();
    let mut changed = request.clone();
    let status = changed.status.get_or_insert_default();
    let signed = content.check(request).and_then(|()| {
        let usages = request.spec.usages.as_deref().unwrap_or_default();
        let (from, until) = validity(request.spec.expiration_seconds, now);
        // Another attempt has the same result.
        signer
            .sign(CertificateOrder { request: &content.der, usages, from, until })
            .map_err(|error| with_causes(&*error))
    });
    match signed {
        Ok(certificate) => status.certificate = Some(ByteString(certificate.into_bytes())),
        Err(message) => status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
            type_: "Failed".to_owned(),
            status: "True".to_owned(),
            reason: Some("SignerValidationFailure".to_owned()),
            message: Some(message),
            last_update_time: Some(Time(now)),
            ..CertificateSigningRequestCondition::default()
        }),
    }
    cx.client().update_status(&changed).await?;
    Ok(Action::await_change())
}

/// Formats an error with its causes.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns the start and the end of the validity.
fn validity(seconds: Option<i32>, now: Timestamp) -> (Timestamp, Timestamp) {
    let wanted = seconds.map_or(LONGEST, |seconds| SignedDuration::from_secs(seconds.into()));
    let wanted = wanted.clamp(SHORTEST, LONGEST);
    let length = if wanted < SHORT { wanted } else { wanted - BACKDATE };
    (now.checked_sub(BACKDATE).unwrap_or(Timestamp::MIN), now.checked_add(length).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validity_is_limited_and_begins_earlier() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let around = |seconds: Option<i32>| {
            let (from, until) = validity(seconds, now);
            (from.as_second() - now.as_second(), until.as_second() - now.as_second())
        };
        let year = 365 * 24 * 3600;
        assert_eq!(around(None), (-300, year - 300));
        assert_eq!(around(Some(i32::MAX)), (-300, year - 300));
        assert_eq!(around(Some(3600)), (-300, 3600), "a short one is not shortened");
        assert_eq!(around(Some(8 * 3600)), (-300, 8 * 3600 - 300));
        assert_eq!(around(Some(1)), (-300, 600));
    }
}
