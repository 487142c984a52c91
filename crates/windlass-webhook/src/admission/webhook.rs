//! The endpoint of admission reviews.

use futures::future::BoxFuture;
use http::request::Parts;
use serde_json::Value;

use super::{DynHandler, Request, Response};
use crate::{
    body::RequestError,
    endpoint::{Answer, Endpoint},
    metrics::WebhookMetrics,
    review::{Family, contained},
};

const FAMILY: Family =
    Family { kind: "AdmissionReview", versions: &["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] };

/// More than twice the maximum size in etcd: a review contains the old and the new object as JSON.
const LIMIT: usize = 7 << 20;

/// A handler as an endpoint.
pub(crate) struct Admission(pub(crate) Box<dyn DynHandler>);

impl Endpoint for Admission {
    fn limit(&self) -> usize {
        LIMIT
    }

    fn refuse(&self, refused: &RequestError) -> Answer {
        Answer::ok(review(None, &Response::errored(refused.code(), refused.to_string()), "", &Value::Null))
    }

    fn answer<'a>(
        &'a self,
        http: Parts,
        document: Value,
        metrics: &'a dyn WebhookMetrics,
    ) -> BoxFuture<'a, Result<Answer, RequestError>> {
        Box::pin(async move {
            let mut asked = FAMILY.read(document)?;
            let request = Request::received(asked.part("request")?, http);
            tracing::debug!(
                uid = request.uid,
                namespace = request.namespace,
                name = request.name,
                resource = %request.resource.resource,
                operation = %request.operation,
                user = request.user(),
                "handled an admission request"
            );
            let response = contained(self.0.handle(&request)).await.unwrap_or_else(|panic| {
                metrics.panicked();
                Response::errored(500, format!("panic: {panic} [recovered]"))
            });
            tracing::debug!(
                uid = request.uid,
                allowed = response.is_allowed(),
                code = response.status().code,
                message = response.status().message,
                "answered"
            );
            Ok(Answer::ok(review(Some(&asked.api_version), &response, &request.uid, &request.object)))
        })
    }
}

fn review(api_version: Option<&str>, response: &Response, uid: &str, came: &Value) -> Value {
    FAMILY.answer(api_version, "response", response.to_wire(uid, came))
}
