//! Common code of the benchmarks: building and running programs, and reading their output.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{Result, cargo::cargo, upstream::root};

/// The output of a run: each figure by the name of its line, such as `updates.rss_bytes`.
pub(crate) type Figures = BTreeMap<String, f64>;

/// The timeout of a run.
const LONGEST: Duration = Duration::from_mins(5);

/// Builds a program of the Go module `bench/client-go`.
pub(crate) fn client_go(package: &str, name: &str) -> Result<PathBuf> {
    let program = root().join("target").join(name);
    let mut build = Command::new("go");
    build.args(["build", "-trimpath", "-o"]).arg(&program).arg(package).current_dir(root().join("bench/client-go"));
    let status = build.status().map_err(|error| format!("running go: {error}"))?;
    if status.success() {
        Ok(program)
    } else {
        Err(format!("{package} of bench/client-go does not build ({status})").into())
    }
}

/// Builds the programs of `bench/kube-rs`, and returns the path of one.
pub(crate) fn kube_rs(name: &str) -> Result<PathBuf> {
    let target = root().join("target/bench-kube-rs");
    let mut build = cargo();
    build.args(["build", "--profile=dist", "--locked", "--manifest-path"]).arg(root().join("bench/kube-rs/Cargo.toml"));
    let status = build.arg("--target-dir").arg(&target).status()?;
    if !status.success() {
        return Err(format!("bench/kube-rs does not build ({status})").into());
    }
    Ok(target.join("dist").join(name))
}

/// Runs a program to its end, and reads its figures.
pub(crate) fn run(command: &mut Command) -> Result<Figures> {
    run_within(LONGEST, command)
}

/// Like [`run`], with a different timeout.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Result<Figures> {
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let output = finish(started.map_err(|error| format!("starting {command:?}: {error}"))?, limit)?;
    if !output.status.success() {
        return Err(format!("{command:?} failed ({})", output.status).into());
    }
    let mut figures = Figures::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        read(line, &mut figures)?;
    }
    Ok(figures)
}

/// Adds the figures of a line.
pub(crate) fn read(line: &str, figures: &mut Figures) -> Result {
    let line: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
    let bench = line["bench"].as_str().unwrap_or_default();
    let numbers = line.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_f64()?)));
    figures.extend(numbers.map(|(name, value)| (format!("{bench}.{name}"), value)));
    Ok(())
}

/// Waits for the end of the process, up to the timeout. The output is short and fits into the pipe.
fn finish(mut process: Child, limit: Duration) -> Result<Output> {
    let started = Instant::now();
    while process.try_wait()?.is_none() {
        if started.elapsed() > limit {
            process.kill()?;
            process.wait()?;
            return Err(format!("did not end within {} s", limit.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(process.wait_with_output()?)
}

/// Returns the median, or `None` without figures.
pub(crate) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}
