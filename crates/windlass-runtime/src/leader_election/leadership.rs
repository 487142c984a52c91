//! Who leads, for those who want to know.

use std::{future::Future, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{sync::watch, time::Instant};

/// Tells who leads. Clones tell the same. What needs to lead looks at it before it acts.
#[derive(Clone, Debug)]
pub struct Leadership(Source);

#[derive(Clone, Debug)]
enum Source {
    /// There is nobody else.
    Alone,
    Elected {
        lease: Arc<str>,
        lease_duration: Duration,
        state: watch::Receiver<State>,
    },
}

/// A leader has not renewed its lease for longer than it lasts, and does not know it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed election to renew leadership on lease {lease}")]
pub struct NotRenewed {
    /// The lease's name.
    pub lease: String,
}

/// What an elector knows.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Who was seen to hold the lease last, whether it has expired or not.
    pub(super) leader: Option<Arc<str>>,
    /// While this candidate leads.
    pub(super) held: Option<Held>,
}

/// A lease that is held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// When the last renewal was sent.
    pub(super) renewed: Instant,
    /// Until when this candidate may act on it.
    pub(super) until: Instant,
}

impl Leadership {
    /// Where no election is held, everybody leads.
    pub(crate) const fn alone() -> Self {
        Self(Source::Alone)
    }

    pub(crate) const fn is_alone(&self) -> bool {
        matches!(self.0, Source::Alone)
    }

    pub(super) fn new(lease: Arc<str>, lease_duration: Duration, state: watch::Receiver<State>) -> Self {
        Self(Source::Elected { lease, lease_duration, state })
    }

    /// Whether this candidate may act, at this moment.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        match &self.0 {
            Source::Alone => true,
            Source::Elected { state, .. } => state.borrow().held.is_some_and(|held| Instant::now() < held.until),
        }
    }

    /// Who was seen to hold the lease last, be it this candidate or another one.
    #[must_use]
    pub fn leader(&self) -> Option<Arc<str>> {
        match &self.0 {
            Source::Alone => None,
            Source::Elected { state, .. } => state.borrow().leader.clone(),
        }
    }

    /// The name of the lease; `None` where no election is held.
    #[must_use]
    pub fn lease(&self) -> Option<&str> {
        match &self.0 {
            Source::Alone => None,
            Source::Elected { lease, .. } => Some(lease),
        }
    }

    /// Resolves when this candidate leads; never if it never does. Cancel-safe.
    pub async fn acquired(&self) {
        let Source::Elected { state, .. } = &self.0 else { return };
        // Without an elector nobody is ever elected.
        if state.clone().wait_for(|state| state.held.is_some()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves when this candidate does not lead; at once if it did not yet. Cancel-safe.
    pub async fn lost(&self) {
        match &self.0 {
            Source::Alone => std::future::pending().await,
            Source::Elected { state, .. } => drop(state.clone().wait_for(|state| state.held.is_none()).await),
        }
    }

    /// For a health check: an error if this candidate still believes to lead so long after its lease has expired. Then
    /// something holds up the elector, and the process had better be killed.
    pub fn check(&self, tolerance: Duration) -> Result<(), NotRenewed> {
        let Source::Elected { lease, lease_duration, state } = &self.0 else { return Ok(()) };
        let expired = |held: Held| held.renewed.elapsed() > *lease_duration + tolerance;
        if state.borrow().held.is_some_and(expired) { Err(NotRenewed { lease: lease.to_string() }) } else { Ok(()) }
    }

    /// Runs `work` until it ends or leadership does, in which case it is dropped.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.lost() => None,
            result = work => Some(result),
        }
    }
}
