//! Leader election: of several candidates, one at a time acts. They agree by a Lease.
//!
//! A candidate that finds the lease free writes its name into it and renews that; the others look at it now and then. A lease
//! that has not *changed* for as long as it says, by the clock of who looks, is free. Times in the lease are for people:
//! the clocks of candidates need not agree, only go at about the same speed.
//!
//! # What is guaranteed
//!
//! - [`Leadership::is_leader`] holds for one candidate at a time, if their clocks go at the same speed: a leader counts from
//!   when it *sent* its last renewal, and for the renew deadline; the others count from when they *saw* it, and for the
//!   longer lease duration. A process that was stopped meanwhile finds that it is no leader any more before it acts.
//! - When a leader is gone, another takes over within the lease duration and a retry period, if the server answers.
//!
//! # What is not
//!
//! - There are no fencing tokens. A request that a leader has sent before it lost the lease may be carried out afterwards:
//!   what must not happen twice needs a precondition of its own, such as a resource version.
//! - Clocks that stand still while a machine is suspended may delay a takeover, or the loss of leadership.

mod elector;
mod leadership;
pub(crate) mod lease;
mod lock;
mod metrics;

use std::{
    collections::BTreeMap,
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use thiserror::Error;
use windlass_api::{Clock, Entropy};
use windlass_client::Client;

pub use self::{
    elector::{Elector, Verdict},
    leadership::{Leadership, NotRenewed},
    metrics::ElectionMetrics,
};
use self::{lock::LeaseLock, metrics::NoMetrics};
use crate::{Cluster, events::Recorder, host};

/// How much longer than the retry period the renew deadline must be.
const JITTER_FACTOR: f64 = 1.2;

/// How candidates for one lease behave. All of them should agree on it.
///
/// ```no_run
/// # use windlass_runtime::{LeaderElection, Manager, Result, shutdown};
/// # async fn main_(client: windlass_client::Client) -> Result<()> {
/// let election = LeaderElection::new("painter.example.com").release_on_stop();
/// let manager = Manager::builder(client).leader_election(election).build();
/// manager.run(shutdown::signal()).await
/// # }
/// ```
#[must_use = "an election is held when a manager or an elector runs"]
pub struct LeaderElection {
    lease: String,
    /// `None`: the client's.
    namespace: Option<String>,
    /// `None`: the host's name and something unique.
    identity: Option<String>,
    labels: BTreeMap<String, String>,
    timings: Timings,
    on_stop: OnStop,
    on_new_leader: Option<NewLeader>,
    /// `None`: the system's.
    clock: Option<Clock>,
    /// `None`: the operating system's.
    entropy: Option<Entropy>,
    recorder: Option<Recorder>,
    /// `None`: nobody.
    metrics: Option<Arc<dyn ElectionMetrics>>,
}

/// Called with the identity of each leader.
type NewLeader = Box<dyn Fn(&str) + Send + Sync>;

/// The three durations of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timings {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
}

/// What becomes of a lease that is held when its holder stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnStop {
    /// Others may have it at once.
    Release,
    /// It expires.
    Keep,
}

/// Why an election cannot be held. The texts are client-go's and controller-runtime's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each says in its text what is wrong")]
pub enum InvalidElection {
    #[error("leaseDuration must be greater than renewDeadline")]
    LeaseNotLongerThanDeadline,
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    DeadlineNotLongerThanRetry,
    #[error("leaseDuration must be greater than zero")]
    NoLeaseDuration,
    #[error("renewDeadline must be greater than zero")]
    NoRenewDeadline,
    #[error("retryPeriod must be greater than zero")]
    NoRetryPeriod,
    #[error("Lock identity is empty")]
    NoIdentity,
    #[error("LeaderElectionID must be configured")]
    NoLease,
}

// === impl LeaderElection ===

impl LeaderElection {
    /// An election by the Lease of that name, which is made when it is missing. The name must not be that of another
    /// program's lease.
    pub fn new(lease: impl Into<String>) -> Self {
        Self {
            lease: lease.into(),
            namespace: None,
            identity: None,
            labels: BTreeMap::new(),
            timings: Timings::default(),
            on_stop: OnStop::Keep,
            on_new_leader: None,
            clock: None,
            entropy: None,
            recorder: None,
            metrics: None,
        }
    }

    /// The lease's namespace; by default the client's, which in a cluster is that of the pod.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The candidate's name, unique among the candidates; by default made of the host's name and a random number.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// A label that is set on the lease.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// How long a lease that nobody renews is respected; 15 seconds by default. Written to the lease in whole seconds,
    /// rounded up.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timings.lease_duration = duration;
        self
    }

    /// How long after its last renewal a leader that cannot renew goes on; 10 seconds by default. What it has begun then
    /// should end within the rest of the lease duration.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timings.renew_deadline = deadline;
        self
    }

    /// How often a leader renews; others look at the lease at least as often. 2 seconds by default.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timings.retry_period = period;
        self
    }

    /// Gives the lease up on a graceful stop, so that another candidate need not wait until it has expired.
    ///
    /// A [`Manager`](crate::Manager) does so when all that needed leadership has ended. Who uses [`Elector::run`] must have
    /// ended it before stopping the elector.
    pub fn release_on_stop(mut self) -> Self {
        self.on_stop = OnStop::Release;
        self
    }

    /// Calls a function with the identity of each leader that is seen, once until another one is. The elector calls it
    /// itself: it must be quick.
    pub fn on_new_leader(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_new_leader = Some(Box::new(tell));
        self
    }

    /// The wall clock for the times in the lease; by default the system's, or the manager's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Spreads the attempts of several candidates; by default the operating system's randomness, or the manager's.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = Some(entropy);
        self
    }

    /// Who tells people, as events of the lease; by default nobody, or a recorder of the manager's.
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Who counts; by default the manager's registry, or nobody.
    pub fn metrics(mut self, metrics: impl ElectionMetrics) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Who counts unless somebody else was chosen.
    pub(crate) fn counted_by(mut self, metrics: impl ElectionMetrics) -> Self {
        self.metrics.get_or_insert_with(|| Arc::new(metrics));
        self
    }

    /// A candidate.
    pub fn elector(self, client: &Client) -> Result<Elector, InvalidElection> {
        self.elector_with(client, |_| None)
    }

    /// The manager's candidate: what was not chosen is the manager's.
    pub(crate) fn in_manager(mut self, cluster: &Cluster) -> Result<Elector, InvalidElection> {
        self.clock.get_or_insert_with(|| cluster.clock().clone());
        self.entropy.get_or_insert_with(|| cluster.entropy().clone());
        self.elector_with(cluster.client(), |identity| Some(cluster.recorder(identity)))
    }

    /// Whether it can be held.
    pub(crate) fn validate(&self) -> Result<(), InvalidElection> {
        self.timings.validate()?;
        if self.lease.is_empty() { Err(InvalidElection::NoLease) } else { Ok(()) }
    }

    fn elector_with(
        self,
        client: &Client,
        recorder: impl FnOnce(Arc<str>) -> Option<Recorder>,
    ) -> Result<Elector, InvalidElection> {
        self.validate()?;
        let entropy = self.entropy.unwrap_or_default();
        let identity: Arc<str> = match self.identity {
            Some(identity) if identity.is_empty() => return Err(InvalidElection::NoIdentity),
            Some(identity) => identity.into(),
            None => format!("{}_{}", host::name(), entropy.uuid()).into(),
        };
        let namespace = self.namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let lock = LeaseLock::new(client, self.timings.request_timeout(), namespace, self.lease, self.labels);
        let recorder = self.recorder.or_else(|| recorder(Arc::clone(&identity)));
        let setup = elector::Setup {
            identity,
            timings: self.timings,
            on_stop: self.on_stop,
            on_new_leader: self.on_new_leader,
            clock: self.clock.unwrap_or_default(),
            entropy,
            recorder,
            metrics: self.metrics.unwrap_or_else(|| Arc::new(NoMetrics)),
        };
        Ok(Elector::new(setup, lock))
    }
}

impl Debug for LeaderElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElection")
            .field("lease", &self.lease)
            .field("namespace", &self.namespace)
            .field("identity", &self.identity)
            .field("timings", &self.timings)
            .finish_non_exhaustive()
    }
}

// === impl Timings ===

impl Timings {
    pub(crate) fn validate(&self) -> Result<(), InvalidElection> {
        let Self { lease_duration, renew_deadline, retry_period } = *self;
        let checks = [
            (lease_duration <= renew_deadline, InvalidElection::LeaseNotLongerThanDeadline),
            (
                renew_deadline.as_secs_f64() <= retry_period.as_secs_f64() * JITTER_FACTOR,
                InvalidElection::DeadlineNotLongerThanRetry,
            ),
            (lease_duration.is_zero(), InvalidElection::NoLeaseDuration),
            (renew_deadline.is_zero(), InvalidElection::NoRenewDeadline),
            (retry_period.is_zero(), InvalidElection::NoRetryPeriod),
        ];
        checks.into_iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, error)| Err(error))
    }

    /// How long one request may take: time must be left for another one.
    pub(crate) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

impl Default for Timings {
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        Self { lease_duration, renew_deadline, retry_period }
    }
}
