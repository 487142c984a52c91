//! Leadership status of a candidate.

use std::{future::Future, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::{sync::watch, time::Instant};

/// Reports the current leader. Clones report the same. Check [`is_leader`](Self::is_leader) before each action that
/// needs leadership.
#[derive(Clone, Debug)]
pub struct Leadership(Source);

#[derive(Clone, Debug)]
enum Source {
    /// There is no election.
    Alone,
    Elected {
        lease: Arc<str>,
        lease_duration: Duration,
        state: watch::Receiver<State>,
    },
}

/// A leader has not renewed its lease for longer than the lease duration, and has not noticed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed election to renew leadership on lease {lease}")]
pub struct NotRenewed {
    /// The name of the lease.
    pub lease: String,
}

/// The state of an elector.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The last observed holder of the lease, even if the lease has expired.
    pub(super) leader: Option<Arc<str>>,
    /// Set while this candidate is the leader.
    pub(super) held: Option<Held>,
}

/// A held lease.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// When the last renewal was sent.
    pub(super) renewed: Instant,
    /// When this candidate must stop acting.
    pub(super) until: Instant,
}

impl Leadership {
    /// Creates a leadership without an election: this process is always the leader.
    pub(crate) const fn alone() -> Self {
        Self(Source::Alone)
    }

    pub(crate) const fn is_alone(&self) -> bool {
        matches!(self.0, Source::Alone)
    }

    pub(super) fn new(lease: Arc<str>, lease_duration: Duration, state: watch::Receiver<State>) -> Self {
        Self(Source::Elected { lease, lease_duration, state })
    }

    /// Reports whether this candidate is the leader at this moment.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        match &self.0 {
            Source::Alone => true,
            Source::Elected { state, .. } => state.borrow().held.is_some_and(|held| Instant::now() < held.until),
        }
    }

    /// Returns the last observed holder of the lease: this candidate or another one.
    #[must_use]
    pub fn leader(&self) -> Option<Arc<str>> {
        match &self.0 {
            Source::Alone => None,
            Source::Elected { state, .. } => state.borrow().leader.clone(),
        }
    }

    /// Returns the name of the lease; `None` without an election.
    #[must_use]
    pub fn lease(&self) -> Option<&str> {
        match &self.0 {
            Source::Alone => None,
            Source::Elected { lease, .. } => Some(lease),
        }
    }

    /// Resolves when this candidate is the leader. Cancel-safe.
    pub async fn acquired(&self) {
        let Source::Elected { state, .. } = &self.0 else { return };
        // Without an elector, this candidate is never elected.
        if state.clone().wait_for(|state| state.held.is_some()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves when this candidate is not the leader; at once if it never was. Cancel-safe.
    pub async fn lost(&self) {
        match &self.0 {
            Source::Alone => std::future::pending().await,
            Source::Elected { state, .. } => drop(state.clone().wait_for(|state| state.held.is_none()).await),
        }
    }

    /// Checks that the elector is alive. Returns an error if this candidate still considers itself the leader although
    /// its lease expired more than `tolerance` ago. In that case the elector is blocked, and the process should be
    /// restarted.
    pub fn check(&self, tolerance: Duration) -> Result<(), NotRenewed> {
        let Source::Elected { lease, lease_duration, state } = &self.0 else { return Ok(()) };
        let expired = |held: Held| held.renewed.elapsed() > *lease_duration + tolerance;
        if state.borrow().held.is_some_and(expired) { Err(NotRenewed { lease: lease.to_string() }) } else { Ok(()) }
    }

    /// Runs `work` until it ends. Drops it when leadership ends.
    pub(super) async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.lost() => None,
            result = work => Some(result),
        }
    }
}
