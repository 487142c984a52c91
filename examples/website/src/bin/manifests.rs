//! Writes what a cluster has to know of websites.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass::manifests::main(website_operator::manifests())
}
