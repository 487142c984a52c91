//! Metrics set by a program and kept in memory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt as _, ready};
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier};
use parking_lot::RwLock;
use windlass_api::{Clock, LabelSelector, Quantity};

use super::{MetricApi, MetricError, MetricSource, PodMetric, Sample, Samples, selector_of};

/// The window reported with each value.
const WINDOW: Duration = Duration::from_secs(30);

/// Metrics set by a program instead of measured, for tests. Clones share the values. A value holds until it is
/// replaced, and is reported as measured at the time of the request.
///
/// ```
/// use windlass_controllers::MemoryMetrics;
/// # use windlass_api::Clock;
/// # fn clock() -> Clock { Clock::from_fn(|| jiff::Timestamp::UNIX_EPOCH) }
///
/// let metrics = MemoryMetrics::new(clock());
/// metrics.set_usage("default", "web-0", "app", "cpu", "250m".parse()?);
/// metrics.set_external("default", "queue-length", [("queue", "orders")], "120".parse()?);
/// # Ok::<_, windlass_api::QuantityError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryMetrics {
    clock: Clock,
    values: Arc<RwLock<Values>>,
}

#[derive(Debug, Default)]
struct Values {
    /// Values by namespace and pod; then by container and resource.
    usage: BTreeMap<(String, String), BTreeMap<(String, String), Quantity>>,
    /// Values by namespace, pod and metric.
    of_pods: BTreeMap<(String, String, String), Quantity>,
    /// Values by namespace, kind, name and metric.
    of_objects: BTreeMap<(String, String, String, String), Quantity>,
    /// Labels and values by namespace and metric.
    external: BTreeMap<(String, String), Vec<(BTreeMap<String, String>, Quantity)>>,
}

impl MemoryMetrics {
    /// Creates an empty source.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, values: Arc::default() }
    }

    /// Sets the resource usage of a container.
    pub fn set_usage(&self, namespace: &str, pod: &str, container: &str, resource: &str, amount: Quantity) {
        let mut values = self.values.write();
        let of_pod = values.usage.entry((namespace.to_owned(), pod.to_owned())).or_default();
        of_pod.insert((container.to_owned(), resource.to_owned()), amount);
    }

    /// Removes all metrics of a pod.
    pub fn forget_pod(&self, namespace: &str, pod: &str) {
        let mut values = self.values.write();
        values.usage.remove(&(namespace.to_owned(), pod.to_owned()));
        values.of_pods.retain(|(known, of, _), _| known != namespace || of != pod);
    }

    /// Sets a custom metric of a pod.
    pub fn set_of_pod(&self, namespace: &str, pod: &str, metric: &str, amount: Quantity) {
        self.values.write().of_pods.insert((namespace.to_owned(), pod.to_owned(), metric.to_owned()), amount);
    }

    /// Sets a custom metric of another object.
    pub fn set_of_object(&self, namespace: &str, kind: &str, name: &str, metric: &str, amount: Quantity) {
        let key = (namespace.to_owned(), kind.to_owned(), name.to_owned(), metric.to_owned());
        self.values.write().of_objects.insert(key, amount);
    }

    /// Sets an external metric; replaces a value with the same name and labels.
    pub fn set_external<'l>(
        &self,
        namespace: &str,
        metric: &str,
        labels: impl IntoIterator<Item = (&'l str, &'l str)>,
        amount: Quantity,
    ) {
        let labels: BTreeMap<_, _> =
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let mut values = self.values.write();
        let known = values.external.entry((namespace.to_owned(), metric.to_owned())).or_default();
        known.retain(|(of, _)| *of != labels);
        known.push((labels, amount));
    }

    fn sample(&self, value: Quantity) -> Sample {
        Sample { value, at: self.clock.now(), window: WINDOW }
    }

    fn pods(&self, namespace: &str, metric: PodMetric<'_>) -> Result<Samples, MetricError> {
        let values = self.values.read();
        let (samples, api): (Samples, _) = match metric {
            PodMetric::Resource { name, container } => {
                let of_pods = values.usage.iter().filter(|((known, _), _)| known == namespace);
                let used = of_pods.filter_map(|((_, pod), usage)| {
                    let parts = usage.iter().filter(|((of, resource), _)| {
                        resource == name && container.is_none_or(|container| of == container)
                    });
                    let sum = parts.map(|(_, amount)| amount.clone()).reduce(|sum, amount| sum + amount)?;
                    Some((pod.clone(), self.sample(sum)))
                });
                (used.collect(), MetricApi::Resource)
            }
            PodMetric::Custom(metric) => {
                let of_pods =
                    values.of_pods.iter().filter(|((known, _, name), _)| known == namespace && *name == metric.name);
                let used = of_pods.map(|((_, pod, _), amount)| (pod.clone(), self.sample(amount.clone())));
                (used.collect(), MetricApi::Custom)
            }
        };
        if samples.is_empty() { Err(MetricError::Nothing(api)) } else { Ok(samples) }
    }

    fn outside(&self, namespace: &str, metric: &MetricIdentifier) -> Result<Vec<Quantity>, MetricError> {
        let selector = selector_of(metric)?;
        let values = self.values.read();
        let known = values.external.get(&(namespace.to_owned(), metric.name.clone()));
        let matching = known.into_iter().flatten().filter(|(labels, _)| selector.matches_map(labels));
        let amounts: Vec<_> = matching.map(|(_, amount)| amount.clone()).collect();
        if amounts.is_empty() { Err(MetricError::Nothing(MetricApi::External)) } else { Ok(amounts) }
    }
}

impl MetricSource for MemoryMetrics {
    /// Returns all pods of the namespace; the autoscaler filters them.
    fn of_pods<'a>(
        &'a self,
        namespace: &'a str,
        _: &'a LabelSelector,
        metric: PodMetric<'a>,
    ) -> BoxFuture<'a, Result<Samples, MetricError>> {
        ready(self.pods(namespace, metric)).boxed()
    }

    fn of_object<'a>(
        &'a self,
        namespace: &'a str,
        object: &'a CrossVersionObjectReference,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Quantity, MetricError>> {
        let key = (namespace.to_owned(), object.kind.clone(), object.name.clone(), metric.name.clone());
        let found = self.values.read().of_objects.get(&key).cloned();
        ready(found.ok_or(MetricError::Nothing(MetricApi::Custom))).boxed()
    }

    fn external<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Vec<Quantity>, MetricError>> {
        ready(self.outside(namespace, metric)).boxed()
    }
}
