//! A bearer token in a file that another program keeps up to date, as the kubelet does for service accounts.

use std::{io, path::PathBuf, time::Duration};

use tokio::time::Instant;

use super::issuer::{Credential, Fresh};
use crate::auth::{AuthError, bearer};

/// The time after which the file is read again. client-go assumes an expiry of one minute and reads again ten seconds
/// before it.
const FRESH: Duration = Duration::from_secs(50);

#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) async fn read(&self) -> Result<Credential, AuthError> {
        let failed = |source| AuthError::TokenFile { path: self.path.clone(), source };
        let text = tokio::fs::read_to_string(&self.path).await.map_err(failed)?;
        let token = text.trim();
        if token.is_empty() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "the file is empty")));
        }
        let header = bearer(token).ok_or_else(|| AuthError::Unprintable { origin: self.path.display().to_string() })?;
        Ok(Credential { header: Some(header), identity: None, fresh: Fresh::For(Instant::now(), FRESH) })
    }
}
