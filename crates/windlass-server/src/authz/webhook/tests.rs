use http::Request;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;
use crate::{AuthorizationConfiguration, Server};

/// A webhook that records reviews and decides by the name of the user.
#[derive(Debug, Default)]
struct Scripted(Mutex<Vec<Value>>);

impl AccessReviewer for Scripted {
    fn review(&self, mut review: Value) -> BoxFuture<'_, Result<Value, BoxError>> {
        Box::pin(async move {
            self.0.lock().push(review.clone());
            let user = review["spec"]["user"].as_str().unwrap_or_default().to_owned();
            if user == "lost" {
                return Err("connection refused".into());
            }
            if user == "slow" {
                std::future::pending::<()>().await;
            }
            review["status"] = match user.split('-').next().unwrap_or_default() {
                "allowed" => json!({"allowed": true, "reason": "a friend"}),
                "denied" => json!({"allowed": false, "denied": true, "reason": "an enemy"}),
                "both" => json!({"allowed": true, "denied": true}),
                _ => json!({"allowed": false, "reason": "a stranger"}),
            };
            Ok(review)
        })
    }
}

struct Fixture {
    webhook: Arc<Scripted>,
    server: Server,
}

impl Fixture {
    fn new(changes: Value) -> Self {
        let mut webhook = json!({
            "timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/webhook.kubeconfig"},
        });
        webhook.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthorizationConfiguration",
            "authorizers": [
                {"type": "Webhook", "name": "hook", "webhook": webhook},
                {"type": "RBAC", "name": "rbac"},
            ],
        });
        let webhook = Arc::new(Scripted::default());
        let reviewer: Arc<dyn AccessReviewer> = webhook.clone();
        let chain = AuthorizationConfiguration::parse(configuration).unwrap().connect(|path| {
            assert_eq!(path, std::path::Path::new("/webhook.kubeconfig"));
            Ok(reviewer.clone())
        });
        Self { webhook, server: Server::builder().authorizers(chain.unwrap()).build() }
    }

    async fn get(&self, user: &str, path: &str) -> (u16, String) {
        let service = self.server.service().acting_as(crate::User::new(user));
        let request = Request::get(path).body(String::new()).unwrap();
        let (parts, body) = service.oneshot(request).await.unwrap().into_parts();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        (parts.status.as_u16(), status["message"].as_str().unwrap_or_default().to_owned())
    }

    fn review_count(&self) -> usize {
        self.webhook.0.lock().len()
    }
}

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CANNOT: &str = "cannot list resource \"secrets\" in API group \"\" in the namespace \"default\"";

#[tokio::test(start_paused = true)]
async fn webhook_allows_denies_or_falls_back_to_roles() {
    let fixture = Fixture::new(json!({}));
    assert_eq!(fixture.get("allowed", SECRETS).await.0, 200);
    let refused = |user: &str, why: &str| (403, format!("secrets is forbidden: User \"{user}\" {CANNOT}: {why}"));
    assert_eq!(fixture.get("denied", SECRETS).await, refused("denied", "an enemy"));
    assert_eq!(fixture.get("somebody", SECRETS).await, refused("somebody", "a stranger"));
    // Permissions from roles still apply, unless the webhook denies the request.
    assert_eq!(fixture.get("somebody", "/version").await.0, 200);
    assert_eq!(fixture.get("denied", "/version").await.0, 403);
    let (code, message) = fixture.get("both", SECRETS).await;
    assert_eq!(code, 500);
    assert!(message.contains("returned both allow and deny"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn review_contains_user_and_request_attributes() {
    let fixture = Fixture::new(json!({}));
    fixture.get("allowed", "/api/v1/namespaces/default/pods/p/log").await;
    fixture.get("allowed", "/metrics").await;
    let reviews = fixture.webhook.0.lock().clone();
    let resource = json!({"namespace": "default", "verb": "get", "version": "v1", "resource": "pods",
        "subresource": "log", "name": "p"});
    assert_eq!(
        reviews[0]["spec"],
        json!({"resourceAttributes": resource, "user": "allowed", "groups": ["system:authenticated"]})
    );
    assert_eq!(reviews[0]["apiVersion"], "authorization.k8s.io/v1");
    assert_eq!(reviews[1]["spec"]["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
}

#[tokio::test(start_paused = true)]
async fn failed_webhook_denies_or_has_no_opinion() {
    for (policy, roles) in [("Deny", 500), ("NoOpinion", 200)] {
        let fixture = Fixture::new(json!({"failurePolicy": policy}));
        for (user, why) in [("lost", "connection refused"), ("slow", "context deadline exceeded")] {
            let (code, message) = fixture.get(user, SECRETS).await;
            assert_eq!(code, 500, "{policy}: {message}");
            assert!(message.contains(why), "{policy}: {message}");
            assert_eq!(fixture.get(user, "/version").await.0, roles, "{policy}: {user}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn decisions_are_cached_per_user_until_their_ttl() {
    let fixture = Fixture::new(json!({"authorizedTTL": "10s", "unauthorizedTTL": "5s"}));
    let new_reviews = async |user: &str| {
        let before = fixture.review_count();
        fixture.get(user, SECRETS).await;
        fixture.review_count() - before
    };
    assert_eq!((new_reviews("allowed").await, new_reviews("allowed").await, new_reviews("allowed-2").await), (1, 0, 1));
    assert_eq!((new_reviews("nobody").await, new_reviews("nobody").await), (1, 0));
    time::advance(Duration::from_secs(5)).await;
    assert_eq!((new_reviews("allowed").await, new_reviews("nobody").await), (0, 1));
    time::advance(Duration::from_secs(5)).await;
    assert_eq!(new_reviews("allowed").await, 1);
    // Failures are not cached.
    assert_eq!((new_reviews("lost").await, new_reviews("lost").await), (1, 1));
    let fixture = Fixture::new(json!({"cacheAuthorizedRequests": false}));
    fixture.get("allowed", SECRETS).await;
    fixture.get("allowed", SECRETS).await;
    assert_eq!(fixture.review_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn match_conditions_select_the_reviewed_requests() {
    let conditions = |expressions: &[&str]| {
        let conditions: Vec<Value> = expressions.iter().map(|text| json!({"expression": text})).collect();
        json!({"matchConditions": conditions, "matchConditionSubjectAccessReviewVersion": "v1"})
    };
    let fixture = Fixture::new(conditions(&[
        "has(request.resourceAttributes)",
        "request.resourceAttributes.namespace == 'default' && !('admins' in request.groups)",
    ]));
    assert_eq!(fixture.get("denied", "/version").await.0, 200);
    assert_eq!(fixture.get("allowed", "/api/v1/namespaces/other/secrets").await.0, 403);
    assert_eq!(fixture.review_count(), 0);
    assert_eq!(fixture.get("allowed", SECRETS).await.0, 200);
    assert_eq!(fixture.review_count(), 1);
    // A condition that cannot be evaluated is a failure, unless another condition is false.
    let fixture = Fixture::new(conditions(&["request.resourceAttributes.name == 'x'", "request.user != 'root'"]));
    assert_eq!(fixture.get("allowed", "/version").await.0, 500);
    assert_eq!(fixture.get("root", "/version").await.0, 200);
    assert_eq!(fixture.review_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn requests_of_masters_are_not_reviewed() {
    let fixture = Fixture::new(json!({}));
    let service = fixture.server.service();
    let request = Request::get(SECRETS).body(String::new()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().status(), 200);
    assert_eq!(fixture.review_count(), 0);
}

#[test]
fn configuration_error_lists_every_invalid_field() {
    let parse = |authorizers: Value| {
        let file = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
            "authorizers": authorizers});
        AuthorizationConfiguration::parse(file).unwrap_err().to_string()
    };
    assert!(parse(json!([])).contains("authorizers: Required value: at least one authorization mode must be defined"));
    let text = parse(json!([
        {"type": "RBAC", "name": "a"}, {"type": "RBAC", "name": "b"}, {"type": "ABAC", "name": "c"},
        {"type": "Webhook", "name": "A_b", "webhook": {"timeout": "1m", "subjectAccessReviewVersion": "v2",
            "failurePolicy": "", "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "relative"},
            "matchConditions": [{"expression": "request.user"}, {"expression": "request.nope == ''"}]}},
    ]));
    for expected in [
        "authorizers[1].type: Duplicate value: \"RBAC\"",
        "authorizers[2].type: Unsupported value: \"ABAC\"",
        "authorizers[3].name: Invalid value: \"A_b\"",
        "authorizers[3].timeout: Invalid value: \"1m\": must be > 0s and <= 30s",
        "authorizers[3].subjectAccessReviewVersion: Unsupported value: \"v2\"",
        "authorizers[3].failurePolicy: Required value",
        "authorizers[3].connectionInfo.kubeConfigFile: Invalid value: \"relative\": must be an absolute path",
        "authorizers[3].matchConditionSubjectAccessReviewVersion: Required value",
        "authorizers[3].matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool",
        "authorizers[3].matchConditions[1].expression: Invalid value: \"request.nope == ''\": compilation failed",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let unknown = parse(json!([{"type": "RBAC", "name": "a", "mode": "x"}]));
    assert_eq!(unknown, "cannot read the authorization configuration");
}
