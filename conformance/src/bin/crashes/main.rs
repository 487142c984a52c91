//! Kills `windlass up --data-dir` at random points under load, starts it again, and checks that no acknowledged write is
//! lost. `cargo xtask long crashes` runs this program.
//!
//! Several writers create, update and delete a ConfigMap each, one write at a time, and each write states the version
//! that it replaces. A watch follows all of them, and continues after each start from the last version that it has seen.
//! After each round:
//!
//! - The state of each ConfigMap is that of its last acknowledged write, or that of the write in progress at the kill.
//! - The watch has seen exactly these writes: each once, in order, with increasing versions.

#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

mod server;
mod watch;
mod writer;

use std::{error::Error, process::ExitCode, time::Duration};

use windlass_api::Entropy;

use self::{server::Server, watch::Watching, writer::Writer};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The number of concurrent writers.
const WRITERS: u64 = 16;

/// The bounds of the time until a kill, in milliseconds after the start of the writers.
const KILL_AFTER: std::ops::Range<u64> = 5..400;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(windlass), Some(rounds)) = (arguments.next(), arguments.next().and_then(|text| text.parse().ok())) else {
        eprintln!("usage: crashes WINDLASS ROUNDS [SEED]");
        return ExitCode::FAILURE;
    };
    let seed = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    match run(&windlass, rounds, seed).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("crashes: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all rounds and prints a summary.
async fn run(windlass: &str, rounds: usize, seed: u64) -> Result {
    let random = Entropy::seeded(seed);
    let folder = tempfile::tempdir()?;
    let mut server = Server::start(windlass, folder.path())?;
    let client = server.client()?;
    let mut watching = Watching::start(client.clone()).await?;
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer::new(number, Entropy::seeded(random.next_u64()))).collect();
    let (mut in_progress, mut slowest_start) = (0, Duration::ZERO);
    for round in 1..=rounds {
        // With new connections: a writer ends when its connection is lost.
        let client = server.client()?;
        let running: Vec<_> = writers.into_iter().map(|writer| tokio::spawn(writer.write(client.clone()))).collect();
        let after = KILL_AFTER.start + random.below(KILL_AFTER.end - KILL_AFTER.start);
        tokio::time::sleep(Duration::from_millis(after)).await;
        server.kill()?;
        writers = Vec::new();
        for writer in running {
            writers.push(writer.await??);
        }
        slowest_start = slowest_start.max(server.start_again()?);
        let client = server.client()?;
        for writer in &mut writers {
            let was_written = writer.resolve(&client).await.map_err(|error| format!("round {round}: {error}"))?;
            in_progress += usize::from(was_written);
        }
        watching.expect(&writers).await.map_err(|error| format!("round {round}: {error}"))?;
    }
    let writes: usize = writers.iter().map(|writer| writer.history().len()).sum();
    println!(
        "{rounds} kills, {writes} writes, {in_progress} of them in progress at a kill; slowest start {} ms",
        slowest_start.as_millis()
    );
    Ok(())
}
