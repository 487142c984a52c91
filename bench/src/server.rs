//! A benchmark of API servers: the same requests to each, in turns, so other load on the machine affects all of them.
//! Also measures their memory when idle and with pods.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use http::{self, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use windlass_api::{BoxError, Entropy};
use windlass_client::{Client, Config};

use windlass_bench::process;

use crate::{
    load::{Address, LoadResult, OBJECT, Objects, REQUEST, Request, Width},
    median,
    objects::{APPLY, JSON, config_map, pod},
};

/// The flags of `windlass-bench server`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of an API server; can be repeated
    #[arg(long = "target", value_name = "NAME=KUBECONFIG", value_parser = target, required = true)]
    targets: Vec<(String, PathBuf)>,
    /// A process of the target with this name, for memory figures; can be repeated
    #[arg(long = "process", value_name = "NAME=PID", value_parser = process)]
    processes: Vec<(String, u32)>,
    /// The idle time before memory is read
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    settle: u64,
    /// The number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The seconds per figure in each round
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// The number of connections
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// The number of concurrent requests per connection
    #[arg(long, default_value_t = 32)]
    requests: usize,
    /// The number of pods in the list
    #[arg(long, default_value_t = 5_000)]
    pods: usize,
}

/// Lists are requested one after the other.
const ALONE: Width = Width { connections: 1, requests: 1 };

/// The number of concurrent creates of pods, before the measurement.
const CREATED_AT_ONCE: usize = 16;

/// A server and its figures: one value per round and figure.
struct Target {
    name: String,
    client: Client,
    address: Address,
    namespace: String,
    processes: Vec<u32>,
}

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let mut targets = Vec::new();
    for (name, path) in options.targets {
        let config = Config::from_file(path)?;
        let of_it = options.processes.iter().filter(|(target, _)| *target == name);
        targets.push(Target {
            address: Address::of(&config)?,
            client: Client::new(config)?.without_rate_limit(),
            namespace: format!("bench-{}", Entropy::os().name_suffix(6)),
            processes: of_it.map(|(_, process)| *process).collect(),
            name,
        });
    }
    let settle = Duration::from_secs(options.settle);
    memory(&targets, "MB in use, idle", settle).await?;
    for target in &targets {
        target.prepare(options.pods).await?;
    }
    memory(&targets, "MB in use with the pods", settle).await?;
    let width = Width { connections: options.connections, requests: options.requests };
    let lasting = Duration::from_secs(options.seconds);
    let mut rows: Vec<(&'static str, Vec<Vec<f64>>)> =
        FIGURES.iter().map(|name| (*name, vec![Vec::new(); targets.len()])).collect();
    for round in 0..options.rounds {
        for (at, target) in targets.iter().enumerate() {
            // The load uses its own threads.
            let measured = tokio::task::block_in_place(|| target.round(round, width, lasting))?;
            for (row, value) in rows.iter_mut().zip(measured) {
                row.1[at].push(value);
            }
        }
    }
    for (figure, values) in &mut rows {
        for (target, values) in targets.iter().zip(values) {
            target.print(figure, values);
        }
    }
    Ok(())
}

/// Prints the memory of each target's processes after an idle time.
async fn memory(targets: &[Target], figure: &str, settle: Duration) -> Result<(), BoxError> {
    if targets.iter().all(|target| target.processes.is_empty()) {
        return Ok(());
    }
    tokio::time::sleep(settle).await;
    for target in targets.iter().filter(|target| !target.processes.is_empty()) {
        let bytes = target.processes.iter().map(|process| process::rss_of(*process)).sum::<Result<u64, _>>()?;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        target.print(figure, &mut [bytes as f64 / 1e6]);
    }
    Ok(())
}

/// In the order of [`Target::round`].
const FIGURES: [&str; 10] = [
    "creates per second",
    "CPU µs per create",
    "gets per second",
    "CPU µs per get",
    "updates per second",
    "CPU µs per update",
    "applies per second",
    "CPU µs per apply",
    "seconds per list of the pods",
    "CPU µs per list of the pods",
];

impl Target {
    fn print(&self, figure: &str, values: &mut [f64]) {
        let median = median(values);
        let (min, max) = (values.first(), values.last());
        println!(
            "{}",
            json!({"bench": "server", "target": self.name, "figure": figure, "min": min, "median": median, "max": max})
        );
    }

    async fn prepare(&self, pods: usize) -> Result<(), BoxError> {
        self.send(Method::POST, "/api/v1/namespaces", &json!({"metadata": {"name": self.namespace}}), JSON).await?;
        let paths: Vec<_> =
            (0..pods).map(|at| (format!("/api/v1/namespaces/{}/pods", self.namespace), pod(at))).collect();
        self.all(CREATED_AT_ONCE, Method::POST, &paths, JSON).await
    }

    /// Measures the figures one after the other, each for this duration.
    fn round(&self, round: usize, width: Width, lasting: Duration) -> Result<[f64; 10], BoxError> {
        let collection = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let name = format!("map-{round}-{OBJECT}");
        let object = format!("{collection}/{name}");
        let forced = format!("{object}?fieldManager=bench&force=true");
        let map = |value: &str| serde_json::to_vec(&config_map(&name, value));
        let write = |method, path, content_type, body: &[u8], objects| {
            self.load(&Request { method, path, content_type, body }, objects, width, lasting)
        };
        let read = |path, objects, width| {
            self.load(&Request { method: "GET", path, content_type: JSON, body: &[] }, objects, width, lasting)
        };
        let (creates, of_create) = write("POST", &collection, JSON, &map("created")?, Objects::New)?;
        let known = Objects::Known(creates.requests);
        let (gets, of_get) = read(&object, known.clone(), width)?;
        let (updates, of_update) = write("PUT", &object, JSON, &map(&format!("updated-{REQUEST}"))?, known.clone())?;
        let (applies, of_apply) = write("PATCH", &forced, APPLY, &map(&format!("applied-{REQUEST}"))?, known)?;
        let (lists, of_list) = read(&format!("/api/v1/namespaces/{}/pods", self.namespace), Objects::New, ALONE)?;
        Ok([
            creates.per_second(),
            of_create,
            gets.per_second(),
            of_get,
            updates.per_second(),
            of_update,
            applies.per_second(),
            of_apply,
            lists.per_second().recip(),
            of_list,
        ])
    }

    /// Puts load on the server. Also returns the CPU time of its processes per request, in µs.
    fn load(
        &self,
        request: &Request<'_>,
        objects: Objects,
        width: Width,
        lasting: Duration,
    ) -> Result<(LoadResult, f64), BoxError> {
        let before = self.cpu_seconds()?;
        let result = self.address.load(request, objects, width, lasting)?;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let per_request = (self.cpu_seconds()? - before) * 1e6 / result.requests as f64;
        Ok((result, per_request))
    }

    /// The CPU time of the server's processes so far.
    fn cpu_seconds(&self) -> Result<f64, BoxError> {
        self.processes.iter().map(|process| process::cpu_seconds_of(*process)).sum()
    }

    /// Sends all requests with this concurrency.
    async fn all(
        &self,
        at_once: usize,
        method: Method,
        requests: &[(String, Value)],
        kind: &str,
    ) -> Result<(), BoxError> {
        let next = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let workers = (0..at_once).map(|_| {
            let (next, method) = (next.clone(), method.clone());
            async move {
                while let Some((path, body)) = requests.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    self.send(method.clone(), path, body, kind).await?;
                }
                Ok::<_, BoxError>(())
            }
        });
        try_join_all(workers).await?;
        Ok(())
    }

    /// Reads the response to its end and discards it.
    async fn send(&self, method: Method, path: &str, body: &Value, kind: &str) -> Result<(), BoxError> {
        let bytes = if body.is_null() { Bytes::new() } else { serde_json::to_vec(body)?.into() };
        let request = http::Request::builder().method(method.clone()).uri(path).header("Content-Type", kind);
        let response = self.client.request(request.body(bytes)?).await?;
        let status = response.status();
        let mut answer = response.into_body();
        let mut first = None;
        while let Some(frame) = answer.frame().await {
            if let (None, Ok(data)) = (&first, frame?.into_data()) {
                first = Some(data);
            }
        }
        if status.is_success() {
            return Ok(());
        }
        let text = first.unwrap_or_default();
        Err(format!("{}: {method} {path}: {status}: {}", self.name, String::from_utf8_lossy(&text)).into())
    }
}

fn target(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.into())),
        _ => Err("expected NAME=KUBECONFIG".to_owned()),
    }
}

pub(crate) fn process(text: &str) -> Result<(String, u32), String> {
    let (name, process) = target(text)?;
    let process = process.to_str().and_then(|process| process.parse().ok());
    Ok((name, process.ok_or_else(|| "expected NAME=PID".to_owned())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_a_name_and_a_kubeconfig() {
        assert_eq!(target("ours=/a/b").unwrap(), ("ours".to_owned(), PathBuf::from("/a/b")));
        assert!(target("ours").is_err() && target("=x").is_err());
        assert_eq!(process("ours=12").unwrap(), ("ours".to_owned(), 12));
        assert!(process("ours=x").is_err());
    }
}
