//! Runs `conformance/kubectl.sh` against the real control plane, with kube-controller-manager beside it and our simulated
//! nodes, since it has no machines; and against `windlass up`, where asked, to compare what kubectl prints.
//!
//! Names, times and addresses are taken out by the script. What else differs stands in
//! `conformance/kubectl/DIFFERENCES.md`, each with its reason; a difference that is listed and gone fails as well.

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

/// The program that simulates nodes on any cluster.
const NODES: &str = "simulated_nodes";

/// A child that ends with us.
#[derive(Debug)]
struct Killed(Child);

/// What kubectl printed, by the title of the check; the second of one title is `title (2)`.
type Transcript = BTreeMap<String, String>;

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `kubectl` is the program to use; without it, that of the control plane's version. `windlass` is compared.
///
/// What is printed depends on when controllers act, in the real control plane too. So a difference that is not as listed counts
/// when a second run, from scratch, shows it again.
pub(crate) fn run(kubectl: Option<&Path>, windlass: Option<&Path>) -> Result {
    let nodes = build_nodes()?;
    let Some(windlass) = windlass else { return real(kubectl, &nodes)?.checked() };
    let windlass = fs::canonicalize(windlass).map_err(|error| format!("{}: {error}", windlass.display()))?;
    let listed = fs::read_to_string(root().join("conformance/kubectl/DIFFERENCES.md"))?;
    let mut unexpected = both(kubectl, &nodes, &windlass, &listed)?;
    if !unexpected.is_empty() {
        println!("=== {} things are printed otherwise than listed: once more", unexpected.len());
        let again = both(kubectl, &nodes, &windlass, &listed)?;
        unexpected.retain(|title| again.contains(title));
    }
    if unexpected.is_empty() {
        return Ok(());
    }
    let titles = Vec::from_iter(unexpected).join(", ");
    Err(format!("kubectl prints otherwise than listed, twice: {titles}").into())
}

/// Runs the script against both, and gives the titles of what is printed otherwise than listed.
fn both(kubectl: Option<&Path>, nodes: &Path, windlass: &Path, listed: &str) -> Result<BTreeSet<String>> {
    let real = real(kubectl, nodes)?;
    let ours = script(&real.kubectl, Target::Windlass, |script| {
        script.arg(windlass);
    })?;
    // All is said before the first failure ends it.
    let unexpected = compare(&real.transcript, &ours.transcript, listed);
    real.checked().and(ours.checked()).and(Ok(unexpected))
}

/// Runs the script against a real control plane that is started for it.
fn real(kubectl: Option<&Path>, nodes: &Path) -> Result<Played> {
    let upstream = Upstream::start(Profile::Identity)?;
    let kubeconfig = upstream.kubeconfig();
    let kubectl = kubectl.map_or_else(|| upstream.kubectl(), Path::to_path_buf);
    let simulator = Command::new(nodes)
        .env("KUBECONFIG", &kubeconfig)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("starting {}: {error}", nodes.display()))?;
    let _simulator = Killed(simulator);
    script(&kubectl, Target::Real, |script| {
        script.env("KUBECONFIG", &kubeconfig);
    })
}

/// What the script was run against.
#[derive(Clone, Copy, Debug)]
enum Target {
    Real,
    Windlass,
}

/// A run of the script.
struct Played {
    target: Target,
    /// The program that was used.
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

    /// Where the transcript of the last run is kept, for whoever wants to read it.
    fn transcript(self) -> PathBuf {
        let name = match self {
            Self::Real => "real.txt",
            Self::Windlass => "windlass.txt",
        };
        target_directory().join("kubectl").join(name)
    }
}

impl Played {
    /// Whether its checks have passed.
    fn checked(&self) -> Result {
        if self.status.success() {
            return Ok(());
        }
        Err(format!("conformance/kubectl.sh failed against {} ({})", self.target.name(), self.status).into())
    }
}

/// Runs the script and takes what it wrote down.
fn script(kubectl: &Path, target: Target, prepare: impl FnOnce(&mut Command)) -> Result<Played> {
    let transcript = target.transcript();
    fs::create_dir_all(target_directory().join("kubectl"))?;
    // That of an earlier run would be appended to.
    fs::write(&transcript, "")?;
    println!("=== {}", target.name());
    let mut script = Command::new(root().join("conformance").join("kubectl.sh"));
    script.env("KUBECTL", kubectl).env("TRANSCRIPT", &transcript);
    prepare(&mut script);
    let status = script.status().map_err(|error| format!("running conformance/kubectl.sh: {error}"))?;
    let transcript = parse(&fs::read_to_string(transcript)?);
    Ok(Played { target, kubectl: kubectl.to_path_buf(), status, transcript })
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

/// Titles of the list `- \`title\`: reason`; one that ends in `*` stands for all that begin so.
fn listed_titles(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("- `")?.split_once("`:")).map(|(title, _)| title).collect()
}

/// The titles of what differs and is not listed, and of what is listed and does not differ.
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

fn build_nodes() -> Result<PathBuf> {
    let status = cargo()
        .args(["build", "--package", "windlass-controllers", "--example", NODES])
        .current_dir(root())
        .status()?;
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
    fn what_is_printed_differently_must_be_listed_and_what_is_listed_must_differ() {
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
