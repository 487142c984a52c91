//! `windlass explore`: fault exploration and mutation testing of an operator.

use std::{
    error::Error,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use clap::{Args, ValueEnum};
use windlass_api::ErrorChain;
use windlass_controllers::{BuiltIn, Controllers};
use windlass_explore::{Exploration, Isolation, Plan, Results, Scenario, exploration::Progress, report};
use windlass_runtime::shutdown;

use super::controller_names;
use crate::{runtime_config::RuntimeConfigFlags, simulation::PodAnswersFlags, time_limits::not_negative};

/// The exit code if there are findings.
const FINDINGS: u8 = 1;
/// The exit code if the exploration failed. clap uses it for invalid arguments, too.
const FAILED: u8 = 2;
/// The exit code if the user interrupted the exploration, and there are no findings: that of a program that SIGINT ends.
const INTERRUPTED: u8 = 130;

/// The flags of `windlass explore`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// File or directory with the CustomResourceDefinitions of the operator; can be repeated
    #[arg(long, value_name = "PATH")]
    crds: Vec<PathBuf>,
    #[command(flatten)]
    runtime: RuntimeConfigFlags,
    /// Directory with the steps: manifests and executables, in the order of their names
    #[arg(long, value_name = "DIR")]
    steps: PathBuf,
    /// File with invariants: CEL expressions over the objects of the cluster
    #[arg(long, value_name = "FILE")]
    invariants: Option<PathBuf>,
    /// Run only this plan, as printed with a finding, after the runs without faults
    #[arg(long, value_name = "PLAN")]
    plan: Option<Plan>,
    /// Maximum number of runs at the same time. Without isolation, more than 1 needs a program without fixed ports: pass 0
    /// as its ports, or the placeholder {port}, a free port of the run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Isolation of the program's processes: each has its own network, processes and /tmp, by Linux namespaces. auto
    /// continues without them if they are not permitted
    #[arg(long, value_name = "MODE", default_value = "auto")]
    isolation: Mode,
    /// Give the program the environment of this pod instead of a kubeconfig: service account directory,
    /// KUBERNETES_SERVICE_HOST, POD_NAME. The pod is created before the program starts. Needs isolation
    #[arg(long, value_name = "NAMESPACE/POD", value_parser = pod)]
    in_cluster: Option<(String, String)>,
    /// Time after which no further plan starts
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = not_negative)]
    time_limit: Duration,
    /// Number of simulated nodes. Without nodes, pods stay pending
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=100))]
    nodes: u16,
    #[command(flatten)]
    answers: PodAnswersFlags,
    #[arg(long, value_name = "a,b|none", default_value = "*", help = controllers())]
    controllers: Controllers,
    /// Also run plans with two faults, after the others
    #[arg(long)]
    pairs: bool,
    /// Change one field of a custom resource at a time instead of injecting faults, with values that its schema allows.
    /// The end must be the same after the change is reverted, and the same as with a new resource
    #[arg(long, conflicts_with = "pairs")]
    mutate: bool,
    /// Format of the report on standard output
    #[arg(long, short, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Directory for report.txt, report.json, report.html and report.xml (JUnit)
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Directory for finished plans. With the same directory, an interrupted exploration continues
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Program to explore, with its arguments. {kubeconfig} is replaced by the path of its kubeconfig, {port} by a free
    /// port
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
    Html,
    Junit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Auto,
    Namespaces,
    None,
}

/// Explores the program. The exit code is 0 without findings, 1 with findings, 2 after an error, and 130 if the user
/// interrupted the exploration before it had findings.
pub(crate) async fn run(options: Options) -> ExitCode {
    let is_stopped = AtomicBool::new(false);
    let stop = async {
        shutdown::signal().await;
        is_stopped.store(true, Ordering::Relaxed);
    };
    match explore(&options, stop).await {
        Ok(results) if !results.is_clean() => ExitCode::from(FINDINGS),
        Ok(_) if is_stopped.load(Ordering::Relaxed) => ExitCode::from(INTERRUPTED),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            // Writing fails if standard error is closed.
            let _ = writeln!(io::stderr(), "windlass: {}", ErrorChain(&*error));
            ExitCode::from(FAILED)
        }
    }
}

async fn explore(options: &Options, stop: impl Future<Output = ()>) -> Result<Results, Box<dyn Error>> {
    let mut exploration = options.exploration()?;
    if let Some(isolation) = options.isolation().await? {
        exploration = exploration.isolation(isolation);
    }
    let results = Box::pin(exploration.run(stop)).await?;
    if let Some(directory) = &options.report {
        write(&results, directory)?;
    }
    let text = options.output.of(&results);
    io::stdout().write_all(text.as_bytes())?;
    if options.plan.is_some()
        && let Some(plan) = results.not_reached.iter().find(|plan| !plan.is_empty())
    {
        return Err(format!("the run did not reach the point of {plan}, so it has not shown anything").into());
    }
    Ok(results)
}

impl Options {
    /// Returns the exploration with the settings of the flags.
    fn exploration(&self) -> Result<Exploration, Box<dyn Error>> {
        self.check_controllers()?;
        let mut scenario = Scenario::open(&self.crds, &self.steps, self.invariants.as_deref(), self.program.clone())?
            .runtime_config(self.runtime.joined())
            .controllers(self.controllers.clone())
            .nodes(usize::from(self.nodes));
        if let Some(answers) = self.answers.load()? {
            scenario = scenario.pod_answers(answers);
        }
        if let Some((namespace, pod)) = &self.in_cluster {
            scenario = scenario.in_cluster(namespace, pod);
        }
        let mut exploration = Exploration::new(scenario)
            .jobs(usize::from(self.jobs))
            .time_limit(self.time_limit)
            .pairs(self.pairs)
            .mutate(self.mutate)
            .progress(|progress| eprintln!("{}", line(progress)));
        if let Some(plan) = &self.plan {
            exploration = exploration.plan(plan.clone());
        }
        if let Some(directory) = &self.resume {
            exploration = exploration.state(directory);
        }
        Ok(exploration)
    }

    /// Checks that the cluster runs the controllers that other flags need.
    fn check_controllers(&self) -> Result<(), String> {
        let needs = |flag: &str, controller: BuiltIn| {
            let is_selected = self.controllers.contains(controller);
            if is_selected {
                Ok(())
            } else {
                Err(format!("{flag} needs the controller {controller}; add it to --controllers"))
            }
        };
        if self.nodes > 0 {
            needs("--nodes", BuiltIn::Nodes)?;
        }
        if self.in_cluster.is_some() {
            needs("--in-cluster", BuiltIn::ServiceAccount)?;
        }
        Ok(())
    }

    /// Returns the isolation, or `None` if the program is not isolated.
    async fn isolation(&self) -> Result<Option<Isolation>, Box<dyn Error>> {
        if self.isolation == Mode::None {
            return Ok(None);
        }
        match Isolation::with_this_program().await {
            Ok(isolation) => Ok(Some(isolation)),
            Err(error) if self.isolation == Mode::Auto && self.in_cluster.is_none() => {
                eprintln!(
                    "{error}; it shares ports and files with this machine, and with other runs if --jobs is above 1"
                );
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn controllers() -> String {
    format!(
        "Built-in controllers of the cluster, separated by commas; * selects all, a leading - excludes one that the \
         program provides, none selects no controller: {}",
        controller_names()
    )
}

/// Splits the name of a pod from its namespace.
fn pod(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, pod)) if !namespace.is_empty() && !pod.is_empty() && !pod.contains('/') => {
            Ok((namespace.to_owned(), pod.to_owned()))
        }
        _ => Err("expected NAMESPACE/POD, such as default/operator-0".to_owned()),
    }
}

impl Format {
    fn of(self, results: &Results) -> String {
        match self {
            Self::Text => report::text(results),
            Self::Json => report::json(results),
            Self::Html => report::html(results),
            Self::Junit => report::junit(results),
        }
    }
}

/// Writes the report in all formats.
fn write(results: &Results, directory: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(directory).map_err(|error| format!("cannot create {}: {error}", directory.display()))?;
    let formats = [("txt", Format::Text), ("json", Format::Json), ("html", Format::Html), ("xml", Format::Junit)];
    for (extension, format) in formats {
        let file = directory.join("report").with_extension(extension);
        fs::write(&file, format.of(results)).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    Ok(())
}

/// Returns the line on standard error after a run.
fn line(progress: &Progress) -> String {
    let Progress { done, total, findings, remaining, message, .. } = progress;
    if *total == 0 {
        return message.clone();
    }
    let seconds = remaining.as_secs();
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let noun = if *findings == 1 { "finding" } else { "findings" };
    format!("{done}/{total}, {findings} {noun}, {minutes}:{seconds:02} left: {message}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(flags: &[&str]) -> Result<Options, clap::Error> {
        Command::try_parse_from(std::iter::once("explore").chain(flags.iter().copied())).map(|command| command.options)
    }

    #[test]
    fn flags_need_their_controllers() {
        let check = |flags: &[&str]| {
            let flags = [&["--steps", "s"], flags, &["--", "operator"]].concat();
            options(&flags).unwrap().check_controllers().err().unwrap_or_default()
        };
        assert_eq!(check(&["--nodes=1", "--in-cluster=a/b", "--controllers=*,-job"]), "");
        assert_eq!(check(&["--controllers=none"]), "");
        let error = "--nodes needs the controller nodes; add it to --controllers";
        assert_eq!(check(&["--nodes=1", "--controllers=*,-nodes"]), error);
        let error = "--in-cluster needs the controller serviceaccount; add it to --controllers";
        assert_eq!(check(&["--in-cluster=a/b", "--controllers=nodes"]), error);
    }

    #[test]
    fn flags_are_checked() {
        let error = |flags: &[&str]| options(flags).unwrap_err().to_string();
        assert!(error(&["--steps", "s"]).contains("<PROGRAM>"));
        assert!(error(&["--", "operator"]).contains("--steps"));
        assert!(error(&["--steps", "s", "--jobs", "0", "--", "operator"]).contains("0 is not in"));
        assert!(error(&["--steps", "s", "--plan", "crush@1", "--", "operator"]).contains("crush"));
        assert!(error(&["--steps", "s", "--in-cluster", "operator", "--", "operator"]).contains("NAMESPACE/POD"));
        assert!(error(&["--steps", "s", "--controllers", "jobs", "--", "operator"]).contains("unknown controller"));
        assert!(error(&["--steps", "s", "--isolation", "vm", "--", "operator"]).contains("namespaces"));
        assert!(error(&["--steps", "s", "--mutate", "--pairs", "--", "operator"]).contains("--pairs"));
        let plan = "set(spec/replicas,3)@websites.example.dev/default/site";
        let parsed = options(&["--steps", "s", "--mutate", "--plan", plan, "--", "operator"]).unwrap();
        assert_eq!(parsed.plan.map(|plan| plan.to_string()).as_deref(), Some(plan));
        let parsed = options(&["--steps", "s", "--in-cluster=system/operator-0", "--", "operator"]).unwrap();
        assert_eq!(parsed.in_cluster, Some(("system".to_owned(), "operator-0".to_owned())));
        let parsed = options(&["--steps", "s", "--", "operator", "--leader-elect"]).unwrap();
        assert_eq!(parsed.program, ["operator", "--leader-elect"]);
        assert_eq!(parsed.time_limit, Duration::from_mins(20));
    }
}
