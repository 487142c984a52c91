//! The program with the tests: its runs, and the reports that they write.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::Result;

/// The description of the suite, with which ginkgo prefixes each name that it matches.
const SUITE: &str = "Kubernetes e2e suite";

/// The outcome of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// With the first line of the failure's message.
    Failed(String),
    /// The test itself decided that the cluster lacks a prerequisite. With its message.
    Skipped(String),
}

/// Outcomes by the full name of the test.
pub(super) type Outcomes = BTreeMap<String, Outcome>;

/// A process that runs tests. It is killed on drop.
pub(super) struct Play {
    process: Child,
    report: PathBuf,
}

/// Returns the full names of the tests that match one regular expression and not the other.
pub(super) fn names(program: &Path, focus: &str, skip: &str, reports: &Path) -> Result<Vec<String>> {
    let report = reports.join("names.json");
    let mut command = e2e(program, &report);
    command.args(["--ginkgo.dry-run", "--ginkgo.focus", focus]).stdout(Stdio::null()).stderr(Stdio::null());
    if !skip.is_empty() {
        command.args(["--ginkgo.skip", skip]);
    }
    let status = command.status().map_err(|error| format!("running {}: {error}", program.display()))?;
    if !status.success() {
        return Err(format!("listing the end-to-end tests failed ({status})").into());
    }
    Ok(outcomes(&report)?.into_keys().collect())
}

/// Reads a report that ginkgo wrote.
fn outcomes(report: &Path) -> Result<Outcomes> {
    let text = fs::read_to_string(report).map_err(|error| format!("{}: {error}", report.display()))?;
    let suites: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", report.display()))?;
    let specs = suites.as_array().into_iter().flatten().filter_map(|suite| suite["SpecReports"].as_array()).flatten();
    Ok(specs.filter(|spec| spec["LeafNodeType"] == "It").filter_map(outcome).collect())
}

/// The name and outcome of one test, unless it was not selected.
fn outcome(spec: &Value) -> Option<(String, Outcome)> {
    let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let name = containers.chain(spec["LeafNodeText"].as_str()).collect::<Vec<_>>().join(" ");
    let message = spec["Failure"]["Message"].as_str().unwrap_or_default();
    let first_line = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
    let outcome = match spec["State"].as_str()? {
        "passed" => Outcome::Passed,
        // A test that was not selected is skipped without a message.
        "skipped" if message.is_empty() => return None,
        "pending" => return None,
        "skipped" => Outcome::Skipped(first_line),
        _ => Outcome::Failed(first_line),
    };
    Some((name, outcome))
}

/// Escapes what a regular expression of Go would interpret.
fn quoted(name: &str) -> String {
    name.chars()
        .flat_map(|c| [(!c.is_alphanumeric() && c.is_ascii() && c != ' ').then_some('\\'), Some(c)])
        .flatten()
        .collect()
}

// === impl Play ===

impl Play {
    /// Starts the named tests with the cluster of a kubeconfig. The report and the log are files with this name.
    pub(super) fn start(program: &Path, kubeconfig: &Path, names: &[&str], reports: &Path, name: &str) -> Result<Self> {
        let report = reports.join(format!("{name}.json"));
        let focus = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join("|");
        let log = fs::File::create(reports.join(format!("{name}.log")))?;
        let process = e2e(program, &report)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--ginkgo.focus", &format!("^{SUITE} ({focus})$")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("starting {}: {error}", program.display()))?;
        Ok(Self { process, report })
    }

    /// Waits until the tests have ended. Some fail, so the exit status says nothing; a report that is missing does.
    pub(super) fn finish(mut self) -> Result<Outcomes> {
        self.process.wait()?;
        outcomes(&self.report)
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program, with the flags of each run.
fn e2e(program: &Path, report: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--provider=skeleton", "--ginkgo.no-color", "--ginkgo.timeout=4h", "--ginkgo.json-report"])
        .arg(report)
        .arg(format!("--kubectl-path={}", program.with_file_name("kubectl").display()))
        .args([
            "--delete-namespace-on-failure=true",
            "--node-schedulable-timeout=1m",
            "--system-pods-startup-timeout=1m",
        ])
        .env_remove("KUBECONFIG")
        .current_dir(env::temp_dir());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_an_outcome_for_each_selected_test() {
        let spec = |state: &str, message: &str| {
            serde_json::json!({"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeText": "runs", "LeafNodeType": "It",
                "State": state, "Failure": {"Message": message}})
        };
        let name = "[sig-apps] Job runs".to_owned();
        assert_eq!(outcome(&spec("passed", "")), Some((name.clone(), Outcome::Passed)));
        assert_eq!(outcome(&spec("skipped", "")), None);
        assert_eq!(outcome(&spec("skipped", "no GPU")), Some((name.clone(), Outcome::Skipped("no GPU".to_owned()))));
        assert_eq!(outcome(&spec("timedout", "\nlate\nat")), Some((name, Outcome::Failed("late".to_owned()))));
    }

    #[test]
    fn names_are_matched_literally() {
        assert_eq!(quoted("[sig-apps] a.b (c)"), r"\[sig\-apps\] a\.b \(c\)");
    }
}
