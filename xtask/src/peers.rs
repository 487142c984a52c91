//! What the measurements beside client-go have in common.

use std::{path::PathBuf, process::Command};

use crate::{Result, upstream::root};

/// Builds a program of the Go module `bench/client-go`.
pub(crate) fn client_go(package: &str, name: &str) -> Result<PathBuf> {
    let program = root().join("target").join(name);
    let mut build = Command::new("go");
    build.args(["build", "-trimpath", "-o"]).arg(&program).arg(package).current_dir(root().join("bench/client-go"));
    let status = build.status().map_err(|error| format!("running go: {error}"))?;
    if status.success() {
        Ok(program)
    } else {
        Err(format!("{package} of bench/client-go does not build ({status})").into())
    }
}

/// `None` without figures.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
