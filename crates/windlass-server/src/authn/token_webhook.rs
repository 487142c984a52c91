//! The token webhook: the server posts a `TokenReview` and reads the user from its status.
//!
//! Answers are cached for a limited time, also those that reject a token, but not errors. Requests with the same token
//! share a call, which continues if they end. The number of concurrent calls is limited, so that random tokens cannot
//! occupy more.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{self, Instant},
};
use windlass_api::{BoxError, ErrorChain};

use super::{Identity, token_cache::Key};
use crate::{
    identity::User,
    object::Tree,
    single_flight::{self, Call},
};

/// The maximum number of cached answers.
const CAPACITY: usize = 8192;
/// The maximum number of concurrent calls.
const CONCURRENCY: usize = 128;
/// The maximum time for one call.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The number of calls, and the pauses between them: those of kube-apiserver, without their random part.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Sends token reviews to a webhook, and returns its answers.
///
/// Implementations need neither a timeout nor a cache.
pub trait TokenReviewer: fmt::Debug + Send + Sync + 'static {
    /// Posts a `TokenReview`.
    fn review(&self, review: Value) -> BoxFuture<'_, Result<Value, TokenReviewError>>;
}

/// The error for a failed call of the token webhook.
#[derive(Debug, thiserror::Error)]
pub enum TokenReviewError {
    /// The webhook answered with another code than 200 and 201.
    #[error("{0}")]
    Refused(http::StatusCode),
    /// The webhook cannot be reached, or its answer cannot be read.
    #[error(transparent)]
    Failed(#[from] BoxError),
}

/// A token webhook and its settings.
#[derive(Clone, Debug)]
#[must_use]
pub struct TokenWebhook {
    reviewer: Arc<dyn TokenReviewer>,
    version: TokenReviewVersion,
    cache_ttl: Duration,
}

/// The version of the `TokenReview` that a webhook receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenReviewVersion {
    /// `authentication.k8s.io/v1`.
    V1,
    /// `authentication.k8s.io/v1beta1`, the default of kube-apiserver.
    #[default]
    V1Beta1,
}

type Answer = Result<Option<Arc<Identity>>, String>;

/// The calls of a webhook, and its cached answers.
pub(super) struct TokenCalls {
    webhook: Arc<TokenWebhook>,
    permits: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    answers: HashMap<Key, (Instant, Option<Arc<Identity>>)>,
    calls: HashMap<Key, Call<Answer>>,
}

impl TokenWebhook {
    /// Creates a webhook with the settings of kube-apiserver: reviews of version `v1beta1`, and a cache for two minutes.
    pub fn new(reviewer: Arc<dyn TokenReviewer>) -> Self {
        Self { reviewer, version: TokenReviewVersion::default(), cache_ttl: Duration::from_mins(2) }
    }

    /// Sets the version of the reviews.
    pub fn version(self, version: TokenReviewVersion) -> Self {
        Self { version, ..self }
    }

    /// Sets the time for which answers are cached. Zero disables the cache.
    pub fn cache_ttl(self, cache_ttl: Duration) -> Self {
        Self { cache_ttl, ..self }
    }

    /// Calls the webhook, and again if it fails in a way that may pass.
    async fn call(&self, token: &str, audiences: &[String], own: &[String]) -> Answer {
        let version = match self.version {
            TokenReviewVersion::V1 => "v1",
            TokenReviewVersion::V1Beta1 => "v1beta1",
        };
        let mut spec = json!({"token": token});
        if !audiences.is_empty() {
            spec["audiences"] = json!(audiences);
        }
        let review = json!({
            "kind": "TokenReview", "apiVersion": format!("authentication.k8s.io/{version}"),
            "metadata": {}, "spec": spec, "status": {"user": {}},
        });
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let error = match time::timeout(TIMEOUT, self.reviewer.review(review.clone())).await {
                Ok(Ok(answer)) => return read(&answer, audiences, own),
                Ok(Err(error)) => error,
                Err(_) => TokenReviewError::Failed("context deadline exceeded".into()),
            };
            let shown = match &error {
                TokenReviewError::Failed(error) => ErrorChain(&**error).to_string(),
                refused @ TokenReviewError::Refused(_) => refused.to_string(),
            };
            tracing::warn!(error = shown, "the token webhook failed");
            let may_pass = match &error {
                TokenReviewError::Refused(code) => matches!(code.as_u16(), 429 | 500 | 504),
                TokenReviewError::Failed(error) => is_reset(&**error),
            };
            if attempt >= ATTEMPTS || !may_pass {
                return Err(shown);
            }
            time::sleep(pause).await;
            pause = pause.mul_f64(1.5);
        }
        Err(String::new())
    }
}

/// Reports whether the connection was closed by the other side.
fn is_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind() == std::io::ErrorKind::ConnectionReset;
        }
        next = error.source();
    }
    false
}

/// Reads the identity from an answer; `None` if the webhook does not know the token.
fn read(answer: &Value, audiences: &[String], own: &[String]) -> Answer {
    let status = answer.at(&["status"]).unwrap_or(&Value::Null);
    let texts = |value: &Value, path: &[&str]| -> Vec<String> {
        value.items(path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let granted = Some(texts(status, &["audiences"])).filter(|granted| !granted.is_empty());
    let granted = granted.unwrap_or_else(|| own.to_vec());
    let audiences: Vec<String> = audiences.iter().filter(|audience| granted.contains(audience)).cloned().collect();
    if audiences.is_empty() {
        return Ok(None);
    }
    if !status.flag(&["authenticated"]) {
        return match status.text(&["error"]) {
            "" => Ok(None),
            error => Err(error.to_owned()),
        };
    }
    let info = status.at(&["user"]).unwrap_or(&Value::Null);
    let mut user =
        User::new(info.text(&["username"])).with_uid(info.text(&["uid"])).in_groups(texts(info, &["groups"]));
    if let Some(Value::Object(extra)) = info.at(&["extra"]) {
        user.extra = extra.iter().map(|(key, values)| (key.clone(), texts(values, &[]))).collect();
    }
    Ok(Some(Arc::new(Identity::new(user, audiences))))
}

/// The calls that may be in progress or wait for a permit. Clients that send random tokens cannot collect more.
const PENDING: usize = 4096;

impl TokenCalls {
    pub(super) fn new(webhook: TokenWebhook) -> Self {
        Self { webhook: Arc::new(webhook), permits: Arc::new(Semaphore::new(CONCURRENCY)), state: Arc::default() }
    }

    /// Returns the identity of a token; `None` if the webhook does not know it. `own` has the audiences of this server.
    pub(super) async fn identify(&self, key: Key, token: &[u8], audiences: &[String], own: &[String]) -> Answer {
        let Ok(token) = std::str::from_utf8(token) else { return Ok(None) };
        let (call, begun) = {
            let mut state = self.state.lock();
            if let Some((end, answer)) = state.answers.get(&key)
                && Instant::now() < *end
            {
                return Ok(answer.clone());
            }
            if let Some(call) = state.calls.get(&key) {
                (call.clone(), None)
            } else if state.calls.len() >= PENDING {
                return Err("too many calls of the token webhook are waiting".to_owned());
            } else {
                let (sender, call) = single_flight::call(|| Err("the call of the token webhook has ended".to_owned()));
                state.calls.insert(key, call.clone());
                (call, Some((sender, CallInProgress { key, state: Arc::clone(&self.state) })))
            }
        };
        // The lock is free, because a runtime that ends drops the task at once.
        if let Some((sender, in_progress)) = begun {
            self.start(in_progress, sender, token, audiences, own);
        }
        call.await
    }

    /// Starts a call. It waits for a permit.
    fn start(
        &self,
        call: CallInProgress,
        sender: oneshot::Sender<Answer>,
        token: &str,
        audiences: &[String],
        own: &[String],
    ) {
        let (webhook, permits) = (Arc::clone(&self.webhook), Arc::clone(&self.permits));
        let (token, audiences, own) = (token.to_owned(), audiences.to_vec(), own.to_vec());
        tokio::spawn(async move {
            let waited = time::timeout(TIMEOUT, permits.acquire()).await;
            let answer = match waited {
                Ok(Ok(_permit)) => webhook.call(&token, &audiences, &own).await,
                _ => Err("too many calls of the token webhook are in progress".to_owned()),
            };
            call.state.lock().remember(call.key, &answer, webhook.cache_ttl);
            drop(call);
            drop(sender.send(answer));
        });
    }
}

/// A call in progress. Dropping it ends the call, also after a panic of the webhook, or with a task that is never polled.
struct CallInProgress {
    key: Key,
    state: Arc<Mutex<State>>,
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.state.lock().calls.remove(&self.key);
    }
}

impl State {
    /// Caches an answer.
    fn remember(&mut self, key: Key, answer: &Answer, lifetime: Duration) {
        let Ok(answer) = answer else { return };
        if lifetime.is_zero() {
            return;
        }
        let now = Instant::now();
        if self.answers.len() >= CAPACITY {
            self.answers.retain(|_, (end, _)| now < *end);
        }
        if self.answers.len() >= CAPACITY {
            // Rejections are forgotten first: a client can produce any number of them.
            self.answers.retain(|_, (_, answer)| answer.is_some());
        }
        if self.answers.len() < CAPACITY {
            self.answers.insert(key, (now + lifetime, answer.clone()));
        }
    }
}

impl fmt::Debug for TokenCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCalls").field("webhook", &self.webhook).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
