//! Writes what a cluster has to know of guestbooks: `windlass generate` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass::manifests::main(guestbook::manifests())
}
