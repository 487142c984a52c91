//! Informers of a real kube-apiserver: the cost of an update for the server and for the client.
//!
//! A writer updates pods in etcd at a rate, as another kube-apiserver would: the server only reads and sends them. A run
//! without informers is the baseline; the additional CPU time with informers is their cost. Several informers of a kind
//! run at a time, so that their cost is more than the noise.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use super::{
    Options,
    contender::{Contender, Programs},
};
use crate::{
    Result,
    bench_programs::{self, Figures, median},
    table::{Column, Table, TableEntry as _, figure},
    upstream::{Profile, SERVER, Upstream},
};

/// The names of the parts for `--only`.
pub(super) const INFORMERS: &str = "real";
pub(super) const FRAMING: &str = "framing";

const HEADING: &str = "Uniform pods of a real kube-apiserver";

/// The first is the base of the ratios.
const CONTENDERS: &[Contender] =
    &[Contender::ClientGoProtobuf, Contender::Protobuf, Contender::ClientGo, Contender::Windlass];

const COLUMNS: &[Column] = &[
    figure("server.cpu_us_per_event", "kube-apiserver: CPU per update and informer, µs", 1.0, 1),
    figure("server.cpu_us_per_update", "in all per update, µs", 1.0, 0),
    figure("server.sync_cpu_seconds", "CPU per sync, s", 1.0, 2),
    figure("socket.received_per_event", "bytes per update", 1.0, 0),
    figure("socket.received_by_sync", "bytes per sync, MB", 1e-6, 1),
    figure("socket.sent_per_event", "bytes sent per update", 1.0, 1),
    figure("informer.sync_seconds", "client: sync, s", 1.0, 2),
    figure("updates.cpu_us_per_event", "CPU per update, µs", 1.0, 1),
    figure("informer.rss_bytes", "RSS, MB", 1e-6, 0),
];

/// The amount of work.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(super) struct Load {
    /// Number of informers at a time, in the part `real`
    #[arg(long, default_value_t = 2)]
    informers: usize,
    /// Updates per second, in the part `real`
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// Duration of the updates of each run, in the part `real`
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// The time after which the server and the clients are idle again.
const SETTLE: Duration = Duration::from_secs(2);

/// The unit of `/proc` on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server with the pods.
struct Stage<'s> {
    upstream: Upstream,
    programs: &'s Programs,
    load: &'s Load,
    /// The number of the next update.
    next: u64,
}

/// An informer in a process of its own. It is killed on drop.
struct Informer {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    figures: Figures,
}

/// Measures all informers in turns, each round in another order, and prints the table.
pub(super) fn run(programs: &Programs, options: &Options) -> Result {
    let Options { load, rounds, .. } = options;
    let mut stage = Stage::set(programs, load)?;
    let contenders = options.chosen(CONTENDERS);
    let mut table = Table::new(HEADING, COLUMNS, contenders.clone());
    // The first run after the creation of the pods is slower.
    stage.measure(None)?;
    let (mut without, mut measured) = (Vec::new(), Vec::new());
    for round in 0..*rounds {
        eprintln!("{HEADING}, round {}: without informers", round + 1);
        without.push(stage.measure(None)?["server.cpu_us_per_update"]);
        eprintln!("kube-apiserver without informers: {without:.0?} µs per update");
        for at in 0..contenders.len() {
            // Back and forth, so that no informer always follows the same one.
            let line = if round.is_multiple_of(2) { at } else { contenders.len() - 1 - at };
            let contender = contenders[line];
            eprintln!("{HEADING}, round {}: {}", round + 1, contender.name());
            let figures = stage.measure(Some(contender))?;
            eprintln!("{figures:?}");
            measured.push((line, figures));
        }
    }
    without.push(stage.measure(None)?["server.cpu_us_per_update"]);
    let alone = median(without).ok_or("no rounds")?;
    eprintln!("kube-apiserver without informers: {alone:.0} µs per update");
    for (line, mut figures) in measured {
        let additional = figures["server.cpu_us_per_update"] - alone;
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        figures.insert("server.cpu_us_per_event".to_owned(), additional / load.informers as f64);
        table.note(line, figures);
    }
    println!("\n{table}");
    Ok(())
}

// === impl Stage ===

impl<'s> Stage<'s> {
    fn set(programs: &'s Programs, load: &'s Load) -> Result<Self> {
        let upstream = Upstream::start(Profile::Token)?;
        let stage = Self { upstream, programs, load, next: 1 };
        let mut create = programs.bench();
        create.args(["updates", "--create", "--kubeconfig"]).arg(stage.upstream.kubeconfig());
        bench_programs::run(&mut create)?;
        Ok(stage)
    }

    /// Updates the pods while the informers follow them.
    fn measure(&mut self, contender: Option<Contender>) -> Result<Figures> {
        let updates = self.load.rate * self.load.seconds;
        thread::sleep(SETTLE);
        let before = self.cpu_seconds()?;
        let count = contender.map_or(0, |_| self.load.informers);
        let started: Result<Vec<_>> =
            contender.iter().flat_map(|of| (0..count).map(|_| self.informer(*of, updates + 1))).collect();
        let mut informers = started?;
        informers.iter_mut().try_for_each(Informer::next)?;
        thread::sleep(SETTLE);
        let synced = self.cpu_seconds()?;
        let sockets = sockets(&informers);
        let mut figures = bench_programs::run(&mut self.writer(updates))?;
        thread::sleep(SETTLE);
        let updated = self.cpu_seconds()?;
        let sockets: Vec<_> = sockets.into_iter().zip(self::sockets(&informers)).collect();
        // The last update ends the informers.
        bench_programs::run(&mut self.writer(1))?;
        informers.iter_mut().try_for_each(Informer::next)?;

        let mut sums = Figures::new();
        for (name, value) in informers.iter().flat_map(|informer| &informer.figures) {
            *sums.entry(name.clone()).or_default() += value;
        }
        #[expect(clippy::cast_precision_loss, reason = "figures for people")]
        let (count, updates) = (count.max(1) as f64, updates as f64);
        figures.extend(sums.into_iter().map(|(name, sum)| (name, sum / count)));
        let mut note = |name: &str, value: f64| figures.insert(name.to_owned(), value);
        note("server.sync_cpu_seconds", (synced - before) / count);
        note("server.cpu_us_per_update", (updated - synced) * 1e6 / updates);
        let sum = |of: &dyn Fn(&(Socket, Socket)) -> f64| sockets.iter().map(of).sum::<f64>() / count;
        note("socket.received_by_sync", sum(&|(synced, _)| synced.received));
        note("socket.received_per_event", sum(&|(synced, updated)| updated.received - synced.received) / updates);
        note("socket.sent_per_event", sum(&|(synced, updated)| updated.sent - synced.sent) / updates);
        Ok(figures)
    }

    /// Returns the command that updates the pods this many times.
    fn writer(&mut self, updates: u64) -> Command {
        let mut writer = self.programs.bench();
        writer.args(["updates", "--etcd", &self.upstream.etcd(), "--kubeconfig"]).arg(self.upstream.kubeconfig());
        writer.args(["--rate", &self.load.rate.to_string(), "--updates", &updates.to_string()]);
        writer.args(["--first", &self.next.to_string()]);
        self.next += updates;
        writer
    }

    fn informer(&self, contender: Contender, updates: u64) -> Result<Informer> {
        let mut command = contender.program(self.programs);
        command.arg("--kubeconfig").arg(self.upstream.kubeconfig()).args(["--updates", &updates.to_string()]);
        Informer::start(command)
    }

    /// Returns the current version of the pods.
    fn version(&self) -> Result<String> {
        let mut kubectl = Command::new(self.upstream.kubectl());
        kubectl.arg("--kubeconfig").arg(self.upstream.kubeconfig());
        let output = kubectl.args(["get", "--raw", "/api/v1/pods?limit=1"]).output()?;
        let list: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        Ok(list["metadata"]["resourceVersion"].as_str().ok_or("a list without a version")?.to_owned())
    }

    fn cpu_seconds(&self) -> Result<f64> {
        let processes = self.upstream.named_processes();
        let (_, server) = processes.iter().find(|(name, _)| *name == SERVER).ok_or("no kube-apiserver")?;
        let stat = fs::read_to_string(format!("/proc/{server}/stat"))?;
        // The name can contain any character; user and system time are the twelfth and thirteenth field after it.
        let fields = stat.rsplit_once(") ").ok_or("no process name")?.1.split(' ').skip(11).take(2);
        let ticks: Vec<f64> = fields.map(str::parse).collect::<std::result::Result<_, _>>()?;
        Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
    }
}

// === impl Informer ===

impl Informer {
    fn start(mut command: Command) -> Result<Self> {
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut process = started.map_err(|error| format!("starting {command:?}: {error}"))?;
        let output = process.stdout.take().ok_or("an informer without output")?;
        Ok(Self { process, lines: BufReader::new(output).lines(), figures: Figures::new() })
    }

    /// Waits for the next line of figures.
    fn next(&mut self) -> Result {
        let line = self.lines.next().ok_or("an informer has ended early")??;
        bench_programs::read(&line, &mut self.figures)
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The bytes of the payload of a process's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Socket {
    sent: f64,
    received: f64,
}

/// Returns the bytes of each informer, or nothing without `ss` of iproute2.
fn sockets(informers: &[Informer]) -> Vec<Socket> {
    let output = Command::new("ss").args(["-tinpH", "state", "established"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let sockets = parse(&text);
    informers.iter().filter_map(|informer| sockets.get(&informer.process.id()).copied()).collect()
}

/// Parses two lines of each socket: its process, and its counters.
fn parse(text: &str) -> BTreeMap<u32, Socket> {
    let mut sockets: BTreeMap<u32, Socket> = BTreeMap::new();
    let mut process = None;
    for line in text.lines() {
        let after = |name: &str| {
            let rest = line.split_once(name)?.1;
            rest.split(|c: char| !c.is_ascii_digit()).next()
        };
        if let Some(id) = after("pid=") {
            process = id.parse().ok();
        } else if let Some(process) = process.take() {
            let socket = sockets.entry(process).or_default();
            let count = |name: &str| after(name).and_then(|digits| digits.parse().ok()).unwrap_or(0.0);
            socket.sent += count("bytes_sent:");
            socket.received += count("bytes_received:");
        }
    }
    sockets
}

/// Compares the chunks of watches with those of the replay, in both encodings: as the updates happen, and all of them in
/// a burst.
pub(super) fn compare_framing(programs: &Programs) -> Result {
    let load = Load { informers: 0, rate: 1_000, seconds: 3 };
    let (mut stage, updates) = (Stage::set(programs, &load)?, load.rate * load.seconds);
    for encoding in ["json", "protobuf"] {
        let version = stage.version()?;
        let mut capture = programs.bench();
        capture.arg("framing").arg("--kubeconfig").arg(stage.upstream.kubeconfig());
        capture.args(["--events", &updates.to_string()]);
        capture.args(["--encoding", encoding, "--version", &version]);
        let mut live = capture.spawn()?;
        bench_programs::run(&mut stage.writer(updates))?;
        for (name, status) in [("as they happen", live.wait()?), ("in a burst", capture.status()?)] {
            if !status.success() {
                return Err(format!("{encoding}, events {name}: the replay has other chunks ({status})").into());
            }
            println!("{encoding}, events {name}: the chunks of the replay are those of kube-apiserver");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_connections_of_a_process_are_added() {
        let text = "0 0 127.0.0.1:5 127.0.0.1:6 users:((\"a\",pid=7,fd=9))\n\t cubic bytes_sent:10 bytes_acked:10 bytes_received:300 segs\n\
                    0 0 127.0.0.1:8 127.0.0.1:6 users:((\"a\",pid=7,fd=10))\n\t cubic bytes_sent:1 bytes_received:2\n\
                    0 0 127.0.0.1:6 127.0.0.1:5\n\t cubic bytes_sent:99\n";
        assert_eq!(parse(text), [(7, Socket { sent: 11.0, received: 302.0 })].into());
    }
}
