//! What a manager can run.

use std::{
    convert::Infallible,
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::mpsc;

use super::{ManagerHandle, Reporter};
use crate::{ControllerDefaults, Leadership, Result, Shard, cluster::Cluster, controller::Overrides, shutdown::Stop};

/// Something that runs as long as the manager does: a [`Controller`](crate::Controller), a [`Task`], or a type of yours.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be added to a `Manager`",
    note = "a `Controller` becomes runnable with `.reconcile(..)`; other work is a `Task`"
)]
pub trait Runnable: Send + 'static {
    /// The name in logs and errors. Unique within a manager.
    fn name(&self) -> String;

    /// When to start, relative to others.
    fn group(&self) -> Group {
        Group::Others
    }

    /// Runs until [`Running::stop`] asks for the end, finishing what has begun.
    ///
    /// To return earlier without an error is allowed and stops nothing else; an error stops the manager. Tasks that it
    /// spawns must end with it and should hold a clone of `running`, which makes the manager wait for them.
    fn run(self: Box<Self>, running: Running) -> BoxFuture<'static, Result<()>>;
}

/// When a runnable starts. Stopping goes in the opposite order: a group is stopped when the ones after it have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Group {
    /// What answers probes and metrics, from the first moment to the last.
    Servers,
    /// Webhooks: the API server may need them to answer the lists of our caches.
    Webhooks,
    /// Whatever may run in several processes at a time. The default.
    Others,
    /// What gets ready in every process, and acts only in the leader's, or on the keys of its shard: see
    /// [`Running::leadership`] and [`Running::shard`].
    WarmUps,
    /// What runs in the leader's process only, above all controllers.
    Controllers,
}

/// A manager that is running, as a runnable sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Running {
    pub(super) cluster: Cluster,
    pub(super) stop: Stop,
    pub(super) leadership: Leadership,
    pub(super) shard: Shard,
    pub(crate) reporter: Reporter,
    pub(crate) defaults: Arc<ControllerDefaults>,
    pub(crate) overrides: Arc<Overrides>,
    pub(super) manager: ManagerHandle,
    /// Never sent on. The manager waits until all clones are dropped.
    pub(super) _alive: mpsc::Sender<Infallible>,
}

/// A named piece of work that is no controller: a function of [`Running`].
#[must_use = "a task does nothing until it is added to a `Manager`"]
pub struct Task<F> {
    name: String,
    group: Group,
    run: F,
}

impl Group {
    /// As `Ord` has it.
    pub(super) const IN_START_ORDER: [Self; 5] =
        [Self::Servers, Self::Webhooks, Self::Others, Self::WarmUps, Self::Controllers];

    /// Whether it waits until this process is elected, if there is an election.
    pub(super) fn needs_leadership(self) -> bool {
        self == Self::Controllers
    }
}

impl Running {
    /// The client and the caches of the manager.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Adds to what the manager runs.
    pub fn manager(&self) -> &ManagerHandle {
        &self.manager
    }

    /// Tells when to stop.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Tells whether this process is the leader; without an election it always is.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Tells which keys are this process's; without sharding all are.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }
}

impl<F, Fut> Task<F>
where
    F: FnOnce(Running) -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    /// A task of the group [`Group::Others`].
    pub fn new(name: impl Into<String>, run: F) -> Self {
        Self { name: name.into(), group: Group::Others, run }
    }

    /// The same task in another group.
    pub fn in_group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }
}

impl<F, Fut> Runnable for Task<F>
where
    F: FnOnce(Running) -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    fn name(&self) -> String {
        self.name.clone()
    }

    fn group(&self) -> Group {
        self.group
    }

    fn run(self: Box<Self>, running: Running) -> BoxFuture<'static, Result<()>> {
        async move { (self.run)(running).await }.boxed()
    }
}

impl<F> Debug for Task<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).field("group", &self.group).finish_non_exhaustive()
    }
}
