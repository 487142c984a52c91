//! Overload of API servers: `cargo xtask long overload`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;

use crate::{
    Result,
    cargo::cargo,
    embedded::Embedded,
    upstream::{Profile, Upstream},
};

/// The options of the overload.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only the requests whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// The time for each kind of requests, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Also on the real control plane (needs Go)
    #[arg(long)]
    upstream: bool,
    /// The windlass to overload; by default one is built
    #[arg(long, value_name = "WINDLASS")]
    pub(crate) windlass: Option<PathBuf>,
    /// The program that sends the requests, `overload` of the package `conformance`; by default it is built
    #[arg(long, value_name = "OVERLOAD")]
    generator: Option<PathBuf>,
}

/// Overloads `windlass up`, and optionally the real control plane. Returns an error if `windlass up` does not hold the
/// limits; the results of the real server are for comparison only.
pub(crate) fn run(windlass: &Path, options: &Options) -> Result {
    println!("## windlass up\n");
    let held = {
        let server = Embedded::start(windlass, &["--nodes", "0", "--controllers", "none"])?;
        program(&server.kubeconfig(), options)?
    };
    if options.upstream {
        println!("\n## kube-apiserver\n");
        let server = Upstream::start(Profile::Token)?;
        program(&server.kubeconfig(), options)?;
    }
    if held { Ok(()) } else { Err("the overload has delayed other clients".into()) }
}

/// Runs the program, and reports whether the limits held.
fn program(kubeconfig: &Path, options: &Options) -> Result<bool> {
    let mut overload = if let Some(generator) = &options.generator {
        Command::new(generator)
    } else {
        let mut overload = cargo();
        overload.args(["run", "--quiet", "--package", "conformance", "--bin", "overload", "--"]);
        overload
    };
    overload.arg(kubeconfig).arg(options.seconds.to_string()).arg(&options.only);
    Ok(overload.status()?.success())
}
