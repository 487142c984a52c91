//! Approves the requests of kubelets for client certificates, if their users have the permission.

use std::sync::Arc;

use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
};
use windlass_runtime::{Action, Context, Controller, Manager};

use super::{KUBELET_CLIENT, has_condition, is_issued, request::Content};
use crate::error::{ReconcileError, await_newer_state};

/// Adds the controller to a manager.
pub(crate) fn add_to(manager: &mut Manager) {
    manager.add(Controller::<CertificateSigningRequest>::new().named("csrapproving").reconcile(
        async |request: Arc<CertificateSigningRequest>, cx: Context| await_newer_state(reconcile(&request, &cx).await),
    ));
}

async fn reconcile(request: &CertificateSigningRequest, cx: &Context) -> Result<Action, ReconcileError> {
    let is_decided = has_condition(request, "Approved") || has_condition(request, "Denied");
    if is_issued(request) || is_decided || request.spec.signer_name != KUBELET_CLIENT {
        return Ok(Action::await_change());
    }
    let content = Content::parse(&request.spec.request.0).map_err(ReconcileError::Certificate)?;
    let usages = request.spec.usages.as_deref().unwrap_or_default();
    if content.check_kubelet_client(usages).is_err() {
        return Ok(Action::await_change());
    }
    let is_own = request.spec.username.as_ref() == Some(&content.common_name);
    let own = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.");
    let any = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.");
    for (subresource, message) in is_own.then_some(own).into_iter().chain([any]) {
        if is_permitted(request, subresource, cx).await? {
            // Only the reviewed object is approved: a conflict starts another review.
            let mut approved = request.clone();
            approved.status.get_or_insert_default().conditions.get_or_insert_default().push(
                CertificateSigningRequestCondition {
                    type_: "Approved".to_owned(),
                    status: "True".to_owned(),
                    reason: Some("AutoApproved".to_owned()),
                    message: Some(message.to_owned()),
                    ..CertificateSigningRequestCondition::default()
                },
            );
            cx.live().update(&approved).subresource("approval").await?;
            return Ok(Action::await_change());
        }
    }
    // A role may permit it later, and nothing reports that.
    Err(ReconcileError::Certificate("the subject access review was not approved".into()))
}

/// Reports whether the user of a request may create a subresource of requests.
async fn is_permitted(
    request: &CertificateSigningRequest,
    subresource: &str,
    cx: &Context,
) -> Result<bool, ReconcileError> {
    let some = |text: &str| Some(text.to_owned());
    let spec = request.spec.clone();
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: spec.username,
            uid: spec.uid,
            groups: spec.groups,
            extra: spec.extra,
            resource_attributes: Some(ResourceAttributes {
                group: some("certificates.k8s.io"),
                resource: some("certificatesigningrequests"),
                verb: some("create"),
                subresource: some(subresource),
                version: some("*"),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviewed = cx.live().create(&review).await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
}
