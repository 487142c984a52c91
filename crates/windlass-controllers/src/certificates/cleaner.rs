//! Deletes requests that are of no use any more. The real controller looks for them once an hour.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use windlass_api::ObjectExt;
use windlass_runtime::{Action, Context, Controller, Manager};
use x509_parser::pem::parse_x509_pem;

use super::is_issued;
use crate::error::{ReconcileError, await_newer_state};

/// The time that an issued, denied or failed request is kept.
const DECIDED: SignedDuration = SignedDuration::from_hours(1);
/// The time that a request without a decision or a certificate is kept.
const PENDING: SignedDuration = SignedDuration::from_hours(24);

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    manager.add(Controller::<CertificateSigningRequest>::new().named("csrcleaner").reconcile(
        async |request: Arc<CertificateSigningRequest>, cx: Context| await_newer_state(reconcile(&request, &cx).await),
    ));
}

async fn reconcile(request: &CertificateSigningRequest, cx: &Context) -> Result<Action, ReconcileError> {
    let Some(end) = end(request).filter(|_| !request.is_deleting()) else { return Ok(Action::await_change()) };
    let left = Duration::try_from(end.duration_since(cx.clock().now())).unwrap_or_default();
    if left.is_zero() {
        let uid = request.uid().unwrap_or_default();
        cx.client().delete::<CertificateSigningRequest>(request.object_ref()).uid(uid).await?;
        return Ok(Action::await_change());
    }
    Ok(Action::requeue_after(left))
}

/// Returns the time after which a request is deleted.
fn end(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let after = |time: Timestamp, period: SignedDuration| time.checked_add(period).ok();
    if conditions.is_empty() {
        return after(request.metadata.creation_timestamp.as_ref()?.0, PENDING);
    }
    let of_condition = conditions.iter().filter_map(|condition| {
        let period = match &*condition.type_ {
            "Approved" if !is_issued(request) => PENDING,
            "Approved" | "Denied" | "Failed" => DECIDED,
            _ => return None,
        };
        after(condition.last_update_time.as_ref()?.0, period)
    });
    let is_approved = conditions.iter().any(|condition| condition.type_ == "Approved");
    let expiry = is_approved.then(|| expiry(request)).flatten();
    of_condition.chain(expiry).min()
}

/// Returns the end of the validity of the certificate.
fn expiry(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let pem = request.status.as_ref()?.certificate.as_ref()?;
    let (_, block) = parse_x509_pem(&pem.0).ok()?;
    let certificate = block.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn requests_are_kept_as_long_as_by_the_real_controller() {
        let request = |conditions: Value, certificate: Option<&str>| -> CertificateSigningRequest {
            serde_json::from_value(json!({
                "metadata": {"creationTimestamp": "1970-01-01T00:00:00Z"},
                "spec": {"request": "", "signerName": "example.com/s", "usages": []},
                "status": {"conditions": conditions, "certificate": certificate},
            }))
            .unwrap()
        };
        let hours =
            |conditions: Value, certificate| end(&request(conditions, certificate)).map(|end| end.as_second() / 3600);
        let condition =
            |type_: &str| json!([{"type": type_, "status": "True", "lastUpdateTime": "1970-01-01T10:00:00Z"}]);
        assert_eq!(hours(json!([]), None), Some(24));
        assert_eq!(hours(condition("Denied"), None), Some(11));
        assert_eq!(hours(condition("Failed"), None), Some(11));
        assert_eq!(hours(condition("Approved"), None), Some(34));
        assert_eq!(hours(condition("Approved"), Some("AAAA")), Some(11));
        assert_eq!(hours(condition("Other"), None), None);
    }
}
