//! A benchmark of API servers: `cargo xtask long bench-server`.
//!
//! Compares `windlass up --controllers none` with kube-apiserver and etcd, both over TLS: start time, memory, request
//! rates, and the cost of a thousand watchers for writers.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Instant,
};

use serde_json::Value;

use crate::{
    Result,
    bench_programs::{self, Figures, median},
    embedded::Embedded,
    upstream::{Profile, Upstream},
};

/// The amount of work.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// How many rounds to run for each server; the figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The duration of each request loop in each round, in seconds
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// The number of pods
    #[arg(long, default_value_t = 5_000)]
    pods: usize,
    /// The number of watchers
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// The number of writes that they see in each round
    #[arg(long, default_value_t = 1_000)]
    writes: usize,
    /// Also measure windlass with a data directory, and let etcd sync its writes to disk
    #[arg(long)]
    durable: bool,
    /// Also measure windlass on the etcd of kube-apiserver, under another prefix
    #[arg(long)]
    etcd: bool,
}

const OURS: &str = "windlass";
const ON_DISK: &str = "windlass, on disk";
const IN_ETCD: &str = "windlass, in etcd";
const THEIRS: &str = "kube-apiserver";

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Higher,
    Lower,
}

/// A line of the table: a figure of all servers, and the goals for the ratios to kube-apiserver.
struct Row {
    figure: &'static str,
    better: Better,
    /// The goal in memory, against etcd without fsync.
    in_memory: Option<f64>,
    /// The goal on disk, against etcd with fsync.
    on_disk: Option<f64>,
    /// The goal on the same etcd.
    in_etcd: Option<f64>,
    digits: usize,
}

const fn row(figure: &'static str, better: Better, in_memory: Option<f64>, digits: usize) -> Row {
    Row { figure, better, in_memory, on_disk: None, in_etcd: None, digits }
}

impl Row {
    const fn on_disk(mut self, wanted: f64) -> Self {
        self.on_disk = Some(wanted);
        self
    }

    const fn in_etcd(mut self, wanted: f64) -> Self {
        self.in_etcd = Some(wanted);
        self
    }

    /// Returns the goal of one of our servers.
    fn goal(&self, name: &str) -> Option<f64> {
        match name {
            ON_DISK => self.on_disk,
            IN_ETCD => self.in_etcd,
            _ => self.in_memory,
        }
    }
}

const START: &str = "seconds from start to ready";

const ROWS: &[Row] = &[
    row(START, Better::Lower, Some(50.0), 3),
    row("MB in use, idle", Better::Lower, Some(10.0), 0),
    row("MB in use with the pods", Better::Lower, Some(10.0), 0),
    row("creates per second", Better::Higher, Some(10.0), 0).on_disk(5.0).in_etcd(2.0),
    row("gets per second", Better::Higher, Some(10.0), 0),
    row("updates per second", Better::Higher, None, 0),
    row("applies per second", Better::Higher, None, 0),
    row("seconds per list of the pods", Better::Lower, Some(10.0), 3),
];

/// The goal for the write rate with watchers, relative to the rate without watchers.
const WATCHED: f64 = 0.5;

/// Runs the benchmark. `windlass` and `bench` are already built.
pub(crate) fn run(windlass: &Path, bench: &Path, options: &Options) -> Result {
    let rounds = options.rounds.to_string();
    let selected = [(OURS, true), (ON_DISK, options.durable), (IN_ETCD, options.etcd)];
    let ours: Vec<&str> = selected.into_iter().filter(|(_, is_selected)| *is_selected).map(|(name, _)| name).collect();
    // For each figure and server, one value per round, or the median of all.
    let mut figures: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    let mut running: Option<Started> = None;
    for round in 1..=options.rounds {
        eprintln!("start {round} of {rounds}");
        drop(running.take()); // the next are not held up by these
        let started = Started::all(windlass, bench, &ours)?;
        for (name, seconds) in &started.seconds {
            figures.entry((START.to_owned(), (*name).to_owned())).or_default().push(*seconds);
        }
        running = Some(started);
    }
    let Some(Started { embedded, upstream, .. }) = running else { return Err("no rounds".into()) };
    let mut servers: Vec<(&str, PathBuf, Vec<u32>)> = Vec::new();
    for (name, embedded) in &embedded {
        servers.push((name, embedded.kubeconfig(), vec![embedded.process()]));
    }
    servers.push((THEIRS, upstream.kubeconfig(), upstream.processes()));

    let mut server = Command::new(bench);
    server.args(["server", "--rounds", &rounds]);
    server.args(["--seconds", &options.seconds.to_string(), "--pods", &options.pods.to_string()]);
    for (name, kubeconfig, processes) in &servers {
        server.arg(format!("--target={name}={}", kubeconfig.display()));
        server.args(processes.iter().map(|process| format!("--process={name}={process}")));
    }
    for line in lines(&mut server)? {
        println!("{line}");
        let line: Value = serde_json::from_str(&line)?;
        let key = [&line["figure"], &line["target"]].map(|part| part.as_str().unwrap_or_default().to_owned());
        figures.entry(key.into()).or_default().extend(line["median"].as_f64());
    }
    println!("\n{}", table(figures, &ours));

    println!(
        "| writes of one kind with {} watchers | unwatched, per second | watched, per second | ratio | events per second | delay at the end, s | watches that ended early |\n|---|---|---|---|---|---|---|",
        options.watchers
    );
    let in_process = ("windlass, in process", None);
    let servers = servers.iter().map(|(name, kubeconfig, _)| (*name, Some(kubeconfig)));
    for (name, kubeconfig) in [in_process].into_iter().chain(servers) {
        let mut watchers = Command::new(bench);
        watchers.args(["watchers", "--rounds", &rounds]);
        watchers.args(["--watchers", &options.watchers.to_string(), "--writes", &options.writes.to_string()]);
        if let Some(kubeconfig) = kubeconfig {
            watchers.arg("--kubeconfig").arg(kubeconfig);
        }
        println!("{}", watched(name, &bench_programs::run(&mut watchers)?));
    }
    Ok(())
}

/// Returns a line of the second table.
fn watched(name: &str, figures: &Figures) -> String {
    let of = |figure: &str| figures.get(&format!("watchers.{figure}")).copied().unwrap_or(f64::NAN);
    let ratio = of("ratio");
    format!(
        "| {name} | {:.0} | {:.0} | {ratio:.2}, goal {WATCHED}{} | {:.0} | {:.1} | {:.0} |",
        of("writes_per_second_alone"),
        of("writes_per_second_watched"),
        if ratio < WATCHED { ": **missed**" } else { "" },
        of("events_per_second"),
        of("behind_seconds"),
        of("resumed"),
    )
}

/// Returns the first table, with a column for each of our servers.
fn table(mut figures: BTreeMap<(String, String), Vec<f64>>, ours: &[&str]) -> String {
    let mut table = format!("| | {} | {THEIRS} + etcd | better by | goal |\n", ours.join(" | "));
    table += &format!("|---|{}---|---|---|\n", "---|".repeat(ours.len()));
    for row in ROWS {
        let Row { figure, better, digits, .. } = row;
        let mut of = |name: &str| figures.remove(&((*figure).to_owned(), name.to_owned())).and_then(median);
        let found: Option<Vec<f64>> = ours.iter().map(|name| of(name)).collect();
        let (Some(found), Some(theirs)) = (found, of(THEIRS)) else { continue };
        let by = |ours: &f64| if *better == Better::Higher { ours / theirs } else { theirs / ours };
        let ratios: Vec<f64> = found.iter().map(by).collect();
        // The goals in memory are for etcd without fsync, so they are not shown with the others.
        let shown = ours.iter().zip(&ratios).skip(usize::from(ours.len() > 1));
        let goals = shown.filter_map(|(name, by)| {
            let wanted = row.goal(name)?;
            Some(if *by < wanted { format!("{wanted:.0}×: **missed**") } else { format!("{wanted:.0}×") })
        });
        let goals = goals.collect::<Vec<_>>().join(", ");
        let found: Vec<String> = found.iter().map(|ours| format!("{ours:.digits$}")).collect();
        let ratios: Vec<String> = ratios.iter().map(|by| format!("{by:.1}×")).collect();
        table += &format!("| {figure} | {} | {theirs:.digits$} | ", found.join(" | "));
        table += &format!("{} | {goals} |\n", ratios.join(", "));
    }
    table
}

/// All servers, and the time that each needed to become ready.
struct Started {
    embedded: Vec<(&'static str, Embedded)>,
    upstream: Upstream,
    seconds: Vec<(&'static str, f64)>,
}

impl Started {
    /// Starts the servers one after the other, so that they do not slow each other down.
    fn all(windlass: &Path, bench: &Path, ours: &[&'static str]) -> Result<Self> {
        let (mut embedded, mut seconds) = (Vec::new(), Vec::new());
        let mut start = |name: &'static str, flags: &[&str]| -> Result {
            let probe = Probe::of(bench, &Embedded::kubeconfig_to_be())?;
            let flags = [&["--controllers=none"], flags].concat();
            let started = Instant::now();
            embedded.push((name, Embedded::spawn(windlass, &flags)?));
            seconds.push((name, probe.wait(started)?));
            Ok(())
        };
        start(OURS, &[])?;
        if ours.contains(&ON_DISK) {
            let data = Embedded::data_to_be().display().to_string();
            start(ON_DISK, &["--data-dir", &data])?;
        }
        let mut upstream = Upstream::prepare(Profile::Token)?;
        if ours.len() > 1 {
            upstream.sync_writes();
        }
        let probe = Probe::of(bench, &upstream.kubeconfig())?;
        let started = Instant::now();
        upstream.launch()?;
        let theirs = probe.wait(started)?;
        if ours.contains(&IN_ETCD) {
            start(IN_ETCD, &["--etcd", &upstream.etcd(), "--etcd-prefix", "/windlass"])?;
        }
        seconds.push((THEIRS, theirs));
        Ok(Self { embedded, upstream, seconds })
    }
}

/// Polls a starting server until it is ready.
struct Probe {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Probe {
    /// Starts the probe. It polls when this function returns.
    fn of(bench: &Path, kubeconfig: &Path) -> Result<Self> {
        let mut process =
            Command::new(bench).arg("ready").arg("--kubeconfig").arg(kubeconfig).stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or("a probe without output")?;
        let mut probe = Self { process, lines: BufReader::new(output).lines() };
        probe.expect("waiting")?;
        Ok(probe)
    }

    /// Returns the seconds from `since` until the server was ready.
    fn wait(mut self, since: Instant) -> Result<f64> {
        self.expect("ready")?;
        Ok(since.elapsed().as_secs_f64())
    }

    fn expect(&mut self, wanted: &str) -> Result {
        match self.lines.next().transpose()? {
            Some(line) if line == wanted => Ok(()),
            other => Err(format!("expected {wanted:?} from the probe, got {other:?}").into()),
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a program to its end and returns its lines of output.
fn lines(command: &mut Command) -> Result<Vec<String>> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed ({})", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_beyond_its_target_is_marked() {
        let of = |figure: &str, ours: f64, theirs: f64| {
            [(OURS, ours), (THEIRS, theirs)].map(|(name, value)| ((figure.to_owned(), name.to_owned()), vec![value]))
        };
        let figures = [of("gets per second", 50.0, 10.0), of(START, 0.01, 4.0), of("updates per second", 3.0, 1.0)];
        let text = table(figures.into_iter().flatten().collect(), &[OURS]);
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| seconds from start to ready | 0.010 | 4.000 | 400.0× | 50× |",
                "| gets per second | 50 | 10 | 5.0× | 10×: **missed** |",
                "| updates per second | 3 | 1 | 3.0× |  |",
            ]
        );
    }

    #[test]
    fn durable_server_has_its_own_goal() {
        let of = |name: &str, value: f64| (("creates per second".to_owned(), name.to_owned()), vec![value]);
        let lines = |on_disk| table([of(OURS, 90.0), of(ON_DISK, on_disk), of(THEIRS, 10.0)].into(), &[OURS, ON_DISK]);
        assert!(lines(51.0).ends_with("| creates per second | 90 | 51 | 10 | 9.0×, 5.1× | 5× |\n"));
        assert!(lines(49.0).ends_with("| creates per second | 90 | 49 | 10 | 9.0×, 4.9× | 5×: **missed** |\n"));
    }

    #[test]
    fn writers_that_are_held_up_are_marked() {
        let figures = |ratio| Figures::from([("watchers.ratio".to_owned(), ratio)]);
        assert!(watched(OURS, &figures(0.4)).contains("0.40, goal 0.5: **missed**"));
        assert!(watched(OURS, &figures(0.6)).contains("0.60, goal 0.5 |"));
    }
}
