//! Who is calling: the `Authorization` header. (Client certificates are part of TLS: [`crate::config::Identity`].)
//!
//! A header that the caller has set wins over every credential here, as with Go's client.

mod secret;
mod token_file;

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, Request, Response, StatusCode, header};
use thiserror::Error;
use tower::{Service, ServiceExt};
use windlass_api::BoxError;

pub use secret::Secret;

use crate::{Config, ConfigError, transport::Body};
use token_file::TokenFile;

/// How the caller identifies itself in each request.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Auth {
    /// Not at all, or by a client certificate.
    #[default]
    None,
    /// By a token that does not change.
    Bearer(Secret),
    /// By a token in a file, which somebody else keeps fresh. It is read again when a minute has passed or the server
    /// has refused it; while it cannot be read, the last token stands.
    TokenFile(PathBuf),
    /// By a name and a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: Secret,
    },
}

/// Credentials that cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A token file, of which no token is known yet, cannot be read.
    #[error("reading the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A token with characters that no header can carry.
    #[error("the token from {origin} holds characters that no header can carry")]
    Unprintable {
        /// Where it comes from.
        origin: String,
    },
}

/// A service that adds credentials to each request.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated<S> {
    inner: S,
    credentials: Credentials,
}

/// [`Auth`], made ready.
#[derive(Clone, Debug)]
enum Credentials {
    None,
    Fixed(HeaderValue),
    TokenFile(Arc<TokenFile>),
}

impl<S> Authenticated<S> {
    pub(crate) fn new(inner: S, config: &Config) -> Result<Self, ConfigError> {
        let unprintable = || ConfigError::Auth(AuthError::Unprintable { origin: "the configuration".to_owned() });
        let credentials = match &config.auth {
            Auth::None => Credentials::None,
            Auth::Bearer(token) => Credentials::Fixed(bearer(token.expose()).ok_or_else(unprintable)?),
            Auth::TokenFile(path) => Credentials::TokenFile(Arc::new(TokenFile::new(path.clone()))),
            Auth::Basic { username, password } => {
                let pair = BASE64_STANDARD.encode(format!("{username}:{}", password.expose()));
                Credentials::Fixed(sensitive(&format!("Basic {pair}")).ok_or_else(unprintable)?)
            }
        };
        Ok(Self { inner, credentials })
    }
}

impl<S, B> Service<Request<Body>> for Authenticated<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Readiness of the inner service is awaited in `call`, after the credentials are there.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (inner, credentials) = (self.inner.clone(), self.credentials.clone());
        if request.headers().contains_key(header::AUTHORIZATION) {
            return Box::pin(inner.oneshot(request));
        }
        Box::pin(async move {
            let file = match credentials {
                Credentials::None => None,
                Credentials::Fixed(value) => {
                    request.headers_mut().insert(header::AUTHORIZATION, value);
                    None
                }
                Credentials::TokenFile(file) => {
                    let token = file.token().await?;
                    request.headers_mut().insert(header::AUTHORIZATION, token.header.clone());
                    Some((file, token))
                }
            };
            let response = inner.oneshot(request).await?;
            if let Some((file, token)) = file
                && response.status() == StatusCode::UNAUTHORIZED
            {
                file.refused(&token);
            }
            Ok(response)
        })
    }
}

/// `None` when a header cannot carry it.
fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
