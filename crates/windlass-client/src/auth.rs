//! Who is calling: the `Authorization` header, and as whom. (Client certificates are part of TLS:
//! [`crate::config::Identity`].)
//!
//! A header that the caller has set wins over every credential here, as with Go's client. Credentials that can be renewed
//! are renewed when they are stale, and when the server answers 401; a request that met the 401 is then sent once more,
//! if its body can be. That is no risk to writes: what is refused is not carried out.

mod exec;
mod impersonation;
mod issuer;
mod oidc;
mod secret;
mod source;
mod token_file;

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use thiserror::Error;
use tower::{Service, ServiceExt};
use windlass_api::{BoxError, Clock};

pub use exec::{ExecConfig, ExecVersion, Interaction, PluginError, PluginPolicy};
pub use impersonation::Impersonation;
pub(crate) use issuer::Issuer;
pub use oidc::{OidcConfig, OidcError, OidcStore};
pub use secret::Secret;
pub use source::{IssuedToken, TokenSource};

use crate::{
    Config, ConfigError,
    metrics::Audience,
    transport::{self, Body},
};
use exec::Plugin;
use issuer::Source;
use oidc::Oidc;
use token_file::TokenFile;

/// How the caller identifies itself in each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// By what a program hands out.
    Exec(Box<ExecConfig>),
    /// By the token of an OpenID Connect provider.
    Oidc(Box<OidcConfig>),
    /// By tokens that the program gets by itself.
    Source(TokenSource),
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
    /// Somebody to act as with characters that no header can carry.
    #[error("the {what} to act as holds characters that no header can carry")]
    Impersonation {
        /// Which part.
        what: &'static str,
    },
    /// A plugin gave no credentials.
    #[error("the plugin {command:?} gave no credentials")]
    Plugin {
        /// The program.
        command: String,
        /// Why not.
        source: PluginError,
    },
    /// The program's own source gave no token.
    #[error("the program's own source gave no token")]
    Source {
        /// Why not.
        source: BoxError,
    },
    /// An OpenID Connect provider gave no token.
    #[error("the provider {issuer} gave no token")]
    Oidc {
        /// The provider.
        issuer: String,
        /// Why not.
        source: OidcError,
    },
}

/// [`Auth`], made ready. A clone shares what has been issued.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    None,
    Fixed(HeaderValue),
    Issued(Arc<Issuer>),
}

/// A service that adds credentials to each request.
#[derive(Clone, Debug)]
pub(crate) struct Authenticated<S> {
    inner: S,
    credentials: Credentials,
    impersonation: Arc<HeaderMap>,
}

impl Credentials {
    pub(crate) fn new(auth: &Auth, clock: &Clock, audience: &Audience) -> Result<Self, AuthError> {
        let unprintable = || AuthError::Unprintable { origin: "the configuration".to_owned() };
        let issued = |source| Self::Issued(Arc::new(Issuer::new(source, clock.clone())));
        Ok(match auth {
            Auth::None => Self::None,
            Auth::Bearer(token) => Self::Fixed(bearer(token.expose()).ok_or_else(unprintable)?),
            Auth::TokenFile(path) => issued(Source::TokenFile(TokenFile::new(path.clone()))),
            Auth::Basic { username, password } => {
                Self::Fixed(basic(username, password.expose()).ok_or_else(unprintable)?)
            }
            Auth::Exec(config) => issued(Source::Plugin(Plugin::new(config.as_ref().clone(), audience.clone()))),
            Auth::Source(source) => issued(Source::Own(source.clone())),
            Auth::Oidc(config) => issued(Source::Oidc(Oidc::new(config.as_ref().clone()))),
        })
    }

    /// Who hands out client certificates, if they do not stand in the configuration.
    pub(crate) fn issuer_of_certificates(&self) -> Option<&Arc<Issuer>> {
        match self {
            Self::Issued(issuer) if issuer.may_issue_certificates() => Some(issuer),
            Self::None | Self::Fixed(_) | Self::Issued(_) => None,
        }
    }
}

impl<S> Authenticated<S> {
    pub(crate) fn new(inner: S, credentials: Credentials, config: &Config) -> Result<Self, ConfigError> {
        let impersonation = config.impersonation.as_ref().map(Impersonation::headers).transpose()?;
        Ok(Self { inner, credentials, impersonation: Arc::new(impersonation.unwrap_or_default()) })
    }
}

impl<S, B> Authenticated<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone,
{
    async fn send(self, mut request: Request<Body>) -> Result<Response<B>, BoxError> {
        impersonation::add(&self.impersonation, request.headers_mut());
        let issuer = match self.credentials {
            _ if request.headers().contains_key(header::AUTHORIZATION) => return self.inner.oneshot(request).await,
            Credentials::None => return self.inner.oneshot(request).await,
            Credentials::Fixed(value) => {
                request.headers_mut().insert(header::AUTHORIZATION, value);
                return self.inner.oneshot(request).await;
            }
            Credentials::Issued(issuer) => issuer,
        };
        let credential = issuer.credential().await?;
        let again = transport::copy(&request);
        credential.sign(&mut request);
        let response = self.inner.clone().oneshot(request).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // Renewed even if this request cannot be sent again: the next one shall not fail.
        match (issuer.after_refusal(&credential).await, again) {
            (Some(newer), Some(mut request)) => {
                drop(response);
                newer.sign(&mut request);
                self.inner.oneshot(request).await
            }
            _ => Ok(response),
        }
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
        // Readiness of the inner service is awaited in `send`, after the credentials are there.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// `None` when a header cannot carry it.
fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

/// The same of a name and a password.
pub(crate) fn basic(username: &str, password: &str) -> Option<HeaderValue> {
    let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
    sensitive(&format!("Basic {pair}"))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests;
