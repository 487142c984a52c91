//! Runs Kubernetes' own end-to-end tests, built from the pinned module, against `windlass up`: `cargo xtask long e2e`.
//!
//! Two groups of conformance tests run: those of the SIGs whose tests need the control plane only, and those of other SIGs that
//! exercise the API. The tests that are expected to fail are listed in `conformance/E2E.md`, each with its reason. A test that fails
//! and is not listed is an error, and so is one that is listed and passes. Tests that would not end are listed there, too, and
//! do not run.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use clap::Args;
use serde_json::Value;

use crate::{
    Result,
    embedded::Embedded,
    upstream::{build, build_e2e, root},
};

/// The list of tests that are expected to fail.
const LIST: &str = "conformance/E2E.md";

/// The heading of the tests in the list that do not run.
const NOT_RUN: &str = "## Not run";

/// The description of the suite, with which ginkgo prefixes each name that it matches.
const SUITE: &str = "Kubernetes e2e suite";

const GROUPS: &[Group] = &[
    Group {
        name: "control plane",
        focus: r"\[sig-(api-machinery|auth|cli|architecture|apps|scheduling)\].*\[Conformance\]",
    },
    Group { name: "API of nodes, networks and volumes", focus: API_ONLY },
];

/// The conformance tests of other SIGs that need no running container and no traffic between containers.
const API_ONLY: &str = concat!(
    r"(\[sig-instrumentation\] Events",
    r"|\[sig-network\] (API Server|EndpointSlice|Endpoints|EndpointsController|Ingress API|IngressClass API|ServiceCIDR)",
    r"|\[sig-network\] Services should (be able to change the type|complete|delete|find)",
    r"|\[sig-node\] (Ephemeral Containers .* should update|InitContainer|Lease|Node Lifecycle|NoExecuteTaintManager|PodTemplates)",
    r"|\[sig-node\] (Pods Extended|RuntimeClass|\[DRA\] CRUD|Sysctls .* should reject)",
    r"|\[sig-node\] ConfigMap should (fail|run|update)|\[sig-node\] Secrets should (fail|patch)",
    r"|\[sig-node\] Ephemeral Containers .* will start",
    r"|\[sig-node\] Pods should (allow|be|delete|get|patch|run)",
    r"|\[sig-node\] Kubelet when scheduling a busybox command that always fails",
    r"|\[sig-storage\] (CSI|PersistentVolumes|StorageClasses|VolumeAttachment|VolumeAttributesClass)",
    r"|\[sig-storage\] (ConfigMap|Secrets) should be immutable)",
    r".*\[Conformance\]",
);

/// The options of `cargo xtask long e2e`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// The windlass to run
    pub(crate) windlass: PathBuf,
    /// Only the tests whose name contains this, or one of several that `|` separates
    #[arg(long, default_value = "")]
    pub(crate) only: String,
    /// How many control planes run tests side by side
    #[arg(long, default_value = "4")]
    pub(crate) shards: NonZeroUsize,
    /// Where the reports of ginkgo and the output of the tests are kept
    #[arg(long, default_value = "target/e2e")]
    pub(crate) reports: PathBuf,
}

/// A selection of tests.
struct Group {
    name: &'static str,
    /// The regular expression that a name has to match.
    focus: &'static str,
}

/// The outcome of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// With the first line of the failure's message.
    Failed(String),
    /// The test itself decided that the cluster lacks a prerequisite. With its message.
    Skipped(String),
}

/// The tests that are expected to fail, by their full names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Listed {
    failing: BTreeSet<String>,
    /// Tests that would never end.
    not_run: BTreeSet<String>,
}

/// Outcomes by the full name of the test.
type Outcomes = BTreeMap<String, Outcome>;

/// A process that runs a part of the tests. It is killed on drop.
struct Shard {
    process: Child,
    report: PathBuf,
    /// The process's own control plane.
    _embedded: Embedded,
}

/// Runs both groups, and compares the failures with the list.
pub(crate) fn run(options: &Options) -> Result {
    // The tests of sig-cli use its kubectl.
    build()?;
    let program = build_e2e()?;
    let reports = root().join(&options.reports);
    fs::create_dir_all(&reports)?;
    let listed = listed(&fs::read_to_string(root().join(LIST))?)?;
    let mut unexpected = Vec::new();
    for group in GROUPS {
        let names = group.names(&program, &options.only, &reports)?;
        if names.is_empty() {
            continue;
        }
        let (not_run, run): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| listed.not_run.contains(name));
        println!("=== {}: {} tests, and {} that are not run", group.name, run.len(), not_run.len());
        let outcomes = play(&program, &run, options, &reports)?;
        unexpected.extend(judge(group, &run, &outcomes, &listed.failing));
    }
    if unexpected.is_empty() {
        return Ok(());
    }
    Err(format!("{} end-to-end tests do not end as listed in {LIST}:\n{}", unexpected.len(), unexpected.join("\n"))
        .into())
}

/// Prints the counts and returns the outcomes that differ from the list.
fn judge(group: &Group, names: &[String], outcomes: &Outcomes, listed: &BTreeSet<String>) -> Vec<String> {
    let mut unexpected = Vec::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for name in names {
        let is_listed = listed.contains(name);
        match outcomes.get(name) {
            Some(Outcome::Passed) => {
                passed += 1;
                if is_listed {
                    unexpected.push(format!("passes, but is listed: {name}"));
                }
            }
            Some(Outcome::Skipped(reason)) => {
                skipped += 1;
                println!("skipped: {name}\n         {reason}");
            }
            Some(Outcome::Failed(reason)) => {
                failed += 1;
                println!("failed{}: {name}\n         {reason}", if is_listed { ", as listed" } else { "" });
                if !is_listed {
                    unexpected.push(format!("failed: {name}"));
                }
            }
            None => {
                failed += 1;
                unexpected.push(format!("did not run: {name}"));
            }
        }
    }
    println!(
        "=== {}: {passed} of {} passed, {failed} failed, {skipped} skipped by themselves",
        group.name,
        names.len()
    );
    unexpected
}

/// Runs the tests, spread over control planes that run side by side.
fn play(program: &Path, names: &[String], options: &Options, reports: &Path) -> Result<Outcomes> {
    let shards = (0..options.shards.get().min(names.len()))
        .map(|index| {
            let part: Vec<&str> = names.iter().skip(index).step_by(options.shards.get()).map(String::as_str).collect();
            Shard::start(program, &options.windlass, &part, reports, index)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut outcomes = Outcomes::new();
    for shard in shards {
        outcomes.extend(shard.finish()?);
    }
    Ok(outcomes)
}

/// Reads the names of the list: the items, of which each is a name in backquotes, a colon and the reason.
fn listed(text: &str) -> Result<Listed> {
    let names = |text: &str| {
        text.lines()
            .filter_map(|line| line.strip_prefix("- `"))
            .map(|item| match item.split_once("`: ") {
                Some((name, reason)) if !reason.is_empty() => Ok(name.to_owned()),
                _ => Err(format!("{LIST}: no reason for `{item}").into()),
            })
            .collect::<Result<_>>()
    };
    let (failing, not_run) = text.split_once(NOT_RUN).unwrap_or((text, ""));
    Ok(Listed { failing: names(failing)?, not_run: names(not_run)? })
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

// === impl Group ===

impl Group {
    /// The full names of its tests, in the order of the suite.
    fn names(&self, program: &Path, only: &str, reports: &Path) -> Result<Vec<String>> {
        let report = reports.join("names.json");
        let mut command = e2e(program, &report);
        command.args(["--ginkgo.dry-run", "--ginkgo.focus", self.focus]).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| format!("running {}: {error}", program.display()))?;
        if !status.success() {
            return Err(format!("listing the end-to-end tests failed ({status})").into());
        }
        let names = outcomes(&report)?.into_keys();
        Ok(names.filter(|name| only.split('|').any(|part| name.contains(part))).collect())
    }
}

// === impl Shard ===

impl Shard {
    fn start(program: &Path, windlass: &Path, names: &[&str], reports: &Path, index: usize) -> Result<Self> {
        let embedded = Embedded::start(windlass, &[])?;
        let report = reports.join(format!("shard-{index}.json"));
        let focus = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join("|");
        let log = fs::File::create(reports.join(format!("shard-{index}.log")))?;
        let process = e2e(program, &report)
            .arg("--kubeconfig")
            .arg(embedded.kubeconfig())
            .args(["--ginkgo.focus", &format!("^{SUITE} ({focus})$")])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("starting {}: {error}", program.display()))?;
        Ok(Self { process, report, _embedded: embedded })
    }

    /// Waits until the tests have ended. Some fail, so the exit status says nothing; a report that is missing does.
    fn finish(mut self) -> Result<Outcomes> {
        self.process.wait()?;
        outcomes(&self.report)
    }
}

impl Drop for Shard {
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
    fn list_item_without_reason_is_an_error() {
        let list = "# Title\n- `[sig-apps] Job should run`: needs a container\n";
        assert_eq!(listed(list).unwrap().failing, BTreeSet::from(["[sig-apps] Job should run".to_owned()]));
        assert!(listed("- `[sig-apps] Job should run`").is_err());
    }

    #[test]
    fn list_has_tests_that_are_not_run() {
        let list = listed("- `a`: fails\n\n## Not run\n\n- `b`: would wait for ever\n").unwrap();
        assert_eq!(list.failing, BTreeSet::from(["a".to_owned()]));
        assert_eq!(list.not_run, BTreeSet::from(["b".to_owned()]));
    }

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
