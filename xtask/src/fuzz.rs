//! Runs the fuzz targets of `fuzz/`, one after the other: `cargo xtask long fuzz`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{Result, cargo::cargo, upstream::root};

/// The limits per input: seconds, and megabytes of the process.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=2048"];

/// A body for every kind: group, version, kind, protobuf in base64, JSON.
const BODIES: &str = "crates/windlass-server/testdata/bodies.tsv";

/// Runs all targets, or one, for the given number of seconds each. Continues after a failure, and lists the failed
/// targets at the end.
pub(crate) fn run(target: Option<&str>, seconds: u64) -> Result {
    let all = targets()?;
    let chosen: Vec<&str> = match target {
        Some(target) if !all.iter().any(|known| known == target) => {
            return Err(format!("no fuzz target is called {target}; there are: {}", all.join(", ")).into());
        }
        Some(target) => vec![target],
        None => all.iter().map(String::as_str).collect(),
    };
    seed()?;
    if !cargo_fuzz("build").status()?.success() {
        return Err("the fuzz targets do not build; they need cargo-fuzz (cargo install cargo-fuzz --locked) and a C++ compiler".into());
    }
    let mut failed = Vec::new();
    for target in chosen {
        println!("\n=== {target}, {seconds} s");
        let started = SystemTime::now();
        let mut run = cargo_fuzz("run");
        run.arg(target).arg(corpus(target)).arg(folder("seeds").join(target));
        run.arg("--").arg(format!("-max_total_time={seconds}")).args(LIMITS);
        fs::create_dir_all(corpus(target))?;
        fs::create_dir_all(folder("seeds").join(target))?;
        if !run.status()?.success() {
            let input = newest(&folder("artifacts").join(target), started);
            failed.push(format!(
                "{target}: {}",
                input.map_or_else(|| "no input".into(), |path| path.display().to_string())
            ));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("fuzz targets failed:\n  {}", failed.join("\n  ")).into()) }
}

/// Returns a cargo-fuzz command for a stable toolchain, without a sanitizer.
fn cargo_fuzz(command: &str) -> Command {
    let mut fuzz = cargo();
    fuzz.args(["fuzz", command, "--sanitizer", "none", "--fuzz-dir"]).arg(root().join("fuzz"));
    fuzz
}

/// Returns the names of the targets, in order.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder("fuzz_targets"))? {
        if let Some(name) = entry?.file_name().to_str().and_then(|name| name.strip_suffix(".rs")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Adds a body of every kind to the corpora of the targets that read bodies.
fn seed() -> Result {
    for line in fs::read_to_string(root().join(BODIES))?.lines() {
        let [group, _, kind, protobuf, json] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("{BODIES}: no five columns: {line}").into());
        };
        let body = BASE64_STANDARD.decode(protobuf)?;
        for (target, body) in
            [("json_body", json.as_bytes()), ("yaml_body", json.as_bytes()), ("protobuf_body", message(&body))]
        {
            fs::create_dir_all(corpus(target))?;
            fs::write(corpus(target).join(format!("{kind}.{group}")), [kind.as_bytes(), b"\n", body].concat())?;
        }
        fs::create_dir_all(corpus("protobuf_value"))?;
        fs::write(corpus("protobuf_value").join(format!("{kind}.{group}")), &body)?;
    }
    Ok(())
}

/// Returns the content of a protobuf body, without prefix, type and length.
fn message(body: &[u8]) -> &[u8] {
    let behind_type = 6 + usize::from(body[5]);
    let length = body[behind_type + 1..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
    &body[behind_type + 1 + length..]
}

/// Returns the newest file of a folder if it is newer than `after`.
fn newest(folder: &Path, after: SystemTime) -> Option<PathBuf> {
    let files = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())));
    files.filter(|(modified, _)| *modified >= after).max().map(|(_, path)| path)
}

fn corpus(target: &str) -> PathBuf {
    folder("corpus").join(target)
}

fn folder(name: &str) -> PathBuf {
    root().join("fuzz").join(name)
}
