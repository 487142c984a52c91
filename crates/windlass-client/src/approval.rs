//! The approval and denial of certificate signing requests.

use std::{fmt, future::IntoFuture};

use futures::future::BoxFuture;
use windlass_api::{
    Backoff, Entropy, ObjectRef,
    k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
};

use crate::{Client, Error, Result, retry};

/// Approves or denies a certificate signing request. Returns the updated request.
///
/// If the same decision was already made, the request is not changed. A server rejects the approval of a denied request
/// and the denial of an approved one.
#[derive(Clone)]
#[must_use = "nothing is sent before `.await`"]
pub struct ApprovalRequest {
    client: Client,
    request: ObjectRef<CertificateSigningRequest>,
    decision: &'static str,
    reason: String,
    message: Option<String>,
}

impl Client {
    /// Approves a certificate signing request.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> windlass_client::Result<()> {
    /// client.approve("node-7").reason("KnownNode").message("its address is in the inventory").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn approve(&self, request: impl Into<ObjectRef<CertificateSigningRequest>>) -> ApprovalRequest {
        ApprovalRequest::new(self, request.into(), "Approved")
    }

    /// Denies a certificate signing request.
    pub fn deny(&self, request: impl Into<ObjectRef<CertificateSigningRequest>>) -> ApprovalRequest {
        ApprovalRequest::new(self, request.into(), "Denied")
    }
}

impl ApprovalRequest {
    fn new(client: &Client, request: ObjectRef<CertificateSigningRequest>, decision: &'static str) -> Self {
        Self { client: client.clone(), request, decision, reason: decision.to_owned(), message: None }
    }

    /// Sets the reason as a CamelCase word. Defaults to the name of the decision.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Sets the human-readable message.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    async fn send(self) -> Result<CertificateSigningRequest> {
        // Other conditions must be retained, so the object is read and replaced with retries. Without jitter, no
        // randomness is used.
        let again = Backoff::CONFLICT.jitter(0.0);
        retry::on_error(again, &Entropy::seeded(0), Error::is_conflict, || self.attempt()).await
    }

    async fn attempt(&self) -> Result<CertificateSigningRequest> {
        let mut request = self.client.get(self.request.clone()).await?;
        let conditions = request.status.get_or_insert_default().conditions.get_or_insert_default();
        if conditions.iter().any(|condition| condition.type_ == self.decision) {
            return Ok(request);
        }
        // The server sets the time.
        conditions.push(CertificateSigningRequestCondition {
            type_: self.decision.to_owned(),
            status: "True".to_owned(),
            reason: Some(self.reason.clone()),
            message: self.message.clone(),
            ..CertificateSigningRequestCondition::default()
        });
        self.client.update(&request).subresource("approval").await
    }
}

impl IntoFuture for ApprovalRequest {
    type Output = Result<CertificateSigningRequest>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for ApprovalRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalRequest")
            .field("request", &self.request)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
