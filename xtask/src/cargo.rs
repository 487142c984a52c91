//! Cargo commands for the tasks.

use std::{env, ffi::OsString, path::Path, process::Command};

use serde_json::Value;

use crate::Result;

/// Returns a cargo command with the environment of an interactive cargo, see [`as_in_a_shell`].
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    as_in_a_shell(&mut cargo);
    cargo
}

/// Removes the variables that describe this package from the environment of a command that runs cargo.
///
/// `cargo xtask` sets them. Build scripts that read them would run again, and about half of the workspace would be
/// rebuilt each time.
pub(crate) fn as_in_a_shell(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let describes_us = name
            .to_str()
            .is_some_and(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix)));
        if describes_us {
            command.env_remove(name);
        }
    }
}

/// Returns the variables with which cargo compiles the crates of a workspace with clippy and denies warnings. They are
/// those of `cargo clippy -- --deny warnings`.
pub(crate) fn lints() -> Result<[(&'static str, OsString); 2]> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let output = Command::new(rustc).args(["--print", "sysroot"]).output()?;
    let driver = Path::new(String::from_utf8(output.stdout)?.trim()).join("bin").join("clippy-driver");
    if !driver.is_file() {
        return Err(format!("clippy is not installed: there is no {}", driver.display()).into());
    }
    let arguments = ["--deny", "warnings"].map(|argument| format!("{argument}__CLIPPY_HACKERY__")).concat();
    Ok([("RUSTC_WORKSPACE_WRAPPER", driver.into()), ("CLIPPY_ARGS", arguments.into())])
}

/// Runs a command. Returns an error if it fails.
pub(crate) fn succeed(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})").into()) }
}

/// Returns the output of `cargo metadata` with further arguments.
pub(crate) fn metadata(arguments: &[&str]) -> Result<Value> {
    let output = cargo().args(["metadata", "--format-version=1"]).args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
