//! Benchmarks. Each command prints one line of JSON per figure. `bench/README.md` explains them and how to repeat them;
//! no test asserts a time.

mod deployments;
mod environments;
mod fan_out;
mod fill;
mod framing;
mod informer;
mod kwok_nodes;
mod load;
mod nodes;
mod objects;
mod policies;
mod populate;
mod queue;
mod ready;
mod replay;
mod request;
mod server;
mod storage;
mod updates;
mod watchers;
mod writes;

use std::{future::Future, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use windlass_api::{BoxError, ErrorChain};

/// Measure Windlass and comparable software
#[derive(Debug, Parser)]
#[command(name = "windlass-bench")]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Sync, memory and updates of one informer
    Informer(informer::Options),
    /// A server that replays a list and a watch
    Replay(replay::Options),
    /// Adds of 10,000 keys by one producer, with concurrent workers
    Queue(queue::Options),
    /// Create the objects for `windlass-bench-controller` and the equivalent controllers
    Populate(populate::Options),
    /// Create many ConfigMaps and list them: memory per object, creates per second, and seconds per page
    Fill(fill::Options),
    /// Create admission policies that check the objects of `windlass-bench server`
    Policies(policies::Options),
    /// Compare the chunks of a server's watch with those of the replay
    Framing(framing::Options),
    /// Create uniform pods on a real API server, and update their statuses at a rate
    Updates(updates::Options),
    /// Creates, gets, lists, applies and memory of API servers, in turns
    Server(server::Options),
    /// Wait until a starting server is ready
    Ready(ready::Options),
    /// Many watchers of one frequently written kind: check order and completeness, and measure the cost for writers
    Watchers(watchers::Options),
    /// Very many watchers over TLS: memory of idle ones, and the delay of events at a fixed rate of writes
    FanOut(fan_out::Options),
    /// Creates, updates and applies in this process, one at a time
    Writes(writes::Options),
    /// Durable storage without a server: commits per second, and the start with many objects
    Storage(storage::Options),
    /// Apply many Deployments at once, and wait until all of their pods are ready
    Deployments(deployments::Options),
    /// Simulated nodes for a control plane without nodes, until SIGTERM
    Nodes(nodes::Options),
    /// Create the Node objects that kwok simulates, with the capacity of simulated nodes
    KwokNodes(kwok_nodes::Options),
    /// Test environments: start time, and memory of many
    Environments(environments::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().bench {
        Bench::Queue(options) => on_threads(None, async {
            queue::run(&options).await;
            Ok(())
        }),
        // The program mostly waits for the network, so a second thread would only cost wake-ups.
        Bench::Informer(options) => on_threads(Some(1), informer::run(options)),
        Bench::Replay(options) => on_threads(None, replay::run(options)),
        Bench::Populate(options) => on_threads(None, populate::run(options)),
        Bench::Fill(options) => on_threads(None, fill::run(options)),
        Bench::Policies(options) => on_threads(Some(1), policies::run(options)),
        Bench::Framing(options) => on_threads(Some(1), framing::run(options)),
        // A single thread leaves the machine to the server.
        Bench::Updates(options) => on_threads(Some(1), updates::run(options)),
        Bench::Server(options) => on_threads(None, server::run(options)),
        // The measured server gets the other cores.
        Bench::Ready(options) => on_threads(Some(1), ready::run(options)),
        Bench::Watchers(options) => on_threads(None, watchers::run(options)),
        // A single thread leaves the machine to the server.
        Bench::FanOut(options) => fan_out::run(&options),
        Bench::Writes(options) => on_threads(None, async { writes::run(&options).await }),
        Bench::Storage(options) => on_threads(None, async { storage::run(&options).await }),
        // A single thread leaves the machine to the control plane.
        Bench::Deployments(options) => on_threads(Some(1), deployments::run(options)),
        Bench::Nodes(options) => on_threads(Some(1), nodes::run(options)),
        Bench::KwokNodes(options) => on_threads(Some(1), kwok_nodes::run(options)),
        Bench::Environments(options) => on_threads(None, environments::run(options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-bench: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the future on this number of worker threads; defaults to one per core.
fn on_threads(threads: Option<usize>, work: impl Future<Output = Result<(), BoxError>>) -> Result<(), BoxError> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        runtime.worker_threads(threads);
    }
    runtime.enable_all().build()?.block_on(work)
}

/// Returns the median and sorts the values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the rate per second.
fn rate(count: usize, took: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = count as f64;
    count / took.as_secs_f64()
}
