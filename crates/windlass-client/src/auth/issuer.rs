//! Credentials that are fetched, kept while they are fresh, and fetched again when they are not or are refused.

use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderValue, Request, header};
use parking_lot::Mutex;
use tokio::time::Instant;
use windlass_api::{Clock, ErrorChain};

use super::{AuthError, TokenSource, exec::Plugin, oidc::Oidc, token_file::TokenFile};
use crate::config::Identity;

/// Hands out the credentials of one source. However many ask, the source is asked by one at a time.
pub(crate) struct Issuer {
    source: Source,
    clock: Clock,
    last: Mutex<Option<Arc<Credential>>>,
    /// Held by the one who asks the source.
    asking: tokio::sync::Mutex<()>,
}

/// Where credentials come from.
#[derive(Debug)]
pub(super) enum Source {
    TokenFile(TokenFile),
    Plugin(Plugin),
    Oidc(Oidc),
    Own(TokenSource),
}

/// What a source has handed out.
#[derive(Debug, PartialEq)]
pub(crate) struct Credential {
    /// The `Authorization` header, if this is about one.
    pub(super) header: Option<HeaderValue>,
    /// A client certificate, if this is about one.
    pub(super) identity: Option<Arc<Identity>>,
    pub(super) fresh: Fresh,
}

/// How long a credential is used without asking again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fresh {
    /// Until the server refuses it.
    Always,
    /// For so long after it was fetched.
    For(Instant, Duration),
    /// Until a time of the wall clock.
    Until(jiff::Timestamp),
}

impl Issuer {
    pub(super) fn new(source: Source, clock: Clock) -> Self {
        Self { source, clock, last: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    pub(super) fn may_issue_certificates(&self) -> bool {
        matches!(self.source, Source::Plugin(_))
    }

    /// The client certificate that was handed out last.
    pub(crate) fn identity(&self) -> Option<Arc<Identity>> {
        self.last.lock().as_ref()?.identity.clone()
    }

    /// A credential that is fresh.
    pub(super) async fn credential(&self) -> Result<Arc<Credential>, AuthError> {
        if let Some(fresh) = self.fresh() {
            return Ok(fresh);
        }
        let _asking = self.asking.lock().await;
        // Another may have asked meanwhile.
        match self.fresh() {
            Some(fresh) => Ok(fresh),
            None => self.ask().await,
        }
    }

    /// The server did not accept `refused`: another credential, if there is one.
    pub(super) async fn after_refusal(&self, refused: &Arc<Credential>) -> Option<Arc<Credential>> {
        let _asking = self.asking.lock().await;
        let last = self.last.lock().clone();
        let newer = match last {
            // Another was refused before, and has asked.
            Some(last) if !Arc::ptr_eq(&last, refused) => last,
            _ => match self.ask().await {
                Ok(newer) => newer,
                Err(error) => {
                    tracing::warn!(error = %ErrorChain(&error), "credentials that were refused cannot be renewed");
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

    async fn ask(&self) -> Result<Arc<Credential>, AuthError> {
        let answer = match &self.source {
            Source::TokenFile(file) => file.read().await,
            Source::Plugin(plugin) => plugin.run().await,
            Source::Oidc(provider) => provider.token(self.clock.now()).await,
            Source::Own(source) => source.fetch().await,
        };
        match answer {
            Ok(credential) => {
                let credential = Arc::new(credential);
                *self.last.lock() = Some(Arc::clone(&credential));
                Ok(credential)
            }
            Err(error) => match (&self.source, self.last.lock().clone()) {
                // It may be just being replaced.
                (Source::TokenFile(_), Some(last)) => {
                    tracing::warn!(error = %ErrorChain(&error), "the last token stays in use");
                    Ok(last)
                }
                _ => Err(error),
            },
        }
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
