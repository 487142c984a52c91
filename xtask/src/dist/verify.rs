//! `cargo xtask long package`: publishes the crates without uploading them, uses them from the local registry as a
//! stranger does, and builds the program twice.

use std::{fs, path::Path, process::Command};

use super::{archive, build, default_target, registry_of};
use crate::{
    Result,
    cargo::cargo,
    package::{self, Uncommitted},
    scaffold::Folder,
    upstream::root,
};

/// The name of the registry in the stranger's configuration.
const REGISTRY: &str = "windlass";

/// Runs all parts.
pub(crate) fn run() -> Result {
    println!("publish: each crate builds alone, from its package");
    succeed(cargo().args(["publish", "--workspace", "--dry-run", "--locked", "--allow-dirty"]).current_dir(root()))?;
    stranger(Build::Yes)?;
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

/// The depth of the check: the stranger's program is built, or only its dependencies are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    Yes,
    No,
}

/// Creates a project in an empty folder, adds `windlass` from the local registry, and builds the controller of the
/// README.
pub(crate) fn stranger(build: Build) -> Result {
    println!("stranger: cargo new, cargo add windlass --registry {REGISTRY}, the controller of the README");
    let folder = Folder::new("stranger")?;
    let packages = package::pack(Uncommitted::Allowed)?;
    println!("packages: {} crates with their metadata and files", packages.len());
    registry_of(&packages, &folder.project())?;
    let project = folder.project().join("controller");
    let in_project = || {
        let mut command = cargo();
        command.current_dir(&project).env("CARGO_TARGET_DIR", root().join("target"));
        command
    };
    succeed(cargo().args(["new", "--quiet", "--vcs=none", "--name=controller"]).arg(&project))?;
    // The versions of this workspace, which are downloaded and built already.
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
    fs::create_dir_all(project.join(".cargo"))?;
    fs::write(project.join(".cargo/config.toml"), configuration(&folder.project().join("registry")))?;
    succeed(in_project().args(["add", "--quiet", "windlass", "--registry", REGISTRY]))?;
    succeed(in_project().args(["add", "--quiet", "tokio", "--features=macros,rt-multi-thread"]))?;
    let readme = fs::read_to_string(root().join("crates/windlass/README.md"))?;
    let controller = readme.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next());
    fs::write(project.join("src/main.rs"), controller.ok_or("crates/windlass/README.md has no controller")?)?;
    match build {
        Build::Yes => succeed(in_project().args(["build", "--quiet"])),
        Build::No => succeed(in_project().args(["tree", "--quiet", "--package=windlass", "--depth=1"])),
    }
}

/// Returns the configuration of docs/how-to/use-a-local-registry.md, with the folder of the registry.
fn configuration(folder: &Path) -> String {
    let page = include_str!("../../../docs/how-to/use-a-local-registry.md");
    let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default();
    text.replace("/path/to/registry", &folder.display().to_string())
}

fn succeed(command: &mut Command) -> Result {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})").into()) }
}
