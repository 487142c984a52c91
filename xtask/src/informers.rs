//! Informers side by side: `cargo xtask long bench-informer`.
//!
//! Each client follows the same replayed list and watch, in a process of its own, with a server of its own; the clients take
//! turns, round by round, so that a machine that is busy is busy for all of them.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{Result, cargo::cargo, upstream::root};

const ROUNDS: usize = 3;
const UPDATES: &str = "50000";

/// What is replayed: the flag of `windlass-bench replay`, and its heading.
const WORKLOADS: [(&str, &str); 2] = [("uniform", "Uniform pods"), ("varied", "Varied pods")];

/// The columns: the figure of a line of JSON, its heading, the factor from its unit to that of the heading, digits.
const FIGURES: [(&str, &str, f64, usize); 6] = [
    ("sync_seconds", "sync, s", 1.0, 2),
    ("rss_bytes_per_object", "KB per object", 1e-3, 2),
    ("peak_rss_bytes", "peak RSS, MB", 1e-6, 0),
    ("cpu_us_per_event", "CPU per update, µs", 1.0, 1),
    ("events_per_second", "updates/s", 1.0, 0),
    ("rss_bytes", "RSS after the updates, MB", 1e-6, 0),
];

/// A follower of pods.
struct Contender {
    name: &'static str,
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// `windlass-bench replay`; stopped when dropped.
struct Replay {
    process: Child,
    address: String,
}

/// Builds all, runs all, prints a table for each workload. `bench` is the built `windlass-bench`.
pub(crate) fn run(bench: &Path) -> Result {
    let contenders = [
        Contender { name: "windlass", program: bench.to_path_buf(), arguments: &["informer"] },
        Contender {
            name: "windlass, all compressed",
            program: bench.to_path_buf(),
            arguments: &["informer", "--budget", "0"],
        },
        Contender { name: "client-go", program: client_go()?, arguments: &[] },
        Contender { name: "kube-rs", program: kube_rs()?, arguments: &[] },
    ];
    for (workload, heading) in WORKLOADS {
        let mut all: Vec<BTreeMap<String, Vec<f64>>> = vec![BTreeMap::new(); contenders.len()];
        for round in 1..=ROUNDS {
            for (contender, figures) in contenders.iter().zip(&mut all) {
                eprintln!("{heading}, round {round}: {}", contender.name);
                for (name, figure) in contender.measure(bench, workload)? {
                    figures.entry(name).or_default().push(figure);
                }
            }
        }
        println!("\n### {heading}\n");
        print_table(&contenders, &mut all);
    }
    Ok(())
}

fn client_go() -> Result<PathBuf> {
    let program = root().join("target/bench-client-go");
    let mut build = Command::new("go");
    build.args(["build", "-trimpath", "-o"]).arg(&program).arg(".").current_dir(root().join("bench/client-go"));
    let status = build.status().map_err(|error| format!("running go: {error}"))?;
    if status.success() { Ok(program) } else { Err(format!("bench/client-go does not build ({status})").into()) }
}

fn kube_rs() -> Result<PathBuf> {
    let target = root().join("target/bench-kube-rs");
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--manifest-path"]).arg(root().join("bench/kube-rs/Cargo.toml"));
    let status = build.arg("--target-dir").arg(&target).status()?;
    if !status.success() {
        return Err(format!("bench/kube-rs does not build ({status})").into());
    }
    Ok(target.join("release/kube-rs-peer"))
}

/// The medians, each with how many times the first line's it is.
fn print_table(contenders: &[Contender], all: &mut [BTreeMap<String, Vec<f64>>]) {
    let headings: Vec<_> = FIGURES.iter().map(|(_, heading, ..)| *heading).collect();
    println!("| | {} |\n|---|{}", headings.join(" | "), "---|".repeat(headings.len()));
    let medians: Vec<Vec<f64>> = all
        .iter_mut()
        .map(|figures| {
            FIGURES
                .iter()
                .map(|(name, ..)| figures.get_mut(*name).map_or(f64::NAN, |figures| median(figures)))
                .collect()
        })
        .collect();
    for (contender, figures) in contenders.iter().zip(&medians) {
        let cells = FIGURES.iter().zip(figures).zip(&medians[0]).map(|(((_, _, factor, digits), figure), ours)| {
            format!("{:.digits$} ({:.2}×)", figure * factor, figure / ours)
        });
        println!("| {} | {} |", contender.name, cells.collect::<Vec<_>>().join(" | "));
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

// === impl Contender ===

impl Contender {
    /// One run against a server of its own; all figures of its lines, the later ones above the earlier.
    fn measure(&self, bench: &Path, workload: &str) -> Result<BTreeMap<String, f64>> {
        let replay = Replay::start(bench, workload)?;
        let output = Command::new(&self.program)
            .args(self.arguments)
            .args(["--server", &replay.address, "--updates", UPDATES])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("running {}: {error}", self.program.display()))?;
        if !output.status.success() {
            return Err(format!("{} failed ({})", self.name, output.status).into());
        }
        let mut figures = BTreeMap::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let line: Value = serde_json::from_str(line).map_err(|error| format!("{}: {error}: {line}", self.name))?;
            let numbers =
                line.as_object().into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_f64()?)));
            figures.extend(numbers.map(|(name, value)| (name.clone(), value)));
        }
        Ok(figures)
    }
}

// === impl Replay ===

impl Replay {
    fn start(bench: &Path, workload: &str) -> Result<Self> {
        let mut process = Command::new(bench)
            .args(["replay", "--workload", workload, "--updates", UPDATES])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting {}: {error}", bench.display()))?;
        let output = process.stdout.take().ok_or("the replay has no output")?;
        let mut replay = Self { process, address: String::new() };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let line: Value = serde_json::from_str(&line).map_err(|error| format!("the replay said {line:?}: {error}"))?;
        line["server"].as_str().ok_or("the replay did not say where it is")?.clone_into(&mut replay.address);
        Ok(replay)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median(&mut [3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
