//! What takes too long for CI: `cargo xtask long PART`.

use std::{path::PathBuf, process::Command};

use clap::Subcommand;

use crate::{
    Result, attacks, cargo::cargo, conformance, deployments, e2e, fuzz, import, informers, queues, reconciles, servers,
    suites, upstream::root,
};

/// A part that can be run alone.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Part {
    /// Start, memory, creates, gets, updates, applies, lists and watchers, beside kube-apiserver and etcd (needs Go)
    BenchServer(servers::Options),
    /// The work queue's adds per second beside client-go's, with 1, 4 and 16 workers (needs Go)
    BenchQueue,
    /// Informers beside those of client-go and kube-rs, in many ways (needs Go)
    BenchInformer(informers::Options),
    /// A controller of 10,000 custom resources beside those of controller-runtime and kube-rs (needs Go)
    BenchReconcile(reconciles::Options),
    /// 1,000 Deployments from apply to ready, beside kube-controller-manager, kube-apiserver and etcd (needs Go)
    BenchDeployments(deployments::Options),
    /// Random requests to the embedded server and to kube-apiserver, whose answers are compared (needs Go)
    Differential {
        /// What the requests are made from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How long to go on
        #[arg(long, default_value_t = 600)]
        seconds: u64,
    },
    /// The definitions of widely used operators on the embedded server and on kube-apiserver, with objects made from their
    /// schemas (needs Go)
    Operators {
        /// The folder of definitions, a folder in it for each operator
        #[arg(long, env = "WINDLASS_CRDS")]
        crds: PathBuf,
        /// What the objects are made from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Valid objects of each version, and broken ones of each of them
        #[arg(long, default_value_t = 5)]
        objects: u64,
        /// Only the operators whose folder's name contains this
        #[arg(long, default_value = "")]
        only: String,
    },
    /// The definitions of widely used operators, imported: whether their types define the same, and objects get the same answers
    Import {
        /// The folder of definitions, a folder in it for each operator
        #[arg(long, env = "WINDLASS_CRDS")]
        crds: PathBuf,
        /// What the objects are made from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Valid objects of each version, and broken ones of each of them
        #[arg(long, default_value_t = 3)]
        objects: u64,
        /// Only the operators whose folder's name contains this
        #[arg(long, default_value = "")]
        only: String,
        /// Have the compiler take five of them, and `windlass generate crds` write them, with this windlass
        #[arg(long, value_name = "WINDLASS")]
        compile: Option<PathBuf>,
    },
    /// The scenarios of workloads with the real kube-controller-manager, held to what is recorded of it (needs Go)
    Workloads {
        /// Write what it does as the recording
        #[arg(long)]
        record: bool,
        /// Only this file of them
        #[arg(long, default_value = "")]
        only: String,
    },
    /// Attacks on a `windlass up`, with a well-behaved client beside them: who waits how long, and what memory they take
    Attacks {
        /// Only the attacks whose name contains this
        #[arg(long, default_value = "")]
        only: String,
        /// On the real control plane too (needs Go)
        #[arg(long)]
        upstream: bool,
        /// The windlass to attack, instead of one that is built here
        #[arg(long, value_name = "WINDLASS")]
        windlass: Option<PathBuf>,
    },
    /// Kubernetes' end-to-end tests that need the control plane only, against `windlass up` (needs Go)
    E2e(e2e::Options),
    /// The fuzz targets, one after the other (needs cargo-fuzz and a C++ compiler)
    Fuzz {
        /// How many seconds each runs
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// Only this one
        target: Option<String>,
    },
    /// The integration tests of JobSet, LeaderWorkerSet and Cluster API on the stand-ins of envtest (needs Go)
    Suites(suites::Options),
}

pub(crate) fn run(part: &Part) -> Result {
    match part {
        Part::BenchServer(options) => {
            release_build(&["windlass-cli", "windlass-bench"])?;
            servers::run(&root().join("target/release/windlass"), &bench_program(), options)
        }
        Part::BenchQueue => bench_queue(),
        Part::BenchInformer(options) => {
            release_build(&["windlass-bench"])?;
            informers::run(&bench_program(), options)
        }
        Part::BenchReconcile(options) => {
            release_build(&["windlass-cli", "windlass-bench"])?;
            succeed(cargo().args([
                "build",
                "--profile",
                "dist",
                "--package=windlass-bench",
                "--bin=windlass-bench-controller",
            ]))?;
            reconciles::run(&bench_program(), options)
        }
        Part::BenchDeployments(options) => {
            release_build(&["windlass-cli", "windlass-bench"])?;
            deployments::run(&root().join("target/release/windlass"), &bench_program(), options)
        }
        Part::Differential { seed, seconds } => conformance::differential(*seed, *seconds),
        Part::Operators { crds, seed, objects, only } => conformance::operators(crds, *seed, *objects, only),
        Part::Import { crds, seed, objects, only, compile } => {
            import::run(crds, *seed, *objects, only)?;
            compile.as_ref().map_or(Ok(()), |windlass| import::compile(crds, windlass))
        }
        Part::Workloads { record, only } => conformance::workloads(*record, only),
        Part::Attacks { only, upstream, windlass } => {
            let built = root().join("target/release/windlass");
            if windlass.is_none() {
                release_build(&["windlass-cli"])?;
            }
            attacks::run(windlass.as_ref().unwrap_or(&built), only, *upstream)
        }
        Part::E2e(options) => e2e::run(options),
        Part::Fuzz { seconds, target } => fuzz::run(target.as_deref(), *seconds),
        Part::Suites(options) => suites::run(options),
    }
}

fn bench_queue() -> Result {
    release_build(&["windlass-bench"])?;
    queues::run(&bench_program())
}

fn release_build(packages: &[&str]) -> Result {
    succeed(cargo().args(["build", "--release"]).args(packages.iter().flat_map(|name| ["--package", *name])))
}

fn bench_program() -> PathBuf {
    root().join("target/release/windlass-bench")
}

fn succeed(command: &mut Command) -> Result {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed ({status})").into()) }
}
