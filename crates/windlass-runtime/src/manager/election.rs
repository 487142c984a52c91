//! The leader election of a manager, if enabled.

use super::background_task::BackgroundTask;
use crate::{
    Error, Leadership,
    leader_election::{ElectionResult, Elector},
};

/// The manager's candidate. Dropping it aborts the candidacy.
pub(super) struct ElectionTask {
    leadership: Leadership,
    /// The elector, until it is started.
    elector: Option<Elector>,
    task: BackgroundTask<ElectionResult>,
}

impl ElectionTask {
    pub(super) fn new(elector: Option<Elector>) -> Self {
        let leadership = elector.as_ref().map_or_else(Leadership::alone, Elector::leadership);
        Self { leadership, elector, task: BackgroundTask::new("leader election") }
    }

    pub(super) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    pub(super) fn start(&mut self) {
        if let Some(elector) = self.elector.take() {
            self.task.start(|stop| elector.run(async move { stop.requested().await }));
        }
    }

    /// Resolves when the election is lost; never without an election. Cancel-safe.
    pub(super) async fn failure(&mut self) -> Error {
        match self.task.ended().await {
            Ok(ElectionResult::Lost) => Error::LeadershipLost,
            // Only this manager stops the elector.
            Ok(ElectionResult::Stopped) => std::future::pending().await,
            Err(error) => error,
        }
    }

    /// Ends the candidacy, and releases the lease if configured. No runnable may need leadership any more.
    pub(super) async fn stop(&mut self) {
        self.task.stop().await;
    }

    /// Aborts the candidacy.
    pub(super) async fn abort(&mut self) {
        self.task.abort().await;
    }
}
