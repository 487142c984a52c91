//! Builds a project, and finds the programs in it.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::SystemTime,
};

use serde_json::Value;
use tokio::{io::AsyncReadExt as _, process::Command};

use super::process::Process;

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
    cargo.args(["build", "--quiet", "--message-format", "json-render-diagnostics"]);
    cargo.current_dir(project).stdout(Stdio::piped());
    let mut building = Process::start(cargo).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "cargo is not there: it builds the manager".to_owned(),
        _ => format!("starting cargo: {error}"),
    })?;
    let mut told = String::new();
    if let Some(mut output) = building.output() {
        output.read_to_string(&mut told).await.map_err(|error| format!("reading what cargo says: {error}"))?;
    }
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
