//! How the program is linked.
//!
//! What is built on a machine with glibc 2.36 or newer needs such a one wherever it runs.

use std::{env, process::Command};

/// The first glibc that reads relocations which are packed.
const READS_PACKED: (u32, u32) = (2, 36);

/// Most of what has to be relocated is tables of pointers. Packed, they are kilobytes and not two megabytes that every start reads
/// and keeps. A linker that does not know how says so, and goes on; a glibc that does not know how could not start the program.
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

/// The version of this machine's.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
