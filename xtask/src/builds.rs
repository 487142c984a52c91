//! `cargo xtask long bench-build`: what a newcomer waits for. Measures the CPU time of first builds and of builds after
//! a change of one line, each in an empty target directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use crate::{
    Result,
    cargo::{cargo, succeed},
    dist::stranger::{self, Stranger},
    scaffold::Folder,
    upstream::root,
};

/// The same operator with each library: a kind, a finalizer, an owned object and a status.
const KUBE_OPERATOR: &str = "crates/windlass-scaffold/tests/kube-operator";
const WINDLASS_OPERATOR: &str = "bench/bucket-operator";
const SOURCES: [&str; 2] = ["src/main.rs", "src/api.rs"];

/// The unit of the times in `/proc`: Linux reports ticks of 10 ms to programs on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// The measured builds.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// Only these builds; can be repeated
    #[arg(long, value_enum)]
    only: Vec<Project>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Project {
    /// The first command of the README
    Demo,
    /// A scaffolded operator
    Scaffold,
    /// A small operator
    Windlass,
    /// The same operator with kube-rs
    Kube,
}

/// A build with the measured values.
struct Row {
    name: &'static str,
    cpu_seconds: f64,
    wall_seconds: f64,
    /// The size of the target directory afterwards.
    megabytes: u64,
}

/// Measures the builds and prints a Markdown table.
pub(crate) fn run(options: &Options) -> Result {
    let folder = Folder::new("builds")?;
    let is_chosen = |project| options.only.is_empty() || options.only.contains(&project);
    let mut rows = Vec::new();
    if is_chosen(Project::Demo) {
        rows.push(demo(&folder.project().join("windlass"))?);
    }
    if is_chosen(Project::Scaffold) || is_chosen(Project::Windlass) {
        // Released crates are compiled without incremental state, in contrast to those of a checkout.
        let stranger = Stranger::new()?;
        if is_chosen(Project::Scaffold) {
            succeed(cargo().args(["build", "--quiet", "--package=windlass-cli"]).current_dir(root()))?;
            let project = stranger.scaffolded(&root().join("target/debug/windlass"))?;
            rows.extend(operator(&project, "src/controller/website.rs", SCAFFOLDED)?);
        }
        if is_chosen(Project::Windlass) {
            let project = stranger.operator(&root().join(WINDLASS_OPERATOR), &SOURCES)?;
            rows.extend(operator(&project, "src/main.rs", WINDLASS)?);
            stranger::use_default_features(&project)?;
            rows.extend(operator(&project, "src/main.rs", WITH_DEFAULT_FEATURES)?);
        }
    }
    if is_chosen(Project::Kube) {
        rows.extend(operator(&kube_operator(&folder.project())?, "src/main.rs", KUBE)?);
    }
    println!("| build | CPU s | s | target/, MB |\n|---|---|---|---|");
    for Row { name, cpu_seconds, wall_seconds, megabytes } in rows {
        println!("| {name} | {cpu_seconds:.0} | {wall_seconds:.0} | {megabytes} |");
    }
    Ok(())
}

/// A measured command of an operator, and the name of its row.
#[derive(Clone, Copy)]
enum Measured {
    /// In an empty target directory.
    First(&'static str, &'static str),
    /// After a change of one line, in the target directory of the previous command.
    Changed(&'static str, &'static str),
}

use Measured::{Changed, First};

const SCAFFOLDED: &[Measured] = &[
    First("build", "scaffolded operator, first `cargo build`"),
    First("test", "scaffolded operator, first `cargo test`, with an API server"),
    Changed("test", "scaffolded operator, `cargo test` after a change of one line"),
];
const WINDLASS: &[Measured] = &[
    First("build", "small operator, first `cargo build`"),
    Changed("build", "small operator, `cargo build` after a change of one line"),
];
const WITH_DEFAULT_FEATURES: &[Measured] =
    &[First("build", "small operator with the default features of `windlass`, first `cargo build`")];
const KUBE: &[Measured] = &[
    First("build", "the same operator with kube-rs, first `cargo build`"),
    Changed("build", "the same operator with kube-rs, `cargo build` after a change of one line"),
];

/// Copies the operator with kube-rs and returns its folder.
fn kube_operator(folder: &Path) -> Result<PathBuf> {
    let project = folder.join("bucket-operator");
    fs::create_dir_all(project.join("src"))?;
    for file in SOURCES.iter().chain(&["Cargo.toml"]) {
        fs::copy(root().join(KUBE_OPERATOR).join(file), project.join(file))?;
    }
    // The versions of this workspace, which are downloaded already.
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
    Ok(project)
}

/// Measures the first command of the README in a new clone.
fn demo(clone: &Path) -> Result<Row> {
    succeed(Command::new("git").args(["clone", "--quiet", "--local"]).arg(root()).arg(clone))?;
    let mut demo = cargo();
    demo.args(["run", "--quiet", "--release", "--locked", "--", "demo", "--no-color", "--speed", "10"]);
    let row = measured("first command of the README, in a new clone", demo.current_dir(clone), &clone.join("target"))?;
    fs::remove_dir_all(clone)?;
    Ok(row)
}

/// Measures the builds of an operator. `source` is the file with the changed line.
fn operator(project: &Path, source: &str, commands: &[Measured]) -> Result<Vec<Row>> {
    let target = project.join("target");
    let mut rows = Vec::new();
    for command in commands {
        let (command, name) = match *command {
            First(command, name) => {
                if target.exists() {
                    fs::remove_dir_all(&target)?;
                }
                (command, name)
            }
            Changed(command, name) => {
                let path = project.join(source);
                let text = fs::read_to_string(&path)?;
                fs::write(&path, format!("{text}\n#[doc(hidden)]\npub const CHANGED: u32 = 1;\n"))?;
                (command, name)
            }
        };
        let mut cargo = cargo();
        rows.push(measured(name, cargo.args([command, "--quiet"]).current_dir(project), &target)?);
    }
    fs::remove_dir_all(&target)?;
    Ok(rows)
}

/// Runs a command and measures it with its child processes.
fn measured(name: &'static str, command: &mut Command, target: &Path) -> Result<Row> {
    println!("{name}: running");
    let (before, begun) = (children()?, Instant::now());
    succeed(command.stdout(Stdio::null()))?;
    let (cpu_seconds, wall_seconds) = (children()? - before, begun.elapsed().as_secs_f64());
    let megabytes = size(target)? / 1_000_000;
    println!("{name}: {cpu_seconds:.1} CPU seconds, {wall_seconds:.1} s, {megabytes} MB");
    Ok(Row { name, cpu_seconds, wall_seconds, megabytes })
}

/// Returns the CPU seconds of all child processes that have exited.
pub(crate) fn children() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The second field is the name in parentheses, which may contain spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let mut ticks = 0.0;
    for field in fields.skip(13).take(2) {
        ticks += field.parse::<f64>()?;
    }
    Ok(ticks / TICKS_PER_SECOND)
}

/// Returns the size of the files in a directory. Hard links count once each.
fn size(directory: &Path) -> Result<u64> {
    let mut total = 0;
    let mut left = vec![PathBuf::from(directory)];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                left.push(entry.path());
            } else {
                total += metadata.len();
            }
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_a_child_is_counted() {
        let before = children().unwrap();
        let mut spin = Command::new("sh");
        succeed(spin.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])).unwrap();
        assert!(children().unwrap() > before);
    }
}
