//! Writes the manifests of the operator. `windlass generate` runs this program.

use std::process::ExitCode;

fn main() -> ExitCode {
    windlass::manifests::main(guestbook::manifests())
}
