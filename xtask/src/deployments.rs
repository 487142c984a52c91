//! A benchmark with many Deployments: `cargo xtask long bench-deployments`.
//!
//! Each run starts its own control plane: `windlass up`, or etcd with kube-apiserver and kube-controller-manager. The
//! same program (`windlass-bench nodes`) simulates the nodes of all, in its own process. A further run has the nodes in
//! the process of `windlass up`, the default for users. The control planes take turns in each round, so other load on
//! the machine affects all of them.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    Result,
    bench_programs::{self, Figures},
    embedded::Embedded,
    table::{Column, Table, TableEntry, figure},
    upstream::Upstream,
};

/// The number of rounds and the load.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// How many rounds to run for each control plane; the figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many rounds to run with Kubernetes' default limits; each takes about ten minutes
    #[arg(long, default_value_t = 1)]
    limited_rounds: usize,
    /// The number of Deployments
    #[arg(long, default_value_t = 1_000)]
    deployments: usize,
    /// The number of replicas of each Deployment
    #[arg(long, default_value_t = 3)]
    replicas: u32,
    /// The number of nodes; each has room for 110 pods
    #[arg(long, default_value_t = 50)]
    nodes: usize,
}

/// A control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Windlass,
    /// With the nodes in the same process.
    WindlassWithNodes,
    /// With raised rate limits and more concurrent reconciles.
    Kubernetes,
    /// With its default limits.
    KubernetesLimited,
}

const CONTENDERS: &[Contender] =
    &[Contender::Windlass, Contender::WindlassWithNodes, Contender::Kubernetes, Contender::KubernetesLimited];

/// Flags that remove the rate limits of kube-controller-manager.
pub(crate) const UNLIMITED: &[&str] = &[
    "--kube-api-qps=5000",
    "--kube-api-burst=10000",
    "--concurrent-deployment-syncs=20",
    "--concurrent-replicaset-syncs=20",
];

const TIMES: &[Column] = &[
    figure("deployments.applied_seconds", "until all are applied, s", 1.0, 2),
    figure("deployments.ready_seconds", "until all are ready, s", 1.0, 2),
    figure("deployments.settled_seconds", "until nothing is written, s", 1.0, 0),
    figure("cpu_until_ready.sum", "CPU until ready, s", 1.0, 1),
    figure("cpu_seconds.sum", "CPU in all, s", 1.0, 1),
    figure("peak_rss_bytes.sum", "peak RSS, MB", 1e-6, 0),
    figure("deployments.load_before", "load of the machine before", 1.0, 1),
];

const REQUESTS: &[Column] = &[
    figure("requests.all", "all", 1.0, 0),
    figure("requests.APPLY", "APPLY", 1.0, 0),
    figure("requests.POST", "POST", 1.0, 0),
    figure("requests.PUT", "PUT", 1.0, 0),
    figure("requests.PATCH", "PATCH", 1.0, 0),
    figure("requests.GET", "GET", 1.0, 0),
    figure("requests.LIST", "LIST", 1.0, 0),
    figure("requests.events", "of events", 1.0, 0),
    figure("requests.conflicts", "conflicts", 1.0, 0),
];

const PROCESSES: &[Column] = &[
    figure("cpu_seconds.windlass", "windlass, CPU s", 1.0, 1),
    figure("cpu_seconds.kube-controller-manager", "kube-controller-manager, CPU s", 1.0, 1),
    figure("cpu_seconds.kube-apiserver", "kube-apiserver, CPU s", 1.0, 1),
    figure("cpu_seconds.etcd", "etcd, CPU s", 1.0, 1),
    figure("cpu_seconds.nodes", "the nodes, CPU s", 1.0, 1),
    figure("peak_rss_bytes.windlass", "windlass, MB", 1e-6, 0),
    figure("peak_rss_bytes.kube-controller-manager", "kube-controller-manager, MB", 1e-6, 0),
    figure("peak_rss_bytes.kube-apiserver", "kube-apiserver, MB", 1e-6, 0),
    figure("peak_rss_bytes.etcd", "etcd, MB", 1e-6, 0),
    figure("peak_rss_bytes.nodes", "the nodes, MB", 1e-6, 0),
];

/// The timeout of a run. With its default limits, kube-controller-manager needs the time of 8,000 requests at 20 per
/// second.
const LONGEST: Duration = Duration::from_mins(40);

/// Builds the other programs, runs all, and prints the tables. `windlass` and `bench` are already built.
pub(crate) fn run(windlass: &Path, bench: &Path, options: &Options) -> Result {
    let programs = Programs { windlass: windlass.to_path_buf(), bench: bench.to_path_buf() };
    let table = |heading, columns| Table::new(heading, columns, CONTENDERS);
    let mut tables =
        [table("Times, processor and memory", TIMES), table("Requests", REQUESTS), table("By process", PROCESSES)];
    for round in 0..options.rounds.max(options.limited_rounds) {
        for (line, contender) in CONTENDERS.iter().enumerate().filter(|(_, one)| round < one.rounds(options)) {
            eprintln!("round {}: {}", round + 1, contender.name());
            let figures =
                programs.measure(*contender, options).map_err(|error| format!("{}: {error}", contender.name()))?;
            for table in &mut tables {
                table.note(line, figures.clone());
            }
        }
    }
    for table in &tables {
        println!("{table}");
    }
    Ok(())
}

/// The paths of the programs.
struct Programs {
    windlass: PathBuf,
    bench: PathBuf,
}

/// A running control plane. It is stopped on drop.
pub(crate) enum Plane {
    Windlass(Embedded),
    Kubernetes(Upstream),
}

/// A process that is killed on drop.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === impl Programs ===

impl Programs {
    fn measure(&self, contender: Contender, options: &Options) -> Result<Figures> {
        let plane = contender.start(&self.windlass, options)?;
        let nodes = if contender == Contender::WindlassWithNodes { None } else { Some(self.nodes(&plane, options)?) };
        let mut bench = Command::new(&self.bench);
        bench.arg("deployments").arg("--kubeconfig").arg(plane.kubeconfig());
        bench.args(["--deployments", &options.deployments.to_string(), "--replicas", &options.replicas.to_string()]);
        bench.args(["--nodes", &options.nodes.to_string(), "--within", &LONGEST.as_secs().to_string()]);
        bench.args(plane.processes().into_iter().map(|(name, process)| format!("--process={name}={process}")));
        bench.args(nodes.iter().map(|nodes| format!("--beside=nodes={}", nodes.0.id())));
        bench_programs::run_within(LONGEST, &mut bench)
    }

    fn nodes(&self, plane: &Plane, options: &Options) -> Result<Stopped> {
        let mut nodes = Command::new(&self.bench);
        nodes.arg("nodes").arg("--kubeconfig").arg(plane.kubeconfig()).args(["--nodes", &options.nodes.to_string()]);
        let nodes = nodes.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Stopped(nodes.map_err(|error| format!("starting the simulated nodes: {error}"))?))
    }
}

// === impl Plane ===

impl Plane {
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Windlass(embedded) => embedded.kubeconfig(),
            Self::Kubernetes(upstream) => upstream.kubeconfig(),
        }
    }

    pub(crate) fn processes(&self) -> Vec<(&'static str, u32)> {
        match self {
            Self::Windlass(embedded) => vec![("windlass", embedded.process())],
            Self::Kubernetes(upstream) => upstream.named_processes(),
        }
    }
}

// === impl Contender ===

impl TableEntry for Contender {
    fn name(&self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::WindlassWithNodes => "windlass, nodes in its process",
            Self::Kubernetes => "Kubernetes, limits raised",
            Self::KubernetesLimited => "Kubernetes, as by default",
        }
    }
}

impl Contender {
    const fn rounds(self, options: &Options) -> usize {
        match self {
            Self::KubernetesLimited => options.limited_rounds,
            _ => options.rounds,
        }
    }

    fn start(self, windlass: &Path, options: &Options) -> Result<Plane> {
        let nodes = options.nodes.to_string();
        Ok(match self {
            Self::Windlass => Plane::Windlass(Embedded::start(windlass, &["--controllers=*,-nodes"])?),
            Self::WindlassWithNodes => Plane::Windlass(Embedded::start(windlass, &["--nodes", &nodes])?),
            Self::Kubernetes => Plane::Kubernetes(Upstream::with_controllers(UNLIMITED)?),
            Self::KubernetesLimited => Plane::Kubernetes(Upstream::with_controllers(&[])?),
        })
    }
}
