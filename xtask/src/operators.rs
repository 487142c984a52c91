//! Explores released operators with `windlass explore`, and checks that it finds their published bugs.
//!
//! Each directory of `tools/operators` has `operator.json` and one directory of steps for each workload. It is a Go module
//! that pins an operator, or the program is passed. The format is described in `tools/operators/README.md`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use self::{
    manifest::{Operator, Workload},
    report::{Explored, Outcome},
};
use crate::{Result, cargo, explorations::Report, upstream::root};

mod manifest;
mod report;

/// Which operators to explore, and how.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// Only the operator whose directory has this name, or the operators whose names contain it
    #[arg(long, default_value = "")]
    only: String,
    /// The program of the operator, instead of building it; required for directories without a Go module
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The source of the operator with its CRDs, instead of that of the Go module
    #[arg(long, value_name = "DIRECTORY")]
    source: Option<PathBuf>,
    /// Only this plan
    #[arg(long)]
    plan: Option<String>,
    /// Only this workload
    #[arg(long)]
    workload: Option<String>,
    /// The time limit of each workload, such as 5m
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    time_limit: String,
    /// The number of simultaneous runs; by default that of operator.json
    #[arg(long)]
    jobs: Option<usize>,
    /// Change fields of custom resources instead of injecting faults. No published bug has to be found then
    #[arg(long)]
    mutate: bool,
    /// The windlass to use; by default one is built
    #[arg(long, value_name = "WINDLASS")]
    windlass: Option<PathBuf>,
}

/// Explores the selected operators and prints a table of the findings. Fails if a published bug is not found, or if a bug is
/// found that the version must not have.
pub(crate) fn run(options: &Options) -> Result {
    let all = manifest::all()?;
    let operators = options.select(&all)?;
    let windlass = if let Some(windlass) = &options.windlass {
        std::path::absolute(windlass)?
    } else {
        cargo::succeed(cargo::cargo().args(["build", "--profile", "dist", "--package", "windlass-cli"]))?;
        root().join("target/dist/windlass")
    };
    let mut failures = Vec::new();
    for operator in operators {
        let program = match &options.program {
            Some(program) => std::path::absolute(program)?,
            None => build(operator)?,
        };
        let workloads = operator.workloads(options.workload.as_deref())?;
        let explored = workloads.iter().map(|workload| options.explore(&windlass, operator, &program, workload));
        let explored = explored.collect::<Result<_>>()?;
        let outcome = if options.mutate {
            Outcome::of_mutations(operator, explored)
        } else {
            Outcome::new(operator, &all, explored)
        };
        print!("{outcome}");
        failures.extend(outcome.failures());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

impl Options {
    /// Returns the selected operators. Those without a Go module need a program, and are left out if all are selected.
    fn select<'o>(&self, all: &'o [Operator]) -> Result<Vec<&'o Operator>> {
        let mut selected: Vec<_> = all.iter().filter(|operator| operator.name == self.only).collect();
        if selected.is_empty() {
            selected = all.iter().filter(|operator| operator.name.contains(&self.only)).collect();
        }
        match (&selected[..], &self.program) {
            ([], _) => Err(format!("no directory of tools/operators contains {:?}", self.only).into()),
            ([Operator { name, manifest, .. }], None) => match &manifest.release {
                Some(release) => Err(format!("{name}: pass the program of {release} with --program").into()),
                None => Ok(selected),
            },
            ([_], Some(_)) => Ok(selected),
            (_, Some(_)) => Err(format!("--program is of one operator, but {:?} selects more", self.only).into()),
            (_, None) => {
                for Operator { name, manifest, .. } in &selected {
                    if let Some(release) = &manifest.release {
                        eprintln!("leaving out {name}: it needs the program of {release}");
                    }
                }
                selected.retain(|operator| operator.manifest.release.is_none());
                Ok(selected)
            }
        }
    }

    /// Explores one workload and reads its report.
    fn explore(&self, windlass: &Path, operator: &Operator, program: &Path, workload: &Workload) -> Result<Explored> {
        let Workload { name: workload, steps } = workload;
        let directory = root().join("target/operators/reports").join(&operator.name).join(workload);
        eprintln!("exploring {} {workload}; the report is in {}", operator.name, directory.display());
        let manifest = &operator.manifest;
        let mut command = Command::new(windlass);
        command.arg("explore").args(["--time-limit", &self.time_limit, "--output", "json", "--report"]).arg(&directory);
        command.arg("--jobs").arg(self.jobs.unwrap_or(manifest.jobs).to_string());
        command.arg("--nodes").arg(manifest.nodes.to_string());
        if let Some(plan) = &self.plan {
            command.args(["--plan", plan]);
        }
        if self.mutate {
            command.arg("--mutate");
        }
        for crds in operator.crds(self.source.as_deref())? {
            command.arg("--crds").arg(crds);
        }
        for version in &manifest.runtime_config {
            command.args(["--runtime-config", &format!("{version}=true")]);
        }
        if let Some(pod) = &manifest.in_cluster {
            command.args(["--in-cluster", pod]);
        }
        if let Some(answers) = &manifest.pod_answers {
            command.arg("--pod-answers").arg(operator.directory.join(answers));
        }
        command.arg("--steps").arg(steps);
        // The variables are arguments of env, in which windlass replaces its placeholders.
        command.args(["--", "env"]).args(manifest.environment.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program).args(&manifest.arguments);
        let report = Report::of(&format!("{} {workload}", operator.name), &mut command)?;
        Ok(Explored::new(workload, report))
    }
}

/// Builds an operator with the versions of its module, and returns its path.
fn build(operator: &Operator) -> Result<PathBuf> {
    let program = root().join("target/operators").join(&operator.name);
    if let Some(parent) = program.parent() {
        fs::create_dir_all(parent)?;
    }
    let package = operator.manifest.program.as_deref().ok_or_else(|| format!("{} has no program", operator.name))?;
    eprintln!("building {package}");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(package).current_dir(&operator.directory);
    let status = build.status().map_err(|error| format!("running go: {error}"))?;
    if status.success() {
        Ok(program)
    } else {
        Err(format!("go build {package} in {} failed ({status})", operator.directory.display()).into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operators() -> Vec<Operator> {
        let operator = |name: &str, release: Option<&str>| {
            let manifest = json!({"crds": [], "nodes": 1, "jobs": 1, "release": release});
            let manifest = serde_json::from_value(manifest).unwrap();
            Operator { name: name.to_owned(), directory: PathBuf::new(), manifest }
        };
        vec![operator("rabbitmq", None), operator("rabbitmq-1.9", Some("v1.9")), operator("zookeeper", None)]
    }

    fn select(only: &str, program: Option<&str>) -> std::result::Result<Vec<String>, String> {
        let options = Options {
            only: only.to_owned(),
            program: program.map(PathBuf::from),
            source: None,
            plan: None,
            workload: None,
            time_limit: "1m".to_owned(),
            jobs: None,
            mutate: false,
            windlass: None,
        };
        let operators = operators();
        let selected = options.select(&operators).map_err(|error| error.to_string())?;
        Ok(selected.iter().map(|operator| operator.name.clone()).collect())
    }

    #[test]
    fn operators_are_selected_by_name_or_by_part_of_it() {
        assert_eq!(select("rabbitmq", None).unwrap(), ["rabbitmq"]);
        assert_eq!(select("keeper", None).unwrap(), ["zookeeper"]);
        assert_eq!(select("", None).unwrap(), ["rabbitmq", "zookeeper"], "those without a program are left out");
        assert_eq!(select("nats", None).unwrap_err(), "no directory of tools/operators contains \"nats\"");
    }

    #[test]
    fn a_program_is_passed_for_one_operator() {
        for name in ["rabbitmq-1.9", "rabbitmq"] {
            assert_eq!(select(name, Some("bin/operator")).unwrap(), [name]);
        }
        for (only, program, expected) in [
            ("rabbitmq-1.9", None, "pass the program of v1.9 with --program"),
            ("", Some("bin/operator"), "selects more"),
        ] {
            let error = select(only, program).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
