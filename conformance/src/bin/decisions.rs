//! Decisions of the embedded and the real server by random roles. `cargo xtask long decisions` starts the real server and
//! runs this program.

use std::process::ExitCode;

use conformance::decisions;

#[tokio::main]
async fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Some(Ok(seed)), Some(Ok(count)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
        eprintln!("usage: decisions SEED COUNT");
        return ExitCode::FAILURE;
    };
    let found = Box::pin(decisions(seed, usize::try_from(count).unwrap_or(usize::MAX))).await;
    for difference in &found.differences {
        println!("{difference}");
    }
    println!(
        "seed {seed}: {} decisions, of which {} allow the request; {} rounds differ",
        found.made,
        found.allowed,
        found.differences.len()
    );
    if found.differences.is_empty() && found.allowed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
