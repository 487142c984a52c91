//! Credentials that several clients share.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use windlass_api::Clock;

use super::{Credentials, issuer::Issuer};
use crate::{
    auth::{Auth, AuthError},
    metrics::MetricsRecorder,
};

/// The renewable credentials of a configuration's clients. The table holds only weak references.
#[derive(Clone, Default)]
pub(crate) struct SharedCredentials(Arc<Mutex<Vec<(Auth, Weak<Issuer>)>>>);

impl SharedCredentials {
    /// Returns the credentials for a description. Renewable credentials are shared.
    pub(crate) fn get(&self, auth: &Auth, clock: &Clock, recorder: &MetricsRecorder) -> Result<Credentials, AuthError> {
        let mut issuers = self.0.lock();
        issuers.retain(|(_, issuer)| issuer.strong_count() > 0);
        let known = issuers.iter().find(|(known, _)| known == auth);
        if let Some(issuer) = known.and_then(|(_, issuer)| issuer.upgrade()) {
            return Ok(Credentials::Issued(issuer));
        }
        let credentials = Credentials::new(auth, clock, recorder)?;
        if let Credentials::Issued(issuer) = &credentials {
            issuers.push((auth.clone(), Arc::downgrade(issuer)));
        }
        Ok(credentials)
    }
}

impl fmt::Debug for SharedCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCredentials").finish_non_exhaustive()
    }
}
