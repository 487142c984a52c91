//! Explores the operators of `examples/explore`, the same one in four languages: `cargo xtask long explore-examples`.
//!
//! Each is built and explored twice. Without its planted bug there must be no finding, and with it the bug must be found.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Instant,
};

use clap::ValueEnum as _;
use serde_json::Value;

use crate::{
    Result,
    builds::children,
    cargo::{cargo, succeed},
    upstream::root,
};

/// The folder of the operators, their CRDs and their steps.
const EXAMPLES: &str = "examples/explore";

/// The exit code of `windlass explore` with findings.
const FINDINGS: i32 = 1;

/// The chosen operators, and how to explore them.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// The languages; by default those whose tools are installed
    #[arg(value_enum)]
    languages: Vec<Language>,
    /// The windlass to use; by default one is built
    #[arg(long, value_name = "WINDLASS")]
    pub(crate) windlass: Option<PathBuf>,
    /// The number of runs at the same time
    #[arg(long, default_value_t = 8)]
    jobs: u16,
    /// The time limit of each exploration
    #[arg(long, default_value = "20m")]
    time_limit: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    Go,
    Python,
    Java,
    Rust,
}

/// A program with its arguments and variables.
struct Program {
    arguments: Vec<String>,
    variables: &'static [(&'static str, &'static str)],
}

/// The planted bug of an operator.
struct Bug {
    /// The value of the variable `BUG`.
    name: &'static str,
    /// The effect of a fault that reveals it.
    effect: &'static str,
    /// The texts of which a finding must contain one.
    findings: &'static [&'static str],
}

/// The results of an exploration.
struct Exploration {
    report: Value,
    wall_seconds: f64,
    cpu_seconds: f64,
    /// The time from the start until the first plan was finished.
    first_plan_seconds: Option<f64>,
}

/// The finding of a planted bug.
struct Found {
    text: String,
    plan: String,
    reproduced: u64,
    replays: u64,
}

/// Explores the operators and prints a Markdown table.
pub(crate) fn run(windlass: &Path, options: &Options) -> Result {
    let windlass =
        fs::canonicalize(windlass).map_err(|error| format!("cannot find {}: {error}", windlass.display()))?;
    let languages = if options.languages.is_empty() { Language::value_variants() } else { &options.languages };
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for language in languages {
        if let Some(tool) = language.missing_tool() {
            if options.languages.contains(language) {
                return Err(format!("{} needs {tool}, which is not installed", language.name()).into());
            }
            println!("{}: skipped, {tool} is not installed", language.name());
            continue;
        }
        let program = language.build()?;
        let bug = language.bug();
        let correct = explore(&windlass, *language, &program, "", options)?;
        let findings = correct.confirmed();
        wrong.extend(findings.iter().map(|text| format!("{} without a bug: {text}", language.name())));
        rows.push(correct.row(language.name(), "none", findings.len(), None));

        let buggy = explore(&windlass, *language, &program, bug.name, options)?;
        let found = buggy.find(&bug);
        if found.is_none() {
            wrong.push(format!("{} with {}: the bug was not found", language.name(), bug.name));
        }
        rows.push(buggy.row(language.name(), bug.name, buggy.confirmed().len(), found.as_ref()));
    }
    println!(
        "| language | bug | plans | clean run, s | until the first plan, s | findings | found by | reproduced | s | CPU s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for row in rows {
        println!("{row}");
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Runs `windlass explore` on a program. The reports are written to the target directory.
fn explore(
    windlass: &Path,
    language: Language,
    program: &Program,
    bug: &str,
    options: &Options,
) -> Result<Exploration> {
    let name = if bug.is_empty() { "none" } else { bug };
    eprintln!("{}, bug: {name}", language.name());
    let reports = outputs().join("reports").join(language.name()).join(name);
    fs::create_dir_all(&reports)?;
    let mut command = Command::new(windlass);
    command.current_dir(root().join(EXAMPLES));
    command.args(["explore", "--crds", "crds", "--steps", "steps", "--jobs", &options.jobs.to_string()]);
    command.args(["--time-limit", &options.time_limit, "--report"]).arg(&reports).arg("--").args(&program.arguments);
    command.envs(program.variables.iter().copied()).env("BUG", bug);
    let (before, begun) = (children()?, Instant::now());
    let (status, first_plan_seconds) = follow(command.stdout(Stdio::null()).stderr(Stdio::piped()), begun)?;
    let (cpu_seconds, wall_seconds) = (children()? - before, begun.elapsed().as_secs_f64());
    if !status.success() && status.code() != Some(FINDINGS) {
        return Err(format!("windlass explore failed ({status}) on the operator in {}", language.name()).into());
    }
    let report = serde_json::from_slice(&fs::read(reports.join("report.json"))?)?;
    Ok(Exploration { report, wall_seconds, cpu_seconds, first_plan_seconds })
}

/// Runs a command to its end, and copies its lines of progress. Returns the time of the first finished plan.
fn follow(command: &mut Command, begun: Instant) -> Result<(ExitStatus, Option<f64>)> {
    let mut child = command.spawn().map_err(|error| format!("starting {command:?}: {error}"))?;
    let lines = child.stderr.take().map(BufReader::new).into_iter().flat_map(BufReader::lines);
    let mut first_plan = None;
    for line in lines {
        let line = line?;
        if line.starts_with("1/") && first_plan.is_none() {
            first_plan = Some(begun.elapsed().as_secs_f64());
        }
        eprintln!("{line}");
    }
    Ok((child.wait()?, first_plan))
}

/// Returns the folder of built programs and reports.
fn outputs() -> PathBuf {
    root().join("target/explore-examples")
}

// === impl Language ===

impl Language {
    const fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Python => "python",
            Self::Java => "java",
            Self::Rust => "rust",
        }
    }

    const fn bug(self) -> Bug {
        match self {
            Self::Go => Bug {
                name: "stale-cache",
                effect: "rewind",
                findings: &["configmaps/routes/default.site was deleted", "configmaps/routes/default.site is missing"],
            },
            Self::Python => Bug { name: "at-least-once", effect: "crash", findings: &["secrets/default/site-key-*"] },
            Self::Java => {
                Bug { name: "memory", effect: "crash", findings: &["configmaps/routes/default.site was deleted"] }
            }
            Self::Rust => Bug {
                name: "lost-update",
                effect: "conflict",
                findings: &["deployments.apps/default/site: the program overwrote"],
            },
        }
    }

    /// Returns the first tool that is not installed.
    fn missing_tool(self) -> Option<&'static str> {
        let tools: &[(&'static str, &str)] = match self {
            Self::Go => &[("go", "version")],
            Self::Python => &[("python3", "--version")],
            Self::Java => &[("java", "-version"), ("mvn", "--version")],
            // The compiler that has built this task.
            Self::Rust => &[],
        };
        let is_missing = |(tool, flag): &&(&str, &str)| {
            let quiet = Command::new(tool).arg(flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
            !quiet.is_ok_and(|status| status.success())
        };
        tools.iter().find(is_missing).map(|(tool, _)| *tool)
    }

    /// Builds the operator, and returns its command line.
    fn build(self) -> Result<Program> {
        let source = root().join(EXAMPLES).join(self.name());
        let output = outputs().join(self.name());
        let path = |parts: &str| output.join(parts).display().to_string();
        let program = |arguments: &[&str]| Program {
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            variables: &[],
        };
        match self {
            Self::Go => {
                let manager = path("manager");
                succeed(Command::new("go").args(["build", "-o", &manager, "./cmd"]).current_dir(source))?;
                let flags = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];
                // Lists can come from a stale cache only without this feature.
                let variables = &[("KUBE_FEATURE_WatchListClient", "false")];
                Ok(Program { variables, ..program(&[&manager, flags[0], flags[1]]) })
            }
            Self::Python => {
                succeed(Command::new("python3").args(["-m", "venv"]).arg(&output))?;
                let mut install = Command::new(path("bin/pip"));
                install.args(["install", "--quiet", "--require-hashes", "--requirement"]);
                succeed(install.arg(source.join("requirements.txt")))?;
                let websites = "python/websites.py";
                Ok(program(&[&path("bin/kopf"), "run", websites, "--standalone", "--all-namespaces"]))
            }
            Self::Java => {
                let directory = format!("-Doutput={}", output.display());
                succeed(Command::new("mvn").args(["-q", "-B", &directory, "package"]).current_dir(source))?;
                let flags = ["-XX:TieredStopAtLevel=1", "-Xshare:auto"];
                Ok(program(&["java", flags[0], flags[1], "-jar", &path("websites.jar")]))
            }
            Self::Rust => {
                let mut build = cargo();
                build.args(["build", "--locked", "--target-dir"]).arg(&output);
                succeed(build.arg("--manifest-path").arg(source.join("Cargo.toml")))?;
                Ok(program(&[&path("debug/websites")]))
            }
        }
    }
}

// === impl Exploration ===

impl Exploration {
    /// Returns the findings that a replay has reproduced.
    fn confirmed(&self) -> Vec<&str> {
        let confirmed = self.findings().filter(|group| replays(group).0 > 0);
        confirmed.filter_map(|group| group["text"].as_str()).collect()
    }

    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.report["findings"].as_array().into_iter().flatten()
    }

    /// Returns the finding of a planted bug, if the right fault revealed it and a replay reproduced it.
    fn find(&self, bug: &Bug) -> Option<Found> {
        self.findings().find_map(|group| {
            let text = group["text"].as_str()?;
            let plan = group.pointer("/runs/0/plan")?.as_str()?;
            let (reproduced, replays) = replays(group);
            let is_bug = bug.findings.iter().any(|finding| text.contains(finding)) && plan.starts_with(bug.effect);
            (is_bug && reproduced > 0).then(|| Found {
                text: text.to_owned(),
                plan: plan.to_owned(),
                reproduced,
                replays,
            })
        })
    }

    fn row(&self, language: &str, bug: &str, findings: usize, found: Option<&Found>) -> String {
        let clean = self.report["cleanRuns"].as_array().into_iter().flatten();
        let clean = clean.filter_map(|run| run["seconds"].as_f64()).fold(0.0, f64::max);
        let plans = format!("{} of {}", self.report["finished"], self.report["planned"]);
        let first = self.first_plan_seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.0}"));
        let (by, reproduced) = match found {
            Some(Found { text, plan, reproduced, replays }) => {
                (format!("`{plan}`: {text}"), format!("{reproduced} of {replays}"))
            }
            None => ("–".to_owned(), "–".to_owned()),
        };
        let (wall, cpu) = (self.wall_seconds, self.cpu_seconds);
        format!(
            "| {language} | {bug} | {plans} | {clean:.0} | {first} | {findings} | {by} | {reproduced} | {wall:.0} | {cpu:.0} |"
        )
    }
}

/// Returns the number of replays of a finding that reproduced it, and the number of all.
fn replays(group: &Value) -> (u64, u64) {
    let number = |name: &str| group.pointer(&format!("/runs/0/replays/{name}")).and_then(Value::as_u64).unwrap_or(0);
    (number("reproduced"), number("of"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exploration(text: &str, plan: &str, reproduced: u64) -> Exploration {
        let runs = json!([{"plan": plan, "replays": {"reproduced": reproduced, "of": 3}}]);
        let report = json!({"findings": [{"text": text, "runs": runs}], "finished": 4, "planned": 5,
            "cleanRuns": [{"seconds": 9.4}, {"seconds": 8.0}]});
        Exploration { report, wall_seconds: 60.0, cpu_seconds: 7.5, first_plan_seconds: Some(21.0) }
    }

    #[test]
    fn bug_must_be_found_by_its_effect_and_reproduced() {
        let bug = Language::Python.bug();
        let text = "there are 2 of secrets/default/site-key-* at the end, expected 1";
        let found = |text, plan, reproduced| exploration(text, plan, reproduced).find(&bug).is_some();
        assert!(found(text, "crash@1:create:secrets/default/site-key-*", 2));
        assert!(!found(text, "lag@1:create:secrets/default/site-key-*", 2), "another effect");
        assert!(!found("pods/default/site is missing", "crash@1:create:secrets/default/site-key-*", 2));
        assert!(!found(text, "crash@1:create:secrets/default/site-key-*", 0));
        assert!(exploration(text, "crash@1", 0).confirmed().is_empty());
    }

    #[test]
    fn row_has_the_slowest_clean_run() {
        let row = exploration("a", "crash@1", 1).row("go", "none", 0, None);
        assert_eq!(row, "| go | none | 4 of 5 | 9 | 21 | 0 | – | – | 60 | 8 |");
    }
}
