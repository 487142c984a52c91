//! A bearer token in a file that somebody else keeps fresh, as kubelets do for service accounts.

use std::{io, path::PathBuf, time::Duration};

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{AuthError, bearer};

/// How long a token is taken for fresh: Go's client counts on a minute, and reads again ten seconds before it is over.
const FRESH: Duration = Duration::from_secs(50);

/// The file and what was last read from it.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    last: Mutex<Option<Token>>,
}

/// A token as it goes into the header.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) header: HeaderValue,
    /// When it was read; its identity towards [`TokenFile::refused`].
    read: Instant,
    /// Whether it is used before the file is read again.
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Trusted,
    /// The server has answered 401 to it.
    Refused,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::new(None) }
    }

    /// The token; the file is read when the last one is not fresh. A file that cannot be read, or is empty while it is
    /// being replaced, leaves the last token in use.
    pub(super) async fn token(&self) -> Result<Token, AuthError> {
        // Not held over the read: two callers may read at once, which does no harm.
        let last = self.last.lock().clone();
        if let Some(token) = &last
            && token.state == State::Trusted
            && token.read.elapsed() < FRESH
        {
            return Ok(token.clone());
        }
        match (self.read().await, last) {
            (Ok(token), _) => {
                *self.last.lock() = Some(token.clone());
                Ok(token)
            }
            (Err(error), Some(last)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the last token stays in use");
                Ok(last)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// The server did not accept `token`: the next request reads the file again.
    pub(super) fn refused(&self, token: &Token) {
        if let Some(last) = &mut *self.last.lock()
            && last.read == token.read
        {
            last.state = State::Refused;
        }
    }

    async fn read(&self) -> Result<Token, AuthError> {
        let failed = |source| AuthError::TokenFile { path: self.path.clone(), source };
        let text = tokio::fs::read_to_string(&self.path).await.map_err(failed)?;
        let token = text.trim();
        if token.is_empty() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the file is empty")));
        }
        let header = bearer(token).ok_or_else(|| AuthError::Unprintable { origin: self.path.display().to_string() })?;
        Ok(Token { header, read: Instant::now(), state: State::Trusted })
    }
}
