//! API Priority and Fairness: limits the requests that run at the same time.
//!
//! FlowSchemas classify requests, and PriorityLevelConfigurations divide the seats of the server among the classes. A
//! request runs as soon as its level has enough free seats for it. Otherwise it waits in a queue, or is rejected with
//! code 429. The rules are those of kube-apiserver:
//!
//! - [`schema`]: matching of requests
//! - [`estimate`]: the seats of a request
//! - [`queues`] and [`dealer`]: fair queuing with shuffle sharding
//! - [`level`]: the seats of a level; its current limit comes from the [`demand`] and the [`allocation`] among levels
//! - [`max_in_flight`]: the limits without priority and fairness
//!
//! A watch occupies seats until its initial events are read. Other long-running requests (proxy, exec, logs) are not
//! limited. Members of `system:masters` are exempt by the FlowSchema `exempt`.
//!
//! Guaranteed: dropping the future of a request, or its [`Admitted`], frees its seats and its place in a queue at once.
//! The numbers of queues and of waiting requests are bounded by the configuration. No lock is held while a request
//! waits.

use std::time::Duration;

use serde_json::Value;

use crate::{
    identity::{MASTERS, User},
    request::{Query, RequestInfo},
    turns::Class,
};

mod allocation;
mod dealer;
mod debug;
mod demand;
mod estimate;
mod fairness;
mod level;
mod max_in_flight;
mod metrics;
mod queues;
mod retry_after;
mod schema;
mod watch_counts;
mod work;

use self::{
    estimate::Estimator,
    fairness::{Incoming, RunningRequest},
    max_in_flight::{InFlight, MaxInFlight},
};
pub(crate) use self::{
    estimate::ObjectCounts,
    fairness::{Fairness, Schema, is_usable_level},
    watch_counts::{CountedWatch, WatchCounts},
};
use std::sync::Arc;

/// The maximum time in a queue, and its share of the time limit of a request.
const MAX_PATIENCE: Duration = Duration::from_mins(1);
const PATIENCE_SHARE: u32 = 4;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowControlOptions {
    /// The maximum number of reads, or 0.
    pub(crate) reads: u32,
    /// The maximum number of writes, or 0.
    pub(crate) writes: u32,
    /// `true` if priority and fairness divides the sum of both.
    pub(crate) is_fair: bool,
}

impl Default for FlowControlOptions {
    fn default() -> Self {
        Self { reads: 400, writes: 200, is_fair: true }
    }
}

/// Limits the requests of a server.
#[derive(Debug)]
pub(crate) struct FlowControl {
    mode: Mode,
    watches: WatchCounts,
    objects: ObjectCounts,
}

#[derive(Debug)]
enum Mode {
    Fair(Arc<Fairness>),
    MaxInFlight(MaxInFlight),
}

/// A request that may run. Dropping it ends the request.
#[derive(Debug)]
pub(crate) struct Admitted {
    _running: Option<Running>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "dropped when the request ends")]
enum Running {
    Fair(RunningRequest),
    MaxInFlight(InFlight),
}

/// The decision on a request.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The schema of the request. `None` without priority and fairness, and for requests that are not limited.
    pub(crate) schema: Option<Arc<Schema>>,
    /// The request if it may run, or else the seconds after which the client should try again.
    pub(crate) admitted: Result<Admitted, u64>,
    /// The class of the request, for its turns at long work.
    pub(crate) class: Class,
}

impl Outcome {
    fn unlimited(class: Class) -> Self {
        Self { schema: None, admitted: Ok(Admitted { _running: None }), class }
    }
}

impl FlowControl {
    /// Creates the limits, with the objects that apply until the stored ones are known.
    pub(crate) fn new(options: FlowControlOptions, levels: &[Value], schemas: &[Value]) -> Self {
        let FlowControlOptions { reads, writes, is_fair } = options;
        let seats = reads.saturating_add(writes);
        let mode = if is_fair && seats > 0 {
            Mode::Fair(Arc::new(Fairness::new(seats, levels, schemas)))
        } else {
            Mode::MaxInFlight(MaxInFlight::new(reads, writes))
        };
        Self { mode, watches: WatchCounts::default(), objects: ObjectCounts::default() }
    }

    /// Returns priority and fairness, if it is enabled.
    pub(crate) fn fairness(&self) -> Option<&Arc<Fairness>> {
        match &self.mode {
            Mode::Fair(fairness) => Some(fairness),
            Mode::MaxInFlight(_) => None,
        }
    }

    /// Returns the numbers of watches.
    pub(crate) fn watches(&self) -> &WatchCounts {
        &self.watches
    }

    /// Returns the numbers of objects.
    pub(crate) fn objects(&self) -> &ObjectCounts {
        &self.objects
    }

    /// Waits until a request may run. `limit` is the time limit of the request, or that of other requests.
    pub(crate) async fn enter(
        &self,
        info: &RequestInfo,
        query: &Query,
        user: &User,
        limit: Duration,
        now: impl FnOnce() -> u64,
    ) -> Outcome {
        let is_watch = info.verb == "watch";
        if !info.has_time_limit() && !is_watch {
            return Outcome::unlimited(class_without_level(user));
        }
        match &self.mode {
            // Watches are long-running, too.
            Mode::MaxInFlight(_) if is_watch => Outcome::unlimited(class_without_level(user)),
            Mode::MaxInFlight(limits) => {
                let running = limits.enter(&info.verb, user).map_err(|()| 1);
                let admitted = running.map(|running| Admitted { _running: running.map(Running::MaxInFlight) });
                Outcome { schema: None, admitted, class: class_without_level(user) }
            }
            Mode::Fair(fairness) => {
                let patience = (limit / PATIENCE_SHARE).min(MAX_PATIENCE);
                let estimator = Estimator { objects: &self.objects, watches: &self.watches };
                let request = Incoming { info, query, user, patience };
                let (schema, class, running) = fairness.enter(request, estimator).await;
                let retry_after = |()| schema.as_ref().map_or(1, |schema| schema.level.retry_after(now()));
                let admitted = running.map(|running| Admitted { _running: running.map(Running::Fair) });
                let admitted = admitted.map_err(retry_after);
                Outcome { schema, admitted, class }
            }
        }
    }

    /// Returns the metrics in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        self.fairness().map(|fairness| fairness.metrics()).unwrap_or_default()
    }

    /// Returns the debugging document at a path.
    pub(crate) fn debug_document(&self, path: &str) -> Option<String> {
        debug::document(self.fairness()?, path)
    }
}

/// Returns the class of a request that priority and fairness does not limit. Each user is a flow.
fn class_without_level(user: &User) -> Class {
    if user.is_in(MASTERS) { Class::Exempt } else { Class::Flow { level: 0, flow: fairness::hash("", &user.name) } }
}
