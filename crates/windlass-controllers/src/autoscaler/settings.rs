//! How autoscalers are run where their objects do not say it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior};

use super::metrics::MetricSource;

/// How horizontal pod autoscalers are run. The defaults are those of kube-controller-manager.
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
    /// How often each is looked at; every 15 seconds by default.
    pub fn every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// How far what is measured may be off without anything being done about it, as a part of it; 0.1 by default.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// How long a higher recommendation holds where the behavior of an object says nothing of it; 5 minutes by default.
    pub fn downscale_stabilization(mut self, window: Duration) -> Self {
        self.stabilization = window;
        self
    }

    /// How long after its start the processor time of a pod may be that of its start; 5 minutes by default.
    pub fn cpu_initialization_period(mut self, period: Duration) -> Self {
        self.initialization = period;
        self
    }

    /// How long after its start a pod that becomes unready counts as one that has never been ready; 30 seconds by default.
    pub fn initial_readiness_delay(mut self, delay: Duration) -> Self {
        self.readiness = delay;
        self
    }

    /// Where metrics come from; by default [the API server](super::metrics::ApiMetrics).
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

/// The rules upwards and downwards, with what holds where nothing is said, as the API server puts it in.
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
