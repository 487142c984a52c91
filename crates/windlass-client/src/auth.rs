//! Authentication: the `Authorization` header and impersonation. Client certificates are part of TLS; see
//! [`crate::config::Identity`].
//!
//! A header set by the caller overrides every credential here, as in client-go. Renewable credentials are renewed when
//! they have expired and when the server answers 401. A request that met the 401 is then sent once more, if its body
//! can be sent again. This is safe for writes, because a rejected request was not carried out.

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
    metrics::MetricsRecorder,
    transport::{self, Body},
};
use exec::Plugin;
use issuer::Source;
use oidc::Oidc;
use token_file::TokenFile;

/// The credentials of each request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// No credentials, or only a client certificate.
    #[default]
    None,
    /// A static bearer token.
    Bearer(Secret),
    /// A bearer token in a file that another program keeps up to date. The file is read again after a minute, and when
    /// the server has rejected the token. While the file cannot be read, the last token remains in use.
    TokenFile(PathBuf),
    /// Basic authentication.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: Secret,
    },
    /// Credentials from a plugin: an external program.
    Exec(Box<ExecConfig>),
    /// A token of an OpenID Connect provider.
    Oidc(Box<OidcConfig>),
    /// Tokens from a function of the program.
    Source(TokenSource),
}

/// The error of credentials that cannot be obtained.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuthError {
    /// The token file cannot be read, and no earlier token is known.
    #[error("reading the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A token contains characters that are invalid in a header.
    #[error("the token from {origin} contains characters that are invalid in a header")]
    Unprintable {
        /// The origin of the token.
        origin: String,
    },
    /// A part of the impersonation contains characters that are invalid in a header.
    #[error("the impersonated {what} contains characters that are invalid in a header")]
    Impersonation {
        /// The part.
        what: &'static str,
    },
    /// The plugin returned no credentials.
    #[error("the plugin {command:?} returned no credentials")]
    Plugin {
        /// The program.
        command: String,
        /// The cause.
        source: PluginError,
    },
    /// The program's token source returned an error.
    #[error("the program's token source failed")]
    Source {
        /// The cause.
        source: BoxError,
    },
    /// The OpenID Connect provider returned no token.
    #[error("the provider {issuer} returned no token")]
    Oidc {
        /// The provider.
        issuer: String,
        /// The cause.
        source: OidcError,
    },
}

/// The runtime state of [`Auth`]. Clones share the issued credentials.
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
    pub(crate) fn new(auth: &Auth, clock: &Clock, recorder: &MetricsRecorder) -> Result<Self, AuthError> {
        let unprintable = || AuthError::Unprintable { origin: "the configuration".to_owned() };
        let issued = |source| Self::Issued(Arc::new(Issuer::new(source, clock.clone())));
        Ok(match auth {
            Auth::None => Self::None,
            Auth::Bearer(token) => Self::Fixed(bearer(token.expose()).ok_or_else(unprintable)?),
            Auth::TokenFile(path) => issued(Source::TokenFile(TokenFile::new(path.clone()))),
            Auth::Basic { username, password } => {
                Self::Fixed(basic(username, password.expose()).ok_or_else(unprintable)?)
            }
            Auth::Exec(config) => issued(Source::Plugin(Plugin::new(config.as_ref().clone(), recorder.clone()))),
            Auth::Source(source) => issued(Source::Own(source.clone())),
            Auth::Oidc(config) => issued(Source::Oidc(Oidc::new(config.as_ref().clone()))),
        })
    }

    /// Returns the issuer of client certificates, if they come from a plugin.
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
        // Renew even if this request cannot be sent again, so that the next one succeeds.
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
        // `send` waits for the inner service to be ready, after it has the credentials.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

/// Returns the header of a bearer token; `None` if it contains invalid characters.
fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

/// Returns the header of basic authentication; `None` if it contains invalid characters.
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
