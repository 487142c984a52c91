//! Kills `windlass up --data-dir` at random points under load, starts it again, and checks that no acknowledged write is
//! lost. `cargo xtask long crashes` runs this program.
//!
//! Several writers create, update and delete a ConfigMap each, one write at a time, and each write states the version
//! that it replaces. A watch follows all of them, and continues after each start from the last version that it has seen.
//! After each round:
//!
//! - The state of each ConfigMap is that of its last acknowledged write, or that of the write in progress at the kill.
//! - The watch has seen exactly these writes: each once, in order, with increasing versions.
//! - Lists of older versions have the state of then, and watches continue from them with the same changes. Only versions
//!   that were compacted are rejected.
//!
//! Every fifth round is longer than the history of its server, so that kills hit the compaction, too.

#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

mod history;
mod server;
mod watch;
mod writer;

use std::{error::Error, ops::Range, process::ExitCode, time::Duration};

use windlass_api::Entropy;

use self::{history::Checked, server::Server, watch::Watching, writer::Writer};

type Result<T = (), E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The number of concurrent writers.
const WRITERS: u64 = 16;

/// The bounds of the time until a kill, in milliseconds after the start of the writers.
const KILL_AFTER: Range<u64> = 5..400;

/// The history of a server, and that of one that compacts it while it runs.
const HISTORY: &str = "1h";
const SHORT_HISTORY: &str = "1s";

/// The bounds of the time until a kill of a server that compacts its history.
const KILL_COMPACTING_AFTER: Range<u64> = 1_000..1_500;

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
    let mut server = Server::start(windlass, folder.path(), HISTORY)?;
    let client = server.client()?;
    let mut watching = Watching::start(client.clone()).await?;
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer::new(number, Entropy::seeded(random.next_u64()))).collect();
    let (mut in_progress, mut slowest_start) = (0, Duration::ZERO);
    // The last version that a server may have compacted.
    let (mut compacts, mut compacted, mut checked) = (false, 0, Checked::default());
    for round in 1..=rounds {
        // With new connections: a writer ends when its connection is lost.
        let client = server.client()?;
        let running: Vec<_> = writers.into_iter().map(|writer| tokio::spawn(writer.write(client.clone()))).collect();
        let bounds = if compacts { KILL_COMPACTING_AFTER } else { KILL_AFTER };
        let after = bounds.start + random.below(bounds.end - bounds.start);
        tokio::time::sleep(Duration::from_millis(after)).await;
        server.kill()?;
        writers = Vec::new();
        for writer in running {
            writers.push(writer.await??);
        }
        let has_compacted = compacts;
        compacts = round % 5 == 0;
        slowest_start = slowest_start.max(server.start_again(if compacts { SHORT_HISTORY } else { HISTORY })?);
        let client = server.client()?;
        let failed = |error| format!("round {round}: {error}");
        for writer in &mut writers {
            let was_written = writer.resolve(&client).await.map_err(failed)?;
            in_progress += usize::from(was_written);
        }
        watching.expect(&writers).await.map_err(failed)?;
        let changes = watching.changes();
        if compacts || has_compacted {
            compacted = changes.last().map_or(0, |change| change.version);
        }
        checked.check(&client, &changes, compacted, &random).await.map_err(failed)?;
    }
    let writes: usize = writers.iter().map(|writer| writer.history().len()).sum();
    let Checked { versions, compacted } = checked;
    println!(
        "{rounds} kills, {writes} writes, {in_progress} of them in progress at a kill; {versions} older versions were \
         listed and watched, {compacted} were compacted; slowest start {} ms",
        slowest_start.as_millis()
    );
    Ok(())
}
