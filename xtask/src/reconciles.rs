//! A benchmark of controllers: `cargo xtask long bench-reconcile`.
//!
//! Each run has its own process and its own `windlass up` with existing objects. The controllers take turns in each
//! round, so other load on the machine affects all of them.

use std::{
    io::{BufRead as _, BufReader, Lines},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    time::Instant,
};

use crate::{
    Result,
    bench_programs::{self, Figures},
    embedded::Embedded,
    table::{Column, Table, TableEntry, figure},
    upstream::root,
};

/// The number of rounds and objects.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// How many rounds to run for each controller; the figures are medians
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// The number of objects
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
}

/// A controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Windlass,
    /// With its default order: changed objects before listed ones.
    ControllerRuntime,
    /// With its queue in FIFO order, like windlass.
    ControllerRuntimeInOrder,
    KubeRs,
}

const MEASURED: &[Contender] =
    &[Contender::Windlass, Contender::ControllerRuntime, Contender::ControllerRuntimeInOrder, Contender::KubeRs];
const STOPPED: &[Contender] = &[Contender::Windlass];

const COLUMNS: &[Column] = &[
    figure("reconcile.seconds", "until all are ready, s", 1.0, 2),
    figure("reconcile.reconciles_per_second", "reconciles/s", 1.0, 0),
    figure("reconcile.p50_ms", "duration p50, ms", 1.0, 1),
    figure("reconcile.p99_ms", "duration p99, ms", 1.0, 1),
    figure("reconcile.cpu_us_per_reconcile", "CPU per reconcile, µs", 1.0, 0),
    figure("reconcile.cpu_us_per_object", "CPU per object, µs", 1.0, 0),
    figure("reconcile.reconciles", "reconciles", 1.0, 0),
    figure("reconcile.failed", "failed", 1.0, 0),
    figure("reconcile.untrimmed_rss_bytes", "RSS, MB", 1e-6, 0),
    figure("reconcile.rss_bytes", "RSS collected, MB", 1e-6, 0),
    figure("reconcile.peak_rss_bytes", "RSS peak, MB", 1e-6, 0),
];

/// Flags for the run that is stopped: it must be busy first.
const BUSY: &[&str] = &["--concurrency", "256", "--stop-after", "2000"];

const STOPPING: &[Column] = &[
    figure("stop.milliseconds", "from SIGTERM to the end, ms", 1.0, 1),
    figure("stopped.begun", "reconciles begun", 1.0, 0),
    figure("stopped.ended", "and ended", 1.0, 0),
];

/// The paths of the programs.
struct Programs {
    windlass: PathBuf,
    bench: PathBuf,
    controller: PathBuf,
    controller_runtime: PathBuf,
    kube_rs: PathBuf,
}

/// Builds the other programs, runs all, and prints the tables. `bench` is the built `windlass-bench`; `windlass` and
/// its controller are built, too.
pub(crate) fn run(bench: &Path, options: &Options) -> Result {
    let programs = Programs {
        windlass: root().join("target/dist/windlass"),
        bench: bench.to_path_buf(),
        controller: root().join("target/dist/windlass-bench-controller"),
        controller_runtime: bench_programs::client_go("./controller", "bench-controller-runtime")?,
        kube_rs: bench_programs::kube_rs("kube-rs-controller")?,
    };
    let mut measured = Table::new("Reconciles", COLUMNS, MEASURED);
    let mut stopped = Table::new("Stopped among them", STOPPING, STOPPED);
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for (line, contender) in MEASURED.iter().enumerate() {
            let server = programs.serve(options.objects)?;
            measured.note(line, bench_programs::run(&mut contender.command(&programs, &server, options.objects))?);
        }
        for (line, contender) in STOPPED.iter().enumerate() {
            let server = programs.serve(options.objects)?;
            stopped.note(line, stop(contender.command(&programs, &server, options.objects).args(BUSY))?);
        }
    }
    println!("{measured}\n{stopped}");
    Ok(())
}

/// Waits until a controller is busy, sends SIGTERM, and waits for its end.
fn stop(command: &mut Command) -> Result<Figures> {
    let mut process = Stopped(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
    let mut lines = BufReader::new(process.0.stdout.take().ok_or("a controller without output")?).lines();
    let mut figures = Figures::new();
    bench_programs::read(&next(&mut lines)?, &mut figures)?;
    let told = Instant::now();
    Command::new("kill").args(["-TERM", &process.0.id().to_string()]).status()?;
    let status = process.0.wait()?;
    figures.insert("stop.milliseconds".to_owned(), told.elapsed().as_secs_f64() * 1e3);
    if !status.success() {
        return Err(format!("{command:?} failed to stop ({status})").into());
    }
    bench_programs::read(&next(&mut lines)?, &mut figures)?;
    Ok(figures)
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Result<String> {
    Ok(lines.next().ok_or("a controller ended early")??)
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
    /// Starts a server with objects that no controller has reconciled.
    fn serve(&self, objects: usize) -> Result<Embedded> {
        let server = Embedded::start(&self.windlass, &["--controllers=none"])?;
        let mut populate = Command::new(&self.bench);
        populate.arg("populate").arg("--kubeconfig").arg(server.kubeconfig()).args(["--objects", &objects.to_string()]);
        bench_programs::run(&mut populate)?;
        Ok(server)
    }
}

// === impl Contender ===

impl TableEntry for Contender {
    fn name(&self) -> &'static str {
        match self {
            Self::Windlass => "windlass",
            Self::ControllerRuntime => "controller-runtime",
            Self::ControllerRuntimeInOrder => "controller-runtime, in order",
            Self::KubeRs => "kube-rs",
        }
    }
}

impl Contender {
    fn command(self, programs: &Programs, server: &Embedded, objects: usize) -> Command {
        let mut command = match self {
            Self::Windlass => Command::new(&programs.controller),
            Self::ControllerRuntime => Command::new(&programs.controller_runtime),
            Self::ControllerRuntimeInOrder => {
                let mut command = Command::new(&programs.controller_runtime);
                command.arg("--in-order");
                command
            }
            Self::KubeRs => Command::new(&programs.kube_rs),
        };
        command.arg("--kubeconfig").arg(server.kubeconfig()).args(["--objects", &objects.to_string()]);
        command
    }
}
