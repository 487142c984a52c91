//! The latencies of single reads, single writes, lists and watch events while the control plane works.
//!
//! Reads and writes start at fixed times, however long earlier ones take, so that a slow server does not reduce the
//! number of slow samples.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, interval, sleep},
};
use windlass_api::{BoxError, ErrorChain, EventType, ListWatch as _, Resource as _, WatchOptions};
use windlass_client::Client;

use crate::request::{send, send_as};

/// The interval between two reads, and between two writes.
const PERIOD: Duration = Duration::from_millis(50);
/// The interval between a list and the next one.
const LIST_PAUSE: Duration = Duration::from_secs(20);
/// The time after which a failed watch is started again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The names of the pods that are written begin with this. Their scheduler doesn't exist, so that no component works on
/// them.
const PROBE: &str = "probe";
/// The number of the pods that are written. Writes of one pod that overlap would conflict on a slow server.
const PROBES: u64 = 100;
/// The annotation of a written pod with the number of its last write.
const NUMBER: &str = "bench.windlass.dev/number";
pub(super) const MERGE: &str = "application/merge-patch+json";

/// The measured operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// A GET of a namespace.
    Read,
    /// A PATCH of one of the written pods.
    Write,
    /// A LIST of all pods of the namespace, in one response, with the time to receive it.
    List,
    /// The time from the start of a write until a watch of all pods of the namespace reports it.
    Watch,
}

/// Requests that are measured until they are ended.
pub(super) struct Probes {
    /// They run until they are aborted.
    _tasks: JoinSet<()>,
    latencies: Arc<Latencies>,
}

/// The latencies of the requests that have ended.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<BTreeMap<Operation, Samples>>);

#[derive(Debug, Default)]
struct Samples {
    latencies: Vec<Duration>,
    /// The starts of the requests that have no response yet, by their number.
    pending: BTreeMap<u64, Instant>,
    failures: usize,
    /// The first failure.
    error: Option<String>,
}

impl Probes {
    /// Starts to measure. Each client is a connection of its own.
    pub(super) async fn start(connect: impl Fn() -> Result<Client, BoxError>, space: &str) -> Result<Self, BoxError> {
        let latencies = Arc::new(Latencies::default());
        let mut tasks = JoinSet::new();
        let client = connect()?;
        let pods = format!("/api/v1/namespaces/{space}/pods");
        let mut version = String::new();
        for number in 0..PROBES {
            version = probe_pod(&client, &probe_path(&pods, number)).await?;
        }

        let watch = PodWatch { client: connect()?, namespace: space.to_owned(), latencies: Arc::clone(&latencies) };
        tasks.spawn(follow(watch, version));
        tasks.spawn(list(connect()?, pods.clone(), Arc::clone(&latencies)));
        let path = format!("/api/v1/namespaces/{space}");
        tasks.spawn(repeat(Operation::Read, Arc::clone(&latencies), move |_| {
            let (client, path) = (client.clone(), path.clone());
            async move { send(&client, Method::GET, &path, &Value::Null).await.map(drop) }
        }));
        let (client, written) = (connect()?, Arc::clone(&latencies));
        tasks.spawn(repeat(Operation::Write, Arc::clone(&latencies), move |number| {
            let (client, path, latencies) = (client.clone(), probe_path(&pods, number), Arc::clone(&written));
            let body = json!({"metadata": {"annotations": {NUMBER: number.to_string()}}});
            async move {
                latencies.begin(Operation::Watch, number, Instant::now());
                let written = send_as(&client, Method::PATCH, &path, MERGE, &body).await.map(drop);
                if written.is_err() {
                    // A failed write has no event.
                    latencies.finish(Operation::Watch, number);
                }
                written
            }
        }));
        Ok(Self { _tasks: tasks, latencies })
    }

    /// Ends the requests, and returns their latencies. A request without a response counts with its time until now.
    pub(super) fn end(self) -> Arc<Latencies> {
        for samples in self.latencies.0.lock().values_mut() {
            let pending = std::mem::take(&mut samples.pending);
            samples.latencies.extend(pending.values().map(Instant::elapsed));
        }
        self.latencies
    }
}

impl Latencies {
    fn begin(&self, operation: Operation, number: u64, at: Instant) {
        self.0.lock().entry(operation).or_default().pending.insert(number, at);
    }

    /// Returns the time since the start of a request, and removes it.
    fn finish(&self, operation: Operation, number: u64) -> Option<Duration> {
        self.0.lock().get_mut(&operation)?.pending.remove(&number).map(|at| at.elapsed())
    }

    fn add(&self, operation: Operation, latency: Duration) {
        self.0.lock().entry(operation).or_default().latencies.push(latency);
    }

    /// Removes all requests without a response.
    fn forget(&self, operation: Operation) {
        self.0.lock().entry(operation).or_default().pending.clear();
    }

    /// Removes a request, and adds its latency or its error.
    fn end(&self, operation: Operation, number: u64, result: &Result<(), BoxError>) {
        let latency = self.finish(operation, number);
        match (result, latency) {
            (Ok(()), Some(latency)) => self.add(operation, latency),
            (Ok(()), None) => {}
            (Err(error), _) => self.fail(operation, error),
        }
    }

    fn fail(&self, operation: Operation, error: &BoxError) {
        let mut all = self.0.lock();
        let samples = all.entry(operation).or_default();
        samples.failures += 1;
        samples.error.get_or_insert_with(|| ErrorChain(&**error).to_string());
    }

    /// Returns the first failure of each operation that has failed.
    pub(super) fn failures(&self) -> Vec<String> {
        let all = self.0.lock();
        let failed = all.iter().filter_map(|(operation, samples)| Some((operation, samples, samples.error.as_ref()?)));
        failed
            .map(|(operation, samples, error)| {
                format!("{operation:?} failed {} times, first: {error}", samples.failures)
            })
            .collect()
    }

    /// Returns a table of the number of requests and their percentiles, in the format of bench/README.md.
    pub(super) fn table(&self, phase: &str) -> String {
        let mut table =
            format!("| {phase} | number | failed | p50 ms | p99 ms | max ms |\n|---|---|---|---|---|---|\n");
        for (operation, samples) in &mut *self.0.lock() {
            let ([p50, p99, max], number) = (samples.percentiles(), samples.latencies.len());
            let _ =
                writeln!(table, "| {operation:?} | {number} | {} | {p50:.1} | {p99:.1} | {max:.1} |", samples.failures);
        }
        table
    }

    /// Returns a line with the numbers of [`Self::table`].
    pub(super) fn figures(&self, phase: &str) -> Value {
        let mut line = json!({"bench": format!("{phase}_latencies")});
        for (operation, samples) in &mut *self.0.lock() {
            let name = format!("{operation:?}").to_lowercase();
            let [p50, p99, max] = samples.percentiles();
            line[format!("{name}_number")] = json!(samples.latencies.len());
            line[format!("{name}_failed")] = json!(samples.failures);
            line[format!("{name}_p50_ms")] = json!(p50);
            line[format!("{name}_p99_ms")] = json!(p99);
            line[format!("{name}_max_ms")] = json!(max);
        }
        line
    }
}

impl Samples {
    /// Returns the median, the 99th percentile and the maximum, in milliseconds.
    fn percentiles(&mut self) -> [f64; 3] {
        self.latencies.sort_unstable();
        [50, 99, 100].map(|percent| percentile(&self.latencies, percent).as_secs_f64() * 1e3)
    }
}

/// Returns a percentile of sorted latencies.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

/// Returns the path of the pod of this write.
fn probe_path(pods: &str, number: u64) -> String {
    format!("{pods}/{PROBE}-{}", number % PROBES)
}

/// Creates a pod that is written, unless it exists. Returns its version.
async fn probe_pod(client: &Client, path: &str) -> Result<String, BoxError> {
    let (pods, name) = path.rsplit_once('/').unwrap_or_default();
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"schedulerName": "none", "containers": [{"name": "c", "image": "i"}]},
    });
    let found = send(client, Method::GET, path, &Value::Null).await;
    let body = if let Ok(body) = found { body } else { send(client, Method::POST, pods, &pod).await? };
    Ok(serde_json::from_slice::<Written>(&body)?.metadata.resource_version)
}

/// The decoded fields of a pod that is written.
#[derive(Deserialize)]
struct Written {
    metadata: WrittenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// A watch of all pods of a namespace.
struct PodWatch {
    client: Client,
    namespace: String,
    latencies: Arc<Latencies>,
}

/// Measures the events of the written pods. A failed watch is started again from the current state; the events in
/// between are not measured.
async fn follow(watch: PodWatch, version: String) {
    let mut version = Ok(version);
    loop {
        let error = match version {
            Ok(version) => watch.read(version).await,
            Err(error) => error,
        };
        watch.latencies.fail(Operation::Watch, &error);
        sleep(RETRY_PAUSE).await;
        watch.latencies.forget(Operation::Watch);
        version = watch.version().await;
    }
}

impl PodWatch {
    /// Returns the current version of the pods.
    async fn version(&self) -> Result<String, BoxError> {
        let path = format!("/api/v1/namespaces/{}/pods?limit=1", self.namespace);
        let list = send(&self.client, Method::GET, &path, &Value::Null).await?;
        Ok(serde_json::from_slice::<Written>(&list)?.metadata.resource_version)
    }

    /// Reads the events after a version until the watch fails.
    async fn read(&self, version: String) -> BoxError {
        let options = WatchOptions { resource_version: Some(version), ..WatchOptions::default() };
        let pods = self.client.list_watch(&Pod::api_resource(), Some(&self.namespace));
        let mut events = match pods.watch(options).await {
            Ok(events) => events,
            Err(error) => return error.into(),
        };
        loop {
            let event = match events.next().await {
                None => return "the watch of pods has ended".into(),
                Some(Err(error)) => return error.into(),
                Some(Ok(event)) if event.event_type == EventType::Error => {
                    return format!("the watch of pods failed: {}", String::from_utf8_lossy(&event.body)).into();
                }
                Some(Ok(event)) => event,
            };
            // Only the written pods have the annotation.
            if !event.body.windows(NUMBER.len()).any(|part| part == NUMBER.as_bytes()) {
                continue;
            }
            let number = match serde_json::from_slice::<Written>(&event.body) {
                Ok(pod) => pod.metadata.annotations.get(NUMBER).and_then(|number| number.parse().ok()),
                Err(error) => return error.into(),
            };
            if let Some(number) = number {
                self.latencies.end(Operation::Watch, number, &Ok(()));
            }
        }
    }
}

/// Lists the pods, again and again.
async fn list(client: Client, path: String, latencies: Arc<Latencies>) {
    for number in 0.. {
        latencies.begin(Operation::List, number, Instant::now());
        latencies.end(Operation::List, number, &list_once(&client, &path).await);
        sleep(LIST_PAUSE).await;
    }
}

/// Receives a list without keeping it.
async fn list_once(client: &Client, path: &str) -> Result<(), BoxError> {
    let response = client.request(Request::get(path).body(Bytes::new())?).await?;
    if !response.status().is_success() {
        return Err(format!("GET {path}: {}", response.status()).into());
    }
    response.into_body().into_data_stream().try_for_each(async |_| Ok(())).await?;
    Ok(())
}

async fn repeat<F: Future<Output = Result<(), BoxError>> + Send + 'static>(
    operation: Operation,
    latencies: Arc<Latencies>,
    request: impl Fn(u64) -> F,
) {
    let (mut ticks, mut requests) = (interval(PERIOD), JoinSet::new());
    for number in 0.. {
        let due = ticks.tick().await;
        let (request, latencies) = (request(number), Arc::clone(&latencies));
        latencies.begin(operation, number, due);
        requests.spawn(async move {
            let result = request.await;
            latencies.end(operation, number, &result);
        });
        while requests.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use windlass_server::Server;

    use super::*;

    #[test]
    fn percentiles_are_those_of_sorted_latencies() {
        let latencies = Latencies::default();
        for milliseconds in (1..=200).rev() {
            latencies.add(Operation::Read, Duration::from_millis(milliseconds));
        }
        latencies.add(Operation::List, Duration::from_millis(7));
        latencies.fail(Operation::List, &"too busy".into());
        let rows = "| Read | 200 | 0 | 100.0 | 198.0 | 200.0 |\n| List | 1 | 1 | 7.0 | 7.0 | 7.0 |\n";
        let heading = "| creation | number | failed | p50 ms | p99 ms | max ms |\n|---|---|---|---|---|---|\n";
        assert_eq!(latencies.table("creation"), format!("{heading}{rows}"));
        let figures = latencies.figures("creation");
        assert_eq!((&figures["bench"], &figures["read_p99_ms"]), (&json!("creation_latencies"), &json!(198.0)));
        assert_eq!((&figures["list_number"], &figures["list_failed"]), (&json!(1), &json!(1)));
        assert_eq!(latencies.failures(), ["List failed 1 times, first: too busy"]);
    }

    /// Returns the number of operations that have a latency.
    fn measured(probes: &Probes) -> usize {
        probes.latencies.0.lock().values().filter(|samples| !samples.latencies.is_empty()).count()
    }

    #[test]
    fn requests_without_response_count_at_the_end() {
        let latencies = Arc::<Latencies>::default();
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        for number in 1..=3 {
            latencies.begin(Operation::Write, number, ago(number));
        }
        latencies.end(Operation::Write, 1, &Ok(()));
        latencies.end(Operation::Write, 2, &Err("too busy".into()));
        let figures = Probes { _tasks: JoinSet::new(), latencies }.end().figures("churn");
        assert_eq!(["number", "failed"].map(|name| figures[format!("write_{name}")].as_u64()), [Some(2), Some(1)]);
        let latencies = ["p50", "max"].map(|name| figures[format!("write_{name}_ms")].as_f64().unwrap());
        assert!((1e3..2e3).contains(&latencies[0]) && (3e3..4e3).contains(&latencies[1]), "{latencies:?}");
    }

    #[tokio::test]
    async fn all_operations_are_measured_and_failures_reported() {
        let server = Server::builder().build();
        server.start().await.unwrap();
        let client = Client::from_service(server.service(), "default");
        for _ in 0..2 {
            let probes = Probes::start(|| Ok(client.clone()), "default").await.unwrap();
            while measured(&probes) < 4 {
                sleep(PERIOD).await;
            }
            assert!(probes.end().failures().is_empty());
        }
        let probes = Probes::start(|| Ok(client.clone()), "default").await.unwrap();
        client
            .delete::<Pod>(windlass_api::ObjectRef::<Pod>::new("probe-0").within("default"))
            .grace_period(Duration::ZERO)
            .await
            .unwrap();
        while probes.latencies.failures().is_empty() {
            sleep(PERIOD).await;
        }
        let failed = probes.end().failures();
        assert!(failed[0].starts_with("Write failed") && failed[0].contains("404"), "{failed:?}");
        assert!(Probes::start(|| Ok(client.clone()), "missing").await.is_err());
    }
}
