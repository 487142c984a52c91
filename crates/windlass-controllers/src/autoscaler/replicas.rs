//! How many replicas a metric asks for. Values only, no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use thiserror::Error;
use windlass_api::{ObjectExt, SelectorError};

use super::{
    metrics::{MetricError, Samples},
    numbers::{ceil, ceil_amount, count, float, narrow},
    requests::{self, RequestsError},
};
use crate::pods;

/// Why a metric says nothing. The words are those of kube-controller-manager.
#[derive(Debug, Error)]
pub(super) enum Unknown {
    #[error("unable to get metrics for resource {resource}: {error}")]
    Resource { resource: String, error: Box<MetricError> },
    #[error("unable to get metric {metric}: {error}")]
    OfPods { metric: String, error: Box<MetricError> },
    /// The words are in the order in which the real one has them.
    #[error("unable to get metric {metric}: {object}/{error}")]
    OfObject { metric: String, object: String, error: Box<MetricError> },
    #[error("unable to get external metric {metric}: {error}")]
    External { metric: String, error: Box<MetricError> },
    #[error("no pods returned by selector while calculating replica count")]
    NoPods,
    #[error("unable to calculate ready pods: no pods returned by selector while calculating replica count")]
    NoReadyPods,
    #[error("did not receive metrics for targeted pods (pods might be unready)")]
    NoSamples,
    #[error("no metrics returned matched known pods")]
    NoMatch,
    #[error(transparent)]
    Requests(#[from] RequestsError),
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The target of a metric is of no kind that it can have.
    #[error("{0}")]
    Target(&'static str),
}

/// How far the ratio of what is to what should be may be off without anything being done about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerances {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerances {
    fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// When what pods use says something about them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    /// How long a pod may use processors for its start.
    pub(super) initialization: Duration,
    /// How long after its start a pod that is not ready counts as one that never was.
    pub(super) delay: Duration,
    pub(super) now: Timestamp,
}

/// The pods of a target, and when they count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured<'p> {
    pub(super) pods: &'p [Arc<Pod>],
    pub(super) readiness: Readiness,
    pub(super) tolerances: Tolerances,
    /// As the scale of the target asks for.
    pub(super) current: i32,
}

/// What pods use, as a part of what they request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Utilization {
    pub(super) replicas: i32,
    pub(super) percent: i32,
    pub(super) average: i64,
}

/// What pods use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) replicas: i32,
    pub(super) amount: i64,
}

#[derive(Debug, Default)]
struct Groups<'p> {
    ready: usize,
    unready: BTreeSet<&'p str>,
    missing: BTreeSet<&'p str>,
    ignored: BTreeSet<&'p str>,
}

type Amounts = BTreeMap<String, i64>;

impl<'p> Measured<'p> {
    /// For a target that is a share of what pods, or their containers of a name, request.
    pub(super) fn by_utilization(
        self,
        samples: &Samples,
        resource: &str,
        container: Option<&str>,
        target: i32,
    ) -> Result<Utilization, Unknown> {
        let (groups, amounts) = self.group(samples, resource == "cpu")?;
        let requests = requests::of_pods(self.pods, container, resource)?;
        let used = |amounts: &Amounts| {
            let (mut used, mut requested, mut entries) = (0_i64, 0_i64, 0);
            for (pod, amount) in amounts {
                let Some(request) = requests.get(&**pod) else { continue };
                (used, requested) = (used.saturating_add(*amount), requested.saturating_add(*request));
                entries += 1;
            }
            if requested == 0 {
                return Err(Unknown::NoMatch);
            }
            let percent = i128::from(used) * 100 / i128::from(requested);
            Ok((narrow(i64::try_from(percent).unwrap_or(i64::MAX)), used / entries))
        };
        let ratio = |amounts: &Amounts| Ok(float(used(amounts)?.0.into()) / float(target.into()));
        // A pod of which nothing is known is taken to use all that it requests before it is taken away.
        let whole = |pod: &str| {
            let request = requests.get(pod).copied().unwrap_or_default();
            narrow_amount(i128::from(request) * i128::from(target.max(100)) / 100)
        };
        let (percent, average) = used(&amounts)?;
        let replicas = self.settle(&groups, amounts, ratio, whole)?;
        Ok(Utilization { replicas, percent, average })
    }

    /// For a target that is an amount for each pod.
    pub(super) fn by_usage(self, samples: &Samples, is_cpu: bool, target: i64) -> Result<Usage, Unknown> {
        let (groups, amounts) = self.group(samples, is_cpu)?;
        let average = |amounts: &Amounts| {
            let sum = amounts.values().fold(0_i64, |sum, amount| sum.saturating_add(*amount));
            sum / count(amounts.len())
        };
        let amount = average(&amounts);
        let replicas =
            self.settle(&groups, amounts, |amounts| Ok(float(average(amounts)) / float(target)), |_| target)?;
        Ok(Usage { replicas, amount })
    }

    /// For an amount that all pods share: those that are ready are to be as many times more as it is larger.
    pub(super) fn by_total(self, amount: i64, target: i64) -> Result<Usage, Unknown> {
        let ratio = float(amount) / float(target);
        if self.current == 0 {
            return Ok(Usage { replicas: ceil(ratio), amount });
        }
        if self.tolerances.holds(ratio) {
            return Ok(Usage { replicas: self.current, amount });
        }
        if self.pods.is_empty() {
            return Err(Unknown::NoReadyPods);
        }
        let ready = self.pods.iter().filter(|pod| pods::phase(pod) == "Running" && pods::is_ready(pod)).count();
        Ok(Usage { replicas: ceil(ratio * float(count(ready))), amount })
    }

    /// Parts the pods by what is known of them, and leaves of the samples those that count.
    fn group(self, samples: &Samples, is_cpu: bool) -> Result<(Groups<'p>, Amounts), Unknown> {
        if self.pods.is_empty() {
            return Err(Unknown::NoPods);
        }
        let mut groups = Groups::default();
        for pod in self.pods {
            let name = pod.name();
            if pod.is_deleting() || pods::phase(pod) == "Failed" {
                groups.ignored.insert(name);
            } else if pods::phase(pod) == "Pending" {
                groups.unready.insert(name);
            } else {
                match samples.get(name) {
                    None => _ = groups.missing.insert(name),
                    Some(sample) if is_cpu && self.readiness.is_starting(pod, sample.at, sample.window) => {
                        groups.unready.insert(name);
                    }
                    Some(_) => groups.ready += 1,
                }
            }
        }
        let counts = |pod: &str| !groups.ignored.contains(pod) && !groups.unready.contains(pod);
        let amounts: Amounts = samples
            .iter()
            .filter(|(pod, _)| counts(pod))
            .map(|(pod, sample)| (pod.clone(), sample.value.milli_value()))
            .collect();
        if amounts.is_empty() { Err(Unknown::NoSamples) } else { Ok((groups, amounts)) }
    }

    /// With pods of which nothing can be said taken for what changes least: nothing is done when that changes the direction.
    fn settle(
        self,
        groups: &Groups<'_>,
        mut amounts: Amounts,
        ratio: impl Fn(&Amounts) -> Result<f64, Unknown>,
        whole: impl Fn(&str) -> i64,
    ) -> Result<i32, Unknown> {
        let first = ratio(&amounts)?;
        let grows_with_unready = !groups.unready.is_empty() && first > 1.0;
        if !grows_with_unready && groups.missing.is_empty() {
            let within = self.tolerances.holds(first);
            return Ok(if within { self.current } else { ceil(first * float(count(groups.ready))) });
        }
        for pod in &groups.missing {
            if first < 1.0 {
                amounts.insert((*pod).to_owned(), whole(pod));
            } else if first > 1.0 {
                amounts.insert((*pod).to_owned(), 0);
            }
        }
        if grows_with_unready {
            amounts.extend(groups.unready.iter().map(|pod| ((*pod).to_owned(), 0)));
        }
        let second = ratio(&amounts)?;
        let turns = (first < 1.0 && second > 1.0) || (first > 1.0 && second < 1.0);
        if self.tolerances.holds(second) || turns {
            return Ok(self.current);
        }
        let replicas = ceil(second * float(count(amounts.len())));
        let turns = (second < 1.0 && replicas > self.current) || (second > 1.0 && replicas < self.current);
        Ok(if turns { self.current } else { replicas })
    }
}

impl Readiness {
    /// Whether what the pod uses of processors is for its start, and says nothing of its work.
    fn is_starting(self, pod: &Pod, measured: Timestamp, window: Duration) -> bool {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        let started = status.and_then(|status| status.start_time.as_ref());
        let (Some(ready), Some(started)) = (ready, started) else { return true };
        let is_unready = ready.status == "False";
        let since = ready.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0);
        if later(started.0, self.initialization) > self.now {
            return is_unready || measured < later(since, window);
        }
        is_unready && later(started.0, self.delay) > since
    }
}

/// For an amount for each pod of a sum that is not theirs: so many pods as it takes. The amount that comes back is that for
/// each of those that there are.
pub(super) fn by_share(amount: i64, target: i64, existing: i32, tolerances: Tolerances) -> Usage {
    let ratio = float(amount) / (float(target) * float(existing.into()));
    let replicas = if tolerances.holds(ratio) { existing } else { ceil(float(amount) / float(target)) };
    let amount = if amount == i64::MAX { amount } else { ceil_amount(float(amount) / float(existing.into())) };
    Usage { replicas, amount }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| time.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

fn narrow_amount(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
