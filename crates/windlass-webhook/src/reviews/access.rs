//! The endpoint of SubjectAccessReviews.

use futures::future::BoxFuture;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_api::k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;

use super::{Decision, DynAuthorizer, answered};
use crate::{
    body::RequestError,
    endpoint::{Answer, Endpoint},
    metrics::WebhookMetrics,
    review::Family,
};

const BETA: &str = "authorization.k8s.io/v1beta1";

const FAMILY: Family = Family { kind: "SubjectAccessReview", versions: &["authorization.k8s.io/v1", BETA] };

const LIMIT: usize = 1 << 20;

/// An authorizer as an endpoint.
pub(crate) struct Access(pub(crate) Box<dyn DynAuthorizer>);

impl Endpoint for Access {
    fn limit(&self) -> usize {
        LIMIT
    }

    fn refuse(&self, refused: &RequestError) -> Answer {
        Answer::ok(FAMILY.answer(None, "status", failed(&refused.to_string())))
    }

    fn answer<'a>(
        &'a self,
        _: Parts,
        document: Value,
        metrics: &'a dyn WebhookMetrics,
    ) -> BoxFuture<'a, Result<Answer, RequestError>> {
        Box::pin(async move {
            let mut review = FAMILY.read(document)?;
            let mut spec: Value = review.part("spec")?;
            if review.api_version == BETA
                && let Some(fields) = spec.as_object_mut()
                && let Some(groups) = fields.shift_remove("group")
            {
                fields.insert("groups".to_owned(), groups);
            }
            let spec = SubjectAccessReviewSpec::deserialize(spec).map_err(RequestError::undecodable)?;
            let status = match answered(self.0.authorize(&spec), metrics).await {
                Ok(Decision::Allow { reason }) => json!({"allowed": true, "reason": reason}),
                Ok(Decision::Deny { reason }) => json!({"allowed": false, "denied": true, "reason": reason}),
                Ok(Decision::NoOpinion { reason }) => json!({"allowed": false, "reason": reason}),
                Err(error) => failed(&error),
            };
            Ok(Answer::ok(FAMILY.answer(Some(&review.api_version), "status", status)))
        })
    }
}

fn failed(error: &str) -> Value {
    json!({"allowed": false, "evaluationError": error})
}
