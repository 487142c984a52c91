//! An exploration of an isolated program, without the command `windlass explore`.
//!
//! ```text
//! isolated STEPS PROGRAM ARGUMENTS…
//! ```
//!
//! This program is its own helper, so `main` begins with a call of [`isolation::helper`]. The tests of this crate use it
//! as a helper, too.

use std::{env, path::Path, process::ExitCode};

use windlass_explore::{Exploration, Isolation, Result, Scenario, isolation, report};
use windlass_runtime::shutdown;

fn main() -> ExitCode {
    // First: only a process with one thread can create namespaces.
    if let Some(code) = isolation::helper() {
        return code;
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [steps, program @ ..] if !program.is_empty() => explore(Path::new(steps), program.to_vec()),
        _ => {
            eprintln!("usage: isolated STEPS PROGRAM ARGUMENTS…");
            ExitCode::from(2)
        }
    }
}

#[tokio::main]
async fn explore(steps: &Path, program: Vec<String>) -> ExitCode {
    match run(steps, program).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

async fn run(steps: &Path, program: Vec<String>) -> Result<ExitCode> {
    let scenario = Scenario::open(&[], steps, None, program)?;
    let isolation = Isolation::with_this_program().await?;
    let results = Exploration::new(scenario).isolation(isolation).jobs(8).run(shutdown::signal()).await?;
    print!("{}", report::text(&results));
    Ok(if results.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
