//! Compares the embedded and the real server with CRDs of widely used operators. `cargo xtask long operators` starts
//! the real server and runs this program.

use std::{path::PathBuf, process::ExitCode};

use conformance::{CRDS, Operators, operators};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().and_then(|text| text.parse::<u64>().ok());
    let (Some(seed), Some(objects), Some(folder)) = (number(), number(), std::env::var_os(CRDS)) else {
        eprintln!("usage: {CRDS}=FOLDER operators SEED OBJECTS [ONLY]");
        return ExitCode::FAILURE;
    };
    let objects = usize::try_from(objects).unwrap_or(usize::MAX);
    let only = arguments.next().unwrap_or_default();
    let what = Operators { folder: PathBuf::from(folder), seed, objects, only };
    let found = Box::pin(operators(&what, |difference| println!("{difference}"))).await;
    println!("{found}");
    if found.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
