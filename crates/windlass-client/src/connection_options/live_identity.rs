//! A client certificate that is replaced in memory.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

use super::Identity;

/// The current client certificate, shared between the task that renews it and the clients that use it. Clones share it.
///
/// A client configured with [`TlsOptions::with_live_identity`](super::TlsOptions::with_live_identity) uses the current
/// certificate for new connections. Old connections end after their current requests.
#[derive(Clone)]
pub struct LiveIdentity(Arc<watch::Sender<Option<Arc<Identity>>>>);

impl LiveIdentity {
    /// Creates a value without a certificate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Returns the current certificate.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Identity>> {
        self.0.borrow().clone()
    }

    /// Replaces the certificate.
    pub fn set(&self, identity: Identity) {
        self.replace(Some(Arc::new(identity)));
    }

    /// Replaces or removes the certificate.
    pub(crate) fn replace(&self, identity: Option<Arc<Identity>>) {
        self.0.send_replace(identity);
    }

    /// Waits for a certificate that differs from `known`.
    pub async fn other_than(&self, known: Option<&Arc<Identity>>) -> Arc<Identity> {
        let mut changes = self.0.subscribe();
        loop {
            let current = changes.borrow_and_update().clone();
            match current {
                Some(current) if known.is_none_or(|known| !Arc::ptr_eq(known, &current)) => return current,
                // The sender is dropped only with `self`.
                _ => drop(changes.changed().await),
            }
        }
    }
}

impl Default for LiveIdentity {
    fn default() -> Self {
        Self::new()
    }
}

/// Only clones are equal.
impl PartialEq for LiveIdentity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LiveIdentity {}

impl fmt::Debug for LiveIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveIdentity").field(&self.current()).finish()
    }
}
