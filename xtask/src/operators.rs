//! Explores released operators with `windlass explore`, and checks that it finds their published bugs.
//!
//! Each directory of `tools/operators` is a Go module that pins an operator, with `operator.json` and one directory of
//! steps for each workload. The format is described in `tools/operators/README.md`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use self::{
    manifest::Operator,
    report::{Explored, Outcome},
};
use crate::{Result, cargo, upstream::root};

mod manifest;
mod report;

/// Which operators to explore, and how.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// Only the operators whose directory name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Only this workload
    #[arg(long)]
    workload: Option<String>,
    /// The time limit of each workload, such as 5m
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    time_limit: String,
    /// The number of simultaneous runs; by default that of operator.json
    #[arg(long)]
    jobs: Option<usize>,
    /// The windlass to use; by default one is built
    #[arg(long, value_name = "WINDLASS")]
    windlass: Option<PathBuf>,
}

/// Explores the selected operators and prints a table of the findings. Fails if a published bug is not found, or if a bug is
/// found that the version must not have.
pub(crate) fn run(options: &Options) -> Result {
    let operators: Vec<Operator> =
        manifest::all()?.into_iter().filter(|operator| operator.name.contains(&options.only)).collect();
    if operators.is_empty() {
        return Err(format!("no directory of tools/operators contains {:?}", options.only).into());
    }
    let windlass = if let Some(windlass) = &options.windlass {
        std::path::absolute(windlass)?
    } else {
        cargo::succeed(cargo::cargo().args(["build", "--profile", "dist", "--package", "windlass-cli"]))?;
        root().join("target/dist/windlass")
    };
    let mut failures = Vec::new();
    for operator in &operators {
        let program = build(operator)?;
        let workloads = operator.workloads(options.workload.as_deref())?;
        let explored = workloads.iter().map(|workload| options.explore(&windlass, operator, &program, workload));
        let outcome = Outcome::new(operator, explored.collect::<Result<_>>()?);
        print!("{outcome}");
        failures.extend(outcome.failures());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

impl Options {
    /// Explores one workload and reads its report.
    fn explore(&self, windlass: &Path, operator: &Operator, program: &Path, workload: &str) -> Result<Explored> {
        let directory = root().join("target/operators/reports").join(&operator.name).join(workload);
        eprintln!("exploring {} {workload}; the report is in {}", operator.name, directory.display());
        let manifest = &operator.manifest;
        let mut command = Command::new(windlass);
        command.arg("explore").args(["--time-limit", &self.time_limit, "--output", "json", "--report"]).arg(&directory);
        command.arg("--jobs").arg(self.jobs.unwrap_or(manifest.jobs).to_string());
        command.arg("--nodes").arg(manifest.nodes.to_string());
        for crds in operator.crds()? {
            command.arg("--crds").arg(crds);
        }
        for version in &manifest.runtime_config {
            command.args(["--runtime-config", &format!("{version}=true")]);
        }
        if let Some(pod) = &manifest.in_cluster {
            command.args(["--in-cluster", pod]);
        }
        command.arg("--steps").arg(operator.directory.join(workload));
        // The variables are arguments of env, in which windlass replaces its placeholders.
        command.args(["--", "env"]).args(manifest.environment.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program).args(&manifest.arguments);
        let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let output = output.and_then(std::process::Child::wait_with_output);
        let output = output.map_err(|error| format!("running {}: {error}", windlass.display()))?;
        // 1 means that there are findings.
        if !matches!(output.status.code(), Some(0 | 1)) {
            let name = &operator.name;
            return Err(format!("exploring {name} {workload} failed ({})", output.status).into());
        }
        Explored::read(workload, &output.stdout)
    }
}

/// Builds an operator with the versions of its module, and returns its path.
fn build(operator: &Operator) -> Result<PathBuf> {
    let program = root().join("target/operators").join(&operator.name);
    if let Some(parent) = program.parent() {
        fs::create_dir_all(parent)?;
    }
    eprintln!("building {}", operator.manifest.program);
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(&operator.manifest.program).current_dir(&operator.directory);
    let status = build.status().map_err(|error| format!("running go: {error}"))?;
    if status.success() {
        Ok(program)
    } else {
        Err(format!("go build {} in {} failed ({status})", operator.manifest.program, operator.directory.display())
            .into())
    }
}
