//! A benchmark at scale: `cargo xtask long bench-scale`.
//!
//! `windlass up` with simulated nodes, and etcd with kube-apiserver, kube-controller-manager, kube-scheduler and kwok, run
//! one after the other. Each gets the same Deployments, an idle time, a light load and churn. A control plane that does
//! not complete the creation in time continues with the pods that run then, and one that fails keeps the figures until
//! then.

use std::{
    fmt,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::ValueEnum;

use crate::{
    Result,
    bench_programs::{self, Figures},
    cargo::succeed,
    deployments::{Plane, UNLIMITED},
    embedded::Embedded,
    upstream::Upstream,
};

/// The load, and the programs.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// The number of nodes; each has room for 110 pods
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// The number of Deployments
    #[arg(long, default_value_t = 1_500)]
    deployments: usize,
    /// The number of replicas of each Deployment
    #[arg(long, default_value_t = 100)]
    replicas: u32,
    /// The time after the creation in which its history expires, in seconds
    #[arg(long, default_value_t = 360, value_name = "SECONDS")]
    rest: u64,
    /// The time for which the CPU time is measured without requests after that, in seconds
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    idle: u64,
    /// The time for which the CPU time is measured with reads, writes, lists and a watch after that, in seconds
    #[arg(long, default_value_t = 120, value_name = "SECONDS")]
    loaded: u64,
    /// The time for which pods are deleted after that, in seconds
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    churn: u64,
    /// The number of pods that are deleted per second
    #[arg(long, default_value_t = 100, value_name = "PODS")]
    churn_rate: u32,
    /// The time for the creation, in seconds; after it, the measurement continues with the running pods
    #[arg(long, default_value_t = 1_800, value_name = "SECONDS")]
    limit: u64,
    /// Only this control plane
    #[arg(long, value_enum)]
    only: Option<Contender>,
    /// The windlass to measure; by default one is built
    #[arg(long, value_name = "WINDLASS", requires = "bench")]
    pub(crate) windlass: Option<PathBuf>,
    /// The windlass-bench that sends the requests; by default one is built
    #[arg(long, value_name = "BENCH", requires = "windlass")]
    pub(crate) bench: Option<PathBuf>,
}

/// A control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contender {
    /// `windlass up` with simulated nodes
    Windlass,
    /// etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok
    Kubernetes,
}

const CONTENDERS: [Contender; 2] = [Contender::Windlass, Contender::Kubernetes];

/// Flags that remove the rate limit of kube-scheduler.
const UNLIMITED_SCHEDULER: [&str; 2] = ["--kube-api-qps=5000", "--kube-api-burst=10000"];

/// The processes of all control planes, in the order of the table.
const PROCESSES: [&str; 6] =
    ["windlass", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];

/// The time for the start of the nodes, and for lists, in seconds.
const EXTRA: u64 = 1_800;

/// The figures of one control plane.
struct Measured {
    contender: Contender,
    figures: Figures,
}

/// A line of the table.
#[derive(Debug)]
struct Row {
    heading: String,
    figure: String,
    /// The limit at the default size; empty if there is none.
    limit: &'static str,
    /// The divisor of a ratio.
    over: Option<&'static str>,
    factor: f64,
    digits: usize,
}

/// Builds the other programs, measures each control plane, and prints the table. `windlass` and `bench` are already built.
pub(crate) fn run(windlass: &Path, bench: &Path, options: &Options) -> Result {
    let mut measured = Vec::new();
    let mut failed = Vec::new();
    for contender in CONTENDERS.into_iter().filter(|one| options.only.is_none_or(|only| only == *one)) {
        eprintln!("{contender}");
        let mut figures = Figures::new();
        if let Err(error) = measure(contender, windlass, bench, options, &mut figures) {
            failed.push(format!("{contender}: {error}"));
        }
        measured.push(Measured { contender, figures });
    }
    println!("{}", table(&measured));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}

/// Starts a control plane with its nodes, and reads the figures of `windlass-bench deployments`.
fn measure(contender: Contender, windlass: &Path, bench: &Path, options: &Options, figures: &mut Figures) -> Result {
    let nodes = options.nodes.to_string();
    let plane = contender.start(windlass, bench, &nodes)?;
    let Options { rest, idle, loaded, churn, .. } = options;
    let within = 2 * options.limit + rest + idle + loaded + churn + EXTRA;
    let mut load = Command::new(bench);
    load.args(["deployments", "--latencies", "--nodes", &nodes]).arg("--kubeconfig").arg(plane.kubeconfig());
    load.args(["--deployments", &options.deployments.to_string(), "--replicas", &options.replicas.to_string()]);
    load.args(["--rest", &rest.to_string(), "--idle", &idle.to_string(), "--loaded", &loaded.to_string()]);
    load.args(["--limit", &options.limit.to_string(), "--churn", &churn.to_string()]);
    load.args(["--churn-rate", &options.churn_rate.to_string()]);
    load.args(["--within", &within.to_string()]);
    load.args(plane.processes().into_iter().map(|(name, process)| format!("--process={name}={process}")));
    let started = load.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut load = started.map_err(|error| format!("starting {}: {error}", bench.display()))?;
    let output = load.stdout.take().ok_or("windlass-bench has no output")?;
    read(BufReader::new(output), figures)?;
    let status = load.wait()?;
    if status.success() { Ok(()) } else { Err(format!("windlass-bench failed ({status})").into()) }
}

/// Adds the figures of each line of JSON. Prints all lines to standard error, because a run takes up to an hour.
fn read(output: impl BufRead, figures: &mut Figures) -> Result {
    for line in output.lines() {
        let line = line?;
        eprintln!("{line}");
        if line.starts_with('{') {
            bench_programs::read(&line, figures)?;
        }
    }
    Ok(())
}

/// Returns the table, with the limits and a column for each control plane. Rows without figures are omitted.
fn table(measured: &[Measured]) -> String {
    let names: Vec<_> = measured.iter().map(|one| one.contender.to_string()).collect();
    let mut table = format!("| | limit | {} |\n|---|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for row in rows() {
        let cells: Vec<_> = measured.iter().map(|one| row.of(&one.figures)).collect();
        if cells.iter().any(Option::is_some) {
            let cells: Vec<_> = cells
                .into_iter()
                .map(|cell| cell.map_or("–".to_owned(), |cell| format!("{cell:.*}", row.digits)))
                .collect();
            let limit = if row.limit.is_empty() { String::new() } else { format!("{} ", row.limit) };
            table += &format!("| {} | {limit}| {} |\n", row.heading, cells.join(" | "));
        }
    }
    table
}

fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("creation: running pods", "deployments.pods", 1.0, 0),
        row("after seconds", "deployments.pods_seconds", 1.0, 1).within("300"),
        Row { over: Some("deployments.pods_seconds"), ..row("pods per second", "deployments.pods", 1.0, 0) },
        Row { over: Some("deployments.pods"), ..row("CPU time per pod, ms", "cpu_until_ready.sum", 1e3, 2) },
    ];
    rows.extend(by_process("CPU seconds until then", "cpu_until_ready", 1.0, 0, ""));
    rows.extend(by_process("peak MB", "peak_rss_bytes", 1e-6, 0, "3,000"));
    rows.extend(latencies("creation"));
    rows.push(row("requests until the end of writes", "requests.all", 1.0, 0));
    rows.push(row("conflicts among them", "requests.conflicts", 1.0, 0));
    rows.extend(by_process("after the creation: cores", "rest_cores", 1.0, 3, ""));
    rows.extend(by_process("idle with heartbeats: cores", "idle_cores", 1.0, 3, "0.5"));
    rows.extend(by_process("with the load of `--latencies`: cores", "loaded_cores", 1.0, 3, ""));
    rows.extend(latencies("loaded"));
    rows.extend([
        row("churn: deleted pods", "churn.deleted", 1.0, 0),
        row("in seconds", "churn.seconds", 1.0, 1),
        row("running pods at the end", "churn.running", 1.0, 0),
    ]);
    rows.extend(by_process("cores", "churn_cores", 1.0, 2, ""));
    rows.extend(latencies("churn"));
    rows.extend(by_process("peak MB at the end", "churn_peak_rss_bytes", 1e-6, 0, "3,000"));
    rows
}

fn row(heading: &str, figure: &str, factor: f64, digits: usize) -> Row {
    Row { heading: heading.to_owned(), figure: figure.to_owned(), limit: "", over: None, factor, digits }
}

/// Returns the row of the sum, with its limit, and that of each process of Kubernetes.
fn by_process(heading: &str, figure: &str, factor: f64, digits: usize, limit: &'static str) -> Vec<Row> {
    let mut rows = vec![row(heading, &format!("{figure}.sum"), factor, digits).within(limit)];
    // The sum of windlass is that of its only process.
    rows.extend(
        PROCESSES[1..].iter().map(|name| row(&format!("– {name}"), &format!("{figure}.{name}"), factor, digits)),
    );
    rows
}

/// Returns the rows of the latencies during a phase, with the limits of SIG Scalability.
fn latencies(phase: &str) -> Vec<Row> {
    let of = |heading: &str, figure: &str, factor: f64, digits: usize| {
        row(heading, &format!("{phase}_latencies.{figure}"), factor, digits)
    };
    let mut rows = vec![
        of("read p50, ms", "read_p50_ms", 1.0, 0),
        of("read p99, ms", "read_p99_ms", 1.0, 0).within("1,000"),
        of("write p50, ms", "write_p50_ms", 1.0, 0),
        of("write p99, ms", "write_p99_ms", 1.0, 0).within("1,000"),
        of("list of all pods, p50, s", "list_p50_ms", 1e-3, 1),
        of("list of all pods, longest, s", "list_max_ms", 1e-3, 1).within("30"),
        of("watch delay p99, ms", "watch_p99_ms", 1.0, 0).within("1,000"),
        of("watch delay, longest, ms", "watch_max_ms", 1.0, 0),
    ];
    for name in ["read", "write", "list", "watch"] {
        rows.push(of(&format!("failures of {name}"), &format!("{name}_failed"), 1.0, 0));
    }
    rows
}

// === impl Row ===

impl Row {
    fn within(self, limit: &'static str) -> Self {
        Self { limit, ..self }
    }

    fn of(&self, figures: &Figures) -> Option<f64> {
        let over = self.over.map_or(Some(1.0), |over| figures.get(over).copied())?;
        Some(figures.get(&self.figure)? * self.factor / over)
    }
}

// === impl Contender ===

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Windlass => "windlass",
            Self::Kubernetes => "Kubernetes with kwok",
        })
    }
}

impl Contender {
    fn start(self, windlass: &Path, bench: &Path, nodes: &str) -> Result<Plane> {
        if self == Self::Windlass {
            return Ok(Plane::Windlass(Embedded::start(windlass, &["--nodes", nodes])?));
        }
        let mut upstream = Upstream::with_controllers(UNLIMITED)?;
        upstream.start_scheduler(&UNLIMITED_SCHEDULER)?;
        upstream.start_kwok()?;
        let mut create = Command::new(bench);
        succeed(create.args(["kwok-nodes", "--nodes", nodes, "--kubeconfig"]).arg(upstream.kubeconfig()))?;
        Ok(Plane::Kubernetes(upstream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_column_for_each_control_plane() {
        let of = |contender, output: &str| {
            let mut figures = Figures::new();
            read(output.as_bytes(), &mut figures).unwrap();
            Measured { contender, figures }
        };
        let windlass = "{\"bench\":\"deployments\",\"pods\":200,\"pods_seconds\":4.0,\"ready_seconds\":4.0}\n\
            {\"bench\":\"cpu_until_ready\",\"sum\":1.0,\"windlass\":1.0}\n\
            {\"bench\":\"creation_latencies\",\"list_max_ms\":1500.0}\n\
            {\"bench\":\"idle_cores\",\"sum\":0.2,\"windlass\":0.2}\n\n| creation | number |\n|---|---|\n";
        let kubernetes = "{\"bench\":\"deployments\",\"pods\":100,\"pods_seconds\":50.0,\"ready_seconds\":null}\n\
            {\"bench\":\"cpu_until_ready\",\"sum\":6.0,\"etcd\":2.0,\"kwok\":4.0}\n\
            {\"bench\":\"idle_cores\",\"sum\":0.9}\n";
        let table = table(&[of(Contender::Windlass, windlass), of(Contender::Kubernetes, kubernetes)]);
        let expected = "\
            | | limit | windlass | Kubernetes with kwok |\n\
            |---|---|---|---|\n\
            | creation: running pods | | 200 | 100 |\n\
            | after seconds | 300 | 4.0 | 50.0 |\n\
            | pods per second | | 50 | 2 |\n\
            | CPU time per pod, ms | | 5.00 | 60.00 |\n\
            | CPU seconds until then | | 1 | 6 |\n\
            | – etcd | | – | 2 |\n\
            | – kwok | | – | 4 |\n\
            | list of all pods, longest, s | 30 | 1.5 | – |\n\
            | idle with heartbeats: cores | 0.5 | 0.200 | 0.900 |\n";
        assert_eq!(table, expected);
    }
}
