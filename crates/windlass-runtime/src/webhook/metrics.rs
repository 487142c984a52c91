//! Prometheus metrics of webhooks.

use std::{
    fmt::{self, Debug},
    time::Duration,
};

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, core::Collector, exponential_buckets,
};
use windlass_webhook::{WebhookMetrics, WebhookPath};

use crate::metrics::Registry;

/// Metrics of a webhook server in a [`Registry`], with controller-runtime's names. Pass it to
/// [`WebhooksBuilder::metrics`](windlass_webhook::WebhooksBuilder::metrics).
#[derive(Clone)]
pub struct PrometheusWebhookMetrics {
    latency: HistogramVec,
    total: IntCounterVec,
    in_flight: IntGaugeVec,
    panics: IntCounter,
    conversion_panics: IntCounter,
    certificates: IntCounter,
    certificate_errors: IntCounter,
}

impl PrometheusWebhookMetrics {
    /// Registers the metrics in a registry. Returns an error if they are registered already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let by_path = &["webhook"];
        let counter = |name: &str, help: &str| IntCounter::new(name, help);
        // From ten nanoseconds to about 30 minutes.
        let latency =
            HistogramOpts::new("controller_runtime_webhook_latency_seconds", "Duration of webhook calls, in seconds.")
                .buckets(exponential_buckets(10e-9, 10.0, 12)?);
        let total = Opts::new(
            "controller_runtime_webhook_requests_total",
            "Total number of webhook calls, by HTTP status code.",
        );
        let in_flight =
            Opts::new("controller_runtime_webhook_requests_in_flight", "Current number of running webhook calls.");
        let metrics = Self {
            latency: HistogramVec::new(latency, by_path)?,
            total: IntCounterVec::new(total, &["webhook", "code"])?,
            in_flight: IntGaugeVec::new(in_flight, by_path)?,
            panics: counter("controller_runtime_webhook_panics_total", "Total number of panics in webhook handlers.")?,
            conversion_panics: counter(
                "controller_runtime_conversion_webhook_panics_total",
                "Total number of panics in conversion webhooks.",
            )?,
            certificates: counter(
                "certwatcher_read_certificate_total",
                "Total number of reads of the serving certificate.",
            )?,
            certificate_errors: counter(
                "certwatcher_read_certificate_errors_total",
                "Total number of failed reads of the serving certificate.",
            )?,
        };
        let all: [Box<dyn Collector>; 7] = [
            Box::new(metrics.latency.clone()),
            Box::new(metrics.total.clone()),
            Box::new(metrics.in_flight.clone()),
            Box::new(metrics.panics.clone()),
            Box::new(metrics.conversion_panics.clone()),
            Box::new(metrics.certificates.clone()),
            Box::new(metrics.certificate_errors.clone()),
        ];
        all.into_iter().try_for_each(|metric| registry.prometheus().register(metric))?;
        Ok(metrics)
    }
}

impl WebhookMetrics for PrometheusWebhookMetrics {
    fn registered(&self, path: &WebhookPath) {
        // Metrics exist with the value zero before the first measurement.
        for code in ["200", "500"] {
            self.total.with_label_values(&[path.as_str(), code]);
        }
        self.in_flight.with_label_values(&[path.as_str()]).set(0);
        self.latency.with_label_values(&[path.as_str()]);
    }

    fn started(&self, path: &WebhookPath) {
        self.in_flight.with_label_values(&[path.as_str()]).inc();
    }

    fn finished(&self, path: &WebhookPath, code: Option<u16>, took: Duration) {
        self.in_flight.with_label_values(&[path.as_str()]).dec();
        if let Some(code) = code {
            self.total.with_label_values(&[path.as_str(), &code.to_string()]).inc();
            self.latency.with_label_values(&[path.as_str()]).observe(took.as_secs_f64());
        }
    }

    fn panicked(&self) {
        self.panics.inc();
    }

    fn conversion_panicked(&self) {
        self.conversion_panics.inc();
    }

    fn certificate_read(&self, usable: bool) {
        self.certificates.inc();
        self.certificate_errors.inc_by(u64::from(!usable));
    }
}

impl Debug for PrometheusWebhookMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrometheusWebhookMetrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_are_counted_under_the_names_that_dashboards_know() {
        let registry = Registry::new();
        let metrics = PrometheusWebhookMetrics::register(&registry).unwrap();
        assert!(PrometheusWebhookMetrics::register(&registry).is_err(), "once");
        let path = WebhookPath::custom("/h").unwrap();
        metrics.registered(&path);
        for _ in 0..2 {
            metrics.started(&path);
        }
        metrics.finished(&path, Some(200), Duration::from_millis(2));
        metrics.panicked();
        metrics.conversion_panicked();
        metrics.certificate_read(true);
        metrics.certificate_read(false);
        let text = registry.text();
        for line in [
            r#"controller_runtime_webhook_requests_total{code="200",webhook="/h"} 1"#,
            r#"controller_runtime_webhook_requests_total{code="500",webhook="/h"} 0"#,
            r#"controller_runtime_webhook_requests_in_flight{webhook="/h"} 1"#,
            r#"controller_runtime_webhook_latency_seconds_count{webhook="/h"} 1"#,
            "controller_runtime_webhook_panics_total 1",
            "controller_runtime_conversion_webhook_panics_total 1",
            "certwatcher_read_certificate_total 2",
            "certwatcher_read_certificate_errors_total 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
