//! Explores the built-in controllers as a program of its own: `cargo xtask long explore-controllers`.
//!
//! The program is the example `controller_manager` of windlass-controllers. Each directory of `conformance/explore` has
//! the steps of a scenario.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use crate::{
    Result,
    cargo::{cargo, succeed},
    explorations::{Finding, Report},
    upstream::root,
};

/// The folder of the scenarios.
const SCENARIOS: &str = "conformance/explore";

/// The file with the examined findings, in the folder of the scenarios.
const EXAMINED: &str = "examined.json";

/// The controllers of the cluster: the simulated nodes, which are no part of kube-controller-manager.
const OF_CLUSTER: &str = "nodes";
/// The controllers of the program.
const OF_PROGRAM: &str = "*,-nodes";

/// The number of simulated nodes.
const NODES: &str = "3";

/// Which scenarios to explore, and how.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// Only the scenario with this name, or those whose names contain it
    #[arg(long, default_value = "")]
    only: String,
    /// The number of runs at the same time
    #[arg(long, default_value_t = 8)]
    jobs: u16,
    /// The time limit of each scenario
    #[arg(long, value_name = "DURATION", default_value = "20m")]
    time_limit: String,
    /// Run only this plan, after the runs without faults
    #[arg(long, value_name = "PLAN")]
    plan: Option<String>,
    /// The windlass to use; by default one is built
    #[arg(long, value_name = "WINDLASS", requires = "program")]
    windlass: Option<PathBuf>,
    /// The example controller_manager to explore; by default it is built
    #[arg(long, value_name = "PROGRAM", requires = "windlass")]
    program: Option<PathBuf>,
}

/// A finding that Kubernetes' own controllers have, too.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Examined {
    scenario: String,
    /// A text that the finding contains.
    finding: String,
    /// The beginnings of the plans, such as `gap` or `rewind(pods,`. Each plan of the finding has one of them.
    faults: Vec<String>,
    /// The reason, with the place in the source code of Kubernetes.
    reason: String,
}

/// An explored scenario.
struct Explored {
    scenario: String,
    report: Report,
}

/// Explores the selected scenarios and prints a Markdown table. Fails if a replay has reproduced a finding that is not in
/// the file of examined ones.
pub(crate) fn run(options: &Options) -> Result {
    let scenarios = selected(scenarios()?, &options.only);
    if scenarios.is_empty() {
        return Err(format!("no directory of {SCENARIOS} contains {:?}", options.only).into());
    }
    let (windlass, program) = match (&options.windlass, &options.program) {
        (Some(windlass), Some(program)) => (std::path::absolute(windlass)?, std::path::absolute(program)?),
        _ => build()?,
    };
    let mut explored = Vec::new();
    for scenario in scenarios {
        let report = explore(&windlass, &program, &scenario, options)?;
        explored.push(Explored { scenario, report });
    }
    let examined = examined()?;
    print!("{}", table(&explored, &examined));
    let failures = failures(&explored, &examined);
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Reads the examined findings.
fn examined() -> Result<Vec<Examined>> {
    let path = root().join(SCENARIOS).join(EXAMINED);
    let text = fs::read_to_string(&path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Returns the names of the scenarios.
fn scenarios() -> Result<Vec<String>> {
    let directory = root().join(SCENARIOS);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).map_err(|error| format!("reading {}: {error}", directory.display()))? {
        let entry = entry?;
        if entry.path().is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the scenario with this name, or those whose names contain it.
fn selected(mut scenarios: Vec<String>, only: &str) -> Vec<String> {
    let is_name = scenarios.iter().any(|name| name == only);
    scenarios.retain(|name| if is_name { name == only } else { name.contains(only) });
    scenarios
}

/// Builds windlass and the program. Returns their paths.
fn build() -> Result<(PathBuf, PathBuf)> {
    let mut build = cargo();
    build.args(["build", "--profile", "dist", "--package", "windlass-cli", "--bin", "windlass"]);
    succeed(build.args(["--package", "windlass-controllers", "--example", "controller_manager"]))?;
    let directory = root().join("target/dist");
    Ok((directory.join("windlass"), directory.join("examples/controller_manager")))
}

/// Explores a scenario. The reports are written to the target directory.
fn explore(windlass: &Path, program: &Path, scenario: &str, options: &Options) -> Result<Report> {
    let reports = root().join("target/explore-controllers").join(scenario);
    eprintln!("exploring {scenario}; the report is in {}", reports.display());
    let mut command = Command::new(windlass);
    command.args(["explore", "--output", "json", "--controllers", OF_CLUSTER, "--nodes", NODES]);
    command.args(["--jobs", &options.jobs.to_string(), "--time-limit", &options.time_limit]);
    if let Some(plan) = &options.plan {
        command.args(["--plan", plan]);
    }
    command.arg("--report").arg(reports).arg("--steps").arg(root().join(SCENARIOS).join(scenario));
    command.arg("--").arg(program).args(["--controllers", OF_PROGRAM, "--list-first"]);
    command.args(["--health-probe-bind-address=0", "--log-level=warn"]);
    Report::of(scenario, &mut command)
}

impl Explored {
    /// Returns the reason why a finding is permitted, if it was examined.
    fn permitted<'e>(&self, finding: &Finding, examined: &'e [Examined]) -> Option<&'e str> {
        let is_by =
            |faults: &[String]| finding.runs.iter().all(|run| faults.iter().any(|fault| run.plan.starts_with(fault)));
        let explains = |known: &&Examined| {
            known.scenario == self.scenario && finding.text.contains(&known.finding) && is_by(&known.faults)
        };
        examined.iter().find(explains).map(|known| known.reason.as_str())
    }
}

/// Returns a table of the explorations, and a list of their findings.
fn table(explored: &[Explored], examined: &[Examined]) -> String {
    let mut text =
        "| scenario | plans | confirmed findings | examined before | s |\n|---|---|---|---|---|\n".to_owned();
    let mut list = String::new();
    for one in explored {
        let Report { planned, finished, findings, seconds, .. } = &one.report;
        let confirmed = || findings.iter().filter(|finding| finding.is_confirmed());
        let known = confirmed().filter(|finding| one.permitted(finding, examined).is_some()).count();
        let (scenario, number) = (&one.scenario, confirmed().count());
        let _ = writeln!(text, "| {scenario} | {finished} of {planned} | {number} | {known} | {seconds:.0} |");
        for finding in findings {
            let (reproduced, of) = finding.replays();
            let reason = one.permitted(finding, examined).map(|reason| format!(": {reason}")).unwrap_or_default();
            let (text, plan) = (&finding.text, finding.plan());
            let _ = writeln!(list, "- {scenario}: {text} ({reproduced} of {of} replays, `{plan}`){reason}");
        }
    }
    if list.is_empty() { text } else { format!("{text}\n{list}") }
}

/// Returns the findings that a replay has reproduced, without the examined ones.
fn failures(explored: &[Explored], examined: &[Examined]) -> Vec<String> {
    let mut failures = Vec::new();
    for one in explored {
        let confirmed = one.report.findings.iter().filter(|finding| finding.is_confirmed());
        let new = confirmed.filter(|finding| one.permitted(finding, examined).is_none());
        failures.extend(new.map(|finding| format!("{}: {}, by {}", one.scenario, finding.text, finding.plan())));
    }
    failures
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explored(reproduced: usize) -> Vec<Explored> {
        let runs = json!([{"plan": "crash@1", "replays": {"reproduced": reproduced, "of": 3}}]);
        let findings = json!([{"text": "pods/default/web is missing", "foundAfterSeconds": 9.0, "runs": runs}]);
        let report = json!({"planned": 9, "finished": 8, "findings": findings, "seconds": 60.4});
        let report = Report::read("job", report.to_string().as_bytes()).unwrap();
        vec![Explored { scenario: "job".to_owned(), report }]
    }

    fn known(scenario: &str, finding: &str, fault: &str) -> Vec<Examined> {
        let [scenario, finding, fault] = [scenario, finding, fault].map(str::to_owned);
        let faults = vec!["lag".to_owned(), fault];
        vec![Examined { scenario, finding, faults, reason: "as upstream.".to_owned() }]
    }

    #[test]
    fn reproduced_findings_are_failures_unless_examined() {
        assert_eq!(failures(&explored(1), &[]), ["job: pods/default/web is missing, by crash@1"]);
        assert!(failures(&explored(0), &[]).is_empty());
        assert!(failures(&explored(1), &known("job", "web is missing", "crash")).is_empty());
        for other in
            [known("cronjob", "missing", "crash"), known("job", "left over", "crash"), known("job", "missing", "gap")]
        {
            assert_eq!(failures(&explored(1), &other).len(), 1, "{other:?}");
        }
    }

    #[test]
    fn table_counts_confirmed_findings() {
        let text = table(&explored(2), &[]);
        assert!(text.contains("\n| job | 8 of 9 | 1 | 0 | 60 |\n"), "{text}");
        assert!(text.contains("\n- job: pods/default/web is missing (2 of 3 replays, `crash@1`)\n"), "{text}");
        assert!(table(&explored(0), &[]).contains("\n| job | 8 of 9 | 0 | 0 | 60 |\n"));
        let text = table(&explored(1), &known("job", "missing", "crash"));
        assert!(text.contains("| 1 | 1 | 60 |\n") && text.contains("`crash@1`): as upstream.\n"), "{text}");
    }

    #[test]
    fn scenarios_are_selected_by_name_or_by_part_of_it() {
        let select = |only: &str| selected(["cronjob", "job", "service"].map(str::to_owned).to_vec(), only);
        assert_eq!(select("job"), ["job"]);
        assert_eq!(select("o"), ["cronjob", "job"]);
        assert_eq!(select("").len(), 3);
    }

    #[test]
    fn scenarios_of_the_repository_are_valid() {
        let scenarios = scenarios().unwrap();
        for controller in ["deployment", "statefulset", "daemonset", "job", "cronjob", "service", "namespace"] {
            assert!(scenarios.iter().any(|name| name.starts_with(controller)), "no scenario of {controller}");
        }
        for scenario in &scenarios {
            let steps = fs::read_dir(root().join(SCENARIOS).join(scenario)).unwrap().count();
            assert!(steps > 2, "{scenario} has {steps} steps");
        }
        for Examined { scenario, finding, .. } in examined().unwrap() {
            assert!(scenarios.contains(&scenario), "there is no scenario {scenario:?}");
            assert!(!finding.is_empty(), "{scenario}: every finding is permitted");
        }
    }
}
