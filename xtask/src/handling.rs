//! The cost of request handling: `cargo xtask long bench-handling`.
//!
//! Starts `windlass up --controllers none` several times, each with other features enabled, and sends the same requests to
//! all in turns. The first is the base of the ratios: an earlier windlass if there is one, otherwise the default.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use clap::Args;
use serde_json::Value;

use crate::{Result, embedded::Embedded};

/// The options of the benchmark.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// An earlier windlass to compare with
    #[arg(long, value_name = "WINDLASS")]
    before: Option<PathBuf>,
    /// The windlass to measure; by default one is built
    #[arg(long, value_name = "WINDLASS", requires = "bench")]
    pub(crate) windlass: Option<PathBuf>,
    /// The `windlass-bench` to use; by default it is built
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) bench: Option<PathBuf>,
    /// How many rounds to run; the figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The duration of each request loop in each round, in seconds
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// The number of pods
    #[arg(long, default_value_t = 5_000)]
    pods: usize,
}

const BEFORE: &str = "before";
const DEFAULT: &str = "default";

/// Each request, in short.
const METADATA: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}"#;

/// A server of the comparison.
struct Variant {
    name: &'static str,
    flags: &'static [&'static str],
    /// `true` if each request is written to an audit log at the level Metadata.
    is_audited: bool,
    /// The number of admission policies that match the written objects.
    policies: usize,
}

const VARIANTS: &[Variant] = &[
    Variant { name: DEFAULT, flags: &[], is_audited: false, policies: 0 },
    Variant {
        name: "without fairness",
        flags: &["--enable-priority-and-fairness=false"],
        is_audited: false,
        policies: 0,
    },
    Variant { name: "audit, Metadata", flags: &[], is_audited: true, policies: 0 },
    Variant { name: "ten policies", flags: &[], is_audited: false, policies: 10 },
    Variant { name: "audit and ten policies", flags: &[], is_audited: true, policies: 10 },
];

/// Runs the benchmark.
pub(crate) fn run(windlass: &Path, bench: &Path, options: &Options) -> Result {
    let mut servers = Vec::new();
    if let Some(before) = &options.before {
        servers.push((BEFORE, Embedded::start(before, &["--controllers=none"])?));
    }
    for variant in VARIANTS {
        servers.push((variant.name, variant.start(windlass, bench)?));
    }
    let mut server = Command::new(bench);
    server.args(["server", "--rounds", &options.rounds.to_string()]);
    server.args(["--seconds", &options.seconds.to_string(), "--pods", &options.pods.to_string()]);
    for (name, embedded) in &servers {
        server.arg(format!("--target={name}={}", embedded.kubeconfig().display()));
        server.arg(format!("--process={name}={}", embedded.process()));
    }
    let output = server.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{server:?} failed ({})", output.status).into());
    }
    let mut figures = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        println!("{line}");
        let line: Value = serde_json::from_str(line)?;
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        figures.push((text("figure"), text("target"), line["median"].as_f64().unwrap_or(f64::NAN)));
    }
    let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    println!("\n{}", table(&figures, &names));
    Ok(())
}

/// Returns the table: a row for each figure, a column for each server, with the ratio to the first.
fn table(figures: &[(String, String, f64)], names: &[&str]) -> String {
    let mut rows: Vec<(&str, BTreeMap<&str, f64>)> = Vec::new();
    for (figure, name, value) in figures {
        match rows.iter_mut().find(|(row, _)| row == figure) {
            Some((_, values)) => {
                values.insert(name, *value);
            }
            None => rows.push((figure, BTreeMap::from([(name.as_str(), *value)]))),
        }
    }
    let mut table = format!("| | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for (figure, values) in rows {
        let value = |name: &str| values.get(name).copied().unwrap_or(f64::NAN);
        let base = value(names[0]);
        let digits = if base < 10.0 { 3 } else { 0 };
        let cells = names.iter().enumerate().map(|(at, name)| match at {
            0 => format!("{base:.digits$}"),
            _ => format!("{:.digits$} ({:.2}×)", value(name), value(name) / base),
        });
        table += &format!("| {figure} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    table
}

// === impl Variant ===

impl Variant {
    fn start(&self, windlass: &Path, bench: &Path) -> Result<Embedded> {
        let mut flags = vec!["--controllers=none".to_owned()];
        flags.extend(self.flags.iter().map(|flag| (*flag).to_owned()));
        if self.is_audited {
            let kubeconfig = Embedded::kubeconfig_to_be();
            let directory = kubeconfig.parent().ok_or("a kubeconfig without a folder")?;
            fs::create_dir_all(directory)?;
            let policy = directory.join("audit-policy.json");
            fs::write(&policy, METADATA)?;
            flags.push(format!("--audit-policy-file={}", policy.display()));
            flags.push(format!("--audit-log-path={}", directory.join("audit.log").display()));
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let embedded = Embedded::start(windlass, &flags)?;
        if self.policies > 0 {
            let mut policies = Command::new(bench);
            policies.arg("policies").arg("--kubeconfig").arg(embedded.kubeconfig());
            let status = policies.args(["--policies", &self.policies.to_string()]).status()?;
            if !status.success() {
                return Err(format!("creating the policies failed ({status})").into());
            }
        }
        Ok(embedded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_ratio_to_the_first() {
        let figure = |name: &str, value| ("gets per second".to_owned(), name.to_owned(), value);
        let text = table(&[figure(BEFORE, 100.0), figure(DEFAULT, 97.0)], &[BEFORE, DEFAULT]);
        assert_eq!(text, "| | before | default |\n|---|---|---|\n| gets per second | 100 | 97 (0.97×) |\n");
    }
}
