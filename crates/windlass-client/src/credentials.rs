//! The credentials of requests at run time: the `Authorization` header and impersonation.
//!
//! A header set by the caller overrides every credential here, as in client-go. Renewable credentials are renewed when
//! they have expired and when the server answers 401. A request that got a 401 is then sent once more, if its body
//! can be sent again. This is safe for writes, because a rejected request was not carried out.

mod issuer;
mod oidc;
mod plugin;
mod shared;
mod token_file;

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use tower::{Service, ServiceExt};
use windlass_api::{BoxError, Clock};

use crate::{
    auth::{self, Auth, AuthError, Impersonation, basic, bearer},
    body::{self, Body},
    connection_options::LiveIdentity,
    metrics::MetricsRecorder,
};
use issuer::{Issuer, Source};
use oidc::Oidc;
use plugin::Plugin;
pub(crate) use shared::SharedCredentials;
use token_file::TokenFile;

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
            Auth::Source(source) => issued(Source::Function(source.clone())),
            Auth::Oidc(config) => issued(Source::Oidc(Oidc::new(config.as_ref().clone()))),
        })
    }

    /// Returns the current client certificate of a plugin. `None` if the credentials do not come from a plugin.
    pub(crate) fn live_identity(&self) -> Option<&LiveIdentity> {
        match self {
            Self::Issued(issuer) => issuer.live_identity(),
            Self::None | Self::Fixed(_) => None,
        }
    }
}

impl<S> Authenticated<S> {
    pub(crate) fn new(
        inner: S,
        credentials: Credentials,
        impersonation: Option<&Impersonation>,
    ) -> Result<Self, AuthError> {
        let impersonation = impersonation.map(Impersonation::headers).transpose()?;
        Ok(Self { inner, credentials, impersonation: Arc::new(impersonation.unwrap_or_default()) })
    }
}

impl<S, B> Authenticated<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError> + Clone,
{
    async fn send(self, mut request: Request<Body>) -> Result<Response<B>, BoxError> {
        auth::add_impersonation(&self.impersonation, request.headers_mut());
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
        let again = body::copy(&request);
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

#[cfg(test)]
mod tests;
