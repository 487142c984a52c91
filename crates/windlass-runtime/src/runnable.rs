//! Runnables: the parts of a program that a manager runs, and handles that add and remove them.

mod handle;

use std::{
    convert::Infallible,
    fmt::{self, Debug},
    future::Future,
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::mpsc;

pub(crate) use self::handle::{EndGuard, PreparedRunnable, Request};
pub use self::handle::{ManagerHandle, RunnableHandle};
use crate::{
    ControllerDefaults, Leadership, Result, Shard, cluster::Cluster, controller_settings::Overrides,
    reporter::Reporter, shutdown::Stop,
};

/// A part of a program that runs as long as the manager: a [`Controller`](crate::Controller), a [`Task`], or your own
/// type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be added to a `Manager`",
    note = "a `Controller` becomes runnable with `.reconcile(..)`; other work is a `Task`"
)]
pub trait Runnable: Send + 'static {
    /// Returns the name in logs and errors. It must be unique within a manager.
    fn name(&self) -> String;

    /// Returns the group, which determines the start order.
    fn group(&self) -> Group {
        Group::Others
    }

    /// Runs until [`RunnableContext::stop`] requests a stop, then finishes work in progress.
    ///
    /// A runnable may return early without an error; the other runnables continue. An error stops the manager. Spawned
    /// tasks must end with the runnable. They should hold a clone of `context`, so that the manager waits for them.
    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>>;
}

/// The start group of a runnable. Groups stop in the opposite order: a group stops after all later groups have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Group {
    /// Servers for probes and metrics. They run from the start to the end of the manager.
    Servers,
    /// Webhooks. The API server may need them to answer the lists of the manager's caches.
    Webhooks,
    /// Runnables that may run in several processes at the same time. The default.
    Others,
    /// Runnables that prepare in every process, and act only in the leader or on the keys of their shard. See
    /// [`RunnableContext::leadership`] and [`RunnableContext::shard`].
    WarmUps,
    /// Runnables that run only in the leader, mainly controllers.
    Controllers,
}

/// The running manager, as a runnable sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RunnableContext {
    pub(crate) cluster: Cluster,
    pub(crate) stop: Stop,
    pub(crate) leadership: Leadership,
    pub(crate) shard: Shard,
    pub(crate) reporter: Reporter,
    pub(crate) defaults: Arc<ControllerDefaults>,
    pub(crate) overrides: Arc<Overrides>,
    pub(crate) manager: ManagerHandle,
    /// No value is sent. The manager waits until all clones are dropped.
    pub(crate) _alive: mpsc::Sender<Infallible>,
}

/// A named runnable that is not a controller: a function of [`RunnableContext`].
#[must_use = "a task does nothing until it is added to a `Manager`"]
pub struct Task<F> {
    name: String,
    group: Group,
    run: F,
}

/// A runnable with another view of the cluster.
pub(crate) struct ActingRunnable {
    pub(crate) runnable: Box<dyn Runnable>,
    pub(crate) cluster: Cluster,
}

impl Group {
    /// The same order as `Ord`.
    pub(crate) const IN_START_ORDER: [Self; 5] =
        [Self::Servers, Self::Webhooks, Self::Others, Self::WarmUps, Self::Controllers];

    /// Reports whether the group waits until this process is elected, if there is an election.
    pub(crate) fn needs_leadership(self) -> bool {
        self == Self::Controllers
    }
}

impl RunnableContext {
    /// Returns the client and the caches of the manager.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns a handle that adds runnables to the manager.
    pub fn manager(&self) -> &ManagerHandle {
        &self.manager
    }

    /// Returns the stop request for this runnable.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns the leadership of this process. Without an election it is always the leader.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Returns the shard of this process. Without sharding it owns all keys.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }
}

impl<F, Fut> Task<F>
where
    F: FnOnce(RunnableContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    /// Creates a task in the group [`Group::Others`].
    pub fn new(name: impl Into<String>, run: F) -> Self {
        Self { name: name.into(), group: Group::Others, run }
    }

    /// Moves the task to another group.
    pub fn in_group(mut self, group: Group) -> Self {
        self.group = group;
        self
    }
}

impl<F, Fut> Runnable for Task<F>
where
    F: FnOnce(RunnableContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    fn name(&self) -> String {
        self.name.clone()
    }

    fn group(&self) -> Group {
        self.group
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        async move { (self.run)(context).await }.boxed()
    }
}

impl Runnable for ActingRunnable {
    fn name(&self) -> String {
        self.runnable.name()
    }

    fn group(&self) -> Group {
        self.runnable.group()
    }

    fn run(self: Box<Self>, context: RunnableContext) -> BoxFuture<'static, Result<()>> {
        let manager = context.manager.in_cluster(self.cluster.clone());
        self.runnable.run(RunnableContext { cluster: self.cluster, manager, ..context })
    }
}

impl<F> Debug for Task<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("name", &self.name).field("group", &self.group).finish_non_exhaustive()
    }
}
