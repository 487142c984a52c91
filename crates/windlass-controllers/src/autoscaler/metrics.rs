//! Sources of metrics.

mod api;
mod memory;

use std::{collections::BTreeMap, fmt, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier};
use thiserror::Error;
use windlass_api::{LabelSelector, Quantity, SelectorError};

pub use api::ApiMetrics;
pub use memory::MemoryMetrics;

/// A source of metrics for the horizontal pod autoscaler.
///
/// [`ApiMetrics`] reads them from an API server, as kube-controller-manager does. [`MemoryMetrics`] returns values set
/// by a test or a program.
pub trait MetricSource: fmt::Debug + Send + Sync + 'static {
    /// Returns the metrics of the selected pods, by pod name. A pod without metrics is left out.
    fn of_pods<'a>(
        &'a self,
        namespace: &'a str,
        pods: &'a LabelSelector,
        metric: PodMetric<'a>,
    ) -> BoxFuture<'a, Result<Samples, MetricError>>;

    /// Returns a metric of an object.
    fn of_object<'a>(
        &'a self,
        namespace: &'a str,
        object: &'a CrossVersionObjectReference,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Quantity, MetricError>>;

    /// Returns the external metrics with a name and matching labels.
    fn external<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Vec<Quantity>, MetricError>>;
}

/// Metrics of pods, by pod name.
pub type Samples = BTreeMap<String, Sample>;

/// A metric of pods.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PodMetric<'a> {
    /// The usage of a resource.
    Resource {
        /// The resource: `cpu` or `memory`.
        name: &'a str,
        /// The container, or `None` for the sum of all containers.
        container: Option<&'a str>,
    },
    /// A custom metric of each pod.
    Custom(&'a MetricIdentifier),
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The measured amount.
    pub value: Quantity,
    /// The end of the measured period.
    pub at: Timestamp,
    /// The length of the measured period.
    pub window: Duration,
}

/// An error of a metric source. The messages equal those of kube-controller-manager, which writes them to conditions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The metrics API returned an error or could not be reached.
    #[error("unable to fetch metrics from {api}: {why}")]
    Fetch {
        /// The API that was called.
        api: MetricApi,
        /// The error message.
        why: String,
    },
    /// The API returned no metrics.
    #[error("no metrics returned from {0}")]
    Nothing(MetricApi),
    /// The selector of the metric is invalid.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

/// The three metrics APIs of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricApi {
    /// `metrics.k8s.io`
    Resource,
    /// `custom.metrics.k8s.io`
    Custom,
    /// `external.metrics.k8s.io`
    External,
}

impl fmt::Display for MetricApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resource => "resource metrics API",
            Self::Custom => "custom metrics API",
            Self::External => "external metrics API",
        })
    }
}

/// Returns a metric's own selector; without one, it matches everything.
fn selector_of(metric: &MetricIdentifier) -> Result<LabelSelector, SelectorError> {
    metric.selector.as_ref().map_or_else(|| Ok(LabelSelector::default()), LabelSelector::try_from)
}
