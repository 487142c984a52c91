//! Credentials that are fetched, cached while they are fresh, and fetched again when they expire or are rejected.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderValue, Request, header};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{Clock, ErrorChain};

use super::{oidc::Oidc, plugin::Plugin, token_file::TokenFile};
use crate::{
    auth::{AuthError, IssuedToken, TokenSource, bearer},
    connection_options::{Identity, LiveIdentity},
};

/// The credentials of one source. Concurrent callers share one fetch.
pub(crate) struct Issuer {
    source: Source,
    clock: Clock,
    last: Mutex<Option<Arc<Credential>>>,
    /// The last client certificate, for the transport. `None` if the source issues only tokens.
    live_identity: Option<LiveIdentity>,
    /// Locked while credentials are fetched.
    fetching: tokio::sync::Mutex<()>,
}

/// A source of credentials.
#[derive(Debug)]
pub(super) enum Source {
    TokenFile(TokenFile),
    Plugin(Plugin),
    Oidc(Oidc),
    Function(TokenSource),
}

/// A credential from a source.
#[derive(Debug, PartialEq)]
pub(crate) struct Credential {
    /// The `Authorization` header, if any.
    pub(super) header: Option<HeaderValue>,
    /// The client certificate, if any.
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) fresh: Fresh,
}

/// The period in which a credential is used without fetching it again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fresh {
    /// Until the server rejects it.
    Always,
    /// For this duration after the fetch.
    For(Instant, Duration),
    /// Until this time of the wall clock.
    Until(jiff::Timestamp),
}

impl Issuer {
    pub(super) fn new(source: Source, clock: Clock) -> Self {
        let live_identity = matches!(source, Source::Plugin(_)).then(LiveIdentity::new);
        Self { source, clock, last: Mutex::default(), live_identity, fetching: tokio::sync::Mutex::default() }
    }

    /// Returns the current client certificate of a plugin. `None` if the source issues only tokens.
    pub(super) fn live_identity(&self) -> Option<&LiveIdentity> {
        self.live_identity.as_ref()
    }

    /// Returns a fresh credential, fetching it if necessary.
    pub(super) async fn credential(&self) -> Result<Arc<Credential>, AuthError> {
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let _fetching = self.fetching.lock().await;
        // The credential may have been fetched meanwhile.
        match self.fresh() {
            Some(fresh) => Ok(fresh),
            None => self.fetch().await,
        }
    }

    /// Returns another credential after the server has rejected `refused`, if there is one.
    pub(super) async fn after_refusal(&self, refused: &Arc<Credential>) -> Option<Arc<Credential>> {
        let _fetching = self.fetching.lock().await;
        let last = self.last.lock().clone();
        let newer = match last {
            // The rejected credential was already replaced.
            Some(last) if !Arc::ptr_eq(&last, refused) => last,
            _ => match self.fetch().await {
                Ok(newer) => newer,
                Err(error) => {
                    tracing::warn!(error = %ErrorChain(&error), "rejected credentials cannot be renewed");
                    return None;
                }
            },
        };
        Some(newer).filter(|newer| newer.header != refused.header || newer.identity != refused.identity)
    }

    fn fresh(&self) -> Option<Arc<Credential>> {
        let last = self.last.lock().clone()?;
        let fresh = match last.fresh {
            Fresh::Always => true,
            Fresh::For(since, duration) => since.elapsed() < duration,
            Fresh::Until(end) => self.clock.now() < end,
        };
        fresh.then_some(last)
    }

    async fn fetch(&self) -> Result<Arc<Credential>, AuthError> {
        let answer = match &self.source {
            Source::TokenFile(file) => file.read().await,
            Source::Plugin(plugin) => plugin.run().await,
            Source::Oidc(provider) => provider.token(self.clock.now()).await,
            Source::Function(source) => source.fetch().await.and_then(Credential::try_from),
        };
        match answer {
            Ok(credential) => {
                let credential = Arc::new(credential);
                *self.last.lock() = Some(Arc::clone(&credential));
                if let Some(live) = &self.live_identity {
                    live.replace(credential.identity.clone());
                }
                Ok(credential)
            }
            Err(error) => match (&self.source, self.last.lock().clone()) {
                // The file may be being replaced at this moment.
                (Source::TokenFile(_), Some(last)) => {
                    tracing::warn!(error = %ErrorChain(&error), "the last token remains in use");
                    Ok(last)
                }
                _ => Err(error),
            },
        }
    }
}

impl TryFrom<IssuedToken> for Credential {
    type Error = AuthError;

    fn try_from(issued: IssuedToken) -> Result<Self, AuthError> {
        let unprintable = || AuthError::Unprintable { origin: "the program's own source".to_owned() };
        let header = bearer(issued.token.expose()).ok_or_else(unprintable)?;
        let fresh = issued.expires.map_or(Fresh::Always, Fresh::Until);
        Ok(Self { header: Some(header), identity: None, fresh })
    }
}

impl Credential {
    pub(super) fn sign<B>(&self, request: &mut Request<B>) {
        if let Some(header) = &self.header {
            request.headers_mut().insert(header::AUTHORIZATION, header.clone());
        }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("source", &self.source).finish_non_exhaustive()
    }
}
