//! Cargo, run by a task.

use std::{env, process::Command};

/// A cargo that builds what one started by hand would build.
///
/// `cargo xtask` describes its own package in the environment. Build scripts that read those variables would run again
/// because of them, and whatever depends on theirs would be built again: half of the workspace, each time.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os() {
        let describes_us = name
            .to_str()
            .is_some_and(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix)));
        if describes_us {
            cargo.env_remove(name);
        }
    }
    cargo
}
