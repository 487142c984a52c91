//! Tokens from a function of the program, for credentials that a kubeconfig cannot describe.

use std::{fmt, future::Future, sync::Arc};

use futures::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use windlass_api::BoxError;

use super::AuthError;
use crate::secret::Secret;

type Fetch = dyn Fn() -> BoxFuture<'static, Result<IssuedToken, BoxError>> + Send + Sync;

/// A source of bearer tokens. It is called when there is no token yet, when the last one has expired, and when the
/// server has rejected it. Concurrent requests share one call.
///
/// ```
/// use windlass_client::{Auth, Config, auth::{IssuedToken, TokenSource}};
///
/// # async fn fetched_from_the_cloud() -> std::io::Result<String> { Ok(String::new()) }
/// let source = TokenSource::new(|| async {
///     let token = fetched_from_the_cloud().await?;
///     Ok(IssuedToken { token: token.into(), expires: None })
/// });
/// let config = Config::new("https://cluster.example".parse()?).with_auth(Auth::Source(source));
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
#[derive(Clone)]
pub struct TokenSource(Arc<Fetch>);

/// A token with its expiry time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedToken {
    /// The token.
    pub token: Secret,
    /// The expiry time. `None` if the token is valid until the server rejects it.
    pub expires: Option<Timestamp>,
}

impl TokenSource {
    /// Creates a source that calls `fetch`. The errors of `fetch` must not contain secrets.
    pub fn new<F, T>(fetch: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<IssuedToken, BoxError>> + Send + 'static,
    {
        Self(Arc::new(move || fetch().boxed()))
    }

    pub(crate) async fn fetch(&self) -> Result<IssuedToken, AuthError> {
        (self.0)().await.map_err(|source| AuthError::Source { source })
    }
}

/// Only clones are equal.
impl PartialEq for TokenSource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for TokenSource {}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource").finish_non_exhaustive()
    }
}
