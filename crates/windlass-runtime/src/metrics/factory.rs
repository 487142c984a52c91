//! Creation and registration of metrics.

use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, core::Collector};

/// Buckets for the durations of requests and of short sequences of requests, in seconds.
pub(super) const REQUEST_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// Creates metrics and registers them.
pub(super) struct MetricFactory<'r>(pub(super) &'r prometheus::Registry);

// === impl MetricFactory ===

impl MetricFactory<'_> {
    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn float_gauges(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.register(GaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn histograms(&self, name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> HistogramVec {
        self.register(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels))
    }

    /// Cannot fail: names, labels and buckets are constants in the callers.
    pub(super) fn register<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        let metric = metric.expect("names and labels are valid, and buckets in order");
        self.0.register(Box::new(metric.clone())).expect("names are unique");
        metric
    }
}
