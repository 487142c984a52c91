//! Runs `conformance/kubectl.sh` with the real control plane, kube-controller-manager and our simulated nodes. On
//! request it also runs the script with `windlass up` and compares kubectl's output.
//!
//! The script removes names, times and addresses. `conformance/kubectl/DIFFERENCES.md` lists the other differences with
//! their reasons. A listed difference that no longer exists is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::{
    Result,
    cargo::cargo,
    upstream::{Profile, Upstream, root},
};

/// The program that simulates nodes for any cluster.
const NODES: &str = "simulated_nodes";

/// A child process that is killed on drop.
#[derive(Debug)]
pub(crate) struct KilledOnDrop(Child);

/// kubectl's output by check title. The second check with the same title is `title (2)`.
type Transcript = BTreeMap<String, String>;

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // The process may have exited already, so the error is ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the script. `kubectl` is the program to use; it defaults to the control plane's version. `windlass` is the
/// binary to compare. `nodes` is the program that simulates nodes; by default it is built.
///
/// The output depends on the timing of the controllers, also with the real control plane. So an unlisted difference
/// counts only if a second run, from scratch, shows it again.
pub(crate) fn run(kubectl: Option<&Path>, windlass: Option<&Path>, nodes: Option<PathBuf>) -> Result {
    let nodes = nodes.map_or_else(build_nodes, Ok)?;
    let Some(windlass) = windlass else { return real(kubectl, &nodes)?.checked() };
    let windlass = fs::canonicalize(windlass).map_err(|error| format!("{}: {error}", windlass.display()))?;
    let listed = fs::read_to_string(root().join("conformance/kubectl/DIFFERENCES.md"))?;
    let mut unexpected = both(kubectl, &nodes, &windlass, &listed)?;
    if !unexpected.is_empty() {
        println!("=== {} unlisted differences: running again", unexpected.len());
        let again = both(kubectl, &nodes, &windlass, &listed)?;
        unexpected.retain(|title| again.contains(title));
    }
    if unexpected.is_empty() {
        return Ok(());
    }
    let titles = Vec::from_iter(unexpected).join(", ");
    Err(format!("kubectl printed unlisted differences, twice: {titles}").into())
}

/// Runs the script with both, and returns the titles with unexpected output.
fn both(kubectl: Option<&Path>, nodes: &Path, windlass: &Path, listed: &str) -> Result<BTreeSet<String>> {
    let real = real(kubectl, nodes)?;
    let ours = script(&real.kubectl, Target::Windlass, |script| {
        script.arg(windlass);
    })?;
    // Prints all differences before the first failure ends the run.
    let unexpected = compare(&real.transcript, &ours.transcript, listed);
    real.checked().and(ours.checked()).and(Ok(unexpected))
}

/// Runs the script with a new real control plane.
fn real(kubectl: Option<&Path>, nodes: &Path) -> Result<ScriptRun> {
    let upstream = Upstream::start(Profile::Identity)?;
    let kubeconfig = upstream.kubeconfig();
    let kubectl = kubectl.map_or_else(|| upstream.kubectl(), Path::to_path_buf);
    let _simulator = simulate_nodes(nodes, &kubeconfig)?;
    script(&kubectl, Target::Real, |script| {
        script.env("KUBECONFIG", &kubeconfig);
    })
}

/// The control plane of a run.
#[derive(Clone, Copy, Debug)]
enum Target {
    Real,
    Windlass,
}

/// A run of the script.
struct ScriptRun {
    target: Target,
    /// The kubectl that was used.
    kubectl: PathBuf,
    status: ExitStatus,
    transcript: Transcript,
}

impl Target {
    const fn name(self) -> &'static str {
        match self {
            Self::Real => "the real control plane",
            Self::Windlass => "windlass",
        }
    }

    /// Returns the path of the last run's transcript, which is retained for inspection.
    fn transcript(self) -> PathBuf {
        let name = match self {
            Self::Real => "real.txt",
            Self::Windlass => "windlass.txt",
        };
        target_directory().join("kubectl").join(name)
    }
}

impl ScriptRun {
    /// Returns an error if a check failed.
    fn checked(&self) -> Result {
        if self.status.success() {
            return Ok(());
        }
        Err(format!("conformance/kubectl.sh failed against {} ({})", self.target.name(), self.status).into())
    }
}

/// Runs the script and reads its transcript.
fn script(kubectl: &Path, target: Target, prepare: impl FnOnce(&mut Command)) -> Result<ScriptRun> {
    let transcript = target.transcript();
    fs::create_dir_all(target_directory().join("kubectl"))?;
    // The script appends to the file, so an earlier transcript must be removed.
    fs::write(&transcript, "")?;
    println!("=== {}", target.name());
    let mut script = Command::new(root().join("conformance").join("kubectl.sh"));
    script.env("KUBECTL", kubectl).env("TRANSCRIPT", &transcript);
    prepare(&mut script);
    let status = script.status().map_err(|error| format!("running conformance/kubectl.sh: {error}"))?;
    let transcript = parse(&fs::read_to_string(transcript)?);
    Ok(ScriptRun { target, kubectl: kubectl.to_path_buf(), status, transcript })
}

fn parse(text: &str) -> Transcript {
    let mut found = Transcript::new();
    for section in text.split("=== ").skip(1) {
        let (title, printed) = section.split_once('\n').unwrap_or((section, ""));
        let mut key = title.to_owned();
        let mut count = 1;
        while found.contains_key(&key) {
            count += 1;
            key = format!("{title} ({count})");
        }
        found.insert(key, printed.to_owned());
    }
    found
}

/// Parses the titles of the list `- \`title\`: reason`. A title that ends in `*` matches all titles with this prefix.
fn listed_titles(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`:")).map(|(title, _)| title).collect()
}

/// Returns the titles that differ but are not listed, and the listed titles that do not differ.
fn compare(real: &Transcript, ours: &Transcript, listed: &str) -> BTreeSet<String> {
    let listed = listed_titles(listed);
    let covers = |pattern: &str, title: &str| match pattern.strip_suffix('*') {
        Some(beginning) => title.starts_with(beginning),
        None => pattern == title,
    };
    let titles: BTreeSet<_> = real.keys().chain(ours.keys()).collect();
    let differing: Vec<_> = titles.iter().filter(|title| real.get(**title) != ours.get(**title)).collect();
    let mut unexpected = BTreeSet::new();
    for title in differing.iter().filter(|title| !listed.iter().any(|pattern| covers(pattern, title))) {
        let shown = |side: &Transcript| side.get(**title).map_or("(not run)", |printed| printed.as_str()).to_owned();
        println!("DIFFERENT {title}\n--- the real control plane\n{}--- windlass\n{}", shown(real), shown(ours));
        unexpected.insert((**title).clone());
    }
    for pattern in listed.iter().filter(|pattern| !differing.iter().any(|title| covers(pattern, title))) {
        println!("NO LONGER DIFFERENT {pattern}: take it off the list");
        unexpected.insert(format!("{pattern} (listed)"));
    }
    println!("{} checks, {} printed differently, {} lines in the list", titles.len(), differing.len(), listed.len());
    unexpected
}

/// Starts the program that simulates nodes.
pub(crate) fn simulate_nodes(nodes: &Path, kubeconfig: &Path) -> Result<KilledOnDrop> {
    let simulator = Command::new(nodes).env("KUBECONFIG", kubeconfig).stdin(Stdio::null()).spawn();
    Ok(KilledOnDrop(simulator.map_err(|error| format!("starting {}: {error}", nodes.display()))?))
}

/// Builds the program that simulates nodes.
pub(crate) fn build_nodes() -> Result<PathBuf> {
    let status = cargo().args(["build", "--workspace", "--example", NODES]).current_dir(root()).status()?;
    if !status.success() {
        return Err(format!("building the example {NODES} failed ({status})").into());
    }
    Ok(target_directory().join("debug").join("examples").join(NODES))
}

fn target_directory() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_in_output_equal_the_listed_ones() {
        let real = parse("=== get\na\n=== get\nb\n=== explain x\nprose\n");
        let ours = parse("=== get\na\n=== get\nc\n=== explain x\n");
        assert_eq!(real.keys().collect::<Vec<_>>(), ["explain x", "get", "get (2)"]);
        let unexpected = |listed: &str| Vec::from_iter(compare(&real, &ours, listed));
        assert!(unexpected("- `get (2)`: a reason\n- `explain *`: prose\n").is_empty());
        assert_eq!(unexpected("- `explain *`: prose\n"), ["get (2)"]);
        let gone = "- `get (2)`: a reason\n- `explain *`: prose\n- `get`: gone\n";
        assert_eq!(unexpected(gone), ["get (listed)"]);
    }
}
