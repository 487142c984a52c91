//! A benchmark of work queues: `cargo xtask long bench-queue`.
//!
//! Each run has its own process. The queues take turns in each round, so other load on the machine affects all of them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{
    Result,
    bench_programs::{client_go, median},
};

const ROUNDS: usize = 5;
const ADDS: &str = "5000000";

/// The numbers of workers, one per column.
const WORKERS: [&str; 3] = ["1", "4", "16"];

/// A queue.
struct Contender {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// Builds the client-go program, runs both, and prints a table. `bench` is the built `windlass-bench`.
pub(crate) fn run(bench: &Path) -> Result {
    let ours = |name, arguments| Contender { name, program: bench.to_path_buf(), arguments };
    let contenders = [
        ours("windlass", &["queue"]),
        ours("windlass, counted keys", &["queue", "--keys", "counted"]),
        Contender { name: "client-go", program: client_go("./queue", "bench-client-go-queue")?, arguments: &[] },
    ];
    let mut rates = vec![vec![Vec::new(); WORKERS.len()]; contenders.len()];
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        for (contender, rates) in contenders.iter().zip(&mut rates) {
            for (workers, rates) in WORKERS.iter().zip(rates) {
                rates.push(contender.adds_per_second(workers)?);
            }
        }
    }
    let rates: Vec<Vec<f64>> = rates.into_iter().map(|rates| rates.into_iter().filter_map(median).collect()).collect();
    println!("| million adds per second | {} |", WORKERS.map(|workers| format!("workers: {workers}")).join(" | "));
    println!("|---|{}", "---|".repeat(WORKERS.len()));
    let peer = &rates[rates.len() - 1];
    for (contender, rates) in contenders.iter().zip(&rates) {
        let cells = rates.iter().zip(peer).map(|(rate, peer)| format!("{:.1} ({:.2}×)", rate / 1e6, rate / peer));
        println!("| {} | {} |", contender.name, cells.collect::<Vec<_>>().join(" | "));
    }
    println!("\nwindlass with 16 workers does {:.2}× of what it does with 4", rates[0][2] / rates[0][1]);
    Ok(())
}

// === impl Contender ===

impl Contender {
    fn adds_per_second(&self, workers: &str) -> Result<f64> {
        let output = Command::new(&self.program)
            .args(self.arguments)
            .args(["--adds", ADDS, "--workers", workers])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("running {}: {error}", self.program.display()))?;
        if !output.status.success() {
            return Err(format!("{} failed ({})", self.name, output.status).into());
        }
        let line: Value = serde_json::from_slice(&output.stdout).map_err(|error| format!("{}: {error}", self.name))?;
        line["adds_per_second"].as_f64().ok_or_else(|| format!("{} printed no rate: {line}", self.name).into())
    }
}
