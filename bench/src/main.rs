//! Measurements: each command prints one line of JSON per figure. What is measured, and how to repeat it, is in
//! `bench/README.md`; no test asserts a time.

mod informer;
mod objects;
mod process;
mod queue;
mod replay;
mod server;
mod writes;

use std::process::ExitCode;

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
    /// Creates, gets, lists and applies against API servers, in turns
    Server(server::Options),
    /// Creates, updates and applies in this process, one at a time
    Writes(writes::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome: Result<(), BoxError> = match Arguments::parse().bench {
        Bench::Queue(options) => {
            queue::run(&options).await;
            Ok(())
        }
        Bench::Informer(options) => informer::run(options).await,
        Bench::Replay(options) => replay::run(options).await,
        Bench::Server(options) => server::run(options).await,
        Bench::Writes(options) => writes::run(&options).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("windlass-bench: {}", ErrorChain(&*error));
            ExitCode::FAILURE
        }
    }
}
