//! The registry sync of the examples with real registries, which are killed, paused and impersonated: `cargo xtask
//! registry`.

use crate::{
    Result,
    cargo::cargo,
    upstream::{build, build_polaris},
};

/// The tests that need real registries. They use the flags of the full workspace build, so CI compiles them once.
const TESTS: [&str; 7] = ["test", "--workspace", "--locked", "--test", "real_registries", "--", "--ignored"];

/// Builds missing programs and runs the tests: with etcd, and on request with Polaris.
pub(crate) fn run(polaris: bool) -> Result {
    let mut command = cargo();
    command.args(TESTS).env("WINDLASS_ETCD", build()?.join("etcd"));
    if polaris {
        command.env("WINDLASS_POLARIS", build_polaris()?);
    } else {
        command.args(["--skip", "polaris"]);
    }
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the registry sync failed with real registries ({status})").into())
}
