//! Evaluation of an autoscaler's metrics: fetches each metric, compares it with its target, and reports it in the
//! status.

use std::{fmt, sync::Arc};

use k8s_openapi::{
    api::{
        autoscaling::v2::{
            ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus, MetricIdentifier, MetricSpec,
            MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
            PodsMetricStatus, ResourceMetricStatus,
        },
        core::v1::Pod,
    },
    apimachinery::pkg::api::resource::Quantity as Amount,
};
use windlass_api::{LabelSelector, Quantity, QuantityFormat};

use super::{
    metrics::{MetricSource, PodMetric, Samples},
    numbers::milli,
    replicas::{Measured, MetricUnavailable, Readiness, Tolerances, Usage, by_share},
};
use crate::selector::as_go_shows;

/// The recommendation of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// The metric's name in event reasons.
    pub(super) metric: String,
    pub(super) status: MetricStatus,
}

/// The reason why a metric yields no recommendation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The reason of the event and of the condition.
    pub(super) reason: &'static str,
    /// The event's message.
    pub(super) why: String,
    /// The prefix for the message about all metrics.
    pub(super) summary: String,
}

/// An autoscaler's target, and the source of its metrics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evaluator<'e> {
    pub(super) metrics: &'e dyn MetricSource,
    pub(super) namespace: &'e str,
    pub(super) selector: &'e LabelSelector,
    pub(super) pods: &'e [Arc<Pod>],
    pub(super) readiness: Readiness,
    pub(super) tolerances: Tolerances,
    /// The replicas in the scale's spec.
    pub(super) wanted: i32,
    /// The replicas in the scale's status.
    pub(super) existing: i32,
}

impl Evaluator<'_> {
    /// Evaluates one metric.
    pub(super) async fn evaluate(self, spec: &MetricSpec) -> Result<Proposal, Failure> {
        let (reason, inner, summary, outcome) = match spec {
            MetricSpec { type_, object: Some(source), .. } if type_ == "Object" => {
                let outcome = self.object(source).await;
                let inner = match outcome {
                    Err(Problem::OfAverage(_)) => format!("failed to get {} object metric: ", source.metric.name),
                    _ => String::new(),
                };
                ("FailedGetObjectMetric", inner, "failed to get object metric value: ".to_owned(), outcome)
            }
            MetricSpec { type_, pods: Some(source), .. } if type_ == "Pods" => {
                let outcome = self.of_pods(source).await;
                ("FailedGetPodsMetric", String::new(), "failed to get pods metric value: ".to_owned(), outcome)
            }
            MetricSpec { type_, resource: Some(source), .. } if type_ == "Resource" => {
                let outcome = self.resource(&source.name, None, &source.target).await;
                let summary = format!("failed to get {} resource metric value: ", source.name);
                ("FailedGetResourceMetric", String::new(), summary, outcome)
            }
            MetricSpec { type_, container_resource: Some(source), .. } if type_ == "ContainerResource" => {
                let outcome = self.resource(&source.name, Some(&source.container), &source.target).await;
                let summary = format!("failed to get {} container metric value: ", source.container);
                ("FailedGetContainerResourceMetric", String::new(), summary, outcome)
            }
            MetricSpec { type_, external: Some(source), .. } if type_ == "External" => {
                let outcome = self.external(source).await;
                let name = &source.metric.name;
                let inner = match outcome {
                    Err(Problem::OfAverage(_)) => format!("failed to get {name} external metric: "),
                    Err(Problem::OfValue(_)) => format!("failed to get external metric {name}: "),
                    _ => String::new(),
                };
                ("FailedGetExternalMetric", inner, format!("failed to get {name} external metric value: "), outcome)
            }
            MetricSpec { type_, .. } => {
                let why = format!("error metric source type {type_:?}");
                return Err(Failure { reason: "InvalidMetricSourceType", summary: why.clone(), why });
            }
        };
        outcome.map_err(|problem| {
            let why = problem.to_string();
            Failure { reason, summary: format!("{summary}{inner}{why}"), why }
        })
    }

    fn measured(&self) -> Measured<'_> {
        let Self { pods, readiness, tolerances, wanted, .. } = *self;
        Measured { pods, readiness, tolerances, current: wanted }
    }

    async fn resource(self, name: &str, container: Option<&str>, target: &MetricTarget) -> Result<Proposal, Problem> {
        let samples = async || {
            let metric = PodMetric::Resource { name, container };
            let samples = self.metrics.of_pods(self.namespace, self.selector, metric).await;
            samples.map_err(|error| MetricUnavailable::Resource { resource: name.to_owned(), error: error.into() })
        };
        let (replicas, metric, current) = if let Some(wanted) = &target.average_value {
            let of_usage = |why| Problem::OfUsage(name.to_owned(), "usage", why);
            let samples: Samples = samples().await.map_err(of_usage)?;
            let usage = self.measured().by_usage(&samples, name == "cpu", milli(wanted)).map_err(of_usage)?;
            let current = MetricValueStatus {
                average_value: Some(amount_of(name, usage.amount)),
                ..MetricValueStatus::default()
            };
            (usage.replicas, format!("{name} resource"), current)
        } else if let Some(wanted) = target.average_utilization {
            let of_usage = |why| Problem::OfUsage(name.to_owned(), "utilization", why);
            let samples: Samples = samples().await.map_err(of_usage)?;
            let used = self.measured().by_utilization(&samples, name, container, wanted).map_err(of_usage)?;
            let current = MetricValueStatus {
                average_utilization: Some(used.percent),
                average_value: Some(amount_of(name, used.average)),
                ..MetricValueStatus::default()
            };
            let kind = if container.is_some() { "container resource" } else { "resource" };
            (used.replicas, format!("{name} {kind} utilization (percentage of request)"), current)
        } else {
            return Err(Problem::Other(MetricUnavailable::Target(
                "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set",
            )));
        };
        let status = match container {
            None => MetricStatus {
                type_: "Resource".to_owned(),
                resource: Some(ResourceMetricStatus { name: name.to_owned(), current }),
                ..MetricStatus::default()
            },
            Some(container) => MetricStatus {
                type_: "ContainerResource".to_owned(),
                container_resource: Some(ContainerResourceMetricStatus {
                    name: name.to_owned(),
                    container: container.to_owned(),
                    current,
                }),
                ..MetricStatus::default()
            },
        };
        Ok(Proposal { replicas, metric, status })
    }

    async fn of_pods(self, source: &PodsMetricSource) -> Result<Proposal, Problem> {
        let metric = &source.metric;
        check(metric)?;
        let samples = self.metrics.of_pods(self.namespace, self.selector, PodMetric::Custom(metric)).await;
        let samples =
            samples.map_err(|error| MetricUnavailable::OfPods { metric: metric.name.clone(), error: error.into() })?;
        let target = source.target.average_value.as_ref().map_or(0, milli);
        let usage = self.measured().by_usage(&samples, false, target)?;
        let status = MetricStatus {
            type_: "Pods".to_owned(),
            pods: Some(PodsMetricStatus { metric: metric.clone(), current: average(usage.amount) }),
            ..MetricStatus::default()
        };
        Ok(Proposal { replicas: usage.replicas, metric: format!("pods metric {}", metric.name), status })
    }

    async fn object(self, source: &ObjectMetricSource) -> Result<Proposal, Problem> {
        let ObjectMetricSource { described_object: object, metric, target } = source;
        check(metric)?;
        let amount = async || {
            let amount = self.metrics.of_object(self.namespace, object, metric).await;
            amount.map(|amount| amount.milli_value()).map_err(|error| MetricUnavailable::OfObject {
                metric: metric.name.clone(),
                object: format!("{} on {} {}", object.kind, self.namespace, object.name),
                error: error.into(),
            })
        };
        let (usage, name, current) = match target {
            MetricTarget { type_, value: Some(wanted), .. } if type_ == "Value" => {
                let usage = self.measured().by_total(amount().await?, milli(wanted))?;
                (usage, format!("{} metric {}", object.kind, metric.name), value(usage.amount))
            }
            MetricTarget { type_, average_value: Some(wanted), .. } if type_ == "AverageValue" => {
                let amount = amount().await.map_err(Problem::OfAverage)?;
                let usage = by_share(amount, milli(wanted), self.existing, self.tolerances);
                (usage, external_name(metric), average(usage.amount))
            }
            _ => {
                return Err(Problem::Other(MetricUnavailable::Target(
                    "invalid object metric source: neither a value target nor an average value target was set",
                )));
            }
        };
        let status = MetricStatus {
            type_: "Object".to_owned(),
            object: Some(ObjectMetricStatus { current, described_object: object.clone(), metric: metric.clone() }),
            ..MetricStatus::default()
        };
        Ok(Proposal { replicas: usage.replicas, metric: name, status })
    }

    async fn external(self, source: &ExternalMetricSource) -> Result<Proposal, Problem> {
        let ExternalMetricSource { metric, target } = source;
        let amount = async || {
            check(metric)?;
            let amounts = self.metrics.external(self.namespace, metric).await;
            let amounts = amounts.map_err(|error| {
                let name = format!("{}/{}/{}", self.namespace, metric.name, as_go_shows(metric.selector.as_ref()));
                MetricUnavailable::External { metric: name, error: error.into() }
            })?;
            let sum = |sum: i64, amount: &Quantity| sum.saturating_add(amount.milli_value());
            Ok::<_, MetricUnavailable>(amounts.iter().fold(0_i64, sum))
        };
        let (usage, current): (Usage, _) = match target {
            MetricTarget { average_value: Some(wanted), .. } => {
                let amount = amount().await.map_err(Problem::OfAverage)?;
                let usage = by_share(amount, milli(wanted), self.existing, self.tolerances);
                (usage, average(usage.amount))
            }
            MetricTarget { value: Some(wanted), .. } => {
                let amount = amount().await.map_err(Problem::OfValue)?;
                let usage = self.measured().by_total(amount, milli(wanted)).map_err(Problem::OfValue)?;
                (usage, value(usage.amount))
            }
            _ => {
                return Err(Problem::Other(MetricUnavailable::Target(
                    "invalid external metric source: neither a value target nor an average value target was set",
                )));
            }
        };
        let status = MetricStatus {
            type_: "External".to_owned(),
            external: Some(ExternalMetricStatus { current, metric: metric.clone() }),
            ..MetricStatus::default()
        };
        Ok(Proposal { replicas: usage.replicas, metric: external_name(metric), status })
    }
}

/// The origin of an unavailable metric, which determines the text around its message.
#[derive(Debug)]
enum Problem {
    /// The usage or utilization of a resource.
    OfUsage(String, &'static str, MetricUnavailable),
    OfAverage(MetricUnavailable),
    OfValue(MetricUnavailable),
    Other(MetricUnavailable),
}

impl From<MetricUnavailable> for Problem {
    fn from(error: MetricUnavailable) -> Self {
        Self::Other(error)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfUsage(resource, what, error) => write!(f, "failed to get {resource} {what}: {error}"),
            Self::OfAverage(error) | Self::OfValue(error) | Self::Other(error) => error.fmt(f),
        }
    }
}

/// Validates the metric's own selector.
fn check(metric: &MetricIdentifier) -> Result<(), MetricUnavailable> {
    metric.selector.as_ref().map(LabelSelector::try_from).transpose()?;
    Ok(())
}

fn external_name(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, as_go_shows(metric.selector.as_ref()))
}

fn written(milli: i64, format: QuantityFormat) -> Amount {
    Amount(Quantity::milli(milli, format).to_string())
}

/// Formats an amount of a resource. Memory uses powers of 1024.
fn amount_of(resource: &str, milli: i64) -> Amount {
    written(milli, if resource == "memory" { QuantityFormat::BinarySi } else { QuantityFormat::DecimalSi })
}

fn average(milli: i64) -> MetricValueStatus {
    MetricValueStatus { average_value: Some(written(milli, QuantityFormat::DecimalSi)), ..MetricValueStatus::default() }
}

fn value(milli: i64) -> MetricValueStatus {
    MetricValueStatus { value: Some(written(milli, QuantityFormat::DecimalSi)), ..MetricValueStatus::default() }
}
