//! Leader election: only one of several candidates acts at a time. They coordinate by a Lease.
//!
//! A candidate that finds the lease free writes its identity into it and renews it. The other candidates read it
//! periodically. A lease is free if it has not *changed* for its lease duration, measured by the clock of the reader.
//! The timestamps in the lease are informational: the clocks of candidates need not agree, but must run at about the
//! same rate.
//!
//! # Guarantees
//!
//! - [`Leadership::is_leader`] returns `true` for at most one candidate at a time, if all clocks run at the same rate. A
//!   leader relies on its lease for the renew deadline, counted from the moment it *sent* its last renewal. The other
//!   candidates respect the lease for the longer lease duration, counted from the moment they *saw* the renewal. A
//!   process that was paused notices that its leadership has expired before it acts.
//! - If a leader stops, another candidate takes over within the lease duration plus one retry period, if the server
//!   responds.
//!
//! # Not guaranteed
//!
//! - There are no fencing tokens. A request that a leader sent before it lost the lease may be processed afterwards.
//!   Operations that must not happen twice need their own precondition, such as a resource version.
//! - Clocks that stop while a machine is suspended may delay a takeover, or the detection of lost leadership.

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

use windlass_api::{Clock, Entropy};
use windlass_client::Client;

pub use self::{
    elector::{ElectionResult, Elector},
    leadership::{Leadership, NotRenewed},
    metrics::ElectionMetrics,
};
use self::{lock::LeaseLock, metrics::NoMetrics};
pub use crate::error::InvalidElection;
use crate::{Cluster, events::Recorder, host};

/// The factor by which the renew deadline must exceed the retry period.
const JITTER_FACTOR: f64 = 1.2;

/// The settings of a leader election. All candidates for a lease should use the same.
///
/// ```no_run
/// # use windlass_runtime::{LeaderElection, Manager, Result, shutdown};
/// # async fn main_(client: windlass_client::Client) -> Result<()> {
/// let election = LeaderElection::new("painter.example.com").release_on_stop();
/// let manager = Manager::builder(client).leader_election(election).build();
/// manager.run(shutdown::signal()).await
/// # }
/// ```
#[must_use = "an election does nothing until it is passed to a manager or an elector"]
pub struct LeaderElection {
    lease: String,
    /// `None`: the client's namespace.
    namespace: Option<String>,
    /// `None`: the host name and a unique suffix.
    identity: Option<String>,
    labels: BTreeMap<String, String>,
    timings: Timings,
    on_stop: OnStop,
    on_new_leader: Option<NewLeader>,
    /// `None`: the system clock.
    clock: Option<Clock>,
    /// `None`: the operating system's source.
    entropy: Option<Entropy>,
    recorder: Option<Recorder>,
    /// `None`: no metrics.
    metrics: Option<Arc<dyn ElectionMetrics>>,
}

/// Called with the identity of each leader.
type NewLeader = Box<dyn Fn(&str) + Send + Sync>;

/// The three durations of an election.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timings {
    pub(crate) lease_duration: Duration,
    pub(crate) renew_deadline: Duration,
    pub(crate) retry_period: Duration,
}

/// The treatment of a held lease when its holder stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnStop {
    /// Other candidates may acquire it at once.
    Release,
    /// It expires.
    Keep,
}

// === impl LeaderElection ===

impl LeaderElection {
    /// Creates the settings of an election with this Lease, which is created if it does not exist. The name must not be
    /// used by another program's lease.
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

    /// Sets the lease's namespace. Defaults to the client's namespace, which in a cluster is the pod's.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the candidate's identity, which must be unique. Defaults to the host name and a random number.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets a label on the lease.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// Sets how long a lease stays valid without a renewal. Defaults to 15 s. The value in the lease is rounded up to
    /// whole seconds.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.timings.lease_duration = duration;
        self
    }

    /// Sets how long a leader keeps acting after its last successful renewal. Defaults to 10 s. Work in progress at
    /// that moment should end within the rest of the lease duration.
    pub fn renew_deadline(mut self, deadline: Duration) -> Self {
        self.timings.renew_deadline = deadline;
        self
    }

    /// Sets the interval of renewals. Other candidates read the lease at least as often. Defaults to 2 s.
    pub fn retry_period(mut self, period: Duration) -> Self {
        self.timings.retry_period = period;
        self
    }

    /// Releases the lease on a graceful stop, so that another candidate need not wait for its expiry.
    ///
    /// A [`Manager`](crate::Manager) releases it after all runnables that need leadership have ended. If you use
    /// [`Elector::run`], end your own work before you stop the elector.
    pub fn release_on_stop(mut self) -> Self {
        self.on_stop = OnStop::Release;
        self
    }

    /// Calls a function with the identity of each newly observed leader. The elector calls it directly, so it must
    /// return quickly.
    pub fn on_new_leader(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_new_leader = Some(Box::new(callback));
        self
    }

    /// Sets the wall clock for the timestamps in the lease. Defaults to the manager's, or the system's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets the source of randomness for the jitter of retries. Defaults to the manager's, or the operating system's.
    pub fn entropy(mut self, entropy: Entropy) -> Self {
        self.entropy = Some(entropy);
        self
    }

    /// Sets the recorder for events of the lease. Defaults to a recorder of the manager; without a manager no events
    /// are recorded.
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets the receiver of metrics. Defaults to the manager's registry; without a manager there are no metrics.
    pub fn metrics(mut self, metrics: impl ElectionMetrics) -> Self {
        self.metrics = Some(Arc::new(metrics));
        self
    }

    /// Sets the receiver of metrics unless one is set.
    #[cfg(feature = "metrics")]
    pub(crate) fn counted_by(mut self, metrics: impl ElectionMetrics) -> Self {
        self.metrics.get_or_insert_with(|| Arc::new(metrics));
        self
    }

    /// Creates a candidate. Returns an error if the settings are invalid.
    pub fn elector(self, client: &Client) -> Result<Elector, InvalidElection> {
        self.elector_with(client, |_| None)
    }

    /// Creates the manager's candidate. The manager provides the clock, randomness and recorder that are not set.
    pub(crate) fn in_manager(mut self, cluster: &Cluster) -> Result<Elector, InvalidElection> {
        self.clock.get_or_insert_with(|| cluster.clock().clone());
        self.entropy.get_or_insert_with(|| cluster.entropy().clone());
        self.elector_with(cluster.client(), |identity| Some(cluster.recorder(identity)))
    }

    /// Checks the settings.
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

    /// Returns the time limit of one request. It leaves time for another attempt.
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
