//! Measurements: each command prints one line of JSON per figure. What is measured, and how to repeat it, is in
//! `bench/README.md`; no test asserts a time.

mod deployments;
mod environments;
mod informer;
mod load;
mod nodes;
mod objects;
mod populate;
mod queue;
mod ready;
mod replay;
mod server;
mod watchers;
mod writes;

use std::{future::Future, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};
use windlass_api::{BoxError, ErrorChain};

/// Measure Windlass and its peers
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
    /// Adds of 10,000 keys by one producer, worked off meanwhile
    Queue(queue::Options),
    /// Make the objects that `windlass-bench-controller` and its peers reconcile
    Populate(populate::Options),
    /// Creates, gets, lists, applies and memory of API servers, in turns
    Server(server::Options),
    /// Wait until a server that is being started is ready
    Ready(ready::Options),
    /// Many watchers of one busy kind: whether each sees everything in order, and what they cost the writers
    Watchers(watchers::Options),
    /// Creates, updates and applies in this process, one at a time
    Writes(writes::Options),
    /// Apply many Deployments at once, and wait until all of their pods are ready
    Deployments(deployments::Options),
    /// Simulated nodes for a control plane that has none, until SIGTERM
    Nodes(nodes::Options),
    /// Test environments: how long they take to start, and the memory of many
    Environments(environments::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().bench {
        Bench::Queue(options) => on_threads(None, async {
            queue::run(&options).await;
            Ok(())
        }),
        // What waits for the network all the time needs no second thread, and is spared waking it.
        Bench::Informer(options) => on_threads(Some(1), informer::run(options)),
        Bench::Replay(options) => on_threads(None, replay::run(options)),
        Bench::Populate(options) => on_threads(None, populate::run(options)),
        Bench::Server(options) => on_threads(None, server::run(options)),
        // What is measured has the other processors for itself.
        Bench::Ready(options) => on_threads(Some(1), ready::run(options)),
        Bench::Watchers(options) => on_threads(None, watchers::run(options)),
        Bench::Writes(options) => on_threads(None, async { writes::run(&options).await }),
        // As little of the machine as can be: it is the control plane's.
        Bench::Deployments(options) => on_threads(Some(1), deployments::run(options)),
        Bench::Nodes(options) => on_threads(Some(1), nodes::run(options)),
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

/// Runs to the end, on so many worker threads; on as many as there are processors without.
fn on_threads(threads: Option<usize>, work: impl Future<Output = Result<(), BoxError>>) -> Result<(), BoxError> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        runtime.worker_threads(threads);
    }
    runtime.enable_all().build()?.block_on(work)
}

/// Of values that were measured; they are sorted by it.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// So many in that time, per second.
fn rate(count: usize, took: Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let count = count as f64;
    count / took.as_secs_f64()
}
