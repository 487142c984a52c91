//! The runnables of a manager as tasks, by group.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use tokio::{
    sync::mpsc,
    task::{Id, JoinError, JoinSet},
};

use windlass_api::ErrorChain;

use super::{election::ElectionTask, sharding::ShardingTask};
use crate::{
    ControllerDefaults, Error, Group, Leadership, ManagerHandle, Result, RunnableContext, Shard,
    cluster::Cluster,
    controller_settings::Overrides,
    error::panic_message,
    reporter::Reporter,
    runnable::{EndGuard, PreparedRunnable},
    shutdown::Stopper,
};

/// Owns every task of a manager. Dropping it aborts them.
pub(super) struct Groups {
    cluster: Cluster,
    reporter: Reporter,
    leadership: Leadership,
    shard: Shard,
    defaults: Arc<ControllerDefaults>,
    overrides: Arc<Overrides>,
    manager: ManagerHandle,
    tasks: JoinSet<Result<()>>,
    /// One entry for each task in `tasks`.
    started: HashMap<Id, Started>,
    /// Cloned into each [`RunnableContext`]; `None` while waiting for the last clone to be dropped.
    alive: Option<mpsc::Sender<Infallible>>,
    /// Ends when all clones of `alive` are dropped.
    all_gone: mpsc::Receiver<Infallible>,
}

/// A started runnable.
struct Started {
    name: String,
    group: Group,
    /// A separate stopper per runnable: groups stop one after the other, and a runnable can be stopped alone.
    stopper: Stopper,
    /// Dropped when the runnable has ended.
    _end_guard: EndGuard,
}

impl Groups {
    pub(super) fn new(
        cluster: Cluster,
        reporter: Reporter,
        leadership: Leadership,
        shard: Shard,
        defaults: ControllerDefaults,
        overrides: Overrides,
        manager: ManagerHandle,
    ) -> Self {
        let (alive, all_gone) = mpsc::channel(1);
        let (tasks, started) = (JoinSet::new(), HashMap::new());
        let (defaults, overrides) = (Arc::new(defaults), Arc::new(overrides));
        Self {
            cluster,
            reporter,
            leadership,
            shard,
            defaults,
            overrides,
            manager,
            tasks,
            started,
            alive: Some(alive),
            all_gone,
        }
    }

    /// Starts a runnable.
    pub(super) fn start(&mut self, PreparedRunnable { runnable, stopper, end_guard }: PreparedRunnable) {
        let (group, name) = (runnable.group(), runnable.name());
        let context = RunnableContext {
            cluster: self.cluster.clone(),
            stop: stopper.handle(),
            leadership: self.leadership.clone(),
            shard: self.shard.clone(),
            reporter: self.reporter.clone(),
            defaults: Arc::clone(&self.defaults),
            overrides: Arc::clone(&self.overrides),
            manager: self.manager.clone(),
            _alive: self.alive.clone().expect("nothing starts after the end"),
        };
        let task = self.tasks.spawn(runnable.run(context));
        self.started.insert(task.id(), Started { name, group, stopper, _end_guard: end_guard });
    }

    /// Resolves with the first failure of a runnable. Never resolves without a failure. Cancel-safe.
    pub(super) async fn failure(&mut self) -> Error {
        loop {
            match self.next_end().await {
                Some((_, Ok(()))) => {}
                Some((_, Err(error))) => return error,
                None => std::future::pending().await,
            }
        }
    }

    /// Stops the groups one after the other. Stops leader election and sharding as soon as no running group depends on
    /// them. Logs all failures, and stores the first one in `first_error`.
    pub(super) async fn stop(
        &mut self,
        election: &mut ElectionTask,
        sharding: &mut ShardingTask,
        first_error: &mut Option<Error>,
    ) {
        for group in Group::IN_START_ORDER.into_iter().rev() {
            if group == Group::Others {
                futures::join!(election.stop(), sharding.stop());
            }
            self.started.values().filter(|started| started.group == group).for_each(|started| started.stopper.stop());
            while self.started.values().any(|started| started.group == group) {
                let Some((name, result)) = self.next_end().await else { break };
                if let Err(error) = result {
                    tracing::error!(name, error = %ErrorChain(&error), "failed while stopping");
                    first_error.get_or_insert(error);
                }
            }
            // The caches start after the webhooks and stop before them.
            if group == Group::Others {
                self.cluster.stop().await;
            }
        }
    }

    /// Aborts the remaining tasks and returns the names of those that had been requested to stop. The others were still
    /// waiting for that.
    pub(super) async fn abort(&mut self) -> Vec<String> {
        let late = self.started.drain().map(|(_, started)| started);
        let late = late.filter(|started| started.stopper.handle().is_requested());
        let mut names: Vec<_> = late.map(|started| started.name).collect();
        names.sort_unstable();
        self.tasks.shutdown().await;
        self.cluster.stop().await;
        names
    }

    /// Resolves when no task holds a [`RunnableContext`] any more.
    pub(super) async fn gone(&mut self) {
        self.alive = None;
        while self.all_gone.recv().await.is_some() {}
    }

    async fn next_end(&mut self) -> Option<(String, Result<()>)> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Started { name, .. } = self.started.remove(&id).expect("every task has its entry");
        let result = match ended {
            Ok((_, Ok(()))) => Ok(()),
            Ok((_, Err(error))) => Err(Error::Runnable { name: name.clone(), source: Box::new(error) }),
            Err(error) => Err(died(&name, error)),
        };
        Some((name, result))
    }
}

impl Drop for Groups {
    /// Clones of the cluster may exist outside of tasks, so the informers are stopped explicitly.
    fn drop(&mut self) {
        self.cluster.abort();
    }
}

/// Converts the failure of a task to an error.
pub(super) fn died(name: &str, error: JoinError) -> Error {
    let name = name.to_owned();
    match error.try_into_panic() {
        Ok(panic) => Error::Panicked { name, message: panic_message(&*panic) },
        // Tasks are aborted only after the last call of `next_end`, except when the runtime shuts down.
        Err(_) => Error::Aborted { name },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_was_cancelled_has_not_panicked() {
        let cancelled = tokio::spawn(std::future::pending::<()>());
        cancelled.abort();
        let error = died("ticker", cancelled.await.unwrap_err());
        assert_eq!(error.to_string(), "ticker was aborted because its runtime shut down");

        let panicked = tokio::spawn(async { panic!("out of {}", "ticks") });
        let error = died("ticker", panicked.await.unwrap_err());
        assert_eq!(error.to_string(), "ticker panicked: out of ticks");
    }
}
