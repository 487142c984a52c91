//! Sharding: several replicas of a program divide the objects of its controllers, and all replicas reconcile.
//!
//! Each replica has its own Lease, labeled with the name of the group. The lease shows that the replica is running,
//! and lists the members that the replica counts. The members divide all keys by rendezvous hashing. A new replica
//! takes over a part of the keys of every other replica. The keys of a departing replica are divided among the
//! remaining ones; no other keys move. One replica owns an object for all controllers.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use windlass_api::k8s_openapi::api::core::v1::ConfigMap;
//! # use windlass_runtime::{Action, Context, Controller, Manager, Result, Sharding, shutdown};
//! # async fn paint(_: Arc<ConfigMap>, _: Context) -> Result<Action> { Ok(Action::await_change()) }
//! # async fn main_(client: windlass_client::Client) -> Result<()> {
//! let mut manager = Manager::builder(client).sharding(Sharding::new("painter")).build();
//! manager.add(Controller::<ConfigMap>::new().sharded().reconcile(paint));
//! manager.run(shutdown::signal()).await
//! # }
//! ```
//!
//! A controller takes part if it is [sharded](crate::Controller::sharded). Its reconciler must be written for it: it
//! may touch only objects that belong to its key, and must write with preconditions. A controller that is not sharded
//! must run only once, as without sharding. A manager with sharding rejects it unless the manager also uses [leader
//! election](crate::LeaderElection), or the controller runs [in every process](crate::Controller::in_every_process).
//!
//! Caches contain all objects in every replica: sharding divides the work and the writes, not the memory.
//!
//! # How a key moves
//!
//! 1. A replica joins when the caches of its controllers have synced: it creates its lease. It leaves when it stops, by
//!    deleting the lease after all reconciles have ended. If it crashes, other replicas delete its lease after it has
//!    expired.
//! 2. The other replicas see the change within the retry period. Each of them starts no more reconciles of the keys
//!    that it loses, and waits for the running ones. A reconcile that exceeds the [patience](Sharding::patience) is
//!    dropped. Then the replica lists the new members on its lease.
//! 3. The new owner reads the leases after its own lease shows its claim, and acts on the keys that no other lease
//!    claims. It adds these keys to its queues from the caches.
//!
//! # Guarantees
//!
//! - No two replicas reconcile one object at the same time. This holds for replicas that crash, pause, are partitioned
//!   or return, and for requests that are lost, delayed or processed twice. It requires a server with consistent lists
//!   (as any API server has), and clocks that run at similar *rates*: they may differ by a factor of (lease duration +
//!   margin) / renew deadline, which is 1.7 with the defaults. The times on the clocks do not matter.
//! - The local deadline of a replica is one renew deadline after it *sent* its last renewal. After its deadline, a
//!   replica starts no reconcile, continues none, and sends no request through the clients of its reconcilers. This
//!   also holds if the process was paused meanwhile.
//! - A key moves in two cases only. Either its owner has shown on its lease that it has given the key up. Or the
//!   owner's lease has not *changed* for the lease duration plus the [margin](Sharding::margin), by the clock of the
//!   observer, and could be deleted in the observed version.
//! - No key is lost: as long as one replica runs and reaches the server, some replica owns each cached object after a
//!   while, and reconciles it after a move.
//! - Each write of a sharded reconciler through the clients of its [`Context`](crate::Context) carries a precondition:
//!   the resourceVersion or UID of the object, or, for a creation, a fixed name. Other writes are rejected before they
//!   are sent, unless [`Sharding::allow_unconditional_writes`] is set.
//!
//! # Not guaranteed
//!
//! - **Requests in flight.** A request sent before the deadline may be processed after it, when another replica owns
//!   the key. It may be delayed in the connection, in the network, or in a paused process. Its precondition then
//!   decides. With a resourceVersion, it succeeds only if no client, including the new owner, has written the object
//!   since. The new owner may get a conflict and reconciles again with the current state. With a UID only, it may undo
//!   a write of the new owner, but never changes a recreated object. A creation may restore an object that the new
//!   owner has deleted. Effects outside the API server need their own protection.
//! - Tasks that a reconciler has spawned do not end with it; only their requests are rejected after the deadline.
//!   Requests of clients that do not come from the [`Context`](crate::Context) are not rejected.
//! - A deletion that no owner received, during a move or after a crash, is not delivered again to controllers [of
//!   keys](crate::Controller::reconcile_keys). Use a finalizer for clean-up.
//! - Delays and back-offs do not move with a key. The new owner reconciles it at once.
//! - Clocks that stop while a machine is suspended break the first guarantee. The preconditions still hold.
//! - If a user deletes the lease of a running replica, or changes its labels, other replicas take over its keys while
//!   it still acts.

mod claims;
mod gate;
mod member;
mod membership;
mod metrics;
mod ring;
mod shard;

#[cfg(test)]
mod model;

use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use windlass_api::validation;

pub(crate) use self::{gate::ShardGate, membership::Membership, ring::Point, shard::Permit};
use self::{member::Member, membership::Leases, metrics::NoMetrics};
pub use self::{metrics::ShardMetrics, shard::Shard};
pub use crate::error::InvalidSharding;
use crate::{Cluster, host, leader_election::Timings};

/// The label with the group's name, on the lease of each member.
const GROUP_LABEL: &str = "sharding.windlass.dev/group";
/// The annotation with the counted members, on the lease of each member.
const MEMBERS_ANNOTATION: &str = "sharding.windlass.dev/members";

const MARGIN: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings of sharding. All replicas should use the same.
///
/// Replicas need the verbs `get`, `list`, `create`, `update` and `delete` on Leases (coordination.k8s.io) in the
/// namespace.
#[must_use = "sharding does nothing until it is passed to a `ManagerBuilder`"]
pub struct Sharding {
    group: String,
    /// `None`: the client's namespace.
    namespace: Option<String>,
    /// `None`: the host name and a unique suffix.
    identity: Option<String>,
    timings: Timings,
    margin: Duration,
    patience: Duration,
    writes: Writes,
    /// `None`: no metrics.
    metrics: Option<Arc<dyn ShardMetrics>>,
}

/// The writes that reconcilers may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Only writes with a precondition.
    Conditional,
    Any,
}

// === impl Sharding ===

impl Sharding {
    /// Shares the keys with the other replicas of this group. All replicas of a group must run the same sharded
    /// controllers.
    pub fn new(group: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            namespace: None,
            identity: None,
            timings: Timings::default(),
            margin: MARGIN,
            patience: PATIENCE,
            writes: Writes::Conditional,
            metrics: None,
        }
    }

    /// Sets the namespace of the leases. Defaults to the client's namespace, which in a cluster is the pod's.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the member's identity, which must be unique in the group. Defaults to the host name and a random suffix.
    ///
    /// A replica that restarts with the same identity owns the same keys again. Set it for replicas with stable names,
    /// such as the pods of a StatefulSet. The replica joins after its former lease was deleted or has expired.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets how long an unchanged lease stays valid, without the margin. Defaults to 15 s. The lease contains whole
    /// seconds, rounded up.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timings.lease_duration = duration;
        self
    }

    /// Sets how long a replica keeps acting after its last successful renewal. Defaults to 10 s.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timings.renew_deadline = deadline;
        self
    }

    /// Sets the interval at which a replica renews its lease and reads the leases of the others. Defaults to 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timings.retry_period = period;
        self
    }

    /// Sets the time added to the lease duration before another replica's lease counts as expired. It covers requests
    /// in flight and clocks that run at different rates. Defaults to 2 s.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Sets how long a running reconcile may continue after its key was assigned to another replica, before it is
    /// dropped. Defaults to 30 s. The key moves when the reconcile has ended.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Allows reconcilers to send writes without a precondition, for example server-side apply of an object without a
    /// resourceVersion or UID. If a replica sends such a write just before its deadline, the write may overwrite
    /// changes of the next owner.
    pub fn allow_unconditional_writes(mut self) -> Self {
        self.writes = Writes::Any;
        self
    }

    /// Sets the receiver of metrics. Defaults to the manager's registry; without a manager there are no metrics.
    pub fn metrics(mut self, metrics: impl ShardMetrics) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Sets the receiver of metrics unless one is set.
    #[cfg(feature = "metrics")]
    pub(crate) fn counted_by(mut self, metrics: impl ShardMetrics) -> Self {
        self.metrics.get_or_insert_with(|| Arc::new(metrics));
        self
    }

    /// Checks the settings that do not depend on the member's identity.
    pub(crate) fn validate(&self) -> Result<(), InvalidSharding> {
        self.timings.validate()?;
        let (group, reasons) = (self.group.clone(), validation::label_value(&self.group));
        if group.is_empty() || !reasons.is_empty() { Err(InvalidSharding::Group { group, reasons }) } else { Ok(()) }
    }

    /// Creates the manager's membership.
    pub(crate) fn in_manager(self, cluster: &Cluster) -> Result<Membership, InvalidSharding> {
        self.validate()?;
        let Self { group, namespace, identity, timings, margin, patience, writes, metrics } = self;
        let unique = cluster.entropy().uuid();
        let identity =
            identity.unwrap_or_else(|| format!("{}-{}", label(&host::name()), cluster.entropy().name_suffix(8)));
        let lease = format!("{group}-{identity}");
        let reasons = validation::dns_subdomain(&lease);
        if !reasons.is_empty() {
            return Err(InvalidSharding::Lease { lease, reasons });
        }
        let (group, name): (Arc<str>, Arc<str>) = (group.into(), lease.into());
        let client = cluster.client().clone().with_timeout(timings.request_timeout()).without_rate_limit();
        let leases = Leases {
            namespace: namespace.unwrap_or_else(|| client.default_namespace().to_owned()),
            client,
            group: Arc::clone(&group),
            clock: cluster.clock().clone(),
            lease_duration: timings.lease_duration,
            spec: None,
        };
        let metrics = metrics.unwrap_or_else(|| Arc::new(NoMetrics));
        let shard = Shard::new(Arc::clone(&name), group, writes, metrics);
        let member = Member::new(name, format!("{identity}_{unique}"), timings, margin, Instant::now());
        Ok(Membership::new(member, leases, shard, timings, patience))
    }
}

impl Debug for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharding")
            .field("group", &self.group)
            .field("namespace", &self.namespace)
            .field("identity", &self.identity)
            .field("timings", &self.timings)
            .finish_non_exhaustive()
    }
}

/// Converts a host name to a part of a lease name.
fn label(host: &str) -> String {
    let plain =
        host.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
    let plain = plain.trim_matches('-').chars().take(60).collect::<String>();
    if plain.is_empty() { "replica".to_owned() } else { plain }
}
