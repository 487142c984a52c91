//! Builds a project, and finds the programs in it.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    process::Stdio,
    time::SystemTime,
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{ChildStderr, Command},
};

use super::process::Process;
use crate::commands::announce;

/// The program of a project that writes its manifests.
const MANIFESTS: &str = "manifests";

/// The programs of a project, as they were built.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) manager: Program,
    pub(super) manifests: PathBuf,
}

/// An executable file, as it was at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    written: Option<SystemTime>,
}

impl Program {
    fn at(path: PathBuf) -> Self {
        let written = fs::metadata(&path).and_then(|file| file.modified()).ok();
        Self { path, written }
    }
}

/// Builds, and says where the programs are. What is wrong with the sources, cargo tells on standard error.
pub(super) async fn build(project: &Path, name: &str) -> Result<Built, String> {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut cargo = Command::new(&program);
    cargo.args(["build", "--message-format", "json-render-diagnostics"]);
    if io::stderr().is_terminal() {
        cargo.args(["--color", "always"]);
    }
    // Its progress is read: what it waits for is told, the rest is as it would be with --quiet.
    cargo.current_dir(project).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut building = Process::start(cargo).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "cargo is not there: it builds the manager".to_owned(),
        _ => format!("starting cargo: {error}"),
    })?;
    let mut told = String::new();
    let (output, errors) = (building.output(), building.errors());
    let results = async {
        match output {
            Some(mut output) => output.read_to_string(&mut told).await.map(drop),
            None => Ok(()),
        }
    };
    let mut shown = io::stderr();
    let read = tokio::try_join!(results, pass_on(errors, &mut shown));
    read.map_err(|error| format!("reading what cargo says: {error}"))?;
    let status = building.ended().await.map_err(|error| format!("waiting for cargo: {error}"))?;
    if !status.success() {
        return Err("the build failed".to_owned());
    }
    let mut programs = programs(&told);
    let manifests = programs.remove(MANIFESTS);
    let manifests =
        manifests.ok_or_else(|| format!("the project has no program {MANIFESTS}, which writes its definitions"))?;
    Ok(Built { manager: Program::at(manager(programs, name)?), manifests })
}

/// What cargo does, in the words that begin its lines about it.
const DOINGS: [&str; 12] = [
    "Adding",
    "Blocking",
    "Building",
    "Compiling",
    "Dirty",
    "Downloaded",
    "Downloading",
    "Finished",
    "Fresh",
    "Locking",
    "Running",
    "Updating",
];

/// What becomes of a line on cargo's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// The user's own code, and what is wrong with it.
    Shown,
    /// Another cargo works in the same folder, which this one waits for.
    Waiting,
    /// How far it is.
    Progress,
}

impl Line {
    fn of(line: &str) -> Self {
        let (plain, mut is_code) = (line.chars(), false);
        // Without the codes of colours: from an escape to a letter.
        let plain = plain.filter(|letter| {
            let was_code = is_code;
            is_code = *letter == '\u{1b}' || (is_code && !letter.is_ascii_alphabetic());
            !is_code && !was_code
        });
        let plain = plain.collect::<String>();
        // They end in the same column.
        let doing = plain.split_whitespace().next().filter(|word| plain.find(*word) == Some(12 - word.len().min(12)));
        match doing.filter(|word| DOINGS.contains(word)) {
            Some("Blocking") => Self::Waiting,
            Some(_) => Self::Progress,
            None => Self::Shown,
        }
    }
}

/// Passes on what concerns the user.
async fn pass_on(errors: Option<ChildStderr>, to: &mut impl io::Write) -> io::Result<()> {
    let Some(errors) = errors else { return Ok(()) };
    let mut lines = BufReader::new(errors).lines();
    while let Some(line) = lines.next_line().await? {
        match Line::of(&line) {
            Line::Shown => writeln!(to, "{line}")?,
            Line::Waiting => announce("waiting for another cargo, which builds in the same folder\n"),
            Line::Progress => {}
        }
    }
    Ok(())
}

/// The programs that cargo tells of, by name.
fn programs(told: &str) -> BTreeMap<String, PathBuf> {
    let messages = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = |message: Value| {
        let is_program =
            message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"));
        let (name, path) = (message["target"]["name"].as_str()?, message["executable"].as_str()?);
        is_program.then(|| (name.to_owned(), PathBuf::from(path)))
    };
    messages.filter_map(executable).collect()
}

/// The one with the project's name, or the only one.
fn manager(mut programs: BTreeMap<String, PathBuf>, name: &str) -> Result<PathBuf, String> {
    if let Some(path) = programs.remove(name) {
        return Ok(path);
    }
    if programs.len() == 1
        && let Some((_, path)) = programs.pop_first()
    {
        return Ok(path);
    }
    let there = programs.into_keys().collect::<Vec<_>>().join(", ");
    Err(format!("the manager is the program {name}, and the project has none of that name: {there}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_waits_for_is_told_from_progress_and_from_what_is_wrong() {
        for (line, is) in [
            ("    Blocking waiting for file lock on build directory", Line::Waiting),
            ("\u{1b}[1m\u{1b}[96m    Blocking\u{1b}[0m waiting for file lock on package cache", Line::Waiting),
            ("   Compiling shop-operator v0.1.0 (/shop)", Line::Progress),
            ("\u{1b}[1m\u{1b}[92m    Finished\u{1b}[0m `dev` profile", Line::Progress),
            ("warning: unused variable: `a`", Line::Shown),
            ("12 | Compiling", Line::Shown),
            ("     --> src/lib.rs:1:1", Line::Shown),
            ("", Line::Shown),
        ] {
            assert_eq!(Line::of(line), is, "{line:?}");
        }
    }

    #[test]
    fn programs_are_those_that_cargo_has_made() {
        let told = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"shop_operator"},"executable":null}
not json
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"manifests"},"executable":"/t/manifests","fresh":true}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"shop-operator"},"executable":"/t/shop-operator"}
{"reason":"compiler-artifact","target":{"kind":["custom-build"],"name":"build-script-build"},"executable":"/t/build"}
{"reason":"build-finished","success":true}"#;
        let mut found = programs(told);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["manifests", "shop-operator"]);
        assert_eq!(manager(found.clone(), "shop-operator").unwrap(), Path::new("/t/shop-operator"));
        assert!(manager(found.clone(), "other").unwrap_err().ends_with("none of that name: manifests, shop-operator"));
        found.remove("manifests");
        assert_eq!(manager(found, "other").unwrap(), Path::new("/t/shop-operator"), "the only one, whatever its name");
    }
}
