//! The metrics of priority and fairness. Names, labels and buckets are those of kube-apiserver.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The reason for a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No seat is free, and the level has no queues.
    ConcurrencyLimit,
    /// The queue is full.
    QueueFull,
    /// The request waited too long, or its client has gone.
    TimeOut,
}

const REASONS: [(Reason, &str); 3] =
    [(Reason::ConcurrencyLimit, "concurrency-limit"), (Reason::QueueFull, "queue-full"), (Reason::TimeOut, "time-out")];

const LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const DURATIONS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const WATCHES: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];

/// The metrics of the requests of one flow schema at one priority level.
#[derive(Debug)]
pub(crate) struct FlowSeries {
    rejected: [AtomicU64; 3],
    pub(super) dispatched: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) waiting_seats: AtomicU64,
    pub(super) executing: AtomicU64,
    pub(super) seats: AtomicU64,
    pub(super) unaccommodated: AtomicU64,
    pub(super) queue_length: Histogram,
    /// The time of waiting, of rejected and of dispatched requests.
    pub(super) waited: [Histogram; 2],
    /// The time of execution, of watches and of other requests.
    pub(super) executed: [Histogram; 2],
    pub(super) watches: Histogram,
    pub(super) width: Histogram,
}

/// A histogram without locks.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    buckets: Box<[AtomicU64]>,
    /// The sum of the values in millionths.
    sum: AtomicU64,
}

impl Default for FlowSeries {
    fn default() -> Self {
        let durations = || [Histogram::new(DURATIONS), Histogram::new(DURATIONS)];
        Self {
            rejected: Default::default(),
            dispatched: AtomicU64::default(),
            waiting: AtomicU64::default(),
            waiting_seats: AtomicU64::default(),
            executing: AtomicU64::default(),
            seats: AtomicU64::default(),
            unaccommodated: AtomicU64::default(),
            queue_length: Histogram::new(LENGTHS),
            waited: durations(),
            executed: durations(),
            watches: Histogram::new(WATCHES),
            width: Histogram::new(SEATS),
        }
    }
}

impl FlowSeries {
    pub(super) fn reject(&self, reason: Reason) {
        let at = REASONS.iter().position(|(known, _)| *known == reason).unwrap_or_default();
        self.rejected[at].fetch_add(1, Relaxed);
    }

    /// Reports whether requests wait or run.
    pub(super) fn is_busy(&self) -> bool {
        [&self.waiting, &self.executing, &self.seats].iter().any(|count| count.load(Relaxed) > 0)
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(), sum: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, value: f64) {
        self.buckets[self.bounds.partition_point(|bound| *bound < value)].fetch_add(1, Relaxed);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "values are small and positive")]
        self.sum.fetch_add((value * 1e6) as u64, Relaxed);
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let mut count = 0;
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, bucket) in bounds.zip(&self.buckets) {
            count += bucket.load(Relaxed);
            sample(text, &format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), count);
        }
        #[expect(clippy::cast_precision_loss, reason = "a sum of times is not exact")]
        let sum = self.sum.load(Relaxed) as f64 / 1e6;
        sample(text, &format!("{name}_sum"), labels, sum);
        sample(text, &format!("{name}_count"), labels, count);
    }

    fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.load(Relaxed) == 0)
    }
}

/// The state of a priority level for the metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct LevelGauges {
    pub(super) nominal: u32,
    pub(super) lower: u32,
    pub(super) upper: u32,
    pub(super) current: u32,
    pub(super) highest: u32,
    pub(super) average: f64,
    pub(super) deviation: f64,
    pub(super) smoothed: f64,
    pub(super) target: f64,
    pub(super) virtual_time: f64,
}

/// The metrics of a flow schema, with its names.
pub(super) struct NamedSeries<'s> {
    pub(super) level: &'s str,
    pub(super) schema: &'s str,
    pub(super) series: &'s FlowSeries,
}

type Gauge = (&'static str, &'static str, fn(&LevelGauges) -> f64);

const LEVEL_GAUGES: &[Gauge] = &[
    ("current_limit_seats", "current derived number of execution seats available to each priority level", |level| {
        f64::from(level.current)
    }),
    ("current_r", "R(time of last change)", |level| level.virtual_time),
    ("demand_seats_average", "Time-weighted average, over last adjustment period, of demand_seats", |level| {
        level.average
    }),
    ("demand_seats_high_watermark", "High watermark, over last adjustment period, of demand_seats", |level| {
        f64::from(level.highest)
    }),
    ("demand_seats_smoothed", "Smoothed seat demands", |level| level.smoothed),
    ("demand_seats_stdev", "Time-weighted standard deviation, over last adjustment period, of demand_seats", |level| {
        level.deviation
    }),
    (
        "lower_limit_seats",
        "Configured lower bound on number of execution seats available to each priority level",
        |level| f64::from(level.lower),
    ),
    ("nominal_limit_seats", "Nominal number of execution seats configured for each priority level", |level| {
        f64::from(level.nominal)
    }),
    ("target_seats", "Seat allocation targets", |level| level.target),
    (
        "upper_limit_seats",
        "Configured upper bound on number of execution seats available to each priority level",
        |level| f64::from(level.upper),
    ),
];

type Count = (&'static str, &'static str, &'static str, fn(&FlowSeries) -> &AtomicU64);

const COUNTS: &[Count] = &[
    (
        "current_executing_requests",
        "gauge",
        "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and \
         Fairness subsystem",
        |flow| &flow.executing,
    ),
    (
        "current_executing_seats",
        "gauge",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage \
         otherwise) requests in the API Priority and Fairness subsystem",
        |flow| &flow.seats,
    ),
    (
        "current_inqueue_requests",
        "gauge",
        "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        |flow| &flow.waiting,
    ),
    (
        "current_inqueue_seats",
        "gauge",
        "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
        |flow| &flow.waiting_seats,
    ),
    (
        "dispatched_requests_total",
        "counter",
        "Number of requests executed by API Priority and Fairness subsystem",
        |flow| &flow.dispatched,
    ),
    (
        "request_dispatch_no_accommodation_total",
        "counter",
        "Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats",
        |flow| &flow.unaccommodated,
    ),
];

type Distribution = (&'static str, &'static str, fn(&FlowSeries) -> Vec<(&'static str, &Histogram)>);

const DISTRIBUTIONS: &[Distribution] = &[
    (
        "request_execution_seconds",
        "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API \
         Priority and Fairness subsystem",
        |flow| vec![(",type=\"regular\"", &flow.executed[0]), (",type=\"watch\"", &flow.executed[1])],
    ),
    (
        "request_queue_length_after_enqueue",
        "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
        |flow| vec![("", &flow.queue_length)],
    ),
    ("request_wait_duration_seconds", "Length of time a request spent waiting in its queue", |flow| {
        vec![(",execute=\"false\"", &flow.waited[0]), (",execute=\"true\"", &flow.waited[1])]
    }),
    ("watch_count_samples", "count of watchers for mutating requests in API Priority and Fairness", |flow| {
        vec![("", &flow.watches)]
    }),
    (
        "work_estimated_seats",
        "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and \
         Fairness",
        |flow| vec![("", &flow.width)],
    ),
];

/// Returns the metrics in Prometheus' text format.
pub(super) fn text(levels: &[(&str, LevelGauges)], flows: &[NamedSeries<'_>], fair_fraction: f64) -> String {
    let mut text = String::new();
    for (name, help, value) in LEVEL_GAUGES {
        let name = header(&mut text, name, "gauge", help);
        for (level, gauges) in levels {
            sample(&mut text, &name, &format!("priority_level=\"{level}\""), value(gauges));
        }
    }
    for (name, kind, help, value) in COUNTS {
        let name = header(&mut text, name, kind, help);
        for flow in flows {
            sample(&mut text, &name, &flow.labels(), value(flow.series).load(Relaxed));
        }
    }
    for (name, help, histograms) in DISTRIBUTIONS {
        let name = header(&mut text, name, "histogram", help);
        for flow in flows {
            for (label, histogram) in histograms(flow.series).into_iter().filter(|(_, one)| !one.is_empty()) {
                histogram.write(&mut text, &name, &format!("{}{label}", flow.labels()));
            }
        }
    }
    let name = header(
        &mut text,
        "rejected_requests_total",
        "counter",
        "Number of requests rejected by API Priority and Fairness subsystem",
    );
    for flow in flows {
        for ((_, reason), count) in REASONS.iter().zip(&flow.series.rejected) {
            let count = count.load(Relaxed);
            if count > 0 {
                sample(&mut text, &name, &format!("{},reason=\"{reason}\"", flow.labels()), count);
            }
        }
    }
    let help = "Fair fraction of server's concurrency to allocate to each priority level that can use it";
    let name = header(&mut text, "seat_fair_frac", "gauge", help);
    let _ = writeln!(text, "{name} {fair_fraction}");
    text
}

impl NamedSeries<'_> {
    /// Returns the labels. Names of objects need no escapes.
    fn labels(&self) -> String {
        format!("flow_schema=\"{}\",priority_level=\"{}\"", self.schema, self.level)
    }
}

fn header(text: &mut String, name: &str, kind: &str, help: &str) -> String {
    let name = format!("apiserver_flowcontrol_{name}");
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    name
}

fn sample(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name}{{{labels}}} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_levels_and_flows_with_their_labels() {
        let series = FlowSeries::default();
        series.reject(Reason::QueueFull);
        series.dispatched.fetch_add(3, Relaxed);
        series.waited[1].observe(0.3);
        let levels = [("p", LevelGauges { nominal: 7, ..LevelGauges::default() })];
        let text = text(&levels, &[NamedSeries { level: "p", schema: "f", series: &series }], 1.5);
        let labels = r#"flow_schema="f",priority_level="p""#;
        for expected in [
            "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"p\"} 7\n".to_owned(),
            format!("apiserver_flowcontrol_dispatched_requests_total{{{labels}}} 3\n"),
            format!("apiserver_flowcontrol_rejected_requests_total{{{labels},reason=\"queue-full\"}} 1\n"),
            format!(
                "apiserver_flowcontrol_request_wait_duration_seconds_bucket{{{labels},execute=\"true\",le=\"0.2\"}} 0\n"
            ),
            format!(
                "apiserver_flowcontrol_request_wait_duration_seconds_bucket{{{labels},execute=\"true\",le=\"0.5\"}} 1\n"
            ),
            format!("apiserver_flowcontrol_request_wait_duration_seconds_sum{{{labels},execute=\"true\"}} 0.3\n"),
            "apiserver_flowcontrol_seat_fair_frac 1.5\n".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected} in {text}");
        }
        assert!(!text.contains("time-out"), "{text}");
    }
}
