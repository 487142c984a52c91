//! Authorization of metrics requests by the cluster: TokenReview and SubjectAccessReview.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use http::{Request, StatusCode, header};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use windlass_client::Client;

use crate::serving::{Answer, text};

/// How long authentication and authorization results are cached.
const KNOWN: Duration = Duration::from_mins(1);
const ALLOWED: Duration = Duration::from_mins(5);
const DENIED: Duration = Duration::from_secs(30);
/// The maximum number of cached results.
const REMEMBERED: usize = 1024;

/// Sends reviews to the cluster and caches the results.
#[derive(Debug)]
pub(super) struct Authorizer {
    client: Client,
    users: TtlCache<String, Option<UserInfo>>,
    decisions: TtlCache<AccessKey, Decision>,
}

/// The key of an authorization result. It contains all attributes of a user, because two users with the same name may
/// have different permissions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AccessKey {
    user: Option<String>,
    uid: Option<String>,
    groups: Option<Vec<String>>,
    extra: Option<BTreeMap<String, Vec<String>>>,
    verb: String,
    path: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Allow,
    Deny,
}

/// A map with expiring entries.
#[derive(Debug)]
struct TtlCache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl Authorizer {
    pub(super) fn new(client: Client) -> Self {
        Self { client, users: TtlCache::default(), decisions: TtlCache::default() }
    }

    /// Returns the response for a rejected request, or `None` if the request is allowed.
    pub(super) async fn refusal<B>(&self, request: &Request<B>) -> Option<Answer> {
        let refuse = |status, message: String| Some(text(status, message + "\n"));
        let Some(token) = bearer(request) else { return refuse(StatusCode::UNAUTHORIZED, "Unauthorized".into()) };
        let user = match self.user(token).await {
            Ok(Some(user)) => user,
            Ok(None) => return refuse(StatusCode::UNAUTHORIZED, "Unauthorized".into()),
            Err(error) => {
                tracing::error!(error = error.chain(), "cannot authenticate a metrics request");
                return refuse(StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed".into());
            }
        };
        let name = user.username.clone().unwrap_or_default();
        match self.decision(user, request.method().as_str(), request.uri().path()).await {
            Ok(Decision::Allow) => None,
            Ok(Decision::Deny) => refuse(StatusCode::FORBIDDEN, format!("Authorization denied for user {name}")),
            Err(error) => {
                tracing::error!(error = error.chain(), "cannot authorize a metrics request");
                refuse(StatusCode::INTERNAL_SERVER_ERROR, format!("Authorization for user {name} failed"))
            }
        }
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>, windlass_client::Error> {
        if let Some(user) = self.users.get(token) {
            return Ok(user);
        }
        let spec = TokenReviewSpec { token: token_text(token), ..TokenReviewSpec::default() };
        let review = self.client.create(&TokenReview { spec, ..TokenReview::default() }).await?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        self.users.put(token.to_owned(), user.clone(), KNOWN);
        Ok(user)
    }

    async fn decision(&self, user: UserInfo, method: &str, path: &str) -> Result<Decision, windlass_client::Error> {
        let UserInfo { username: user, uid, groups, extra } = user;
        let (verb, path) = (method.to_lowercase(), path.to_owned());
        let key = AccessKey { user, uid, groups, extra, verb, path };
        if let Some(decision) = self.decisions.get(&key) {
            return Ok(decision);
        }
        let spec = SubjectAccessReviewSpec::from(key.clone());
        let review = self.client.create(&SubjectAccessReview { spec, ..SubjectAccessReview::default() }).await?;
        let allowed = review.status.is_some_and(|status| status.allowed && status.denied != Some(true));
        let (decision, lifetime) = if allowed { (Decision::Allow, ALLOWED) } else { (Decision::Deny, DENIED) };
        self.decisions.put(key, decision, lifetime);
        Ok(decision)
    }
}

impl From<AccessKey> for SubjectAccessReviewSpec {
    fn from(AccessKey { user, uid, groups, extra, verb, path }: AccessKey) -> Self {
        let non_resource_attributes = Some(NonResourceAttributes { path: Some(path), verb: Some(verb) });
        Self { user, uid, groups, extra, non_resource_attributes, ..Self::default() }
    }
}

/// Converts a token to the type of its field, which is optional in some Kubernetes versions.
fn token_text<T: From<String>>(text: &str) -> T {
    text.to_owned().into()
}

/// Returns the bearer token of a request.
fn bearer<B>(request: &Request<B>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl<K: Hash + Eq, V: Clone> TtlCache<K, V> {
    fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let entries = self.0.lock();
        entries.get(key).filter(|(ends, _)| Instant::now() < *ends).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V, lifetime: Duration) {
        let now = Instant::now();
        let mut entries = self.0.lock();
        if entries.len() >= REMEMBERED {
            entries.retain(|_, (ends, _)| now < *ends);
        }
        // Unauthenticated clients may send many tokens. Entries are removed to bound the memory.
        if entries.len() >= REMEMBERED {
            entries.clear();
        }
        entries.insert(key, (now + lifetime, value));
    }
}

impl<K, V> Default for TtlCache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use http::Response;
    use http_body_util::{BodyExt as _, Full};
    use serde_json::{Value, json};
    use windlass_client::Body;

    use super::*;

    /// Creates a cluster whose tokens are users as JSON. Members of `viewers` without a UID or extras may read metrics.
    fn cluster() -> Client {
        let answer = |mut review: Value| {
            let spec = review["spec"].clone();
            review["status"] = if let Some(token) = spec["token"].as_str() {
                let user: Value = serde_json::from_str(token).unwrap();
                json!({"authenticated": true, "user": user})
            } else {
                let is_viewer = spec["groups"] == json!(["viewers"]);
                json!({"allowed": is_viewer && spec["uid"].is_null() && spec["extra"].is_null()})
            };
            review
        };
        let service = tower::service_fn(move |request: Request<Body>| async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let answer = answer(serde_json::from_slice(&body).unwrap()).to_string();
            Ok::<_, Infallible>(Response::builder().status(201).body(Full::new(Bytes::from(answer))).unwrap())
        });
        Client::from_service(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn decisions_of_one_user_do_not_count_for_a_namesake() {
        let authorizer = Authorizer::new(cluster());
        let code = async |user: Value| {
            let request = Request::get("/metrics").header(header::AUTHORIZATION, format!("Bearer {user}"));
            let refusal = authorizer.refusal(&request.body(()).unwrap()).await;
            refusal.map_or(200, |answer| answer.status().as_u16())
        };
        assert_eq!(code(json!({"username": "ann", "groups": ["viewers"]})).await, 200);
        assert_eq!(code(json!({"username": "ann", "groups": ["others"]})).await, 403);
        assert_eq!(code(json!({"username": "ann", "groups": ["viewers"], "uid": "2"})).await, 403);
        assert_eq!(code(json!({"username": "ann", "groups": ["viewers"], "extra": {"scope": ["none"]}})).await, 403);
        assert_eq!(code(json!({"username": "ann", "groups": ["viewers"]})).await, 200);
    }
}
