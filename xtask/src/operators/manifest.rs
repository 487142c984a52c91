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
    /// The Go module of the operator. Without one, its program is not built but passed with `--program`.
    pub(super) module: Option<String>,
    /// The package of its program in the module.
    pub(super) program: Option<String>,
    /// The release whose program is passed with `--program`.
    pub(super) release: Option<String>,
    #[serde(default)]
    pub(super) arguments: Vec<String>,
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Files and directories of CustomResourceDefinitions, relative to the directory. `{module}` is that of the module, or
    /// the one passed with `--source`.
    pub(super) crds: Vec<String>,
    /// Removed API versions that the operator needs, such as `policy/v1beta1`.
    #[serde(default)]
    pub(super) runtime_config: Vec<String>,
    /// The pod whose environment the program gets instead of a kubeconfig, such as `default/operator`.
    pub(super) in_cluster: Option<String>,
    /// The file with answers for pods, relative to the directory.
    pub(super) pod_answers: Option<String>,
    /// The number of simulated nodes.
    pub(super) nodes: usize,
    /// The number of simultaneous runs.
    pub(super) jobs: usize,
    /// Workloads of other versions, relative to the directory, such as `../rabbitmq/resize`.
    #[serde(default)]
    pub(super) workloads: Vec<String>,
    /// The published bugs that must be found.
    #[serde(default)]
    pub(super) bugs: Vec<Bug>,
    /// The bugs of other versions that must not be found in this one, as `directory/name`.
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

/// A directory of steps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) steps: PathBuf,
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

/// Returns the bug with the name `directory/name`.
pub(super) fn find<'o>(operators: &'o [Operator], name: &str) -> Option<&'o Bug> {
    let (directory, name) = name.split_once('/')?;
    let operator = operators.iter().find(|operator| operator.name == directory)?;
    operator.manifest.bugs.iter().find(|bug| bug.name == name)
}

fn read(path: &Path) -> Result<Manifest> {
    let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

impl Operator {
    /// Returns the workloads, or the one that is selected.
    pub(super) fn workloads(&self, selected: Option<&str>) -> Result<Vec<Workload>> {
        let mut all = self.directories()?;
        let Some(selected) = selected else { return Ok(all) };
        let names: Vec<_> = all.iter().map(|workload| workload.name.clone()).collect();
        all.retain(|workload| workload.name == selected);
        if all.is_empty() {
            return Err(format!("{} has no workload {selected:?}, only {}", self.name, names.join(", ")).into());
        }
        Ok(all)
    }

    /// Returns the subdirectories except for those with CRDs, and the workloads of other versions.
    fn directories(&self) -> Result<Vec<Workload>> {
        let mut workloads = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() && !self.manifest.crds.contains(&name) {
                workloads.push(Workload { name, steps: entry.path() });
            }
        }
        for path in &self.manifest.workloads {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            workloads.push(Workload { name, steps: self.directory.join(path) });
        }
        workloads.sort();
        Ok(workloads)
    }

    /// Returns the paths of the CRDs. `source` is the directory of the operator's module, if it is not that of Go.
    pub(super) fn crds(&self, source: Option<&Path>) -> Result<Vec<PathBuf>> {
        let crds = &self.manifest.crds;
        let module = match (crds.iter().any(|path| path.contains(MODULE)), source) {
            (false, _) => String::new(),
            (true, Some(source)) => std::path::absolute(source)?.to_string_lossy().into_owned(),
            (true, None) => self.module()?,
        };
        Ok(crds.iter().map(|path| self.directory.join(path.replace(MODULE, &module))).collect())
    }

    /// Returns the directory of the operator's module.
    fn module(&self) -> Result<String> {
        let Some(module) = &self.manifest.module else {
            return Err(format!("{}: pass the directory of the operator's source with --source", self.name).into());
        };
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
        for operator in &operators {
            let Operator { name, directory, manifest } = operator;
            let workloads = operator.workloads(None).unwrap();
            assert!(!workloads.is_empty(), "{name} has no workload");
            for Workload { name: workload, steps } in &workloads {
                let steps = fs::read_dir(steps).unwrap().count();
                assert!(steps > 0, "{name}/{workload} has no steps");
            }
            let names: BTreeSet<_> = workloads.iter().map(|workload| &workload.name).collect();
            assert_eq!(names.len(), workloads.len(), "{name} has two workloads of the same name");
            for bug in &manifest.bugs {
                assert!(names.contains(&bug.workload), "{name}: {} has an unknown workload", bug.name);
                assert!(!bug.finding.is_empty(), "{name}: {} matches every finding", bug.name);
            }
            for silent in &manifest.silent {
                let bug = find(&operators, silent).unwrap_or_else(|| panic!("{name}: {silent} is no bug"));
                assert!(names.contains(&bug.workload), "{name} lacks {}, the workload of {silent}", bug.workload);
            }
            match (&manifest.module, &manifest.program, &manifest.release) {
                (Some(module), Some(program), None) => {
                    let file = fs::read_to_string(directory.join("go.mod")).unwrap();
                    assert!(file.contains(module) && file.contains("tool"), "{name}/go.mod pins no operator");
                    assert!(program.starts_with(module), "{name}: the program is in another module");
                }
                (None, None, Some(_)) => assert!(!directory.join("go.mod").exists(), "{name} has a module"),
                _ => panic!("{name} needs either a module with a program, or a release"),
            }
        }
    }

    #[test]
    fn bugs_of_a_directory_are_found_by_their_full_name() {
        let manifest = |bug: &str| {
            let bug = serde_json::json!({"name": bug, "published": "", "workload": "w", "finding": ["pods"]});
            serde_json::from_value(serde_json::json!({"crds": [], "nodes": 1, "jobs": 1, "bugs": [bug]})).unwrap()
        };
        let operator = |name: &str, bug: &str| Operator {
            name: name.to_owned(),
            directory: PathBuf::new(),
            manifest: manifest(bug),
        };
        let operators = [operator("one", "stale-1"), operator("two", "stale-1"), operator("two-fixed", "stale-2")];
        assert!(find(&operators, "two/stale-1").is_some());
        for unknown in ["stale-1", "three/stale-1", "two/stale-2", "two/"] {
            assert!(find(&operators, unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn workloads_of_other_versions_are_listed_and_selected() {
        let manifest = serde_json::json!({"crds": ["crds"], "nodes": 1, "jobs": 1, "workloads": ["../other/resize"]});
        let directory = std::env::temp_dir().join(format!("windlass-workloads-{}", std::process::id()));
        for name in ["crds", "scale"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        let operator = Operator {
            name: "fixed".to_owned(),
            directory: directory.clone(),
            manifest: serde_json::from_value(manifest).unwrap(),
        };
        let all = operator.workloads(None);
        let selected = operator.workloads(Some("resize"));
        let unknown = operator.workloads(Some("recreate"));
        fs::remove_dir_all(&directory).unwrap();
        let resize = Workload { name: "resize".to_owned(), steps: directory.join("../other/resize") };
        let scale = Workload { name: "scale".to_owned(), steps: directory.join("scale") };
        assert_eq!(all.unwrap(), [resize.clone(), scale]);
        assert_eq!(selected.unwrap(), [resize]);
        let error = "fixed has no workload \"recreate\", only resize, scale";
        assert_eq!(unknown.unwrap_err().to_string(), error);
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
