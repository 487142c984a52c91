//! The endpoint of TokenReviews.

use futures::future::BoxFuture;
use http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Authentication, DynAuthenticator, answered};
use crate::{
    body::RequestError,
    endpoint::{Answer, Endpoint},
    metrics::WebhookMetrics,
    review::Family,
};

const FAMILY: Family =
    Family { kind: "TokenReview", versions: &["authentication.k8s.io/v1", "authentication.k8s.io/v1beta1"] };

const LIMIT: usize = 1 << 20;

/// The spec of a review. The built-in type differs between Kubernetes versions: its `token` is optional in some.
#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    token: String,
    #[serde(default)]
    audiences: Option<Vec<String>>,
}

/// An authenticator as an endpoint.
pub(crate) struct Tokens(pub(crate) Box<dyn DynAuthenticator>);

impl Endpoint for Tokens {
    fn limit(&self) -> usize {
        LIMIT
    }

    fn refuse(&self, refused: &RequestError) -> Answer {
        Answer::ok(FAMILY.answer(None, "status", unknown(Some(&refused.to_string()))))
    }

    fn answer<'a>(
        &'a self,
        _: Parts,
        document: Value,
        metrics: &'a dyn WebhookMetrics,
    ) -> BoxFuture<'a, Result<Answer, RequestError>> {
        Box::pin(async move {
            let mut review = FAMILY.read(document)?;
            let spec: Spec = review.part("spec")?;
            if spec.token.is_empty() {
                return Err(RequestError::undecodable("token is empty"));
            }
            let audiences = spec.audiences.unwrap_or_default();
            let status = match answered(self.0.authenticate(&spec.token, &audiences), metrics).await {
                Ok(Authentication::Authenticated { user, audiences }) => {
                    let mut status = json!({"authenticated": true, "user": user});
                    if !audiences.is_empty() {
                        status["audiences"] = json!(audiences);
                    }
                    status
                }
                Ok(Authentication::Unknown) => unknown(None),
                Err(error) => unknown(Some(&error)),
            };
            Ok(Answer::ok(FAMILY.answer(Some(&review.api_version), "status", status)))
        })
    }
}

fn unknown(error: Option<&str>) -> Value {
    match error {
        Some(error) => json!({"authenticated": false, "user": {}, "error": error}),
        None => json!({"authenticated": false, "user": {}}),
    }
}
