//! A client certificate that is replaced in memory.

use std::{fmt, sync::Arc};

use tokio::sync::watch;

use super::Identity;

/// The certificate that is in use, told by whoever keeps it fresh to whoever shows it. Clones share it.
///
/// A client that is given one by [`TlsOptions::with_live_identity`](super::TlsOptions::with_live_identity) opens new
/// connections with what it holds; old ones end with the requests that they carry.
#[derive(Clone)]
pub struct LiveIdentity(Arc<watch::Sender<Option<Arc<Identity>>>>);

impl LiveIdentity {
    /// With none for now.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// The one that is in use.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Identity>> {
        self.0.borrow().clone()
    }

    /// Replaces it.
    pub fn set(&self, identity: Identity) {
        self.0.send_replace(Some(Arc::new(identity)));
    }

    /// Waits until there is one, and then until there is another than `known`.
    pub async fn other_than(&self, known: Option<&Arc<Identity>>) -> Arc<Identity> {
        let mut changes = self.0.subscribe();
        loop {
            let current = changes.borrow_and_update().clone();
            match current {
                Some(current) if known.is_none_or(|known| !Arc::ptr_eq(known, &current)) => return current,
                // The sender lives as long as this.
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

/// Clones are equal, and nothing else.
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
