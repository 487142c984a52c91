//! A benchmark with many watchers of one frequently written kind. Each watcher must see every write in commit order,
//! and watchers must not block the writers.
//!
//! If the server ends a watch, it resumes at its last version, like an informer.

use std::{future::Future, path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::Args;
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream, stream::BoxStream};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::{
    runtime::{self, Runtime},
    task::JoinHandle,
    time::Instant,
};
use windlass_api::{BoxError, Entropy, EventType, ListWatch, ListWatchError, RawEvent, Resource, WatchOptions};
use windlass_client::{Client, ResourceListWatch};
use windlass_server::Server;

use crate::{
    median,
    objects::config_map,
    rate,
    request::{json_client, send},
};

/// The flags of `windlass-bench watchers`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server; defaults to a server in this process, without a socket
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// The number of watchers
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// The number of writes in each round
    #[arg(long, default_value_t = 1_000)]
    writes: usize,
    /// The number of rounds, without and with watchers
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// The number of concurrent writers, each with its own object.
const WRITERS: usize = 16;

/// The number of watches per connection; every server allows more.
const PER_CONNECTION: usize = 50;

/// The number of watches that are opened concurrently.
const OPENED_AT_ONCE: usize = 32;

/// The maximum time until a watcher sees the last write.
const DELIVERED_WITHIN: Duration = Duration::from_mins(5);

pub(crate) async fn run(options: Options) -> Result<(), BoxError> {
    let stage = Stage::set(&options).await?;
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        alone.push(stage.write(options.writes, &format!("alone-{round}")).await?.per_second());
        watched.push(stage.watched(options.writes, &format!("watched-{round}")).await?);
    }
    let of = |figure: fn(&Watched) -> f64| median(&mut watched.iter().map(figure).collect::<Vec<_>>());
    let (alone, beside) = (median(&mut alone), of(|round| round.written.per_second()));
    let figures = json!({
        "bench": "watchers",
        "watchers": options.watchers,
        "writes": options.writes,
        "writes_per_second_alone": alone,
        "writes_per_second_watched": beside,
        "ratio": beside / alone,
        "events_per_second": of(Watched::events_per_second),
        "behind_seconds": of(|round| round.behind.as_secs_f64()),
        "resumed": watched.iter().map(|round| round.resumed).sum::<usize>(),
    });
    println!("{figures}");
    Ok(())
}

/// A server with its writers and watchers.
struct Stage {
    writer: Writer,
    writing: Writing,
    /// One per watcher. Those of a connection are clones.
    watchers: Vec<ResourceListWatch>,
}

/// The writers.
#[derive(Clone)]
struct Writer {
    client: Client,
    namespace: String,
}

/// A runtime for the writers on its own thread, as in a separate program: their tasks do not wait for those of the
/// watchers.
struct Writing(Option<Runtime>);

/// The committed writes and their duration.
struct Written {
    /// In commit order.
    versions: Vec<u64>,
    took: Duration,
}

/// A round in which all watchers have seen all writes.
struct Watched {
    written: Written,
    watchers: usize,
    /// The time from the last write's response until the last watcher has seen it.
    behind: Duration,
    /// The number of watches that the server ended before that.
    resumed: usize,
}

/// The result of one watcher.
struct WatcherResult {
    versions: Vec<u64>,
    resumed: usize,
}

type Events = BoxStream<'static, Result<RawEvent, ListWatchError>>;

impl Stage {
    async fn set(options: &Options) -> Result<Self, BoxError> {
        let connections = options.watchers.div_ceil(PER_CONNECTION);
        let (writer, readers) = match &options.kubeconfig {
            None => {
                let server = Server::builder().build();
                server.start().await?;
                (
                    Client::from_service(server.service(), "default"),
                    vec![Client::from_service(server.service(), "default"); connections],
                )
            }
            // Clients with the same configuration share its connections.
            Some(path) => {
                let connect = || json_client(path);
                (connect()?, (0..connections).map(|_| connect()).collect::<Result<_, _>>()?)
            }
        };
        let namespace = format!("watched-{}", Entropy::os().name_suffix(6));
        let list_watch =
            |client: Client| client.without_rate_limit().list_watch(&ConfigMap::api_resource(), Some(&namespace));
        let watchers = readers.into_iter().map(list_watch).cycle().take(options.watchers).collect();
        let writer = Writer { client: writer.without_rate_limit(), namespace };
        let stage = Self { watchers, writing: Writing::new()?, writer };
        stage.writing(Writer::begin).await?;
        Ok(stage)
    }

    /// Runs a future on the writers' runtime.
    async fn writing<T: Send + 'static, F: Future<Output = Result<T, BoxError>> + Send + 'static>(
        &self,
        work: impl FnOnce(Writer) -> F,
    ) -> Result<T, BoxError> {
        self.writing.spawn(work(self.writer.clone())).await?
    }

    /// Writes this many times, with new content each time.
    async fn write(&self, writes: usize, what: &str) -> Result<Written, BoxError> {
        let what = what.to_owned();
        self.writing(|writer| writer.write(writes, what)).await
    }

    /// Writes while all watchers follow.
    async fn watched(&self, writes: usize, what: &str) -> Result<Watched, BoxError> {
        let from = version(&self.writing(Writer::list).await?)?;
        // All watches are open before the first write.
        let open = |list_watch: ResourceListWatch| async move {
            Ok::<_, BoxError>((watch(&list_watch, from).await?, list_watch))
        };
        let opened: Vec<_> =
            stream::iter(self.watchers.clone()).map(open).buffered(OPENED_AT_ONCE).try_collect().await?;
        let following: Vec<_> = opened
            .into_iter()
            .map(|(events, list_watch)| tokio::spawn(follow(list_watch, events, from, writes)))
            .collect();
        let written = self.write(writes, what).await?;
        let last = Instant::now();
        let watchers = following.len();
        let followed = async { try_join_all(following.into_iter().map(joined)).await };
        let followed = tokio::time::timeout(DELIVERED_WITHIN, followed)
            .await
            .map_err(|_| "a watcher has not seen every write in time")??;
        let behind = last.elapsed();
        for (watcher, followed) in followed.iter().enumerate() {
            compare(&followed.versions, &written.versions).map_err(|error| format!("watcher {watcher}: {error}"))?;
        }
        Ok(Watched { written, watchers, behind, resumed: followed.iter().map(|followed| followed.resumed).sum() })
    }
}

impl Writer {
    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    /// Creates the written objects.
    async fn begin(self) -> Result<(), BoxError> {
        let namespace = json!({"metadata": {"name": self.namespace}});
        send(&self.client, Method::POST, "/api/v1/namespaces", &namespace).await?;
        let collection = self.collection();
        try_join_all((0..WRITERS).map(|writer| {
            let (client, path) = (&self.client, collection.as_str());
            async move { send(client, Method::POST, path, &config_map(&name(writer), "new")).await }
        }))
        .await?;
        Ok(())
    }

    async fn list(self) -> Result<Bytes, BoxError> {
        send(&self.client, Method::GET, &self.collection(), &Value::Null).await
    }

    async fn write(self, writes: usize, what: String) -> Result<Written, BoxError> {
        let (client, collection, what) = (&self.client, &self.collection(), &what);
        let started = Instant::now();
        let versions = try_join_all((0..WRITERS).map(|writer| async move {
            let path = format!("{collection}/{}", name(writer));
            let mut versions = Vec::new();
            for write in (writer..writes).step_by(WRITERS) {
                let map = config_map(&name(writer), &format!("{what}-{write}"));
                versions.push(version(&send(client, Method::PUT, &path, &map).await?)?);
            }
            Ok::<_, BoxError>(versions)
        }))
        .await?;
        let took = started.elapsed();
        let mut versions = versions.concat();
        versions.sort_unstable();
        Ok(Written { versions, took })
    }
}

impl Writing {
    fn new() -> Result<Self, BoxError> {
        Ok(Self(Some(runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?)))
    }

    fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.0.as_ref().expect("it is there until it is dropped").spawn(work)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // A thread of a runtime must not block on another runtime.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

async fn joined<T>(
    task: impl Future<Output = Result<Result<T, BoxError>, tokio::task::JoinError>>,
) -> Result<T, BoxError> {
    task.await?
}

impl Written {
    fn per_second(&self) -> f64 {
        rate(self.versions.len(), self.took)
    }
}

impl Watched {
    /// Returns the rate of events, over all watchers.
    fn events_per_second(&self) -> f64 {
        rate(self.watchers * self.written.versions.len(), self.written.took + self.behind)
    }
}

async fn watch(list_watch: &ResourceListWatch, after: u64) -> Result<Events, ListWatchError> {
    list_watch.watch(WatchOptions { resource_version: Some(after.to_string()), ..WatchOptions::default() }).await
}

/// Reads a watch, resumes it if necessary, until this many events have arrived.
async fn follow(
    list_watch: ResourceListWatch,
    mut events: Events,
    from: u64,
    wanted: usize,
) -> Result<WatcherResult, BoxError> {
    let mut followed = WatcherResult { versions: Vec::with_capacity(wanted), resumed: 0 };
    loop {
        // A connection error is handled like the end of the watch.
        while let Some(Ok(event)) = events.next().await {
            if event.event_type == EventType::Error {
                return Err(format!("a watch failed: {}", String::from_utf8_lossy(&event.body)).into());
            }
            followed.versions.push(version(&event.body)?);
            if followed.versions.len() == wanted {
                return Ok(followed);
            }
        }
        followed.resumed += 1;
        events = watch(&list_watch, followed.versions.last().copied().unwrap_or(from)).await?;
    }
}

/// Compares the events of a watcher with the writes.
fn compare(seen: &[u64], written: &[u64]) -> Result<(), String> {
    match seen.iter().zip(written).position(|(seen, written)| seen != written) {
        Some(at) => Err(format!("event {at} is of version {}, and should be of {}", seen[at], written[at])),
        None if seen.len() != written.len() => Err(format!("{} events of {}", seen.len(), written.len())),
        None => Ok(()),
    }
}

/// Returns the first resourceVersion in an object or list, which is its own.
fn version(body: &[u8]) -> Result<u64, BoxError> {
    const KEY: &[u8] = b"\"resourceVersion\":\"";
    let mut quotes = body.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| at);
    let start = quotes.find(|at| body[*at..].starts_with(KEY)).ok_or("an object without a version")? + KEY.len();
    let digits = body[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Ok(std::str::from_utf8(&body[start..start + digits])?.parse()?)
}

fn name(writer: usize) -> String {
    format!("busy-{writer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_watcher_sees_every_write_in_order() {
        let options = Options { kubeconfig: None, watchers: 20, writes: 50, rounds: 1 };
        let stage = Stage::set(&options).await.unwrap();
        assert_eq!(stage.write(3, "alone").await.unwrap().versions.len(), 3);
        let watched = stage.watched(options.writes, "watched").await.unwrap();
        assert_eq!((watched.written.versions.len(), watched.watchers, watched.resumed), (50, 20, 0));
    }

    #[test]
    fn a_gap_a_change_of_order_and_an_early_end_are_found() {
        assert_eq!(compare(&[1, 2, 4], &[1, 2, 4]), Ok(()));
        assert_eq!(compare(&[1, 4, 2], &[1, 2, 4]).unwrap_err(), "event 1 is of version 4, and should be of 2");
        assert_eq!(compare(&[1, 2], &[1, 2, 4]).unwrap_err(), "2 events of 3");
    }

    #[test]
    fn version_is_read_from_the_metadata() {
        let body =
            br#"{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"120"},"data":{"resourceVersion":"7"}}"#;
        assert_eq!(version(body).unwrap(), 120);
        assert!(version(b"{}").is_err());
    }
}
