//! Attacks a running API server as a hostile client, with a well-behaved client in parallel. `cargo xtask long attacks`
//! starts the server and runs this program.
//!
//! For each attack the program prints a row of a Markdown table: the outcome, the median and maximum latency of the
//! well-behaved client, and the server's memory before, at its peak and after. It fails if an attack succeeds, the
//! well-behaved client waits too long, or the memory is not released.

#![allow(clippy::disallowed_methods, reason = "a tool for people: real processes, real time")]

mod catalog;
mod identity;
mod memory;
mod well_behaved_client;
mod numbers;
mod proxy;
mod server;
mod sizes;
mod transport;
mod wire;

use std::{process::ExitCode, time::Duration};

use catalog::{Attack, AttackResult, attacks};
use memory::Memory;
use server::Server;
use well_behaved_client::WellBehavedClient;

/// The timeout of an attack.
const LIMIT: Duration = Duration::from_mins(3);

/// The time for the server to release its memory. The server's timeouts are one minute.
const SETTLE: Duration = Duration::from_secs(100);

/// The latency limits of the well-behaved client.
const MEDIAN: Duration = Duration::from_millis(100);
const MAXIMUM: Duration = Duration::from_secs(2);
const LEFT: u64 = 64 << 20;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.peek().is_some_and(|argument| argument == "--list") {
        for attack in attacks() {
            println!("{}", attack.name);
        }
        return ExitCode::SUCCESS;
    }
    let (Some(kubeconfig), Some(process)) = (arguments.next(), arguments.next().and_then(|text| text.parse().ok()))
    else {
        eprintln!("usage: attacks --list | attacks KUBECONFIG PROCESS [ONLY] [PROXY PROGRAM]");
        return ExitCode::FAILURE;
    };
    let only = arguments.next().unwrap_or_default();
    let server = match Server::of(&kubeconfig, arguments.next()) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("attacks: cannot read {kubeconfig}: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("| item | attack | outcome | others: median | others: maximum | MiB before | peak | after |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut all_held = true;
    for attack in attacks().into_iter().filter(|attack| attack.name.contains(&only)) {
        all_held &= run(&server, &attack, process).await;
    }
    if all_held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs an attack and prints its row; reports whether the server held.
async fn run(server: &Server, attack: &Attack, process: u32) -> bool {
    let memory = Memory::start(process);
    let well_behaved_client = WellBehavedClient::start(server);
    let outcome = match tokio::time::timeout(LIMIT, (attack.run)(server.clone())).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => AttackResult::Broken(format!("the attack failed: {error}")),
        Err(_) => AttackResult::Broken(format!("no answer within {LIMIT:?}")),
    };
    let waits = well_behaved_client.stop().await;
    let used = memory.settle(LEFT, SETTLE).await;
    let mut complaints = Vec::new();
    let (held, outcome) = match outcome {
        AttackResult::Held(outcome) => (true, outcome),
        AttackResult::Broken(outcome) => (false, format!("**{outcome}**")),
    };
    if waits.median > MEDIAN || waits.maximum > MAXIMUM || waits.failures > 0 {
        complaints.push(format!("others: {} failures", waits.failures));
    }
    match used.after {
        None => complaints.push("the server is gone".to_owned()),
        Some(after) if after > used.before + LEFT => complaints.push("memory kept".to_owned()),
        Some(_) => {}
    }
    let complaint = if complaints.is_empty() { String::new() } else { format!(" **({})**", complaints.join(", ")) };
    let mebibytes = |bytes: u64| bytes >> 20;
    println!(
        "| {} | {} | {outcome}{complaint} | {:.1} ms | {:.1} ms | {} | {} | {} |",
        attack.item,
        attack.name,
        waits.median.as_secs_f64() * 1e3,
        waits.maximum.as_secs_f64() * 1e3,
        mebibytes(used.before),
        mebibytes(used.peak),
        mebibytes(used.after.unwrap_or_default()),
    );
    held && complaints.is_empty()
}
