//! The keys of an issuer, fetched by discovery.
//!
//! Keys are fetched with the first token, and again for a token that no key verifies, but not more often than the
//! intervals allow. All requests that need the same fetch share it, and it continues if they end.

use std::{fmt, sync::Arc, time::Duration};

use futures::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use windlass_api::BoxError;

use super::keys::WebKey;
use crate::{authn::fetch::Fetcher, codec::go_quote, object::Tree, single_flight::SingleFlight};

/// The time between two fetches of an issuer that has answered.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// The time after a failed fetch.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

const WELL_KNOWN: &str = "/.well-known/openid-configuration";

/// The keys of an issuer.
#[derive(Clone)]
pub(super) struct Provider(Arc<Inner>);

struct Inner {
    issuer: String,
    discovery_url: String,
    /// The trusted CAs in PEM. Empty for those of the system.
    authority: String,
    fetcher: Fetcher,
    /// The fetch in progress.
    fetch: SingleFlight<Result<(), String>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The URL of the key set. Empty before discovery.
    keys_url: String,
    /// `None` before the first successful fetch.
    keys: Option<Arc<[WebKey]>>,
    /// The earliest time of the next fetch, and the error of the last one.
    next: Option<Instant>,
    error: String,
}

impl Provider {
    /// Creates a provider. `authority` has the trusted CAs in PEM; if it is empty, those of the system are trusted.
    pub(super) fn new(issuer: &str, discovery_url: Option<&str>, authority: &str) -> Result<Self, BoxError> {
        Ok(Self(Arc::new(Inner {
            issuer: issuer.to_owned(),
            discovery_url: discovery_url_of(issuer, discovery_url),
            authority: authority.to_owned(),
            fetcher: Fetcher::new(authority)?,
            fetch: SingleFlight::default(),
            state: Mutex::default(),
        })))
    }

    /// Reports whether the keys come from the same place as those of a provider with these settings.
    pub(super) fn has_settings(&self, issuer: &str, discovery_url: Option<&str>, authority: &str) -> bool {
        self.0.issuer == issuer
            && self.0.discovery_url == discovery_url_of(issuer, discovery_url)
            && self.0.authority == authority
    }

    /// Returns the cached keys; `None` before the first successful fetch.
    pub(super) fn keys(&self) -> Option<Arc<[WebKey]>> {
        self.0.state.lock().keys.clone()
    }

    /// Fetches the keys, unless the last fetch was too recent. Returns the error of the last fetch.
    pub(super) async fn refresh(&self) -> Result<(), String> {
        if let Some(last) = self.0.last_outcome() {
            return last;
        }
        let inner = Arc::clone(&self.0);
        let begin = || async move { inner.run().await }.boxed();
        self.0.fetch.join(begin, || Err("the fetch of the keys has ended".to_owned())).await
    }
}

fn discovery_url_of(issuer: &str, discovery_url: Option<&str>) -> String {
    let default = || format!("{}{WELL_KNOWN}", issuer.strip_suffix('/').unwrap_or(issuer));
    discovery_url.map_or_else(default, str::to_owned)
}

impl Inner {
    /// Returns the outcome of the last fetch if the next one may not begin yet.
    fn last_outcome(&self) -> Option<Result<(), String>> {
        let state = self.state.lock();
        state.next.filter(|next| Instant::now() < *next)?;
        Some(if state.error.is_empty() { Ok(()) } else { Err(state.error.clone()) })
    }

    async fn run(&self) -> Result<(), String> {
        // Another fetch may have ended in the meantime.
        if let Some(last) = self.last_outcome() {
            return last;
        }
        let outcome = self.fetch().await;
        let mut state = self.state.lock();
        let (interval, error) = match &outcome {
            Ok(()) => (REFRESH_INTERVAL, String::new()),
            Err(error) => {
                tracing::warn!(issuer = self.issuer, error, "cannot fetch the keys of an issuer of tokens");
                (RETRY_INTERVAL, error.clone())
            }
        };
        state.next = Some(Instant::now() + interval);
        state.error = error;
        drop(state);
        outcome
    }

    async fn fetch(&self) -> Result<(), String> {
        let mut url = self.state.lock().keys_url.clone();
        if url.is_empty() {
            let document = self.fetcher.get(&self.discovery_url).await?;
            let document: Value = serde_json::from_slice(&document)
                .map_err(|error| format!("oidc: failed to decode provider discovery object: {error}"))?;
            let found = document.text(&["issuer"]);
            if found != self.issuer {
                let (expected, found) = (go_quote(&self.issuer), go_quote(found));
                return Err(format!(
                    "oidc: issuer did not match the issuer returned by provider, expected {expected} got {found}"
                ));
            }
            document.text(&["jwks_uri"]).clone_into(&mut url);
            if url.is_empty() {
                return Err("provider did not return JWKS URL".to_owned());
            }
            self.state.lock().keys_url.clone_from(&url);
        }
        let set = self.fetcher.get(&url).await.map_err(|error| format!("oidc: get keys failed: {error}"))?;
        let set: Value =
            serde_json::from_slice(&set).map_err(|error| format!("oidc: failed to decode keys: {error}"))?;
        self.state.lock().keys = Some(WebKey::all(&set).into());
        Ok(())
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("issuer", &self.0.issuer).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetch_that_is_never_polled_does_not_end_later_fetches() {
        windlass_tls::provider().unwrap();
        let provider = Provider::new("https://127.0.0.1:1", None, "").unwrap();
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let first = runtime();
        let mut waiting = Box::pin(provider.refresh());
        {
            // The runtime is entered, but does not run.
            let _guard = first.enter();
            assert!((&mut waiting).now_or_never().is_none());
        }
        drop(first);
        let ended = Err("the fetch of the keys has ended".to_owned());
        assert_eq!((&mut waiting).now_or_never(), Some(ended));
        let error = runtime().block_on(provider.refresh()).unwrap_err();
        assert!(error.contains("127.0.0.1:1"), "{error}");
    }
}
