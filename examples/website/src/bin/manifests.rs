//! Writes the manifests of the operator.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass::manifests::main(website_operator::manifests())
}
