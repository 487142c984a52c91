//! Builds a project and finds its programs.

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
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{ChildStderr, Command},
};

use super::process::Process;

/// The name of the project's program that writes its manifests.
const MANIFESTS: &str = "manifests";

/// The built programs of a project.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) manager: Program,
    pub(super) manifests: PathBuf,
}

/// An executable file at a point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    written: Option<SystemTime>,
}

impl Program {
    pub(super) fn at(path: PathBuf) -> Self {
        let written = fs::metadata(&path).and_then(|file| file.modified()).ok();
        Self { path, written }
    }
}

/// Builds the project and returns its programs.
pub(super) async fn build(project: &Path, name: &str) -> Result<Built, String> {
    let mut programs = compile(project, &["--lib", "--bins"]).await?;
    let manifests = take_manifests(&mut programs)?;
    Ok(Built { manager: Program::at(manager(programs, name)?), manifests })
}

/// Builds the program that writes the manifests, and returns its path.
pub(in crate::commands) async fn build_manifests(project: &Path) -> Result<PathBuf, String> {
    take_manifests(&mut compile(project, &["--bin", MANIFESTS]).await?)
}

fn take_manifests(programs: &mut BTreeMap<String, PathBuf>) -> Result<PathBuf, String> {
    let manifests = programs.remove(MANIFESTS);
    manifests.ok_or_else(|| format!("the project has no program {MANIFESTS} to write its manifests"))
}

/// Builds targets of the project and returns the programs among them. Compiler errors are printed to standard error.
///
/// The examples are built as well, although a generated project has none. This makes cargo enable the features of the
/// dev-dependencies, as for `cargo test`, so that both share one build. Otherwise each would compile every crate that
/// has more features in tests.
async fn compile(project: &Path, targets: &[&str]) -> Result<BTreeMap<String, PathBuf>, String> {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut cargo = Command::new(&program);
    cargo.arg("build").args(targets).args(["--examples", "--message-format", "json-render-diagnostics"]);
    // On a terminal, cargo shows its progress, because the first build takes minutes. Otherwise its lines are
    // forwarded.
    let shown = if io::stderr().is_terminal() { Stdio::inherit() } else { Stdio::piped() };
    cargo.current_dir(project).stdout(Stdio::piped()).stderr(shown);
    let mut building = Process::start(cargo).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "cargo is not installed; it is required to build the project".to_owned(),
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
    read.map_err(|error| format!("reading cargo's output: {error}"))?;
    let status = building.ended().await.map_err(|error| format!("waiting for cargo: {error}"))?;
    if !status.success() {
        return Err("the build failed".to_owned());
    }
    Ok(programs(&told))
}

/// The start of cargo's message that another cargo process has locked the folder.
const WAITS: &str = "    Blocking waiting for";

/// Forwards cargo's messages, and reports once that it waits for another process.
async fn pass_on(errors: Option<ChildStderr>, to: &mut impl io::Write) -> io::Result<()> {
    match errors {
        Some(errors) => pass_on_lines(errors, to).await,
        None => Ok(()),
    }
}

async fn pass_on_lines(errors: impl AsyncRead + Unpin, to: &mut impl io::Write) -> io::Result<()> {
    let (mut lines, mut has_told) = (BufReader::new(errors).lines(), false);
    while let Some(line) = lines.next_line().await? {
        if !line.starts_with(WAITS) {
            writeln!(to, "{line}")?;
        } else if !has_told {
            has_told = true;
            writeln!(to, "waiting for another cargo process that builds in the same folder")?;
        }
    }
    Ok(())
}

/// Returns the programs in cargo's messages, by name.
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

/// Returns the program with the project's name, or the only one.
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
    Err(format!("the project has no program {name} to run as the manager, only: {there}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cargo_progress_is_shown_and_waits_printed_once() {
        let told = "    Blocking waiting for file lock on package cache
    Blocking waiting for file lock on build directory
   Compiling shop-operator v0.1.0 (/shop)
warning: unused variable: `a`
";
        let mut shown = Vec::new();
        pass_on_lines(told.as_bytes(), &mut shown).await.unwrap();
        let expected = "waiting for another cargo process that builds in the same folder
   Compiling shop-operator v0.1.0 (/shop)
warning: unused variable: `a`
";
        assert_eq!(String::from_utf8(shown).unwrap(), expected);
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
        assert!(manager(found.clone(), "other").unwrap_err().ends_with("manager, only: manifests, shop-operator"));
        found.remove("manifests");
        assert_eq!(manager(found, "other").unwrap(), Path::new("/t/shop-operator"), "the only program, with any name");
    }
}
