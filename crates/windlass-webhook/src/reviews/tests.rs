use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::{Value, json};

use super::*;
use crate::{
    WebhookPath, Webhooks,
    testing::{Recorded, post, send},
};

struct Everything;

impl Authenticator for Everything {
    async fn authenticate(&self, token: &str, audiences: &[String]) -> Result<Authentication, BoxError> {
        match token {
            "jane" => Ok(Authentication::Authenticated {
                user: UserInfo { username: Some("jane".to_owned()), ..UserInfo::default() },
                audiences: audiences.first().cloned().into_iter().collect(),
            }),
            "broken" => Err("the directory is away".into()),
            "panic" => panic!("as told"),
            _ => Ok(Authentication::Unknown),
        }
    }
}

impl Authorizer for Everything {
    async fn authorize(&self, asked: &SubjectAccessReviewSpec) -> Result<Decision, BoxError> {
        let verb = asked.resource_attributes.as_ref().and_then(|asked| asked.verb.as_deref()).unwrap_or_default();
        let reason = asked.groups.as_deref().unwrap_or_default().join(",");
        match verb {
            "get" => Ok(Decision::Allow { reason }),
            "delete" => Ok(Decision::Deny { reason }),
            "list" => Ok(Decision::NoOpinion { reason }),
            "panic" => panic!("as told"),
            _ => Err("the rules are away".into()),
        }
    }
}

fn webhooks(metrics: &Recorded) -> Webhooks {
    let path = |path: &str| WebhookPath::custom(path).unwrap();
    let builder = Webhooks::builder().authenticator(path("/authn"), Everything).authorizer(path("/authz"), Everything);
    builder.metrics(metrics.clone()).build().unwrap()
}

#[tokio::test]
async fn token_review_returns_user_rejection_or_error() {
    let metrics = Recorded::default();
    let webhooks = webhooks(&metrics);
    let status = async |token: &str| {
        let spec = json!({"token": token, "audiences": ["a", "b"]});
        let review = json!({"apiVersion": "authentication.k8s.io/v1beta1", "kind": "TokenReview", "spec": spec});
        let (code, mut answer) = post(&webhooks, "/authn", &review).await;
        assert_eq!(code, 200);
        let version = if token.is_empty() { "authentication.k8s.io/v1" } else { "authentication.k8s.io/v1beta1" };
        assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!(version), &json!("TokenReview")));
        answer["status"].take()
    };
    let nobody = |error: &str| json!({"authenticated": false, "user": {}, "error": error});
    assert_eq!(status("jane").await, json!({"authenticated": true, "user": {"username": "jane"}, "audiences": ["a"]}));
    assert_eq!(status("john").await, json!({"authenticated": false, "user": {}}));
    assert_eq!(status("broken").await, nobody("the directory is away"));
    assert_eq!(status("").await, nobody("token is empty"));
    metrics.take();
    assert_eq!(status("panic").await, nobody("panic: as told [recovered]"));
    assert_eq!(metrics.take(), ["started /authn", "panicked", "finished /authn 200"]);

    let request = http::Request::post("/authn").header("content-type", "application/json");
    let (code, answer) = send(&webhooks, request, " ".repeat((1 << 20) + 1)).await;
    assert_eq!((code, &answer["status"]), (200, &nobody("request entity is too large; limit is 1048576 bytes")));
}

#[tokio::test]
async fn access_is_allowed_denied_or_left_to_others() {
    let webhooks = webhooks(&Recorded::default());
    let status = async |version: &str, verb: &str| {
        let groups = if version == "v1" { "groups" } else { "group" };
        let spec = json!({"user": "jane", groups: ["dev", "ops"], "resourceAttributes": {"verb": verb}});
        let review = json!({"apiVersion": format!("authorization.k8s.io/{version}"), "kind": "SubjectAccessReview", "spec": spec});
        let (code, mut answer) = post(&webhooks, "/authz", &review).await;
        assert_eq!((code, &answer["apiVersion"]), (200, &review["apiVersion"]));
        answer["status"].take()
    };
    for version in ["v1", "v1beta1"] {
        assert_eq!(status(version, "get").await, json!({"allowed": true, "reason": "dev,ops"}));
        assert_eq!(status(version, "delete").await, json!({"allowed": false, "denied": true, "reason": "dev,ops"}));
        assert_eq!(status(version, "list").await, json!({"allowed": false, "reason": "dev,ops"}));
    }
    let failed = |error: &str| json!({"allowed": false, "evaluationError": error});
    assert_eq!(status("v1", "paint").await, failed("the rules are away"));
    assert_eq!(status("v1", "panic").await, failed("panic: as told [recovered]"));
    let (_, answer) = post(&webhooks, "/authz", &Value::Null).await;
    assert_eq!(answer["status"], failed("expected one SubjectAccessReview"));
}
