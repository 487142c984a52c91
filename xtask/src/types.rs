//! The type table that the server's codec reads, derived from the Go types by reflection.

use std::{fs, process::Command};

use crate::{Result, upstream};

/// Where the table lives, from the root of the workspace.
const TABLE: &str = "crates/windlass-server/data/types.tsv";

/// Writes the table, or with `check` compares it with the one in the repo.
pub(crate) fn run(check: bool) -> Result {
    let output = Command::new("go").args(["run", "./fields"]).current_dir(upstream::root().join("tools")).output()?;
    if !output.status.success() {
        return Err(format!("go run ./fields failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let path = upstream::root().join(TABLE);
    if !check {
        fs::write(&path, &output.stdout)?;
        println!("{TABLE}: {} bytes", output.stdout.len());
    } else if fs::read(&path)? == output.stdout {
        println!("{TABLE}: as the Go types say");
    } else {
        return Err(format!("{TABLE} differs from the Go types; `cargo xtask types` writes it anew").into());
    }
    Ok(())
}
