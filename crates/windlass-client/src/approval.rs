//! The answer to somebody who asks for a certificate: yes or no.

use std::{fmt, future::IntoFuture};

use futures::future::BoxFuture;
use windlass_api::{
    Backoff, Entropy, ObjectRef,
    k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
};

use crate::{Client, Error, Result, retry};

/// Approves or denies a request for a certificate; gives the request as it is then.
///
/// What was decided in the same way already stays as it was decided. A server refuses to approve what was denied, and the
/// other way round.
#[derive(Clone)]
#[must_use = "nothing is sent before `.await`"]
pub struct Decide {
    client: Client,
    request: ObjectRef<CertificateSigningRequest>,
    decision: &'static str,
    reason: String,
    message: Option<String>,
}

impl Client {
    /// Approves a request for a certificate.
    ///
    /// ```no_run
    /// # async fn example(client: windlass_client::Client) -> windlass_client::Result<()> {
    /// client.approve("node-7").reason("KnownNode").message("its address is in the inventory").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn approve(&self, request: impl Into<ObjectRef<CertificateSigningRequest>>) -> Decide {
        Decide::new(self, request.into(), "Approved")
    }

    /// Denies a request for a certificate.
    pub fn deny(&self, request: impl Into<ObjectRef<CertificateSigningRequest>>) -> Decide {
        Decide::new(self, request.into(), "Denied")
    }
}

impl Decide {
    fn new(client: &Client, request: ObjectRef<CertificateSigningRequest>, decision: &'static str) -> Self {
        Self { client: client.clone(), request, decision, reason: decision.to_owned(), message: None }
    }

    /// Why, in one word; the decision itself unless given.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Why, for people.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    async fn send(self) -> Result<CertificateSigningRequest> {
        // Somebody else's condition must not get lost, so the whole is read and written; without jitter, no dice are rolled.
        let again = Backoff::CONFLICT.jitter(0.0);
        retry::on_error(again, &Entropy::seeded(0), Error::is_conflict, || self.attempt()).await
    }

    async fn attempt(&self) -> Result<CertificateSigningRequest> {
        let mut request = self.client.get(self.request.clone()).await?;
        let conditions = request.status.get_or_insert_default().conditions.get_or_insert_default();
        if conditions.iter().any(|condition| condition.type_ == self.decision) {
            return Ok(request);
        }
        // The server adds the time.
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

impl IntoFuture for Decide {
    type Output = Result<CertificateSigningRequest>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl fmt::Debug for Decide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decide")
            .field("request", &self.request)
            .field("decision", &self.decision)
            .finish_non_exhaustive()
    }
}
