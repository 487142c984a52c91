//! `cargo xtask long package`: publishes the crates without uploading them, uses them from the local registry as a
//! stranger does, and builds the program twice.

use std::{fs, process::Command};

use super::{
    archive, build, default_target,
    stranger::{Build, walk},
};
use crate::{
    Result,
    cargo::{cargo, succeed},
    scaffold::Folder,
    upstream::root,
};

/// Runs all parts.
pub(crate) fn run() -> Result {
    println!("publish: each crate builds alone, from its package");
    succeed(cargo().args(["publish", "--workspace", "--dry-run", "--locked", "--allow-dirty"]).current_dir(root()))?;
    walk(Build::Yes)?;
    println!("reproducible: the program of two clones");
    let (target, folder) = (default_target()?, Folder::new("reproducible")?);
    let mut checksums = Vec::new();
    for name in ["one", "another"] {
        let clone = folder.project().join(name);
        succeed(Command::new("git").args(["clone", "--quiet", "--local"]).arg(root()).arg(&clone))?;
        checksums.push(archive::checksum(&build(&clone, &clone.join("target"), &target, "dist")?)?);
        fs::remove_dir_all(&clone)?;
    }
    if checksums[0] != checksums[1] {
        return Err(format!("two builds of one commit differ: {} and {}", checksums[0], checksums[1]).into());
    }
    Ok(())
}
