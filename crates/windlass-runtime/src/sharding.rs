//! Sharding: N replicas of a program divide the objects of its controllers among themselves, and all of them work.
//!
//! Each replica has a Lease of its own, labelled with the group's name. It shows that the replica lives, and the members of
//! the group that it counts. The members divide all keys by rendezvous hashing: a replica that comes gets a part of
//! everybody's keys, the keys of one that goes are divided among those who stay, and no others move. An object is one
//! replica's, whatever controllers reconcile it there.
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
//! A controller takes part when it says so ([`Controller::sharded`](crate::Controller::sharded)): its reconciler has to be
//! written for it. It must touch only what belongs to its key, and write with preconditions. A controller that does not take
//! part needs to be the only one, as without sharding: a manager that shards refuses it unless it also holds a
//! [leader election](crate::LeaderElection), or the controller runs
//! [in every process](crate::Controller::in_every_process).
//!
//! Caches are those of all keys in every replica: sharding divides the work and the writes, not the memory.
//!
//! # How a key moves
//!
//! 1. A replica joins when the caches of its controllers are complete: it puts up its lease. It leaves when it stops, by
//!    deleting it, when all reconciles have ended. When it has crashed, others delete its lease when that has expired.
//! 2. The others see it at their next look, within the retry period. Each begins no more reconciles of the keys that it
//!    loses, waits for those that run (for the [patience](Sharding::patience) at most; what takes longer is dropped), and then
//!    shows the new members on its lease.
//! 3. Who gets keys looks at the leases after its own shows its claim, and acts on those keys that no other lease claims. They
//!    are put into the queues from the caches.
//!
//! # What is guaranteed
//!
//! - No two replicas have a reconcile of one object under way at the same time, whatever crashes, stands still, is cut off or
//!   comes back, and whatever requests are lost, late or carried out twice. It needs a server whose lists are those of one
//!   moment (any API server's are), and clocks whose *speeds* are within a factor of (lease duration + margin) / renew
//!   deadline of each other: 1.7 with the defaults. What the clocks show does not matter.
//! - After its local deadline, the renew deadline from when it *sent* its last renewal, a replica begins no reconcile, goes on
//!   with none (also when the process has stood still meanwhile), and sends no request by the clients of its reconcilers.
//! - A key moves when its owner has shown that it gives it up, or when the owner's lease has not *changed* for as long as it
//!   says and the [margin](Sharding::margin), by the clock of who looks, and could be deleted in the version that was seen.
//! - No key is forgotten: as long as some replica lives and reaches the server, each object in the caches is some replica's
//!   after a while, and is reconciled there when it has moved.
//! - Each write of a sharded reconciler by the clients of its [`Context`](crate::Context) carries a precondition: it names the
//!   resourceVersion or the uid of what it changes, or creates an object of a given name. Others are refused before they are
//!   sent, unless [`Sharding::allow_unconditional_writes`] was chosen.
//!
//! # What is not
//!
//! - **The window of what was sent.** A request that was sent before the deadline may be carried out after it, when the key is
//!   another's: it may wait in the connection, in the network, or in the process while that stands still. Its precondition
//!   decides then. With a resourceVersion it is carried out only if nobody, and so not the new owner, has written the object
//!   since; the new owner meets a conflict in turn, and reconciles again with what is there. With a uid alone it may undo what
//!   the new owner has written, though never to another object of the same name. A creation may bring back what the new owner
//!   has deleted. What has effects outside of the API server needs its own protection.
//! - What a reconciler leaves behind, such as tasks that it has spawned, is not ended with it; only its requests stop at the
//!   deadline. The same holds for clients that are not the [`Context`](crate::Context)'s.
//! - A deletion that nobody's owner was told of during a move, or after a crash, is not told again to controllers
//!   [of keys](crate::Controller::reconcile_keys): what has to be cleaned up needs a finalizer.
//! - Delays and back-offs do not move with a key; it is reconciled at once where it arrives.
//! - Clocks that stand still while a machine is suspended are no clocks for this; the preconditions still hold.
//! - Who deletes the lease of a replica that works, or changes its labels, takes its keys away while it acts.

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

use thiserror::Error;
use tokio::time::Instant;
use windlass_api::validation;

pub(crate) use self::{gate::ShardGate, membership::Membership, ring::Point, shard::Permit};
use self::{member::Member, membership::Leases, metrics::NoMetrics};
pub use self::{metrics::ShardMetrics, shard::Shard};
use crate::{
    Cluster, host,
    leader_election::{InvalidElection, Timings},
};

/// On the lease of each member: the name of its group.
const GROUP_LABEL: &str = "sharding.windlass.dev/group";
/// On the lease of each member: the members that it counts.
const MEMBERS_ANNOTATION: &str = "sharding.windlass.dev/members";

const MARGIN: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

/// How the replicas of a program divide its keys. All of them should agree on it.
///
/// Replicas need to `get`, `list`, `create`, `update` and `delete` Leases (coordination.k8s.io) in the namespace.
#[must_use = "keys are shared when a manager runs"]
pub struct Sharding {
    group: String,
    /// `None`: the client's.
    namespace: Option<String>,
    /// `None`: the host's name and something unique.
    identity: Option<String>,
    timings: Timings,
    margin: Duration,
    patience: Duration,
    writes: Writes,
    /// `None`: nobody.
    metrics: Option<Arc<dyn ShardMetrics>>,
}

/// What reconcilers may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// With a precondition only.
    Conditional,
    Any,
}

/// Why keys cannot be shared like this.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidSharding {
    /// The durations do not go together.
    #[error(transparent)]
    Timings(#[from] InvalidElection),
    /// The group's name is a label and begins the names of leases.
    #[error("the group {group:?} cannot be a label: {}", .why.join(", "))]
    Group {
        /// The name in question.
        group: String,
        /// What is wrong with it.
        why: Vec<String>,
    },
    /// The lease of a member has the name of its group and its own.
    #[error("a lease cannot be named {lease:?}: {}", .why.join(", "))]
    Lease {
        /// The name in question.
        lease: String,
        /// What is wrong with it.
        why: Vec<String>,
    },
}

// === impl Sharding ===

impl Sharding {
    /// Shares the keys with the other replicas of that group. A group is one program: whoever is in it runs the same sharded
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

    /// The namespace of the leases; by default the client's, which in a cluster is that of the pod.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The member's name, unique in the group; by default made of the host's name and something random.
    ///
    /// A replica that comes back under its name has the keys again that it had: good for those that have names, such as the
    /// pods of a StatefulSet. Its former lease has to be gone, or to expire, before it joins.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// How long a lease that does not change is respected, but for the margin; 15 seconds by default, whole seconds.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timings.lease_duration = duration;
        self
    }

    /// How long after its last renewal a replica that cannot renew goes on; 10 seconds by default.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timings.renew_deadline = deadline;
        self
    }

    /// How often a replica renews its lease and looks at the others'; 2 seconds by default.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timings.retry_period = period;
        self
    }

    /// How much longer than it says the lease of another is respected: for what was sent at the last moment to arrive, and
    /// for clocks that go at different speeds. 2 seconds by default.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// How long a reconcile that runs when its key moves may go on before it is dropped; 30 seconds by default. The key moves
    /// when it has ended.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Lets reconcilers send writes without a precondition, such as server-side apply of an object without a
    /// resourceVersion or uid. Such a write, sent by a replica at its last moment, may overwrite what the next owner has
    /// written.
    pub fn allow_unconditional_writes(mut self) -> Self {
        self.writes = Writes::Any;
        self
    }

    /// Who counts; by default the manager's registry, or nobody.
    pub fn metrics(mut self, metrics: impl ShardMetrics) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Who counts unless somebody else was chosen.
    pub(crate) fn counted_by(mut self, metrics: impl ShardMetrics) -> Self {
        self.metrics.get_or_insert_with(|| Arc::new(metrics));
        self
    }

    /// Whether keys can be shared so, by members of any name.
    pub(crate) fn validate(&self) -> Result<(), InvalidSharding> {
        self.timings.validate()?;
        let (group, why) = (self.group.clone(), validation::label_value(&self.group));
        if group.is_empty() || !why.is_empty() { Err(InvalidSharding::Group { group, why }) } else { Ok(()) }
    }

    /// The manager's member.
    pub(crate) fn in_manager(self, cluster: &Cluster) -> Result<Membership, InvalidSharding> {
        self.validate()?;
        let Self { group, namespace, identity, timings, margin, patience, writes, metrics } = self;
        let unique = cluster.entropy().uuid();
        let identity =
            identity.unwrap_or_else(|| format!("{}-{}", label(&host::name()), cluster.entropy().name_suffix(8)));
        let lease = format!("{group}-{identity}");
        let why = validation::dns_subdomain(&lease);
        if !why.is_empty() {
            return Err(InvalidSharding::Lease { lease, why });
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

/// A host's name as a part of a lease's.
fn label(host: &str) -> String {
    let plain =
        host.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect::<String>();
    let plain = plain.trim_matches('-').chars().take(60).collect::<String>();
    if plain.is_empty() { "replica".to_owned() } else { plain }
}
