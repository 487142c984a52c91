//! Prometheus metrics of a manager, with the names that controller-runtime dashboards use.

use std::{
    fmt::{self, Debug},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, TextEncoder,
};
use windlass_cache::InformerStatus;
use windlass_queue::{QueueMetrics, UnfinishedWork};

#[cfg(feature = "sharding")]
use super::shards::Shards;
use super::{
    ControllerMetrics, UnfinishedProbe,
    caches::Caches,
    depth::{self, Depth},
    factory::MetricFactory,
    requests::{RequestCounter, Requests},
};
use crate::{Outcome, Retry, leader_election::ElectionMetrics};

/// Buckets for the durations of reconciles, in seconds.
const RECONCILE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
/// Buckets of work queue metrics, in seconds: from ten nanoseconds to about 15 minutes.
const QUEUE_BUCKETS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// A registry of all metrics, with output in the Prometheus text format. Clones are handles to the same registry.
///
/// Names and labels are those of controller-runtime and client-go: `controller_runtime_*`, `workqueue_*`,
/// `rest_client_*`, `leader_election_*`. In addition, `windlass_cache_*` describes the caches and `windlass_shard_*`
/// the sharding. Pass it to a manager with [`ManagerBuilder::registry`](crate::ManagerBuilder::registry), and serve it
/// with a [`MetricsServer`](super::MetricsServer).
#[derive(Clone)]
pub struct Registry(pub(super) Arc<Inner>);

pub(super) struct Inner {
    registry: prometheus::Registry,
    controllers: Controllers,
    queues: Queues,
    requests: Arc<Requests>,
    leading: IntGaugeVec,
    slow_paths: IntCounterVec,
    #[cfg(feature = "sharding")]
    pub(super) shards: Shards,
    caches: Caches,
}

/// The metrics `controller_runtime_*`, by controller name.
struct Controllers {
    total: IntCounterVec,
    errors: IntCounterVec,
    terminal_errors: IntCounterVec,
    panics: IntCounterVec,
    timeouts: IntCounterVec,
    time: HistogramVec,
    workers: IntGaugeVec,
    active: IntGaugeVec,
}

/// The metrics `workqueue_*`, by queue name, which is the controller's name.
struct Queues {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    waited: HistogramVec,
    worked: HistogramVec,
    retries: IntCounterVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    /// The functions that return the values of the last two metrics.
    probes: Mutex<Vec<(String, UnfinishedProbe)>>,
}

/// The metrics of one queue.
struct Queue {
    depth: Depth,
    adds: IntCounter,
    waited: Histogram,
    worked: Histogram,
    retries: IntCounter,
}

// === impl Registry ===

impl Registry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        let registry = prometheus::Registry::new();
        let factory = MetricFactory(&registry);
        let controllers = Controllers::new(&factory);
        let queues = Queues::new(&factory);
        let requests = Arc::new(Requests::new(&factory));
        let leading = factory.gauges(
            "leader_election_master_status",
            "1 if this process is the leader, otherwise 0, by lease name.",
            &["name"],
        );
        let slow_paths = factory.counters(
            "leader_election_slowpath_total",
            "Total number of renewals that had to read the lease first, by lease name.",
            &["name"],
        );
        #[cfg(feature = "sharding")]
        let shards = Shards::new(&factory);
        let caches = Caches::default();
        factory.register(Ok(caches.clone()));
        Self(Arc::new(Inner {
            registry,
            controllers,
            queues,
            requests,
            leading,
            slow_paths,
            #[cfg(feature = "sharding")]
            shards,
            caches,
        }))
    }

    /// Adds the metrics of the caches that `statuses` returns.
    pub(crate) fn watch_caches(&self, statuses: impl Fn() -> Vec<InformerStatus> + Send + Sync + 'static) {
        self.0.caches.watch(statuses);
    }

    /// Returns the Prometheus registry, to which you can add your own metrics.
    #[must_use]
    pub fn prometheus(&self) -> &prometheus::Registry {
        &self.0.registry
    }

    /// Returns metrics for the requests of a client, to be set with
    /// [`Client::with_metrics`](windlass_client::Client::with_metrics). `host` is the label of the server.
    #[must_use]
    pub fn requests_to(&self, host: impl Into<Arc<str>>) -> RequestCounter {
        RequestCounter::new(Arc::clone(&self.0.requests), host)
    }

    /// Encodes all metrics in the Prometheus text format, version 0.0.4.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.queues.update();
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.0.registry.gather(), &mut text) {
            // Only metrics added by the program can fail.
            tracing::error!(%error, "cannot encode some metrics");
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl ControllerMetrics for Registry {
    fn controller(&self, controller: &str, workers: usize) -> Option<Arc<dyn QueueMetrics>> {
        let of = &self.0.controllers;
        of.workers.with_label_values(&[controller]).set(i64::try_from(workers).unwrap_or(i64::MAX));
        // Metrics exist with the value zero before the first measurement.
        of.active.with_label_values(&[controller]).set(0);
        for result in ["success", "error", "requeue", "requeue_after"] {
            of.total.with_label_values(&[controller, result]);
        }
        for counter in [&of.errors, &of.terminal_errors, &of.panics, &of.timeouts] {
            counter.with_label_values(&[controller]);
        }
        of.time.with_label_values(&[controller]);
        Some(Arc::new(self.0.queues.of(controller)))
    }

    fn queue(&self, controller: &str, probe: UnfinishedProbe) {
        let mut probes = self.0.queues.probes.lock();
        probes.retain(|(name, _)| name != controller);
        probes.push((controller.to_owned(), probe));
    }

    fn started(&self, controller: &str) {
        self.0.controllers.active.with_label_values(&[controller]).inc();
    }

    fn finished(&self, controller: &str, outcome: &Outcome, duration: Duration) {
        let of = &self.0.controllers;
        let by_name = &[controller];
        of.active.with_label_values(by_name).dec();
        of.time.with_label_values(by_name).observe(duration.as_secs_f64());
        let result = match outcome {
            Outcome::Done(action) if action.delay().is_some() => "requeue_after",
            Outcome::Done(_) | Outcome::Gone => "success",
            Outcome::Failed { .. } | Outcome::TimedOut { .. } | Outcome::Panicked { .. } => "error",
        };
        of.total.with_label_values(&[controller, result]).inc();
        if result == "error" {
            of.errors.with_label_values(by_name).inc();
        }
        match outcome {
            Outcome::Failed { retry: Retry::Never, .. } => of.terminal_errors.with_label_values(by_name).inc(),
            Outcome::Panicked { .. } => of.panics.with_label_values(by_name).inc(),
            Outcome::TimedOut { .. } => of.timeouts.with_label_values(by_name).inc(),
            _ => {}
        }
    }
}

impl ElectionMetrics for Registry {
    fn acquired(&self, lease: &str) {
        self.0.leading.with_label_values(&[lease]).set(1);
    }

    fn lost(&self, lease: &str) {
        self.0.leading.with_label_values(&[lease]).set(0);
        self.0.slow_paths.with_label_values(&[lease]);
    }

    fn slow_path(&self, lease: &str) {
        self.0.slow_paths.with_label_values(&[lease]).inc();
    }
}

// === impl Controllers ===

impl Controllers {
    fn new(factory: &MetricFactory<'_>) -> Self {
        let by_name = &["controller"];
        Self {
            total: factory.counters(
                "controller_runtime_reconcile_total",
                "Total number of reconciles per controller, by result.",
                &["controller", "result"],
            ),
            errors: factory.counters(
                "controller_runtime_reconcile_errors_total",
                "Total number of failed reconciles per controller.",
                by_name,
            ),
            terminal_errors: factory.counters(
                "controller_runtime_terminal_reconcile_errors_total",
                "Total number of failed reconciles per controller that are not retried.",
                by_name,
            ),
            panics: factory.counters(
                "controller_runtime_reconcile_panics_total",
                "Total number of reconciles per controller that panicked.",
                by_name,
            ),
            timeouts: factory.counters(
                "controller_runtime_reconcile_timeouts_total",
                "Total number of reconciles per controller that timed out.",
                by_name,
            ),
            time: factory.histograms(
                "controller_runtime_reconcile_time_seconds",
                "Duration of reconciles per controller, in seconds.",
                by_name,
                RECONCILE_BUCKETS,
            ),
            workers: factory.gauges(
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller.",
                by_name,
            ),
            active: factory.gauges(
                "controller_runtime_active_workers",
                "Number of running reconciles per controller.",
                by_name,
            ),
        }
    }
}

// === impl Queues ===

impl Queues {
    fn new(factory: &MetricFactory<'_>) -> Self {
        let by_name = &["name", "controller"];
        Self {
            depth: factory.gauges("workqueue_depth", "Current depth of the work queue.", depth::LABELS),
            adds: factory.counters("workqueue_adds_total", "Total number of adds handled by the work queue.", by_name),
            waited: factory.histograms(
                "workqueue_queue_duration_seconds",
                "How long in seconds a key stays in the work queue before it is taken.",
                by_name,
                QUEUE_BUCKETS,
            ),
            worked: factory.histograms(
                "workqueue_work_duration_seconds",
                "How long in seconds processing a key from the work queue takes.",
                by_name,
                QUEUE_BUCKETS,
            ),
            retries: factory.counters(
                "workqueue_retries_total",
                "Total number of retries handled by the work queue.",
                by_name,
            ),
            unfinished: factory.float_gauges(
                "workqueue_unfinished_work_seconds",
                "Total processing time so far of unfinished keys, in seconds. Steady growth indicates a stuck worker.",
                by_name,
            ),
            longest: factory.float_gauges(
                "workqueue_longest_running_processor_seconds",
                "Longest processing time so far of an unfinished key, in seconds.",
                by_name,
            ),
            probes: Mutex::default(),
        }
    }

    fn of(&self, name: &str) -> Queue {
        let labels = &[name, name];
        Queue {
            depth: Depth::new(name, &self.depth),
            adds: self.adds.with_label_values(labels),
            waited: self.waited.with_label_values(labels),
            worked: self.worked.with_label_values(labels),
            retries: self.retries.with_label_values(labels),
        }
    }

    /// Updates the metrics that are computed on each scrape.
    fn update(&self) {
        let set = |gauges: &GaugeVec, name: &str, value: Duration| {
            let gauge: Gauge = gauges.with_label_values(&[name, name]);
            gauge.set(value.as_secs_f64());
        };
        for (name, probe) in &*self.probes.lock() {
            let UnfinishedWork { total, longest, .. } = probe();
            set(&self.unfinished, name, total);
            set(&self.longest, name, longest);
        }
    }
}

impl QueueMetrics for Queue {
    fn added(&self) {
        self.adds.inc();
    }

    fn depth_changed(&self, priority: Option<i32>, change: i64) {
        self.depth.change(priority, change);
    }

    fn taken(&self, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
    }

    fn finished(&self, worked: Duration) {
        self.worked.observe(worked.as_secs_f64());
    }

    fn retried(&self) {
        self.retries.inc();
    }
}

impl Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.depth.name()).finish_non_exhaustive()
    }
}
