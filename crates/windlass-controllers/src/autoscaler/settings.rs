//! Settings and defaults of autoscalers.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior};

use super::metrics::MetricSource;

/// The settings of the horizontal pod autoscaler controller. The defaults are those of kube-controller-manager.
#[derive(Clone, Debug)]
#[must_use = "settings do nothing until controllers are given them"]
pub struct Autoscaling {
    pub(super) period: Duration,
    pub(super) tolerance: f64,
    pub(super) stabilization: Duration,
    pub(super) initialization: Duration,
    pub(super) readiness: Duration,
    pub(super) metrics: Option<Arc<dyn MetricSource>>,
}

impl Autoscaling {
    /// Sets the period between two reconciles of an autoscaler. Defaults to 15 seconds.
    pub fn every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Sets the tolerance: smaller relative deviations from the target cause no scaling. Defaults to 0.1.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets the stabilization window for scaling down, for objects that do not specify one. Defaults to 5 minutes.
    pub fn downscale_stabilization(mut self, window: Duration) -> Self {
        self.stabilization = window;
        self
    }

    /// Sets the period after a pod's start in which its CPU usage may be ignored. Defaults to 5 minutes.
    pub fn cpu_initialization_period(mut self, period: Duration) -> Self {
        self.initialization = period;
        self
    }

    /// Sets the delay after a pod's start. A pod that became unready within it counts as never having been ready.
    /// Defaults to 30 seconds.
    pub fn initial_readiness_delay(mut self, delay: Duration) -> Self {
        self.readiness = delay;
        self
    }

    /// Sets the source of metrics. Defaults to [the API server](super::metrics::ApiMetrics).
    pub fn metrics(mut self, metrics: Arc<dyn MetricSource>) -> Self {
        self.metrics = Some(metrics);
        self
    }
}

impl Default for Autoscaling {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(15),
            tolerance: 0.1,
            stabilization: Duration::from_mins(5),
            initialization: Duration::from_mins(5),
            readiness: Duration::from_secs(30),
            metrics: None,
        }
    }
}

/// Returns the rules for scaling up and down, with the API server's defaults for missing fields.
pub(super) fn completed(behavior: &HorizontalPodAutoscalerBehavior) -> (HPAScalingRules, HPAScalingRules) {
    let policy = |type_: &str, value| HPAScalingPolicy { period_seconds: 15, type_: type_.to_owned(), value };
    let up = behavior.scale_up.clone().unwrap_or_else(|| HPAScalingRules {
        policies: Some(vec![policy("Pods", 4), policy("Percent", 100)]),
        ..HPAScalingRules::default()
    });
    let down = behavior.scale_down.clone().unwrap_or_else(|| HPAScalingRules {
        policies: Some(vec![policy("Percent", 100)]),
        ..HPAScalingRules::default()
    });
    (up, down)
}
