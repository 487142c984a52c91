//! Computes the recommended replica count for a metric. Plain values, no I/O.

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

/// The reason why a metric yields no recommendation. The messages equal those of kube-controller-manager.
#[derive(Debug, Error)]
pub(super) enum MetricUnavailable {
    #[error("unable to get metrics for resource {resource}: {error}")]
    Resource { resource: String, error: Box<MetricError> },
    #[error("unable to get metric {metric}: {error}")]
    OfPods { metric: String, error: Box<MetricError> },
    /// The order of the parts equals that of kube-controller-manager.
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
    /// The metric does not support this type of target.
    #[error("{0}")]
    Target(&'static str),
}

/// The allowed deviation of the usage ratio from 1.0 before the autoscaler scales.
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

/// The periods after a pod's start in which its CPU usage is not representative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    /// The period after a pod's start in which it may use extra CPU to initialize.
    pub(super) initialization: Duration,
    /// The delay after a pod's start. A pod that became unready within it counts as never having been ready.
    pub(super) delay: Duration,
    pub(super) now: Timestamp,
}

/// The pods of a target, with the settings to evaluate them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured<'p> {
    pub(super) pods: &'p [Arc<Pod>],
    pub(super) readiness: Readiness,
    pub(super) tolerances: Tolerances,
    /// The replicas in the spec of the target's scale.
    pub(super) current: i32,
}

/// The usage of pods as a share of their requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Utilization {
    pub(super) replicas: i32,
    pub(super) percent: i32,
    pub(super) average: i64,
}

/// The usage of pods.
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
    /// Computes the replicas for a utilization target, a percentage of the requests of the pods or of their containers
    /// with a given name.
    pub(super) fn by_utilization(
        self,
        samples: &Samples,
        resource: &str,
        container: Option<&str>,
        target: i32,
    ) -> Result<Utilization, MetricUnavailable> {
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
                return Err(MetricUnavailable::NoMatch);
            }
            let percent = i128::from(used) * 100 / i128::from(requested);
            Ok((narrow(i64::try_from(percent).unwrap_or(i64::MAX)), used / entries))
        };
        let ratio = |amounts: &Amounts| Ok(float(used(amounts)?.0.into()) / float(target.into()));
        // When scaling down, a pod without metrics is assumed to use its full request.
        let whole = |pod: &str| {
            let request = requests.get(pod).copied().unwrap_or_default();
            narrow_amount(i128::from(request) * i128::from(target.max(100)) / 100)
        };
        let (percent, average) = used(&amounts)?;
        let replicas = self.settle(&groups, amounts, ratio, whole)?;
        Ok(Utilization { replicas, percent, average })
    }

    /// Computes the replicas for a target amount per pod.
    pub(super) fn by_usage(self, samples: &Samples, is_cpu: bool, target: i64) -> Result<Usage, MetricUnavailable> {
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

    /// Computes the replicas for a target of the total amount: scales the ready pods by the ratio of amount to target.
    pub(super) fn by_total(self, amount: i64, target: i64) -> Result<Usage, MetricUnavailable> {
        let ratio = float(amount) / float(target);
        if self.current == 0 {
            return Ok(Usage { replicas: ceil(ratio), amount });
        }
        if self.tolerances.holds(ratio) {
            return Ok(Usage { replicas: self.current, amount });
        }
        if self.pods.is_empty() {
            return Err(MetricUnavailable::NoReadyPods);
        }
        let ready = self.pods.iter().filter(|pod| pods::phase(pod) == "Running" && pods::is_ready(pod)).count();
        Ok(Usage { replicas: ceil(ratio * float(count(ready))), amount })
    }

    /// Groups the pods by state, and returns the samples of the pods that count.
    fn group(self, samples: &Samples, is_cpu: bool) -> Result<(Groups<'p>, Amounts), MetricUnavailable> {
        if self.pods.is_empty() {
            return Err(MetricUnavailable::NoPods);
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
        if amounts.is_empty() { Err(MetricUnavailable::NoSamples) } else { Ok((groups, amounts)) }
    }

    /// Fills in conservative values for pods without metrics. If these values reverse the direction, the count does not
    /// change.
    fn settle(
        self,
        groups: &Groups<'_>,
        mut amounts: Amounts,
        ratio: impl Fn(&Amounts) -> Result<f64, MetricUnavailable>,
        whole: impl Fn(&str) -> i64,
    ) -> Result<i32, MetricUnavailable> {
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
    /// Reports whether the pod is still starting, so that its CPU usage does not count.
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

/// Computes the replicas for a target amount per pod of a total that does not belong to the pods. The returned amount
/// is the average per existing pod.
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
