//! The leader election of a manager, if it holds one.

use tokio::task::JoinSet;

use crate::{
    Error, Leadership,
    error::panic_message,
    leader_election::{Elector, Verdict},
    shutdown::Stopper,
};

/// The manager's candidate. Dropped, it is aborted.
pub(super) struct Campaign {
    leadership: Leadership,
    /// Until it is started.
    elector: Option<Elector>,
    stopper: Stopper,
    task: JoinSet<Verdict>,
}

impl Campaign {
    pub(super) fn new(elector: Option<Elector>) -> Self {
        let leadership = elector.as_ref().map_or_else(Leadership::alone, Elector::leadership);
        Self { leadership, elector, stopper: Stopper::new(), task: JoinSet::new() }
    }

    pub(super) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    pub(super) fn start(&mut self) {
        if let Some(elector) = self.elector.take() {
            let stop = self.stopper.handle();
            self.task.spawn(elector.run(async move { stop.requested().await }));
        }
    }

    /// Resolves when the election is lost; never without one. Cancel-safe.
    pub(super) async fn failure(&mut self) -> Error {
        match self.task.join_next().await {
            Some(Ok(Verdict::Lost)) => Error::LeadershipLost,
            // Nobody stops it before this manager does.
            Some(Ok(Verdict::Stopped)) | None => std::future::pending().await,
            Some(Err(error)) => {
                let name = "leader election".to_owned();
                match error.try_into_panic() {
                    Ok(panic) => Error::Panicked { name, message: panic_message(&*panic) },
                    Err(_) => Error::Aborted { name },
                }
            }
        }
    }

    /// Ends the candidacy, and releases the lease if that was chosen. Nothing may need leadership any more.
    pub(super) async fn stop(&mut self) {
        self.stopper.stop();
        if let Some(Err(error)) = self.task.join_next().await
            && error.is_panic()
        {
            tracing::error!(panic = panic_message(&*error.into_panic()), "the leader election panicked");
        }
    }

    /// Ends the candidacy at once.
    pub(super) async fn abort(&mut self) {
        self.task.shutdown().await;
    }
}
