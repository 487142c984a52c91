//! Prometheus metrics of the caches, collected on each scrape.

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus::{
    GaugeVec, IntCounterVec, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use windlass_cache::{InformerPhase, InformerStatus};

use crate::cache_labels::{selector, short};

/// The labels of a cache: the resource with its group, the Rust type, the namespace and the selectors.
const LABELS: [&str; 4] = ["resource", "type", "namespace", "selector"];

type Probe = Box<dyn Fn() -> Vec<InformerStatus> + Send + Sync>;

/// The metrics `windlass_cache_*`. Clones report the same caches.
#[derive(Clone, Default)]
pub(super) struct Caches(Arc<Mutex<Vec<Probe>>>);

/// The metrics of one scrape.
struct Moment {
    objects: IntGaugeVec,
    synced: IntGaugeVec,
    version: IntGaugeVec,
    queued: IntGaugeVec,
    bytes: IntGaugeVec,
    budget: IntGaugeVec,
    lists: IntCounterVec,
    list_seconds: GaugeVec,
    watches: IntCounterVec,
    events: IntCounterVec,
    failures: IntCounterVec,
    decoding_failures: IntCounterVec,
    handler_panics: IntCounterVec,
}

impl Caches {
    pub(super) fn watch(&self, statuses: impl Fn() -> Vec<InformerStatus> + Send + Sync + 'static) {
        self.0.lock().push(Box::new(statuses));
    }
}

impl Collector for Caches {
    fn desc(&self) -> Vec<&Desc> {
        // No other collector uses this prefix, so no check for duplicates is needed.
        Vec::new()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let moment = Moment::new();
        for status in self.0.lock().iter().flat_map(|probe| probe()) {
            moment.add(&status);
        }
        moment.collect()
    }
}

impl Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").finish_non_exhaustive()
    }
}

// === impl Moment ===

impl Moment {
    fn new() -> Self {
        const VALID: &str = "names and labels are constants of this file";
        let with = |last: &[&'static str]| -> Vec<&'static str> { LABELS.iter().chain(last).copied().collect() };
        let gauges = |name, help, last| IntGaugeVec::new(Opts::new(name, help), &with(last)).expect(VALID);
        let counters = |name, help, last| IntCounterVec::new(Opts::new(name, help), &with(last)).expect(VALID);
        Self {
            objects: gauges("windlass_cache_objects", "Number of objects in the cache.", &[]),
            synced: gauges("windlass_cache_synced", "1 if the cache has synced, otherwise 0.", &[]),
            version: gauges(
                "windlass_cache_resource_version",
                "Resource version up to which the cache has followed the server, if numeric.",
                &[],
            ),
            queued: gauges(
                "windlass_cache_queued_events",
                "Number of changes that are queued between the watch and the store.",
                &[],
            ),
            bytes: gauges(
                "windlass_cache_bytes",
                "Bytes of objects in the cache: encoded, compressed, and estimated for decoded objects.",
                &["form"],
            ),
            budget: gauges(
                "windlass_cache_budget_bytes",
                "Maximum bytes of encoded and decoded objects before further objects are compressed.",
                &[],
            ),
            lists: counters(
                "windlass_cache_lists_total",
                "Total number of complete lists; all but the first are relists.",
                &[],
            ),
            list_seconds: GaugeVec::new(
                Opts::new("windlass_cache_last_list_seconds", "Duration of the last complete list, in seconds."),
                &LABELS,
            )
            .expect(VALID),
            watches: counters("windlass_cache_watches_total", "Total number of opened watches.", &[]),
            events: counters(
                "windlass_cache_events_total",
                "Total number of received watch events, by type.",
                &["event"],
            ),
            failures: counters("windlass_cache_errors_total", "Total number of list and watch errors.", &[]),
            decoding_failures: counters(
                "windlass_cache_decode_errors_total",
                "Total number of requested objects that could not be decoded.",
                &[],
            ),
            handler_panics: counters(
                "windlass_cache_handler_panics_total",
                "Total number of panics in event handlers.",
                &[],
            ),
        }
    }

    /// Adds a cache's values. Caches with equal labels are summed.
    fn add(&self, status: &InformerStatus) {
        let InformerStatus { resource, type_name, namespace, memory, activity, .. } = status;
        let (resource, selector) = (resource.group_resource().to_string(), selector(status));
        let of = [&*resource, short(type_name), namespace.as_deref().unwrap_or_default(), &*selector];
        let [resource, type_name, namespace, selector] = of;
        let and = |last| [resource, type_name, namespace, selector, last];
        self.objects.with_label_values(&of).add(integer(status.objects));
        self.synced.with_label_values(&of).set(i64::from(status.phase == InformerPhase::Synced));
        if let Some(version) = status.version.as_u64() {
            self.version.with_label_values(&of).set(i64::try_from(version).unwrap_or(i64::MAX));
        }
        self.queued.with_label_values(&of).add(integer(status.queued));
        for (form, bytes) in
            [("encoded", memory.encoded), ("compressed", memory.compressed), ("decoded", memory.decoded)]
        {
            self.bytes.with_label_values(&and(form)).add(integer(bytes));
        }
        self.budget.with_label_values(&of).add(integer(memory.budget));
        self.lists.with_label_values(&of).inc_by(activity.lists);
        self.list_seconds.with_label_values(&of).set(activity.last_list.as_secs_f64());
        self.watches.with_label_values(&of).inc_by(activity.watches);
        for (event, count) in
            [("added", activity.added), ("modified", activity.modified), ("deleted", activity.deleted)]
        {
            self.events.with_label_values(&and(event)).inc_by(count);
        }
        self.failures.with_label_values(&of).inc_by(activity.failures);
        self.decoding_failures.with_label_values(&of).inc_by(activity.decoding_failures);
        self.handler_panics.with_label_values(&of).inc_by(activity.handler_panics);
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let parts: [&dyn Collector; 13] = [
            &self.objects,
            &self.synced,
            &self.version,
            &self.queued,
            &self.bytes,
            &self.budget,
            &self.lists,
            &self.list_seconds,
            &self.watches,
            &self.events,
            &self.failures,
            &self.decoding_failures,
            &self.handler_panics,
        ];
        parts.into_iter().flat_map(Collector::collect).collect()
    }
}

fn integer(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
