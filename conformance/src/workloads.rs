//! Scenarios for the controllers of workloads, and their results.
//!
//! `workloads/` contains the scenarios, one file per kind. `recorded/workloads/` contains the results of the real
//! kube-controller-manager, written by `cargo xtask long workloads --record`. There are no nodes: the scenario sets the
//! status of pods. Objects and events are compared when the cluster is idle.

mod kinds;
mod metrics;
mod play;
mod scenario;
mod transcript;

use std::path::{Path, PathBuf};

pub use metrics::define;
pub use play::play;
pub use scenario::Scenario;

/// The environment variable with the kubeconfig of a real server with kube-controller-manager.
pub const WORKLOADS: &str = "WINDLASS_WORKLOADS_KUBECONFIG";

/// The environment variable that selects a single file of scenarios for the real controllers.
pub const ONLY: &str = "WINDLASS_WORKLOADS_ONLY";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the names of the scenario files.
///
/// # Panics
///
/// If there are none.
#[must_use]
pub fn workloads() -> Vec<String> {
    let folder = folder().join("workloads");
    let files = std::fs::read_dir(&folder).expect("there are scenarios");
    let names = files.filter_map(|file| file.ok()?.file_name().to_str()?.strip_suffix(".txt").map(str::to_owned));
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert!(!names.is_empty(), "{} is empty", folder.display());
    names
}

/// Returns the scenarios of a file.
///
/// # Panics
///
/// If the file cannot be read or parsed.
#[must_use]
pub fn scenarios(name: &str) -> Vec<Scenario> {
    let path = folder().join("workloads").join(format!("{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Scenario::read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the titles of a file's scenarios whose result differs from the recording, according to `WORKLOADS.md`.
///
/// # Panics
///
/// If the list cannot be read.
#[must_use]
pub fn known_differences(name: &str) -> Vec<String> {
    let path = folder().join("WORKLOADS.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`: "));
    let titles = lines.filter_map(|(scenario, _)| scenario.strip_prefix(name)?.strip_prefix('/').map(str::to_owned));
    titles.collect()
}

/// Returns the titles of the scenarios of a file whose events depend on the order of tasks, from `conformance/WORKLOADS.md`.
///
/// # Panics
///
/// If the list cannot be read.
#[must_use]
pub fn unsteady(name: &str) -> Vec<String> {
    let path = folder().join("WORKLOADS.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, list) = text.split_once("\n## Events that vary\n").expect("the list has its heading");
    let scenarios = list.lines().filter_map(|line| Some(line.strip_prefix("* `")?.split_once("`: ")?.0));
    scenarios.filter_map(|scenario| Some(scenario.strip_prefix(name)?.strip_prefix('/')?.to_owned())).collect()
}

fn recording(name: &str) -> PathBuf {
    folder().join("recorded/workloads").join(format!("{name}.txt"))
}

/// Returns the recorded results of a file's scenarios, by title.
///
/// # Panics
///
/// If there is no recording.
#[must_use]
pub fn recorded(name: &str) -> Vec<(String, String)> {
    let path = recording(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parts = text.split("\n=== ").map(|part| part.trim_start_matches("=== "));
    let parts = parts.filter_map(|part| part.split_once('\n'));
    parts.map(|(title, body)| (title.to_owned(), body.trim_end().to_owned())).collect()
}

/// Writes the results of a file's scenarios as the recording.
///
/// # Panics
///
/// If the file cannot be written.
pub fn record(name: &str, played: &[(String, String)]) {
    let text: String = played.iter().map(|(title, body)| format!("=== {title}\n{}\n", body.trim_end())).collect();
    let path = recording(name);
    std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the folder can be made");
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
