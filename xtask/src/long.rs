//! Tasks that take too long for CI: `cargo xtask long PART`.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::{
    Result, attacks, builds,
    cargo::{cargo, succeed},
    conformance, deployments, dist, e2e, etcd, explore_controllers, explore_examples, fuzz, handling, import,
    informers, operators, overload, protobuf, queues, reconciles, scale, servers, suites,
    upstream::{Minor, root},
};

/// The suites of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// The cases with both servers
    Cases,
    /// The client and the caches with kube-apiserver
    Clients,
}

/// A part that runs alone.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum Part {
    /// Start, memory, creates, gets, updates, applies, lists and watchers, compared with kube-apiserver and etcd (needs
    /// Go)
    BenchServer(servers::Options),
    /// Creates, gets, updates, applies and lists with fairness, audit and admission policies, compared with the default or
    /// with an earlier windlass
    BenchHandling(handling::Options),
    /// The work queue's adds per second with 1, 4 and 16 workers, compared with client-go's (needs Go)
    BenchQueue,
    /// Informers, compared with client-go's and kube-rs's in many workloads (needs Go)
    BenchInformer(informers::Options),
    /// A controller of 10,000 custom resources, compared with controller-runtime and kube-rs (needs Go)
    BenchReconcile(reconciles::Options),
    /// 1,000 Deployments from apply to ready, compared with kube-controller-manager, kube-apiserver and etcd (needs Go)
    BenchDeployments(deployments::Options),
    /// 150,000 pods on 5,000 simulated nodes, an idle cluster and churn, compared with etcd, kube-apiserver,
    /// kube-controller-manager, kube-scheduler and kwok, as far as they get (needs Go)
    BenchScale(scale::Options),
    /// First builds of the README's demo, of a scaffolded operator, and of one operator with Windlass and with kube-rs,
    /// and builds after a change
    BenchBuild(builds::Options),
    /// The storage backend with real etcd processes, some of which are killed or paused; the conformance suite with it;
    /// kube-apiserver and `windlass up` on one etcd, with a comparison of their claims and events; the controllers of one
    /// with the server of the other; and, with `--only faults` and as root, three servers on three members with faults
    /// (needs Go)
    Etcd(etcd::Options),
    /// Decisions about requests by random roles and bindings, on the embedded and the real server (needs Go)
    Decisions {
        /// The seed of the roles and requests
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The number of decisions
        #[arg(long, default_value_t = 10_000)]
        count: u64,
    },
    /// Random requests to the embedded server and to kube-apiserver, with a comparison of the responses (needs Go)
    Differential {
        /// The seed of the requests
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The duration in seconds
        #[arg(long, default_value_t = 600)]
        seconds: u64,
    },
    /// The CRDs of widely used operators on the embedded server and on kube-apiserver, with objects generated from
    /// their schemas (needs Go)
    Operators {
        /// The folder of CRDs, with a subfolder for each operator
        #[arg(long, env = "WINDLASS_CRDS")]
        crds: PathBuf,
        /// The seed of the objects
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The number of valid objects of each version, and of invalid variants of each
        #[arg(long, default_value_t = 5)]
        objects: u64,
        /// Only the operators whose folder name contains this
        #[arg(long, default_value = "")]
        only: String,
    },
    /// The CRDs of widely used operators, imported as types: compares the resulting CRDs and the responses to objects
    Import {
        /// The folder of CRDs, with a subfolder for each operator
        #[arg(long, env = "WINDLASS_CRDS")]
        crds: PathBuf,
        /// The seed of the objects
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The number of valid objects of each version, and of invalid variants of each
        #[arg(long, default_value_t = 3)]
        objects: u64,
        /// Only the operators whose folder name contains this
        #[arg(long, default_value = "")]
        only: String,
        /// Also compile five of them, and write their CRDs with `windlass generate crds` of this windlass
        #[arg(long, value_name = "WINDLASS")]
        compile: Option<PathBuf>,
    },
    /// The workload scenarios with the real kube-controller-manager, compared with its recording (needs Go)
    Workloads {
        /// Write the recording
        #[arg(long)]
        record: bool,
        /// Only this file of scenarios
        #[arg(long, default_value = "")]
        only: String,
    },
    /// `windlass up --data-dir`, killed at random points under load: checks that no acknowledged write is lost
    Crashes {
        /// The number of kills
        #[arg(long, default_value_t = 200)]
        rounds: usize,
        /// The seed of the writes and of the times
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The windlass to kill; by default one is built
        #[arg(long, value_name = "WINDLASS")]
        windlass: Option<PathBuf>,
    },
    /// Attacks on `windlass up`, with a well-behaved client in parallel: measures waiting times and memory
    Attacks {
        /// Only the attacks whose name contains this
        #[arg(long, default_value = "")]
        only: String,
        /// Also on the real control plane (needs Go)
        #[arg(long)]
        upstream: bool,
        /// The windlass to attack; by default one is built
        #[arg(long, value_name = "WINDLASS")]
        windlass: Option<PathBuf>,
    },
    /// Clients that send the most expensive permitted requests to `windlass up` at the same time: measures the latencies
    /// of a well-behaved client and of the system
    Overload(overload::Options),
    /// Kubernetes' end-to-end tests that need the control plane only, with `windlass up` (needs Go)
    E2e(e2e::Options),
    /// All fault explorations of the built-in controllers; CI runs up to 40 plans of each scenario. Also all explorations
    /// of an operator with planted bugs by the library behind `windlass explore`; CI runs one of them
    Explorations,
    /// The built-in controllers as a separate program, explored with `windlass explore`: there must be no finding
    ExploreControllers(explore_controllers::Options),
    /// Released operators, explored with `windlass explore`: checks that it finds their published bugs (needs Go)
    ExploreOperators(operators::Options),
    /// `windlass explore` on the operators of `examples/explore` in Go, Python, Java and Rust, without and with their
    /// planted bugs (needs the tools of each language)
    ExploreExamples(explore_examples::Options),
    /// The fuzz targets, one after the other (needs cargo-fuzz and a C++ compiler)
    Fuzz {
        /// The duration of each in seconds
        #[arg(long, default_value_t = 600)]
        seconds: u64,
        /// Only this target
        target: Option<String>,
    },
    /// The cases of the conformance suite with the embedded server and the kube-apiserver of each minor version, and the
    /// suites of the client and the caches with each kube-apiserver (needs Go)
    Matrix {
        /// Only these suites
        #[arg(long, value_enum)]
        only: Option<Suite>,
        /// Only these minor versions; can be repeated
        #[arg(long, value_name = "MINOR")]
        minor: Vec<Minor>,
    },
    /// Publish the crates without uploading them, use them from a local registry, and compare two builds of the program
    Package,
    /// Random objects of all kinds and versions, converted to protobuf and back, compared with Go (needs Go)
    Protobuf {
        /// The seed of the objects
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// The number of random objects of each kind
        #[arg(long, default_value_t = 20)]
        objects: u64,
    },
    /// The integration tests of controller-runtime, JobSet, LeaderWorkerSet and Cluster API on the stand-ins of envtest
    /// (needs Go)
    Suites(suites::Options),
}

pub(crate) fn run(part: &Part) -> Result {
    match part {
        Part::BenchServer(options) => {
            dist_build(&["windlass-cli", "windlass-bench"])?;
            servers::run(&root().join("target/dist/windlass"), &bench_program(), options)
        }
        Part::BenchHandling(options) => {
            let (windlass, bench) = if let (Some(windlass), Some(bench)) = (&options.windlass, &options.bench) {
                (windlass.clone(), bench.clone())
            } else {
                dist_build(&["windlass-cli", "windlass-bench"])?;
                (root().join("target/dist/windlass"), bench_program())
            };
            handling::run(&windlass, &bench, options)
        }
        Part::BenchQueue => bench_queue(),
        Part::BenchInformer(options) => {
            let bench = if let Some(bench) = &options.bench {
                bench.clone()
            } else {
                dist_build(&["windlass-bench"])?;
                bench_program()
            };
            informers::run(&bench, options)
        }
        Part::BenchReconcile(options) => {
            dist_build(&["windlass-cli", "windlass-bench"])?;
            reconciles::run(&bench_program(), options)
        }
        Part::BenchDeployments(options) => {
            dist_build(&["windlass-cli", "windlass-bench"])?;
            deployments::run(&root().join("target/dist/windlass"), &bench_program(), options)
        }
        Part::BenchScale(options) => {
            let (windlass, bench) = if let (Some(windlass), Some(bench)) = (&options.windlass, &options.bench) {
                (windlass.clone(), bench.clone())
            } else {
                dist_build(&["windlass-cli", "windlass-bench"])?;
                (root().join("target/dist/windlass"), bench_program())
            };
            scale::run(&windlass, &bench, options)
        }
        Part::BenchBuild(options) => builds::run(options),
        Part::Etcd(options) => etcd::run(options),
        Part::Decisions { seed, count } => conformance::decisions(*seed, *count),
        Part::Differential { seed, seconds } => conformance::differential(*seed, *seconds),
        Part::Operators { crds, seed, objects, only } => conformance::operators(crds, *seed, *objects, only),
        Part::Import { crds, seed, objects, only, compile } => {
            import::run(crds, *seed, *objects, only)?;
            compile.as_ref().map_or(Ok(()), |windlass| import::compile(crds, windlass))
        }
        Part::Workloads { record, only } => conformance::workloads(*record, only),
        Part::Attacks { only, upstream, windlass } => {
            let built = root().join("target/dist/windlass");
            if windlass.is_none() {
                dist_build(&["windlass-cli"])?;
            }
            attacks::run(windlass.as_ref().unwrap_or(&built), only, *upstream)
        }
        Part::Overload(options) => {
            let built = root().join("target/dist/windlass");
            if options.windlass.is_none() {
                dist_build(&["windlass-cli"])?;
            }
            overload::run(options.windlass.as_ref().unwrap_or(&built), options)
        }
        Part::Crashes { rounds, seed, windlass } => {
            let built = root().join("target/dist/windlass");
            if windlass.is_none() {
                dist_build(&["windlass-cli"])?;
            }
            crashes(windlass.as_ref().unwrap_or(&built), *rounds, *seed)
        }
        Part::E2e(options) => e2e::run(options),
        Part::Explorations => explorations(),
        Part::ExploreControllers(options) => explore_controllers::run(options),
        Part::ExploreOperators(options) => operators::run(options),
        Part::ExploreExamples(options) => {
            let built = root().join("target/dist/windlass");
            if options.windlass.is_none() {
                dist_build(&["windlass-cli"])?;
            }
            explore_examples::run(options.windlass.as_ref().unwrap_or(&built), options)
        }
        Part::Fuzz { seconds, target } => fuzz::run(target.as_deref(), *seconds),
        Part::Matrix { only, minor } => matrix(*only, minor),
        Part::Package => dist::verify::run(),
        Part::Protobuf { seed, objects } => protobuf::long(*seed, *objects),
        Part::Suites(options) => suites::run(options),
    }
}

/// Runs the tests with explorations, completely and with those that CI leaves out.
fn explorations() -> Result {
    succeed(
        cargo()
            .args(["test", "--package", "windlass-controllers", "--test", "explore"])
            .env("WINDLASS_EXPLORE_COMPLETELY", "1"),
    )?;
    succeed(cargo().args(["build", "--package", "windlass-explore", "--examples"]))?;
    let ignored = |tests: &[&str], filter: &[&str]| {
        succeed(cargo().arg("test").args(tests).args(["--", "--include-ignored"]).args(filter))
    };
    ignored(&["--package", "windlass-explore", "--lib", "--test", "explore"], &[])?;
    // The programs that the other tests explore, and their step, have `operator` in their names.
    ignored(&["--package", "windlass-cli", "--test", "explore"], &["--skip", "operator"])
}

fn matrix(only: Option<Suite>, chosen: &[Minor]) -> Result {
    let minors = if chosen.is_empty() { Minor::all()? } else { chosen.to_vec() };
    if only != Some(Suite::Clients) {
        minors.iter().try_for_each(|minor| conformance::minor(minor, &[]))?;
    }
    if only != Some(Suite::Cases) {
        minors.iter().try_for_each(conformance::clients_of)?;
    }
    Ok(())
}

/// Kills `windlass up --data-dir` again and again.
fn crashes(windlass: &Path, rounds: usize, seed: u64) -> Result {
    let mut crashes = cargo();
    crashes.args(["run", "--quiet", "--package", "conformance", "--bin", "crashes", "--"]).arg(windlass);
    succeed(crashes.args([rounds.to_string(), seed.to_string()]))
}

fn bench_queue() -> Result {
    dist_build(&["windlass-bench"])?;
    queues::run(&bench_program())
}

fn dist_build(packages: &[&str]) -> Result {
    succeed(cargo().args(["build", "--profile", "dist"]).args(packages.iter().flat_map(|name| ["--package", *name])))
}

fn bench_program() -> PathBuf {
    root().join("target/dist/windlass-bench")
}
