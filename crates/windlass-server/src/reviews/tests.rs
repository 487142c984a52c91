//! Tests of reviews over HTTP, with the users of tokens.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::{Clock, Entropy};

use crate::{
    Server,
    http::{Origin, Trust, handle},
    server::boxed,
    tls::ClientCertificate,
};

const SELF_SUBJECT_REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SELF_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

struct Fixture {
    server: Server,
    /// In seconds since the epoch.
    now: Arc<AtomicI64>,
}

impl Fixture {
    fn new() -> Self {
        let now = Arc::new(AtomicI64::new(1_800_000_000));
        let read = now.clone();
        let clock = Clock::from_fn(move || Timestamp::from_second(read.load(Ordering::Relaxed)).unwrap());
        let server = Server::builder().clock(clock).entropy(Entropy::seeded(1)).token("TOKEN").build();
        Self { server, now }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        if !token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(boxed(Full::new(Bytes::from(body.to_string())))).unwrap();
        let inner = self.server.inner().clone();
        let origin = Origin {
            trust: Trust::Socket(ClientCertificate::Nothing),
            stopping: inner.stopping(),
            remote: None,
            is_upgradable: false,
        };
        let (parts, body) = handle(inner, origin, request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), serde_json::from_slice(&body).unwrap())
    }

    async fn post(&self, path: &str, token: &str, body: Value) -> (u16, Value) {
        self.send(Method::POST, path, token, &[], body).await
    }

    /// Creates a service account and returns a token for it.
    async fn account(&self, spec: Value) -> String {
        let (code, _) = self.post(ACCOUNTS, "TOKEN", json!({"metadata": {"name": "robot"}})).await;
        assert_eq!(code, 201);
        let (code, request) = self.post(&format!("{ACCOUNTS}/robot/token"), "TOKEN", json!({"spec": spec})).await;
        assert_eq!(code, 201, "{request}");
        request["status"]["token"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn self_subject_review_returns_the_caller() {
    let fixture = Fixture::new();
    let (code, review) = fixture.post(SELF_SUBJECT_REVIEWS, "TOKEN", json!({"metadata": {"name": "x"}})).await;
    assert_eq!(code, 201);
    assert_eq!(review["metadata"], json!({"creationTimestamp": "2027-01-15T08:00:00Z"}));
    let info = json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]});
    assert_eq!(review["status"], json!({"userInfo": info}));
    let (code, refusal) = fixture.post(SELF_SUBJECT_REVIEWS, "", json!({})).await;
    assert_eq!(code, 403);
    assert!(refusal["message"].as_str().unwrap().contains("system:anonymous"), "{refusal}");
    let headers = [("impersonate-user", "system:serviceaccount:a:b"), ("impersonate-extra-x%2fy", "z")];
    let (_, review) = fixture.send(Method::POST, SELF_SUBJECT_REVIEWS, "TOKEN", &headers, json!({})).await;
    assert_eq!(
        review["status"]["userInfo"],
        json!({"username": "system:serviceaccount:a:b",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
            "extra": {"x/y": ["z"]}})
    );
}

#[tokio::test]
async fn token_is_valid_until_it_expires_or_account_is_deleted() {
    let fixture = Fixture::new();
    let token = fixture.account(json!({"expirationSeconds": 600})).await;
    let (code, review) = fixture.post(SELF_SUBJECT_REVIEWS, &token, json!({})).await;
    assert_eq!(code, 201);
    assert_eq!(review["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
    let (_, review) = fixture.post(TOKEN_REVIEWS, "TOKEN", json!({"spec": {"token": token}})).await;
    assert_eq!(review["status"]["authenticated"], true);
    assert_eq!(review["status"]["audiences"], json!(["https://kubernetes.default.svc"]));

    fixture.now.fetch_add(700, Ordering::Relaxed);
    assert_eq!(fixture.post(SELF_SUBJECT_REVIEWS, &token, json!({})).await.0, 401);
    fixture.now.fetch_sub(700, Ordering::Relaxed);
    assert_eq!(fixture.post(SELF_SUBJECT_REVIEWS, &token, json!({})).await.0, 201);
    let gone = fixture.send(Method::DELETE, &format!("{ACCOUNTS}/robot"), "TOKEN", &[], json!({})).await;
    assert_eq!(gone.0, 200);
    assert_eq!(fixture.post(SELF_SUBJECT_REVIEWS, &token, json!({})).await.0, 401);
    let (_, review) = fixture.post(TOKEN_REVIEWS, "TOKEN", json!({"spec": {"token": token}})).await;
    assert_eq!(review["status"]["error"], "[invalid bearer token, serviceaccounts \"robot\" not found]");
}

/// The seconds for which a token stays valid after the deletion timestamp of its object.
const LEEWAY: i64 = 60;

impl Fixture {
    async fn put(&self, method: Method, path: &str, body: Value) -> Value {
        let (code, answer) = self.send(method, path, "TOKEN", &[], body).await;
        assert!(code < 300, "{path}: {answer}");
        answer
    }

    /// Returns the code of a request with the token, and the error that a review reports.
    async fn review_token(&self, token: &str) -> (u16, String) {
        let (code, _) = self.post(SELF_SUBJECT_REVIEWS, token, json!({})).await;
        let (_, review) = self.post(TOKEN_REVIEWS, "TOKEN", json!({"spec": {"token": token}})).await;
        (code, review["status"]["error"].as_str().unwrap_or_default().to_owned())
    }
}

#[tokio::test]
async fn token_of_terminating_account_is_rejected() {
    let fixture = Fixture::new();
    let account = json!({"metadata": {"name": "robot", "finalizers": ["acme.io/stay"]}});
    fixture.put(Method::POST, ACCOUNTS, account).await;
    let request = fixture.put(Method::POST, &format!("{ACCOUNTS}/robot/token"), json!({"spec": {}})).await;
    let token = request["status"]["token"].as_str().unwrap();
    assert_eq!(fixture.review_token(token).await, (201, String::new()));
    fixture.put(Method::DELETE, &format!("{ACCOUNTS}/robot"), json!({})).await;
    fixture.now.fetch_add(LEEWAY, Ordering::Relaxed);
    assert_eq!(fixture.review_token(token).await, (201, String::new()));
    fixture.now.fetch_add(1, Ordering::Relaxed);
    let gone = "[invalid bearer token, service account default/robot has been deleted]";
    assert_eq!(fixture.review_token(token).await, (401, gone.to_owned()));
}

#[tokio::test]
async fn token_bound_to_terminating_object_is_rejected() {
    let fixture = Fixture::new();
    fixture.put(Method::POST, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let pod = json!({"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]});
    for (kind, collection, spec) in [
        ("Pod", "/api/v1/namespaces/default/pods", pod),
        ("Secret", "/api/v1/namespaces/default/secrets", Value::Null),
        ("Node", "/api/v1/nodes", Value::Null),
    ] {
        let mut object = json!({"metadata": {"name": "bound", "finalizers": ["acme.io/stay"]}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        fixture.put(Method::POST, collection, object).await;
        let bound = json!({"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": "bound"}}});
        let request = fixture.put(Method::POST, &format!("{ACCOUNTS}/robot/token"), bound).await;
        let token = request["status"]["token"].as_str().unwrap();
        assert_eq!(fixture.review_token(token).await, (201, String::new()), "{kind}");
        let options = json!({"gracePeriodSeconds": 0});
        fixture.put(Method::DELETE, &format!("{collection}/bound"), options).await;
        fixture.now.fetch_add(LEEWAY + 1, Ordering::Relaxed);
        let gone = "[invalid bearer token, service account token has been invalidated]";
        assert_eq!(fixture.review_token(token).await, (401, gone.to_owned()), "{kind}");
    }
}

#[tokio::test]
async fn token_of_deleted_pod_is_rejected_at_once() {
    let fixture = Fixture::new();
    fixture.put(Method::POST, ACCOUNTS, json!({"metadata": {"name": "robot"}})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]});
    fixture.put(Method::POST, pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let bound = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}});
    let request = fixture.put(Method::POST, &format!("{ACCOUNTS}/robot/token"), bound).await;
    let token = request["status"]["token"].as_str().unwrap();
    assert_eq!(fixture.review_token(token).await.0, 201);
    fixture.put(Method::DELETE, &format!("{pods}/p"), json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(fixture.review_token(token).await.0, 401);
}

#[tokio::test]
async fn token_for_another_audience_is_rejected() {
    let fixture = Fixture::new();
    let token = fixture.account(json!({"audiences": ["vault"]})).await;
    assert_eq!(fixture.post(SELF_SUBJECT_REVIEWS, &token, json!({})).await.0, 401);
    let spec = json!({"token": token, "audiences": ["vault", "other"]});
    let (_, review) = fixture.post(TOKEN_REVIEWS, "TOKEN", json!({"spec": spec})).await;
    assert_eq!(review["status"]["audiences"], json!(["vault"]));
}

#[tokio::test]
async fn access_reviews_allow_masters_and_roles_only() {
    let fixture = Fixture::new();
    let pods = json!({"verb": "list", "resource": "pods"});
    let (code, review) =
        fixture.post(SELF_ACCESS_REVIEWS, "TOKEN", json!({"spec": {"resourceAttributes": pods}})).await;
    assert_eq!((code, &review["status"]), (201, &json!({"allowed": true})));
    let spec = json!({"user": "eve", "resourceAttributes": pods});
    let (_, review) = fixture.post(ACCESS_REVIEWS, "TOKEN", json!({"spec": spec})).await;
    assert_eq!(review["status"], json!({"allowed": false}));
    let (code, refusal) = fixture.post(ACCESS_REVIEWS, "TOKEN", json!({"spec": {"resourceAttributes": pods}})).await;
    assert_eq!(code, 422);
    assert_eq!(
        refusal["message"],
        ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be \
         specified"
    );
}
