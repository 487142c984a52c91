//! A benchmark with very many watchers of one kind, over TLS: the server's memory for idle watchers, and the delay of
//! each event until the last watcher has it, at a fixed rate of writes.
//!
//! The watchers share the cores with the server. They use one thread, without a task switch or a decoder for an event:
//! a watcher counts the lines that it receives and reads the number of the last one.

use std::{cell::RefCell, path::PathBuf, rc::Rc, sync::mpsc, thread, time::Duration};

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tokio::{
    runtime,
    task::{JoinSet, LocalSet},
    time::{Instant, sleep, timeout},
};
use windlass_api::{BoxError, Entropy};
use windlass_bench::process;
use windlass_client::{Client, Config};

use self::{
    deliveries::{Deliveries, Percentiles, Schedule},
    watchers::WatcherConnection,
    writer::Writer,
};
use crate::{
    load::{Address, Request, greeting_with_small_windows},
    objects::JSON,
    request::send,
};

mod deliveries;
mod watchers;
mod writer;

/// The flags of `windlass-bench fan-out`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The kubeconfig of the server
    #[arg(long, value_name = "PATH")]
    kubeconfig: PathBuf,
    /// The process of the server, for its memory and its CPU time
    #[arg(long, value_name = "PID")]
    process: u32,
    /// The number of watchers
    #[arg(long, default_value_t = 10_000)]
    watchers: usize,
    /// The number of watchers of each connection
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    per_connection: usize,
    /// The number of writes per second
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// The duration of the writes, in seconds; 0 only measures memory
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// The number of additional connections whose client does not read
    #[arg(long, default_value_t = 0)]
    slow: usize,
    /// The idle time before memory is read
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    settle: u64,
}

/// The maximum time until all watches are open, and until all events have arrived after the last write.
const LONGEST: Duration = Duration::from_mins(1);

/// The number of threads that open connections.
const OPENERS: usize = 4;

/// The name of the written object.
const NAME: &str = "busy";

/// The memory and CPU time of the server.
#[derive(Clone, Copy, Debug)]
struct Usage {
    rss: u64,
    pss: u64,
    cpu: f64,
}

pub(crate) fn run(options: &Options) -> Result<(), BoxError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, measure(options))
}

async fn measure(options: &Options) -> Result<(), BoxError> {
    let config = Config::from_file(&options.kubeconfig)?;
    let (address, client) = (Address::of(&config)?, Client::new(config)?.without_rate_limit());
    let collection = begin(&client).await?;
    let settle = Duration::from_secs(options.settle);

    sleep(settle).await;
    let empty = Usage::of(options.process)?;
    let per_connection = options.per_connection.max(1);
    let opened = open_all(&address, options.watchers.div_ceil(per_connection))?;
    sleep(settle).await;
    let connected = Usage::of(options.process)?;

    let watch = format!("{collection}?watch=true&timeoutSeconds=3600&resourceVersion={}", version(&client).await?);
    let request = Request { method: "GET", path: &watch, content_type: JSON, body: &[] };
    let frames = address.frames(&request)?;
    let schedule = Schedule { begin: Instant::now(), rate: options.rate, writes: options.rate * options.seconds };
    let deliveries = Rc::new(RefCell::new(Deliveries::new(schedule, options.watchers)));
    let mut connections = JoinSet::new();
    let mut left = options.watchers;
    for mut connection in opened {
        let watches = left.min(per_connection);
        left -= watches;
        connection.watch(&frames, watches)?;
        connections.spawn_local(connection.follow(Rc::clone(&deliveries)));
    }
    reach(&mut connections, "a watch has not begun", || deliveries.borrow().are_open()).await?;
    sleep(settle).await;
    let watched = Usage::of(options.process)?;
    print(
        options,
        &json!({
            "connections": options.watchers.div_ceil(per_connection),
            "bytes_per_watcher": empty.bytes_until(watched, options.watchers),
            "pss_bytes_per_watcher": watched.pss.saturating_sub(empty.pss) / (options.watchers as u64).max(1),
            "bytes_per_connection": empty.bytes_until(connected, options.watchers.div_ceil(per_connection)),
            "bytes_per_watch": connected.bytes_until(watched, options.watchers),
            "rss_bytes_without_watchers": empty.rss,
            "rss_bytes": watched.rss,
        }),
    );
    if schedule.writes == 0 {
        return Ok(());
    }

    let mut slow = Vec::new();
    for _ in 0..options.slow {
        let mut connection = WatcherConnection::open(&address, &greeting_with_small_windows())?;
        connection.watch(&frames, per_connection)?;
        slow.push(connection);
    }
    let schedule = Schedule { begin: Instant::now() + Duration::from_millis(200), ..schedule };
    deliveries.borrow_mut().begin(schedule);
    let before = Usage::of(options.process)?;
    let (result, written) = mpsc::channel();
    let path = format!("{collection}/{NAME}");
    let writer = Writer::open(&address, &path)?;
    thread::spawn(move || result.send(writer.run(schedule)));
    sleep(schedule.duration()).await;
    let after = Usage::of(options.process)?;
    let complete =
        timeout(LONGEST, reach(&mut connections, "an event has not arrived", || deliveries.borrow().are_complete()))
            .await;
    let written = written.recv()??;
    complete??;
    deliveries.borrow().check()?;
    let seconds = f64::from(options.seconds);
    let mut deliveries = deliveries.borrow_mut();
    let events = f64::from(schedule.writes) * f64::from(u32::try_from(options.watchers)?);
    print(
        options,
        &json!({
            "writes_per_second": options.rate,
            "seconds": options.seconds,
            "slow_connections": options.slow,
            "write_response_ms": Percentiles::of(written.responses).milliseconds(),
            "last_watcher_ms": Percentiles::of(deliveries.take_last()).milliseconds(),
            "event_ms": deliveries.all().milliseconds(),
            "server_cpu_cores": (after.cpu - before.cpu) / seconds,
            "server_cpu_microseconds_per_event": (after.cpu - before.cpu) * 1e6 / events,
            "events_per_read": deliveries.events_per_read(),
            "rss_bytes_before": before.rss,
            "rss_bytes": after.rss,
            "peak_rss_bytes": process::peak_rss_of(options.process)?,
        }),
    );
    Ok(())
}

/// Creates the written object, and returns the path of its collection.
async fn begin(client: &Client) -> Result<String, BoxError> {
    let namespace = format!("watched-{}", Entropy::os().name_suffix(6));
    let object = json!({"metadata": {"name": namespace}});
    send(client, Method::POST, "/api/v1/namespaces", &object).await?;
    let collection = format!("/api/v1/namespaces/{namespace}/configmaps");
    let object = json!({"metadata": {"name": NAME}, "data": {"sequence": "new"}});
    send(client, Method::POST, &collection, &object).await?;
    Ok(collection)
}

/// Returns the current resourceVersion of the server.
async fn version(client: &Client) -> Result<String, BoxError> {
    let list = send(client, Method::GET, "/api/v1/namespaces/default/configmaps", &Value::Null).await?;
    let list: Value = serde_json::from_slice(&list)?;
    Ok(list["metadata"]["resourceVersion"].as_str().ok_or("a list without a version")?.to_owned())
}

/// Opens connections, on a few threads.
fn open_all(address: &Address, connections: usize) -> Result<Vec<WatcherConnection>, BoxError> {
    let greeting = crate::load::greeting();
    thread::scope(|scope| {
        let open =
            |opener: usize| (opener..connections).step_by(OPENERS).map(|_| WatcherConnection::open(address, &greeting));
        let openers: Vec<_> =
            (0..OPENERS).map(|opener| scope.spawn(move || open(opener).collect::<Result<Vec<_>, _>>())).collect();
        let mut all = Vec::with_capacity(connections);
        for opener in openers {
            match opener.join() {
                Ok(opened) => all.extend(opened?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    })
}

/// Waits for a condition. Returns an error after the maximum time, or if a connection ends.
async fn reach(
    connections: &mut JoinSet<Result<(), BoxError>>,
    failure: &'static str,
    is_reached: impl Fn() -> bool,
) -> Result<(), BoxError> {
    let started = Instant::now();
    while !is_reached() {
        if started.elapsed() > LONGEST {
            return Err(failure.into());
        }
        if let Ok(Some(ended)) = timeout(Duration::from_millis(10), connections.join_next()).await {
            ended??;
        }
    }
    Ok(())
}

fn print(options: &Options, figures: &Value) {
    let mut line = json!({"bench": "fan-out", "watchers": options.watchers, "per_connection": options.per_connection});
    if let (Some(line), Some(figures)) = (line.as_object_mut(), figures.as_object()) {
        line.extend(figures.clone());
    }
    println!("{line}");
}

impl Usage {
    fn of(server: u32) -> Result<Self, BoxError> {
        Ok(Self { rss: process::rss_of(server)?, pss: process::pss_of(server)?, cpu: process::cpu_seconds_of(server)? })
    }

    /// Returns the growth of the resident memory, for each of `count`.
    fn bytes_until(self, later: Self, count: usize) -> u64 {
        later.rss.saturating_sub(self.rss) / (count as u64).max(1)
    }
}
