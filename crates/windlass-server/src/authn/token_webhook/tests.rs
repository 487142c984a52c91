use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;

use super::*;
use crate::authn::token_cache::key;

/// A webhook that knows tokens by their content.
#[derive(Debug, Default)]
struct Scripted {
    calls: AtomicUsize,
    reviews: Mutex<Vec<Value>>,
}

impl TokenReviewer for Scripted {
    fn review(&self, review: Value) -> BoxFuture<'_, Result<Value, TokenReviewError>> {
        Box::pin(async move {
            let call = self.calls.fetch_add(1, Ordering::SeqCst);
            let token = review["spec"]["token"].as_str().unwrap_or_default().to_owned();
            self.reviews.lock().push(review);
            match token.as_str() {
                "jane" => Ok(json!({"status": {"authenticated": true, "user": {
                    "username": "jane", "uid": "7", "groups": ["a"], "extra": {"k": ["v"]},
                }}})),
                "for-other" => Ok(json!({"status": {"authenticated": true, "audiences": ["other"],
                    "user": {"username": "joe"}}})),
                "wrong" => Ok(json!({"status": {"authenticated": false, "error": "expired"}})),
                "flaky" if call < 2 => Err(TokenReviewError::Refused(http::StatusCode::INTERNAL_SERVER_ERROR)),
                "flaky" => Ok(json!({"status": {"authenticated": true, "user": {"username": "flaky"}}})),
                "refused" => Err(TokenReviewError::Refused(http::StatusCode::FORBIDDEN)),
                "down" => Err(TokenReviewError::Refused(http::StatusCode::GATEWAY_TIMEOUT)),
                "panic" if call == 0 => panic!("in the webhook"),
                "panic" => Ok(json!({"status": {"authenticated": true, "user": {"username": "calm"}}})),
                "slow" => std::future::pending().await,
                _ => Ok(json!({"status": {}})),
            }
        })
    }
}

struct Fixture {
    webhook: Arc<Scripted>,
    calls: TokenCalls,
}

impl Fixture {
    fn new(change: impl FnOnce(TokenWebhook) -> TokenWebhook) -> Self {
        let webhook = Arc::new(Scripted::default());
        let reviewer: Arc<dyn TokenReviewer> = webhook.clone();
        Self { webhook, calls: TokenCalls::new(change(TokenWebhook::new(reviewer))) }
    }

    async fn who(&self, token: &str) -> Result<Option<String>, String> {
        let own = vec!["us".to_owned()];
        let key = key(token.as_bytes(), &own);
        let found = self.calls.identify(key, token.as_bytes(), &own, &own).await?;
        Ok(found.map(|found| format!("{} {}", found.user.name, found.user.groups.join(","))))
    }

    fn calls(&self) -> usize {
        self.webhook.calls.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_cached_for_two_minutes_but_not_errors() {
    let fixture = Fixture::new(|webhook| webhook);
    for _ in 0..2 {
        assert_eq!(fixture.who("jane").await, Ok(Some("jane a,system:authenticated".to_owned())));
        assert_eq!(fixture.who("unknown").await, Ok(None));
    }
    assert_eq!(fixture.calls(), 2);
    for calls in [3, 4] {
        assert_eq!(fixture.who("wrong").await, Err("expired".to_owned()));
        assert_eq!(fixture.calls(), calls);
    }
    time::sleep(Duration::from_secs(121)).await;
    assert!(fixture.who("jane").await.unwrap().is_some());
    assert_eq!(fixture.calls(), 5);
    let uncached = Fixture::new(|webhook| webhook.cache_ttl(Duration::ZERO));
    for calls in [1, 2] {
        assert!(uncached.who("jane").await.unwrap().is_some());
        assert_eq!(uncached.calls(), calls);
    }
}

#[tokio::test(start_paused = true)]
async fn review_has_the_version_and_the_audiences() {
    for (version, expected) in [(TokenReviewVersion::V1, "v1"), (TokenReviewVersion::V1Beta1, "v1beta1")] {
        let fixture = Fixture::new(|webhook| webhook.version(version));
        assert_eq!(fixture.who("for-other").await, Ok(None));
        let review = fixture.webhook.reviews.lock().pop().unwrap();
        assert_eq!(review["apiVersion"], format!("authentication.k8s.io/{expected}"));
        assert_eq!(review["spec"], json!({"token": "for-other", "audiences": ["us"]}));
    }
}

#[tokio::test(start_paused = true)]
async fn failures_that_may_pass_are_repeated() {
    let fixture = Fixture::new(|webhook| webhook);
    assert_eq!(fixture.who("flaky").await, Ok(Some("flaky system:authenticated".to_owned())));
    assert_eq!(fixture.calls(), 3);
    assert_eq!(fixture.who("refused").await, Err("403 Forbidden".to_owned()));
    assert_eq!(fixture.calls(), 4);
    assert_eq!(fixture.who("down").await, Err("504 Gateway Timeout".to_owned()));
    assert_eq!(fixture.calls(), 9);
    assert_eq!(fixture.who("slow").await, Err("context deadline exceeded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_with_a_token_share_a_call() {
    let fixture = Fixture::new(|webhook| webhook);
    let all = futures::future::join_all((0..50).map(|_| fixture.who("jane"))).await;
    assert!(all.iter().all(|who| who.as_ref().unwrap().is_some()));
    assert_eq!(fixture.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn random_tokens_do_not_replace_cached_users() {
    let fixture = Fixture::new(|webhook| webhook);
    assert!(fixture.who("jane").await.unwrap().is_some());
    for number in 0..=CAPACITY {
        assert_eq!(fixture.who(&format!("random-{number}")).await, Ok(None));
    }
    assert!(fixture.calls.state.lock().answers.len() <= CAPACITY);
    let calls = fixture.calls();
    assert!(fixture.who("jane").await.unwrap().is_some());
    assert_eq!(fixture.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_call_does_not_end_later_calls_for_the_token() {
    let fixture = Fixture::new(|webhook| webhook);
    assert_eq!(fixture.who("panic").await.unwrap_err(), "the call of the token webhook has ended");
    assert_eq!(fixture.who("panic").await, Ok(Some("calm system:authenticated".to_owned())));
}

#[test]
fn call_that_is_never_polled_does_not_end_later_calls() {
    let fixture = Fixture::new(|webhook| webhook);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let first = runtime();
    let mut waiting = Box::pin(fixture.who("jane"));
    {
        // The runtime is entered, but does not run.
        let _guard = first.enter();
        assert!((&mut waiting).now_or_never().is_none());
    }
    drop(first);
    let ended = Err("the call of the token webhook has ended".to_owned());
    assert_eq!((&mut waiting).now_or_never(), Some(ended));
    assert!(fixture.calls.state.lock().calls.is_empty());
    assert!(runtime().block_on(fixture.who("jane")).unwrap().is_some());
}
