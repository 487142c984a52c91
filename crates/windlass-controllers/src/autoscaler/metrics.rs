//! Where metrics come from.

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

/// Tells the horizontal pod autoscaler what is measured.
///
/// [`ApiMetrics`] asks an API server, as kube-controller-manager does; [`MemoryMetrics`] tells what a test, or a program,
/// has told it.
pub trait MetricSource: fmt::Debug + Send + Sync + 'static {
    /// What is measured of the pods that a selector matches, by their names. A pod of which nothing is known is not in it.
    fn of_pods<'a>(
        &'a self,
        namespace: &'a str,
        pods: &'a LabelSelector,
        metric: PodMetric<'a>,
    ) -> BoxFuture<'a, Result<Samples, MetricError>>;

    /// What is measured of an object.
    fn of_object<'a>(
        &'a self,
        namespace: &'a str,
        object: &'a CrossVersionObjectReference,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Quantity, MetricError>>;

    /// What is measured outside of the cluster: all that has the name, and labels that match.
    fn external<'a>(
        &'a self,
        namespace: &'a str,
        metric: &'a MetricIdentifier,
    ) -> BoxFuture<'a, Result<Vec<Quantity>, MetricError>>;
}

/// What is measured of pods, by their names.
pub type Samples = BTreeMap<String, Sample>;

/// What can be measured of pods.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PodMetric<'a> {
    /// How much of a resource they use.
    Resource {
        /// The resource: `cpu`, `memory`.
        name: &'a str,
        /// Of which container; of all together, if none is named.
        container: Option<&'a str>,
    },
    /// Something that somebody measures of each.
    Custom(&'a MetricIdentifier),
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// How much.
    pub value: Quantity,
    /// The end of the time over which it was measured.
    pub at: Timestamp,
    /// How long that time was.
    pub window: Duration,
}

/// Why there is no metric. The words are those of kube-controller-manager, which shows them in conditions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MetricError {
    /// Whoever should know did not answer, or said no.
    #[error("unable to fetch metrics from {api}: {why}")]
    Fetch {
        /// Whom was asked.
        api: MetricApi,
        /// What came of it.
        why: String,
    },
    /// Nothing is measured.
    #[error("no metrics returned from {0}")]
    Nothing(MetricApi),
    /// The selector of a metric makes no sense.
    #[error(transparent)]
    Selector(#[from] SelectorError),
}

/// The three APIs by which a cluster tells metrics.
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

/// What a metric's own selector says; all, if there is none.
fn selector_of(metric: &MetricIdentifier) -> Result<LabelSelector, SelectorError> {
    metric.selector.as_ref().map_or_else(|| Ok(LabelSelector::default()), LabelSelector::try_from)
}
