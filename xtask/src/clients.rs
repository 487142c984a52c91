//! Runs unmodified client-go programs (`conformance/clients`) with `windlass up`, and on request with the real control
//! plane.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    embedded::Embedded,
    upstream::{Profile, Upstream, root},
};

/// The runs, each in its own process: client-go reads its feature gates from the environment once.
const RUNS: &[Run] = &[
    Run { programs: &["typed", "apply", "election"], watch_list: None },
    Run { programs: &["informers", "dynamic", "metadata"], watch_list: Some("true") },
    Run { programs: &["informers", "dynamic", "metadata"], watch_list: Some("false") },
];

/// The run that needs the answers for pods in [`ANSWERS`]. The real control plane has no containers.
const CONTAINERS: Run = Run { programs: &["containers"], watch_list: None };
const ANSWERS: &str = "conformance/clients/pod-answers.yaml";

/// The feature gate for streaming lists in informers.
const WATCH_LIST: &str = "KUBE_FEATURE_WatchListClient";

struct Run {
    programs: &'static [&'static str],
    /// The value of that gate. `None` selects client-go's default.
    watch_list: Option<&'static str>,
}

/// Builds the programs and runs them. `windlass` is the binary to test.
pub(crate) fn run(windlass: &Path, with_upstream: bool) -> Result {
    let programs = build("clients")?;
    let answers = root().join(ANSWERS);
    let embedded = Embedded::start(windlass, &["--pod-answers", &answers.to_string_lossy()])?;
    let runs = RUNS.iter().chain([&CONTAINERS]);
    let mut failed = against("windlass", &programs, &embedded.kubeconfig(), runs)?;
    drop(embedded);
    if with_upstream {
        let upstream = Upstream::start(Profile::Identity)?;
        failed += against("the real control plane", &programs, &upstream.kubeconfig(), RUNS)?;
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} runs of client-go programs failed").into()) }
}

/// Builds a Go module of `conformance/` into cargo's target directory.
pub(crate) fn build(module: &str) -> Result<PathBuf> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let programs = target.join("clients").join(module);
    let status = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(&programs)
        .arg(".")
        .current_dir(root().join("conformance").join(module))
        .status()
        .map_err(|error| format!("running go: {error}"))?;
    if status.success() { Ok(programs) } else { Err(format!("go build conformance/{module} failed ({status})").into()) }
}

/// Runs all programs, also after a failure, and returns the number of runs.
fn against<'r>(
    server: &str,
    programs: &Path,
    kubeconfig: &Path,
    runs: impl IntoIterator<Item = &'r Run>,
) -> Result<usize> {
    let mut failed = 0;
    for run in runs {
        let gate = run.watch_list.map(|value| (WATCH_LIST, value));
        println!(
            "client-go against {server}{}",
            gate.map(|(name, value)| format!(", {name}={value}")).unwrap_or_default()
        );
        let status = Command::new(programs)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(run.programs)
            .envs(gate)
            .status()
            .map_err(|error| format!("running {}: {error}", programs.display()))?;
        failed += usize::from(!status.success());
    }
    Ok(failed)
}
