//! What takes too long for CI: `cargo xtask long PART`.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use clap::Subcommand;

use crate::{
    Result,
    cargo::cargo,
    fuzz,
    upstream::{self, Profile, Upstream},
};

/// A part that can be run alone.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Part {
    /// Creates, gets, updates, applies and lists, beside kube-apiserver and etcd (needs Go)
    BenchServer,
    /// The work queue's adds per second, with 1, 4 and 16 workers
    BenchQueue,
    /// The fuzz targets, one after the other (needs cargo-fuzz and a C++ compiler)
    Fuzz {
        /// How many seconds each runs
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// Only this one
        target: Option<String>,
    },
}

pub(crate) fn run(part: &Part) -> Result {
    match part {
        Part::BenchServer => bench_server(),
        Part::BenchQueue => bench_queue(),
        Part::Fuzz { seconds, target } => fuzz::run(target.as_deref(), *seconds),
    }
}

fn bench_queue() -> Result {
    release_build()?;
    [1, 4, 16].iter().try_for_each(|workers| {
        succeed(bench().args(["queue", "--adds", "5000000", "--workers", &workers.to_string()]))
    })
}

fn bench_server() -> Result {
    release_build()?;
    let upstream = Upstream::start(Profile::Token)?;
    let windlass = Windlass::start(&upstream.directory().join("windlass.kubeconfig"))?;
    let target = |name: &str, kubeconfig: &Path| format!("--target={name}={}", kubeconfig.display());
    let kubeconfig = upstream.directory().join("windlass.kubeconfig");
    let outcome = succeed(
        bench().arg("server").args([target("windlass", &kubeconfig), target("kube-apiserver", &upstream.kubeconfig())]),
    );
    drop(windlass);
    outcome
}

/// A running `windlass up` without controllers; stopped when dropped.
struct Windlass {
    process: Child,
    /// Kept open, since it may have more to say.
    output: BufReader<ChildStdout>,
}

impl Windlass {
    fn start(kubeconfig: &Path) -> Result<Self> {
        let mut child = Command::new(upstream::root().join("target/release/windlass"))
            .args(["up", "--bind=127.0.0.1:0", "--controllers=none", "--kubeconfig"])
            .arg(kubeconfig)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("windlass up has no output")?;
        let mut windlass = Self { process: child, output: BufReader::new(output) };
        let mut line = String::new();
        windlass.output.read_line(&mut line)?;
        if line.trim() == "ready" { Ok(windlass) } else { Err(format!("windlass up said {line:?}").into()) }
    }
}

impl Drop for Windlass {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn release_build() -> Result {
    let packages = ["build", "--release", "--package=windlass-cli", "--package=windlass-bench"];
    succeed(cargo().args(packages))
}

fn bench() -> Command {
    Command::new(upstream::root().join("target/release/windlass-bench"))
}

fn succeed(command: &mut Command) -> Result {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})").into()) }
}
