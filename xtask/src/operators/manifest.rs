//! The descriptions of the operators: `operator.json`, and the directories of workloads beside it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use crate::{Result, upstream::root};

/// The name of the file with the description.
const FILE: &str = "operator.json";

/// The placeholder for the directory of the operator's module.
const MODULE: &str = "{module}";

/// An operator to explore.
#[derive(Clone, Debug)]
pub(super) struct Operator {
    /// The name of its directory.
    pub(super) name: String,
    pub(super) directory: PathBuf,
    pub(super) manifest: Manifest,
}

/// The content of `operator.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Manifest {
    /// The Go module of the operator.
    pub(super) module: String,
    /// The package of its program.
    pub(super) program: String,
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Files and directories of CustomResourceDefinitions, relative to the directory. `{module}` is that of the module.
    pub(super) crds: Vec<String>,
    /// Removed API versions that the operator needs, such as `policy/v1beta1`.
    #[serde(default)]
    pub(super) runtime_config: Vec<String>,
    /// The pod whose environment the program gets instead of a kubeconfig, such as `default/operator`.
    pub(super) in_cluster: Option<String>,
    /// The number of simulated nodes.
    pub(super) nodes: usize,
    /// The number of simultaneous runs.
    pub(super) jobs: usize,
    /// The published bugs that must be found.
    pub(super) bugs: Vec<Bug>,
    /// The names of bugs of another version that must not be found in this one.
    #[serde(default)]
    pub(super) silent: Vec<String>,
    /// The findings that match no bug, and were examined.
    #[serde(default)]
    pub(super) examined: Vec<Examined>,
    /// The published bugs that are out of reach.
    #[serde(default)]
    pub(super) not_found: Vec<NotFound>,
}

/// A published bug.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Bug {
    pub(super) name: String,
    /// The URL of the issue.
    pub(super) published: String,
    /// The workload that reveals it.
    pub(super) workload: String,
    /// The texts that a finding must contain.
    pub(super) finding: Vec<String>,
    /// The texts that the plan of the finding must contain.
    #[serde(default)]
    pub(super) plan: Vec<String>,
}

/// A finding that was examined.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examined {
    /// A text that the finding contains.
    pub(super) finding: String,
    pub(super) verdict: Verdict,
    pub(super) reason: String,
}

/// The verdict on a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Verdict {
    /// The operator is wrong.
    #[serde(rename = "a defect")]
    Defect,
    /// The exploration is wrong.
    #[serde(rename = "a false finding")]
    False,
}

/// A published bug that is out of reach.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotFound {
    pub(super) name: String,
    pub(super) published: String,
    pub(super) reason: String,
}

/// Returns all operators, sorted by name.
pub(super) fn all() -> Result<Vec<Operator>> {
    let directory = root().join("tools/operators");
    let mut operators = Vec::new();
    for entry in fs::read_dir(&directory).map_err(|error| format!("reading {}: {error}", directory.display()))? {
        let entry = entry?;
        let path = entry.path();
        if path.is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            operators.push(Operator { name, manifest: read(&path.join(FILE))?, directory: path });
        }
    }
    operators.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(operators)
}

fn read(path: &Path) -> Result<Manifest> {
    let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

impl Operator {
    /// Returns the names of the workloads, or the one that is selected.
    pub(super) fn workloads(&self, selected: Option<&str>) -> Result<Vec<String>> {
        let all = self.directories()?;
        match selected {
            None => Ok(all),
            Some(name) if all.iter().any(|workload| workload == name) => Ok(vec![name.to_owned()]),
            Some(name) => Err(format!("{} has no workload {name:?}, only {}", self.name, all.join(", ")).into()),
        }
    }

    /// Returns the subdirectories except for those with CRDs.
    fn directories(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() && !self.manifest.crds.contains(&name) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns the paths of the CRDs.
    pub(super) fn crds(&self) -> Result<Vec<PathBuf>> {
        let crds = &self.manifest.crds;
        let module = if crds.iter().any(|path| path.contains(MODULE)) { self.module()? } else { String::new() };
        Ok(crds.iter().map(|path| self.directory.join(path.replace(MODULE, &module))).collect())
    }

    /// Returns the directory of the operator's module.
    fn module(&self) -> Result<String> {
        let module = &self.manifest.module;
        let mut list = Command::new("go");
        list.args(["list", "-m", "-f", "{{.Dir}}", module]).current_dir(&self.directory);
        let output = list.output().map_err(|error| format!("running go: {error}"))?;
        let directory = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() && !directory.is_empty() {
            return Ok(directory);
        }
        Err(format!("go list -m {module} in {}: {}", self.directory.display(), String::from_utf8_lossy(&output.stderr))
            .into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn operators_of_the_repository_are_valid() {
        let operators = all().unwrap();
        assert!(!operators.is_empty());
        let names: BTreeSet<_> =
            operators.iter().flat_map(|operator| &operator.manifest.bugs).map(|bug| &bug.name).collect();
        for operator in &operators {
            let Operator { name, directory, manifest } = operator;
            let workloads = operator.workloads(None).unwrap();
            assert!(!workloads.is_empty(), "{name} has no workload");
            for workload in &workloads {
                let steps = fs::read_dir(directory.join(workload)).unwrap().count();
                assert!(steps > 0, "{name}/{workload} has no steps");
            }
            for bug in &manifest.bugs {
                assert!(workloads.contains(&bug.workload), "{name}: {} has an unknown workload", bug.name);
                assert!(!bug.finding.is_empty(), "{name}: {} matches every finding", bug.name);
            }
            for silent in &manifest.silent {
                assert!(names.contains(silent), "{name}: no operator has the bug {silent}");
            }
            let module = fs::read_to_string(directory.join("go.mod")).unwrap();
            assert!(module.contains(&manifest.module) && module.contains("tool"), "{name}/go.mod pins no operator");
            assert!(manifest.program.starts_with(&manifest.module), "{name}: the program is in another module");
        }
    }

    #[test]
    fn errors_name_the_file_and_the_key() {
        let path = std::env::temp_dir().join(format!("windlass-operator-{}.json", std::process::id()));
        fs::write(&path, r#"{"module": "m", "prgram": "p"}"#).unwrap();
        let error = read(&path).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(error.contains(&*path.to_string_lossy()) && error.contains("`prgram`"), "{error}");
    }
}
