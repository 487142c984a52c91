//! Random requests to the embedded and the real server. `cargo xtask long differential` starts the real server and runs
//! this program.

use std::{process::ExitCode, time::Duration};

use conformance::differential;

#[tokio::main]
async fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse());
    let (Some(Ok(seed)), Some(Ok(seconds)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
        eprintln!("usage: differential SEED SECONDS");
        return ExitCode::FAILURE;
    };
    let run = differential(seed, Duration::from_secs(seconds), |difference| println!("{difference}"));
    let found = Box::pin(run).await;
    println!(
        "seed {seed}: {} sequences of {} requests; {} new differences, {} sequences with known ones, {} to which the real server \
         gave two answers",
        found.sequences,
        found.requests,
        found.differences.len(),
        found.known,
        found.unsteady
    );
    if found.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
