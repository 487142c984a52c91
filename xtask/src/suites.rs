//! Runs the unmodified integration tests of controller-runtime and of third-party operators on the stand-ins of
//! `windlass envtest-assets`, and on request on the real binaries.
//!
//! The tests come from the Go module proxy in pinned versions. They are built once, into the cache outside the clone.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    Result,
    envtest::{ASSETS, Assets},
    upstream,
};

/// A package of tests.
struct Suite {
    /// The end of the module's name, and the package.
    name: &'static str,
    module: &'static str,
    version: &'static str,
    package: &'static str,
    framework: Framework,
    /// The tests that are not run, as a pattern for `go test -skip`.
    skipped: &'static str,
}

/// The framework that the tests are written with, which decides how they report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framework {
    Go,
    Ginkgo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Servers {
    /// The stand-ins that `windlass envtest-assets` writes
    StandIns,
    /// The binaries of Kubernetes
    Real,
}

/// The report of one run of a suite.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    passed: usize,
    /// The names of the tests that failed.
    failed: Vec<String>,
}

/// A built suite.
struct Built {
    binary: PathBuf,
    /// The working directory of `go test`.
    directory: PathBuf,
}

/// The binaries of a server.
struct Binaries {
    servers: Servers,
    /// The name in the table.
    name: String,
    folder: PathBuf,
    /// Removes the folder of stand-ins on drop.
    _assets: Option<Assets>,
}

/// How to run the suites.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// The windlass to test
    windlass: PathBuf,
    /// Only the suites whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// The number of runs of each suite
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// The servers to use; some managers need the free port 8080
    #[arg(long, value_enum, default_values_t = [Servers::StandIns])]
    servers: Vec<Servers>,
    /// The minor version of the stand-ins; can be repeated
    #[arg(long, value_name = "MINOR")]
    kubernetes_version: Vec<String>,
}

const CONTROLLER_RUNTIME: (&str, &str) = ("sigs.k8s.io/controller-runtime", "v0.24.1");
const CLUSTER_API: (&str, &str) = ("sigs.k8s.io/cluster-api", "v1.13.6");
const JOBSET: (&str, &str) = ("sigs.k8s.io/jobset", "v0.12.0");
const LWS: (&str, &str) = ("sigs.k8s.io/lws", "v0.9.0");

const SUITES: [Suite; 23] = [
    suite("controller-runtime-builder", CONTROLLER_RUNTIME, "pkg/builder", Framework::Ginkgo),
    suite("controller-runtime-cache", CONTROLLER_RUNTIME, "pkg/cache", Framework::Ginkgo),
    suite("controller-runtime-client", CONTROLLER_RUNTIME, "pkg/client", Framework::Ginkgo),
    // The tests without aggregated discovery download the binaries of Kubernetes 1.28.
    suite("controller-runtime-client-apiutil", CONTROLLER_RUNTIME, "pkg/client/apiutil", Framework::Go)
        .skipping("/aggregatedDiscovery=false"),
    suite("controller-runtime-cluster", CONTROLLER_RUNTIME, "pkg/cluster", Framework::Ginkgo),
    suite("controller-runtime-controller", CONTROLLER_RUNTIME, "pkg/controller", Framework::Ginkgo),
    suite(
        "controller-runtime-controller-controllerutil",
        CONTROLLER_RUNTIME,
        "pkg/controller/controllerutil",
        Framework::Ginkgo,
    ),
    suite("controller-runtime-envtest", CONTROLLER_RUNTIME, "pkg/envtest", Framework::Ginkgo),
    suite("controller-runtime-handler", CONTROLLER_RUNTIME, "pkg/handler", Framework::Ginkgo),
    suite("controller-runtime-internal-controller", CONTROLLER_RUNTIME, "pkg/internal/controller", Framework::Ginkgo),
    suite("controller-runtime-internal-recorder", CONTROLLER_RUNTIME, "pkg/internal/recorder", Framework::Ginkgo),
    suite("controller-runtime-manager", CONTROLLER_RUNTIME, "pkg/manager", Framework::Ginkgo),
    suite(
        "controller-runtime-manager-internal-integration",
        CONTROLLER_RUNTIME,
        "pkg/manager/internal/integration",
        Framework::Ginkgo,
    ),
    suite("controller-runtime-metrics-filters", CONTROLLER_RUNTIME, "pkg/metrics/filters", Framework::Ginkgo),
    suite("controller-runtime-reconcile", CONTROLLER_RUNTIME, "pkg/reconcile", Framework::Ginkgo),
    suite("controller-runtime-source", CONTROLLER_RUNTIME, "pkg/source", Framework::Ginkgo),
    suite("controller-runtime-webhook", CONTROLLER_RUNTIME, "pkg/webhook", Framework::Ginkgo),
    suite("cluster-api-ssa", CLUSTER_API, "internal/util/ssa", Framework::Go),
    suite("cluster-api-crdmigrator", CLUSTER_API, "controllers/crdmigrator", Framework::Go),
    suite("jobset-webhook", JOBSET, "test/integration/webhook", Framework::Ginkgo),
    suite("jobset-controller", JOBSET, "test/integration/controller", Framework::Ginkgo),
    suite("lws-webhooks", LWS, "test/integration/webhooks", Framework::Ginkgo),
    suite("lws-controllers", LWS, "test/integration/controllers", Framework::Ginkgo),
];

/// The time after which a suite is stopped, and fails.
const TIMEOUT: &str = "-test.timeout=30m";

const fn suite(
    name: &'static str,
    (module, version): (&'static str, &'static str),
    package: &'static str,
    framework: Framework,
) -> Suite {
    Suite { name, module, version, package, framework, skipped: "" }
}

/// Runs the suites and prints a table of the results. Fails if a test fails on the stand-ins.
pub(crate) fn run(options: &Options) -> Result {
    let windlass = fs::canonicalize(&options.windlass)
        .map_err(|error| format!("cannot find {}: {error}", options.windlass.display()))?;
    let suites: Vec<&Suite> = SUITES.iter().filter(|suite| suite.name.contains(&options.only)).collect();
    if suites.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(format!("no suite contains {:?}; the suites are {}", options.only, names.join(", ")).into());
    }
    let binaries = options.binaries(&windlass)?;
    let mut failures = 0;
    println!("| suite | servers | run | passed | failed | time |\n|---|---|---|---|---|---|");
    for suite in suites {
        let built = suite.build()?;
        for run in 1..=options.runs {
            for Binaries { servers, name, folder, .. } in &binaries {
                let (report, took) = suite.run(&built, folder)?;
                let (failed, seconds) = (report.failed.len(), took.as_secs_f64());
                println!("| {} | {name} | {run} | {} | {failed} | {seconds:.1} s |", suite.name, report.passed);
                for failed in &report.failed {
                    println!("|  | {name} | {run} |  | {failed} |  |");
                }
                failures += if *servers == Servers::StandIns { failed } else { 0 };
            }
        }
    }
    if failures == 0 { Ok(()) } else { Err(format!("{failures} tests failed on the stand-ins").into()) }
}

// === impl Options ===

impl Options {
    /// Prepares the binaries of all selected servers.
    fn binaries(&self, windlass: &Path) -> Result<Vec<Binaries>> {
        let mut all = Vec::new();
        for servers in &self.servers {
            if *servers == Servers::Real {
                all.push(Binaries {
                    servers: *servers,
                    name: "real".into(),
                    folder: upstream::build()?,
                    _assets: None,
                });
                continue;
            }
            let mut stand_ins = |name: String, assets: Assets| {
                let folder = assets.path().to_owned();
                all.push(Binaries { servers: *servers, name, folder, _assets: Some(assets) });
            };
            if self.kubernetes_version.is_empty() {
                stand_ins("stand-ins".to_owned(), Assets::of(windlass)?);
            }
            for version in &self.kubernetes_version {
                stand_ins(format!("stand-ins {version}"), Assets::of_version(windlass, version)?);
            }
        }
        Ok(all)
    }
}

// === impl Suite ===

impl Suite {
    const fn skipping(self, skipped: &'static str) -> Self {
        Self { skipped, ..self }
    }

    /// Builds the suite, unless the cache has it.
    fn build(&self) -> Result<Built> {
        let source = self.download()?;
        let directory = upstream::cache()?.join("suites");
        fs::create_dir_all(&directory)?;
        let binary = directory.join(format!("{}-{}.test", self.name, self.version));
        if !binary.exists() {
            eprintln!("building {} {}, once", self.name, self.version);
            // The output has a temporary name until it is complete, so an aborted build leaves no broken file.
            let unfinished = directory.join(format!("{}.unfinished", self.name));
            let status = Command::new("go")
                .args(["test", "-c", "-buildvcs=false", "-o"])
                .arg(&unfinished)
                .arg(format!("./{}", self.package))
                .current_dir(&source)
                .status()
                .map_err(|error| format!("running go: {error}"))?;
            if !status.success() {
                return Err(format!("go test -c {}/{} failed ({status})", self.module, self.package).into());
            }
            fs::rename(&unfinished, &binary)?;
        }
        Ok(Built { binary, directory: source.join(self.package) })
    }

    /// Fetches the module and returns its folder.
    fn download(&self) -> Result<PathBuf> {
        let module = format!("{}@{}", self.module, self.version);
        let output =
            Command::new("go").args(["mod", "download", "-json", &module]).current_dir(env::temp_dir()).output();
        let output = output.map_err(|error| format!("running go: {error}"))?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let directory = answer["Dir"].as_str().map(PathBuf::from);
        Ok(directory.ok_or_else(|| format!("cannot download {module}: {}", answer["Error"]))?)
    }

    fn run(&self, built: &Built, assets: &Path) -> Result<(Report, Duration)> {
        let mut command = Command::new(&built.binary);
        command.args(["-test.v", TIMEOUT]).current_dir(&built.directory).env(ASSETS, assets);
        if self.framework == Framework::Ginkgo {
            command.arg("-ginkgo.no-color");
        }
        if !self.skipped.is_empty() {
            command.arg(format!("-test.skip={}", self.skipped));
        }
        let started = Instant::now();
        let output = command.output().map_err(|error| format!("running {}: {error}", built.binary.display()))?;
        let took = started.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        let mut report = self.framework.report(&text);
        if !output.status.success() && report.failed.is_empty() || report == Report::default() {
            report.failed.push(format!("the suite itself ({})", output.status));
        }
        if !report.failed.is_empty() {
            let log = env::temp_dir().join(format!("windlass-suite-{}-{}.log", self.name, std::process::id()));
            fs::write(&log, [&*output.stdout, &*output.stderr].concat())?;
            eprintln!("the output of {} is in {}", self.name, log.display());
        }
        Ok((report, took))
    }
}

// === impl Framework ===

impl Framework {
    /// Reads what a run has printed.
    fn report(self, text: &str) -> Report {
        match self {
            Self::Go => Report {
                passed: text.lines().filter(|line| line.starts_with("--- PASS: ")).count(),
                failed: text
                    .lines()
                    .filter_map(|line| line.trim_start().strip_prefix("--- FAIL: "))
                    .map(name)
                    .collect(),
            },
            Self::Ginkgo => {
                let summary = text.rsplit_once("\nRan ").map_or("", |(_, summary)| summary);
                let passed = summary.split(" Passed").next().and_then(|text| text.rsplit(' ').next()?.parse().ok());
                let listed = text.rsplit_once("\nSummarizing ").map_or("", |(_, failures)| failures);
                let failed = listed.lines().filter_map(|line| line.trim_start().strip_prefix("[FAIL] "));
                Report { passed: passed.unwrap_or_default(), failed: failed.map(str::to_owned).collect() }
            }
        }
    }
}

/// The name of a test without its time.
fn name(line: &str) -> String {
    line.split(" (").next().unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_tests_are_counted_with_their_parts() {
        let text = "=== RUN   TestA\n--- PASS: TestA (0.10s)\n    --- PASS: TestA/b (0.00s)\n--- FAIL: TestC (1.00s)\n    --- FAIL: TestC/d e (0.00s)\nFAIL\n";
        let failed = ["TestC", "TestC/d e"].map(str::to_owned).to_vec();
        assert_eq!(Framework::Go.report(text), Report { passed: 1, failed });
    }

    #[test]
    fn ginkgo_specs_are_counted_by_the_summary() {
        let text = "  [FAIL] on the way\n\nSummarizing 2 Failures:\n  [FAIL] A b\n  /x.go:1\n  [FAIL] C\n\nRan 5 of 6 Specs in 1.2 seconds\nFAIL! -- 3 Passed | 2 Failed | 0 Pending | 1 Skipped\n";
        let failed = ["A b", "C"].map(str::to_owned).to_vec();
        assert_eq!(Framework::Ginkgo.report(text), Report { passed: 3, failed });
        let text =
            "\nRan 6 of 6 Specs in 1.2 seconds\nSUCCESS! -- 6 Passed | 0 Failed | 0 Pending | 0 Skipped\n--- PASS: T\n";
        assert_eq!(Framework::Ginkgo.report(text), Report { passed: 6, failed: Vec::new() });
    }
}
