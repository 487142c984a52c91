//! The storage in etcd: its tests, the conformance suite with it, the comparison of two servers on one etcd, and faults
//! under three servers.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{
    Result,
    cargo::{cargo, succeed},
    conformance::{CONTROL, IS_WINDLASS, KUBECTL, TARGET, mixed_workloads, own_workloads},
    embedded::Embedded,
    upstream::{self, Profile, Upstream, root},
};

/// The environment variable with the etcd program.
const PROGRAM: &str = "WINDLASS_ETCD";

/// The environment variable that selects the storage of the suite's embedded servers.
const STORAGE: &str = "WINDLASS_STORAGE";

/// The filters of the mirrored suite. They select the tests that write objects of many kinds, and exclude those that stop
/// the server, because its watches would end.
const MIRRORED: &[&str] =
    &["cases::", "client::", "caches::", "informers::", "errors::", "wire::", "events::", "--skip", "restarts::"];

/// A step of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// The tests of the storage backend, and of encryption at rest with the code of kube-apiserver
    Tests,
    /// The conformance suite with embedded servers that store in etcd
    Suite,
    /// The services and the endpoints of kube-apiserver and of `windlass up` on one etcd
    Neighbors,
    /// The events of both, while the suite runs with kube-apiserver
    Mirror,
    /// The workload scenarios with kube-controller-manager and `windlass up`
    Controllers,
    /// The workload scenarios with our controllers and kube-apiserver
    OwnControllers,
    /// Three servers on three members, with a fault in each round; needs root, and runs only if it is chosen
    Faults,
}

#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only this step
    #[arg(long, value_enum)]
    only: Option<Step>,
    /// The windlass to compare with kube-apiserver, and to run with faults; by default one is built
    #[arg(long, value_name = "WINDLASS")]
    windlass: Option<PathBuf>,
    /// The number of rounds with each fault
    #[arg(long, default_value_t = 50)]
    rounds: usize,
    /// The seed of the faults and of the requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these faults: member-killed, leader-paused, server-killed, server-upgraded, partition, slow-disk,
    /// compaction
    #[arg(long, value_delimiter = ',', value_name = "FAULT")]
    faults: Vec<String>,
}

/// Runs the steps.
pub(crate) fn run(options: &Options) -> Result {
    let runs = |step| options.only.is_none_or(|only| only == step);
    if runs(Step::Tests) {
        let mut tests = cargo();
        tests.args(["test", "--package", "windlass-etcd", "--", "--include-ignored", "--test-threads", "2"]);
        succeed(tests.env(PROGRAM, upstream::build()?.join("etcd")))?;
        // kube-apiserver's code decrypts what Windlass has encrypted.
        succeed(cargo().args([
            "test",
            "--package",
            "windlass-storage",
            "--lib",
            "real_server",
            "--",
            "--include-ignored",
        ]))?;
    }
    if runs(Step::Suite) {
        let mut suite = cargo();
        suite.args(["test", "--package", "conformance", "--test", "conformance"]);
        succeed(suite.env(STORAGE, "etcd").env(PROGRAM, upstream::build()?.join("etcd")))?;
    }
    if runs(Step::Neighbors) {
        neighbors(options)?;
    }
    if runs(Step::Mirror) {
        mirror(options, Writer::KubeApiserver)?;
        mirror(options, Writer::Windlass)?;
    }
    if runs(Step::Controllers) {
        mixed_workloads(&windlass(options)?)?;
    }
    if runs(Step::OwnControllers) {
        own_workloads()?;
    }
    if options.only == Some(Step::Faults) { faults(options) } else { Ok(()) }
}

/// The address of `windlass up` in the endpoints of the service `kubernetes`. kube-apiserver has that of this machine.
const ADVERTISED: &str = "192.0.2.9";

/// The time after which kube-apiserver has removed a killed server from the endpoints: its lease of 15 s, and the
/// interval of 10 s.
const GONE: Duration = Duration::from_mins(1);

/// Starts both servers, and compares the claims of their services. Then kills `windlass up`, and waits until
/// kube-apiserver no longer lists it.
fn neighbors(options: &Options) -> Result {
    let windlass = windlass(options)?;
    let mut build = cargo();
    succeed(build.args(["build", "--package", "conformance", "--bin", "neighbors"]))?;
    let upstream = Upstream::start(Profile::Token)?;
    let etcd = upstream.etcd();
    let flags = ["--controllers", "none", "--nodes", "0", "--advertise-address", ADVERTISED, "--etcd", &etcd];
    let embedded = Embedded::start(&windlass, &flags)?;
    let mut compare = Command::new(root().join("target/debug/neighbors"));
    succeed(compare.args([upstream.kubeconfig(), embedded.kubeconfig()]).arg(ADVERTISED))?;
    drop(embedded);
    let killed = Instant::now();
    loop {
        let mut get = Command::new(upstream.kubectl());
        get.arg("--kubeconfig").arg(upstream.kubeconfig());
        let output = get.args(["get", "endpointslices", "kubernetes", "--output", "yaml"]).output()?;
        if output.status.success() && !String::from_utf8_lossy(&output.stdout).contains(ADVERTISED) {
            println!("kube-apiserver has removed the killed server after {:.0?}", killed.elapsed());
            return Ok(());
        }
        if killed.elapsed() > GONE {
            return Err(format!("kube-apiserver still lists {ADVERTISED} after {GONE:?}").into());
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Returns the program to compare with kube-apiserver.
fn windlass(options: &Options) -> Result<PathBuf> {
    if let Some(windlass) = &options.windlass {
        return Ok(windlass.clone());
    }
    succeed(cargo().args(["build", "--profile", "dist", "--package", "windlass-cli"]))?;
    Ok(root().join("target/dist/windlass"))
}

/// Runs three servers on three members, with faults.
fn faults(options: &Options) -> Result {
    let checker = root().join("target/linearizability");
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-o"]).arg(&checker).arg(".");
    succeed(build.current_dir(root().join("tools/linearizability")))?;
    succeed(Command::new(&checker).arg("--self-test"))?;
    let (etcd, windlass) = (upstream::build()?.join("etcd"), windlass(options)?);
    let mut faults = cargo();
    faults.args(["run", "--quiet", "--package", "conformance", "--bin", "faults", "--"]);
    faults.args([&etcd, &windlass, &checker]).args([options.rounds.to_string(), options.seed.to_string()]);
    if !options.faults.is_empty() {
        faults.arg(options.faults.join(","));
    }
    succeed(&mut faults)
}

/// The server that the mirrored suite uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    KubeApiserver,
    Windlass,
}

/// Starts both servers, and compares their events while the suite runs with one of them.
fn mirror(options: &Options, writer: Writer) -> Result {
    let windlass = windlass(options)?;
    let [mirror, suite] = programs()?;
    let upstream = Upstream::start(Profile::Token)?;
    let etcd = upstream.etcd();
    let embedded = Embedded::start(&windlass, &["--controllers", "none", "--nodes", "0", "--etcd", &etcd])?;
    // The programs themselves instead of `cargo run`, whose environment would cause builds.
    let mut compare = Command::new(mirror);
    compare.args([upstream.kubeconfig(), embedded.kubeconfig()]).arg("--").arg(suite).args(MIRRORED);
    compare.current_dir(root().join("conformance")).env(KUBECTL, upstream.kubectl());
    match writer {
        Writer::KubeApiserver => compare.env(TARGET, upstream.kubeconfig()),
        Writer::Windlass => compare.env(TARGET, embedded.kubeconfig()).env(IS_WINDLASS, "1"),
    };
    succeed(compare.env(CONTROL, std::env::current_exe()?))
}

/// Builds the program that compares events, and the conformance suite.
fn programs() -> Result<[PathBuf; 2]> {
    let mut build = cargo();
    build.args(["test", "--package", "conformance", "--test", "conformance", "--no-run"]);
    // A test is built with all programs of its package.
    let built = build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit()).output()?;
    if !built.status.success() {
        return Err(format!("{build:?} failed ({})", built.status).into());
    }
    let messages: Vec<Value> =
        built.stdout.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let executable = |kind: &str, name: &str| {
        let found = messages.iter().find(|message| {
            let target = &message["target"];
            target["kind"][0] == kind && target["name"] == name && message["executable"].is_string()
        });
        let path = found.and_then(|message| message["executable"].as_str());
        path.map(PathBuf::from).ok_or_else(|| format!("cargo has built no {kind} {name}"))
    };
    Ok([executable("bin", "mirror")?, executable("test", "conformance")?])
}
