//! Request metrics at `/metrics`, in Prometheus' text format. Names, labels and buckets are those of kube-apiserver.
//!
//! Only authorized requests for served resources are counted. So the number of series is bounded by the verbs of all
//! resources, regardless of requested paths. A watch is counted when it begins (in kube-apiserver when it ends), and
//! its duration is not recorded. Watches over WebSockets have the code of their response, 101 (in kube-apiserver 0).
//!
//! kube-apiserver's other metrics are not implemented.

use std::{
    fmt::Write as _,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use hashbrown::{Equivalent, HashMap};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

/// The buckets of durations, in milliseconds.
const BUCKETS: [u32; 23] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1000, 1250, 1500, 2000, 3000, 4000, 5000, 6000, 8000, 10_000, 15_000, 20_000,
    30_000, 45_000, 60_000,
];

/// The metrics of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    series: RwLock<HashMap<OwnedLabels, Arc<Series>>>,
    /// The current number of requests, without watches.
    reading: AtomicU64,
    writing: AtomicU64,
}

/// The labels of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestLabels<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) verb: Verb,
    pub(crate) scope: Scope,
    pub(crate) dry_run: bool,
}

/// The verb as it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Post,
    Put,
    Patch,
    Apply,
    /// Also used for deleting a collection; the scope distinguishes them.
    Delete,
}

/// The scope of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    /// One object.
    Resource,
    Namespace,
    Cluster,
}

/// An owned [`RequestLabels`].
#[derive(Debug)]
struct OwnedLabels {
    /// Group, version, resource, subresource.
    names: [Box<str>; 4],
    verb: Verb,
    scope: Scope,
    dry_run: bool,
}

/// The metrics of all requests with the same labels.
#[derive(Debug, Default)]
struct Series {
    /// The number of responses by code.
    codes: Mutex<Vec<(u16, u64)>>,
    /// The number of responses in each bucket. The last bucket has no upper bound.
    durations: [AtomicU64; BUCKETS.len() + 1],
    nanoseconds: AtomicU64,
    /// The number of current watches, and of all events sent to watches.
    watches: AtomicU64,
    events: AtomicU64,
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct Meter<'m> {
    series: Arc<Series>,
    under_way: &'m AtomicU64,
    started: Instant,
}

/// A watch in progress.
#[derive(Debug)]
pub(crate) struct Watching(Arc<Series>);

// === impl Metrics ===

impl Metrics {
    /// Starts to count a request. A meter that is dropped without a response is not counted.
    pub(crate) fn begin(&self, request: RequestLabels<'_>) -> Meter<'_> {
        let under_way = match request.verb {
            Verb::Get | Verb::List | Verb::Watch => &self.reading,
            _ => &self.writing,
        };
        under_way.fetch_add(1, Relaxed);
        Meter { series: self.series(request), under_way, started: Instant::now() }
    }

    fn series(&self, request: RequestLabels<'_>) -> Arc<Series> {
        if let Some(series) = self.series.read().get(&request) {
            return Arc::clone(series);
        }
        Arc::clone(self.series.write().entry(request.to_owned_labels()).or_default())
    }

    /// Returns all metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let series = self.series.read();
        let mut series: Vec<(RequestLabels<'_>, &Series)> =
            series.iter().map(|(owned, one)| (owned.borrowed(), &**one)).collect();
        series.sort_by_key(|(request, _)| *request);
        let mut text = String::new();
        write_header(&mut text, "current_inflight_requests", "gauge", "The number of requests in progress.");
        for (kind, count) in [("mutating", &self.writing), ("readOnly", &self.reading)] {
            write_sample(
                &mut text,
                "current_inflight_requests",
                &format!("request_kind=\"{kind}\""),
                count.load(Relaxed),
            );
        }
        write_header(&mut text, "longrunning_requests", "gauge", "The number of watches in progress.");
        for (request, one) in series.iter().filter(|(request, _)| request.verb == Verb::Watch) {
            write_sample(
                &mut text,
                "longrunning_requests",
                &request.labels(Labels::WithoutDryRun),
                one.watches.load(Relaxed),
            );
        }
        write_header(
            &mut text,
            "request_duration_seconds",
            "histogram",
            "Response latency in seconds, without watches.",
        );
        for (request, one) in series.iter().filter(|(request, _)| request.verb != Verb::Watch) {
            one.durations(&request.labels(Labels::All), &mut text);
        }
        write_header(&mut text, "request_total", "counter", "The number of requests by response code.");
        for (request, one) in &series {
            let mut codes = one.codes.lock().clone();
            codes.sort_unstable();
            for (code, count) in codes {
                write_sample(
                    &mut text,
                    "request_total",
                    &format!("code=\"{code}\",{}", request.labels(Labels::All)),
                    count,
                );
            }
        }
        write_header(&mut text, "watch_events_total", "counter", "The number of events sent to watches.");
        let watches: Vec<_> = series.iter().filter(|(request, _)| request.verb == Verb::Watch).collect();
        for of_one in watches.chunk_by(|(a, _), (b, _)| a.type_labels() == b.type_labels()) {
            let events = of_one.iter().map(|(_, one)| one.events.load(Relaxed)).sum();
            write_sample(&mut text, "watch_events_total", &of_one[0].0.type_labels(), events);
        }
        text
    }
}

/// The set of labels of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Labels {
    All,
    WithoutDryRun,
}

fn write_header(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP apiserver_{name} {help}\n# TYPE apiserver_{name} {kind}");
}

fn write_sample(text: &mut String, name: &str, labels: &str, value: u64) {
    let _ = writeln!(text, "apiserver_{name}{{{labels}}} {value}");
}

// === impl RequestLabels ===

impl RequestLabels<'_> {
    fn to_owned_labels(self) -> OwnedLabels {
        let Self { group, version, resource, subresource, verb, scope, dry_run } = self;
        OwnedLabels { names: [group, version, resource, subresource].map(Box::from), verb, scope, dry_run }
    }

    /// Returns the labels as text. Names of resources contain only letters, digits, dots and dashes, so nothing needs
    /// escaping.
    fn labels(&self, which: Labels) -> String {
        let Self { group, version, resource, subresource, verb, scope, dry_run } = self;
        let dry_run = match (which, dry_run) {
            (Labels::All, true) => "dry_run=\"All\",",
            (Labels::All, false) => "dry_run=\"\",",
            (Labels::WithoutDryRun, _) => "",
        };
        let (verb, scope) = (verb.name(), scope.name());
        format!(
            "component=\"apiserver\",{dry_run}group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",\
             subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
        )
    }

    fn type_labels(&self) -> String {
        let Self { group, version, resource, .. } = self;
        format!("group=\"{group}\",resource=\"{resource}\",version=\"{version}\"")
    }
}

impl Equivalent<OwnedLabels> for RequestLabels<'_> {
    fn equivalent(&self, owned: &OwnedLabels) -> bool {
        *self == owned.borrowed()
    }
}

impl OwnedLabels {
    fn borrowed(&self) -> RequestLabels<'_> {
        let [group, version, resource, subresource] = self.names.each_ref().map(AsRef::as_ref);
        RequestLabels {
            group,
            version,
            resource,
            subresource,
            verb: self.verb,
            scope: self.scope,
            dry_run: self.dry_run,
        }
    }
}

impl PartialEq for OwnedLabels {
    fn eq(&self, other: &Self) -> bool {
        self.borrowed() == other.borrowed()
    }
}

impl Eq for OwnedLabels {}

impl Hash for OwnedLabels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrowed().hash(state);
    }
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::List => "LIST",
            Self::Watch => "WATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Apply => "APPLY",
            Self::Delete => "DELETE",
        }
    }
}

impl Scope {
    const fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Namespace => "namespace",
            Self::Cluster => "cluster",
        }
    }
}

// === impl Series ===

impl Series {
    fn record_response(&self, code: u16) {
        let mut codes = self.codes.lock();
        match codes.iter_mut().find(|(known, _)| *known == code) {
            Some((_, count)) => *count += 1,
            None => codes.push((code, 1)),
        }
    }

    fn durations(&self, labels: &str, text: &mut String) {
        let mut count = 0;
        let bounds = BUCKETS.iter().map(|bound| (f64::from(*bound) / 1000.0).to_string()).chain(["+Inf".to_owned()]);
        for (bound, durations) in bounds.zip(&self.durations) {
            count += durations.load(Relaxed);
            write_sample(text, "request_duration_seconds_bucket", &format!("{labels},le=\"{bound}\""), count);
        }
        #[expect(clippy::cast_precision_loss, reason = "a sum of times is not exact")]
        let seconds = self.nanoseconds.load(Relaxed) as f64 / 1e9;
        let _ = writeln!(text, "apiserver_request_duration_seconds_sum{{{labels}}} {seconds}");
        write_sample(text, "request_duration_seconds_count", labels, count);
    }
}

// === impl Meter ===

impl Meter<'_> {
    /// Counts the response.
    pub(crate) fn record_response(self, code: u16) {
        let took = self.started.elapsed();
        let bucket = BUCKETS.partition_point(|bound| u128::from(*bound) < took.as_millis());
        self.series.durations[bucket].fetch_add(1, Relaxed);
        self.series.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.series.record_response(code);
    }

    /// Counts a watch as long as the returned value exists.
    pub(crate) fn record_watch(&self) -> Watching {
        self.series.watches.fetch_add(1, Relaxed);
        Watching(Arc::clone(&self.series))
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Relaxed);
    }
}

// === impl Watching ===

impl Watching {
    pub(crate) fn record_event(&self) {
        self.0.events.fetch_add(1, Relaxed);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: RequestLabels<'_> = RequestLabels {
        group: "",
        version: "v1",
        resource: "pods",
        subresource: "",
        verb: Verb::Get,
        scope: Scope::Resource,
        dry_run: false,
    };

    #[tokio::test(start_paused = true)]
    async fn responses_are_counted_by_code_and_duration() {
        let metrics = Metrics::default();
        for (code, seconds) in [(200, 0), (404, 2), (200, 100)] {
            let meter = metrics.begin(PODS);
            assert!(metrics.text().contains("requests{request_kind=\"readOnly\"} 1\n"));
            tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
            meter.record_response(code);
        }
        drop(metrics.begin(RequestLabels { verb: Verb::Post, ..PODS }));
        let text = metrics.text();
        let labels = "component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"\",verb=\"GET\",version=\"v1\"";
        for expected in [
            format!("apiserver_request_total{{code=\"200\",{labels}}} 2\n"),
            format!("apiserver_request_total{{code=\"404\",{labels}}} 1\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.005\"}} 1\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"1.5\"}} 1\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"2\"}} 2\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"60\"}} 2\n"),
            format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 3\n"),
            format!("apiserver_request_duration_seconds_sum{{{labels}}} 102\n"),
            "apiserver_current_inflight_requests{request_kind=\"mutating\"} 0\n".to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected} in {text}");
        }
    }

    #[test]
    fn watches_count_as_gauge_and_their_events_as_counter() {
        let metrics = Metrics::default();
        let request = RequestLabels { verb: Verb::Watch, scope: Scope::Cluster, ..PODS };
        let first = metrics.begin(request).record_watch();
        let second = metrics.begin(RequestLabels { scope: Scope::Namespace, ..request }).record_watch();
        first.record_event();
        second.record_event();
        drop(first);
        let text = metrics.text();
        assert!(text.contains("scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 0\n"), "{text}");
        assert!(text.contains("scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1\n"), "{text}");
        assert!(text.contains("watch_events_total{group=\"\",resource=\"pods\",version=\"v1\"} 2\n"), "{text}");
    }
}
