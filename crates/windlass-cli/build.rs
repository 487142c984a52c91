//! Linker options of the program.
//!
//! A program built on a machine with glibc 2.36 or newer requires glibc 2.36 or newer to run.

use std::{env, process::Command};

/// The first glibc version that reads packed relocations.
const READS_PACKED: (u32, u32) = (2, 36);

/// Most relocations are in tables of pointers. Packed, they take kilobytes instead of two megabytes that every start
/// reads and keeps in memory. A linker without support prints a warning and continues. A glibc without support could
/// not start the program.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let at_home = env::var("HOST") == env::var("TARGET");
    if target("OS") == "linux"
        && target("ENV") == "gnu"
        && at_home
        && glibc().is_some_and(|glibc| glibc >= READS_PACKED)
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
