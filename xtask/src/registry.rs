//! The registry sync of the examples against real registries, which are killed, halted and impersonated: `cargo xtask registry`.

use crate::{
    Result,
    cargo::cargo,
    upstream::{build, build_polaris},
};

/// The tests that need real registries. As all of the workspace is built, so that CI compiles it once.
const TESTS: [&str; 7] = ["test", "--workspace", "--locked", "--test", "real_registries", "--", "--ignored"];

/// Builds what is missing, and runs the tests: with etcd, and with Polaris if it is asked for.
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
    Err(format!("the registry sync does not survive its registries ({status})").into())
}
