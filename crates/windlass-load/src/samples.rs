//! The measurements of a run: a record for each request, each pod and each watch event.
//!
//! They are kept one by one, in 16 bytes each, so percentiles are exact and plots can group them by time.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::number::micros;

/// The verb of a request, as metrics of API servers name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    Create,
    Patch,
    Delete,
    Get,
    List,
}

/// The objects that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    Resource,
    Namespace,
    Cluster,
}

/// Requests that are measured together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Series {
    pub(crate) verb: Verb,
    /// The resource with its group, such as `deployments.apps`.
    pub(crate) resource: String,
    pub(crate) scope: Scope,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) series: u16,
    /// The reason of the failure, or 0.
    pub(crate) failure: u16,
    /// The intended start, in milliseconds after that of the run.
    pub(crate) at: u32,
    /// Microseconds from the intended start to the end of the response.
    pub(crate) latency: u32,
    /// Microseconds from sending the request to the end of the response.
    pub(crate) service: u32,
}

/// The startup of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodSample {
    /// The time at which the watch reported the start, in milliseconds after the start of the run.
    pub(crate) at: u32,
    /// Durations in microseconds. The first four use the server's times, which are whole seconds.
    pub(crate) total: u32,
    pub(crate) schedule: u32,
    pub(crate) start: u32,
    pub(crate) watch: u32,
    /// From the first event of the pod to the event of its start, on the clock of this program.
    pub(crate) observed: u32,
}

/// All measurements of a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    start: Instant,
    state: Mutex<Measurements>,
}

#[derive(Debug, Default)]
pub(crate) struct Measurements {
    pub(crate) series: Vec<Series>,
    /// The reasons of failures; the first is empty.
    pub(crate) reasons: Vec<String>,
    pub(crate) requests: Vec<Sample>,
    pub(crate) pods: Vec<PodSample>,
    /// The number of pods that were reported as unschedulable or have init containers. They are not in `pods`.
    pub(crate) other_pods: usize,
    /// The latency of watch events by resource, in microseconds.
    pub(crate) watch: HashMap<String, Vec<u32>>,
    /// The number of watches that had to list again.
    pub(crate) relists: usize,
    /// The number of requests that were not sent, because their object did not exist.
    pub(crate) skipped: usize,
}

/// The times of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) intended: Instant,
    pub(crate) sent: Instant,
    pub(crate) done: Instant,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let state = Measurements { reasons: vec![String::new()], ..Measurements::default() };
        Self { start: Instant::now(), state: Mutex::new(state) }
    }

    /// Returns the time since the start of the run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn request(&self, series: &Series, timing: Timing, failure: Option<&str>) {
        let mut state = self.state.lock();
        let series = position(&mut state.series, series);
        let failure = failure.map_or(0, |reason| position(&mut state.reasons, &reason.to_owned()));
        state.requests.push(Sample {
            series,
            failure,
            at: self.millis(timing.intended),
            latency: micros(timing.done.saturating_duration_since(timing.intended)),
            service: micros(timing.done.saturating_duration_since(timing.sent)),
        });
    }

    pub(crate) fn skip(&self) {
        self.state.lock().skipped += 1;
    }

    pub(crate) fn pod(&self, pod: PodSample) {
        self.state.lock().pods.push(pod);
    }

    pub(crate) fn other_pod(&self) {
        self.state.lock().other_pods += 1;
    }

    pub(crate) fn watch(&self, resource: &str, latency: Duration) {
        let mut state = self.state.lock();
        match state.watch.get_mut(resource) {
            Some(latencies) => latencies.push(micros(latency)),
            None => drop(state.watch.insert(resource.to_owned(), vec![micros(latency)])),
        }
    }

    pub(crate) fn relist(&self) {
        self.state.lock().relists += 1;
    }

    /// Returns a time in milliseconds after the start of the run.
    pub(crate) fn millis(&self, at: Instant) -> u32 {
        u32::try_from(at.saturating_duration_since(self.start).as_millis()).unwrap_or(u32::MAX)
    }

    /// Returns the numbers of requests and of failures so far.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.requests.len(), state.requests.iter().filter(|sample| sample.failure != 0).count())
    }

    pub(crate) fn skipped(&self) -> usize {
        self.state.lock().skipped
    }

    /// Returns all measurements.
    pub(crate) fn take(&self) -> Measurements {
        std::mem::take(&mut self.state.lock())
    }
}

impl Verb {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Get => "get",
            Self::List => "list",
        }
    }
}

impl Scope {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Namespace => "namespace",
            Self::Cluster => "cluster",
        }
    }
}

/// Returns the place of a value in a short list, to which it is added.
fn position<T: PartialEq + Clone>(list: &mut Vec<T>, value: &T) -> u16 {
    let place = list.iter().position(|known| known == value).unwrap_or_else(|| {
        list.push(value.clone());
        list.len() - 1
    });
    u16::try_from(place).unwrap_or(u16::MAX)
}
