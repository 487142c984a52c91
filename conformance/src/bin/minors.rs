//! The cases with the embedded server and the real server of a minor version. `cargo xtask conformance --upstream
//! --minor` starts the real server and runs this program.

use std::process::ExitCode;

use conformance::{compare_minor, files};
use windlass_server::KubernetesVersion;

/// The minimum share of equal cases, in percent.
const LEAST: f64 = 99.0;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(Ok(version)) = arguments.next().map(|text| text.parse::<KubernetesVersion>()) else {
        eprintln!("usage: minors VERSION [FILE…]");
        return ExitCode::FAILURE;
    };
    let some: Vec<String> = arguments.collect();
    let some = if some.is_empty() { files() } else { some };
    let report = |name: &str, difference: &str| {
        println!("{name}: windlass-server (+) differs from kube-apiserver (-)\n{difference}");
    };
    let compared = Box::pin(compare_minor(version, &some, report)).await;
    let unlisted = compared.unlisted(version);
    for name in &compared.outdated {
        println!("{name}: no difference any more: take it off the list");
    }
    let (equal, percent) = (compared.cases - compared.different.len(), compared.percent());
    println!(
        "{version}: {equal} of {} cases equal ({percent:.2} %), {} unlisted differences",
        compared.cases,
        unlisted.len()
    );
    if unlisted.is_empty() && percent >= LEAST { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
