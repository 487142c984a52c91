//! The steps of a scenario, and the files that contain them.
//!
//! A directory contains one file per step. Its name begins with a number, and the steps run in the order of the numbers.
//! The end of the name decides how the file is used:
//!
//! | file | action |
//! |---|---|
//! | `*.yaml` | applies each document as the field manager `windlass-explore-steps`, with force |
//! | `*.patch.yaml` | merges each document into the object with its `apiVersion`, `kind` and `metadata.name` |
//! | `*.status.yaml` | the same for the subresource `status` |
//! | `*.delete.yaml` | deletes the object that each document names, and waits until it is gone |
//! | `*.wait.yaml` | waits until the object that each document names meets its `condition`, or with `absent: true`, until it is gone |
//! | an executable file | runs with an administrator's `KUBECONFIG`; the step fails if the exit code is not 0 |
//!
//! `.yml` and `.json` are the same as `.yaml`. Hidden files, directories and `*.md` are ignored. A condition is a CEL
//! expression with the variable `object`. An expression that cannot be evaluated, because a field does not exist yet, is
//! not met. Objects without `metadata.namespace` are in the namespace `default`.
//!
//! Each step has a time limit. A step that does not end in time fails.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, Result},
    plan::Mutation,
};

mod condition;
mod crds;
mod execution;
mod manifest;
mod mutation;

use self::{condition::Condition, manifest::Document};
pub(crate) use self::{
    crds::crds,
    execution::{Executor, Failure},
    mutation::{Applied, applied, with_manifest},
};

/// A step of a scenario.
#[derive(Clone, Debug)]
pub struct Step {
    name: String,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Apply(Vec<Document>),
    Patch(Vec<Document>),
    PatchStatus(Vec<Document>),
    Delete(Vec<Document>),
    Wait(Vec<(Document, Condition)>),
    Execute(PathBuf),
    /// Changes a field of an object.
    Mutate(Box<Target>),
    /// Reverts the change of an earlier step.
    Revert(Box<Target>),
}

/// The object that a mutation changes.
#[derive(Clone, Debug)]
struct Target {
    document: Document,
    mutation: Mutation,
}

impl Step {
    /// Creates a step that applies the documents of a manifest with server-side apply.
    ///
    /// # Errors
    ///
    /// If the manifest is invalid.
    pub fn apply(name: impl Into<String>, manifest: &str) -> Result<Self> {
        Self::of(name.into(), manifest, |documents| Ok(Action::Apply(documents)))
    }

    /// Creates a step that merges each document into the object that it names.
    ///
    /// # Errors
    ///
    /// If the manifest is invalid.
    pub fn patch(name: impl Into<String>, manifest: &str) -> Result<Self> {
        Self::of(name.into(), manifest, |documents| Ok(Action::Patch(documents)))
    }

    /// Creates a step that merges each document into the status of the object that it names.
    ///
    /// # Errors
    ///
    /// If the manifest is invalid.
    pub fn patch_status(name: impl Into<String>, manifest: &str) -> Result<Self> {
        Self::of(name.into(), manifest, |documents| Ok(Action::PatchStatus(documents)))
    }

    /// Creates a step that deletes the objects that the documents name, and waits until they are gone.
    ///
    /// # Errors
    ///
    /// If the manifest is invalid.
    pub fn delete(name: impl Into<String>, manifest: &str) -> Result<Self> {
        Self::of(name.into(), manifest, |documents| Ok(Action::Delete(documents)))
    }

    /// Creates a step that waits for the objects that the documents name. Each document has either `condition`, a CEL
    /// expression with the variable `object`, or `absent: true`.
    ///
    /// ```
    /// use windlass_explore::Step;
    ///
    /// let ready = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n\
    ///              condition: object.status.readyReplicas == 3";
    /// assert!(Step::wait("ready", ready).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// If the manifest or a condition is invalid.
    pub fn wait(name: impl Into<String>, manifest: &str) -> Result<Self> {
        let with_condition = |document: Document| match Condition::of(&document) {
            Ok(condition) => Ok((document, condition)),
            Err(reason) => Err(format!("line {}: {reason}", document.line)),
        };
        Self::of(name.into(), manifest, |documents| {
            documents.into_iter().map(with_condition).collect::<Result<_, _>>().map(Action::Wait)
        })
    }

    /// Creates a step that runs a program with an administrator's `KUBECONFIG`.
    #[must_use]
    pub fn execute(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), action: Action::Execute(program.into()) }
    }

    /// Reads a step from a file. The end of its name decides how it is used: `.patch.yaml`, `.status.yaml`,
    /// `.delete.yaml`, `.wait.yaml`, or `.yaml` for a manifest to apply. Other files must be executable.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = ["yaml", "yml", "json"].iter().find_map(|extension| name.strip_suffix(&format!(".{extension}")));
        let Some(stem) = stem else {
            let program = std::path::absolute(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
            return if is_executable(path)? {
                Ok(Self::execute(name, program))
            } else {
                let reason = "it is neither a manifest (*.yaml) nor executable".to_owned();
                Err(Error::Invalid { path: path.to_owned(), reason })
            };
        };
        let read = match stem.rsplit_once('.').map(|(_, action)| action) {
            Some("patch") => Self::patch,
            Some("status") => Self::patch_status,
            Some("delete") => Self::delete,
            Some("wait") => Self::wait,
            _ => Self::apply,
        };
        read(name, &read_text(path)?).map_err(|error| match error {
            Error::Invalid { reason, .. } => Error::Invalid { path: path.to_owned(), reason },
            error => error,
        })
    }

    /// Returns the name of the step: the name of its file, or the name that was passed to its constructor.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the executable of a step that runs one.
    pub(crate) fn executable(&self) -> Option<&Path> {
        match &self.action {
            Action::Execute(path) => Some(path),
            _ => None,
        }
    }

    /// Returns a description of the change if the step makes or reverts a mutation.
    pub(crate) fn mutated(&self) -> Option<String> {
        match &self.action {
            Action::Mutate(target) => Some(target.mutation.explained()),
            Action::Revert(target) => Some(format!("{} is set back", target.mutation.path.join("."))),
            _ => None,
        }
    }

    /// Creates a step of documents. The place in the errors is the name of the step.
    fn of(name: String, manifest: &str, action: impl FnOnce(Vec<Document>) -> Result<Action, String>) -> Result<Self> {
        let documents = manifest::read(manifest).and_then(|documents| {
            if documents.is_empty() { Err("it has no documents".to_owned()) } else { action(documents) }
        });
        match documents {
            Ok(action) => Ok(Self { name, action }),
            Err(reason) => Err(Error::Invalid { path: name.into(), reason }),
        }
    }
}

/// Reads the steps of a directory, in the order of the numbers with which their names begin.
pub(crate) fn steps(directory: &Path) -> Result<Vec<Step>> {
    let mut files = Vec::new();
    for path in sorted_files(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if Path::new(&*name).extension().is_some_and(|extension| extension == "md") {
            continue;
        }
        let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
        let Ok(number) = digits.parse::<u64>() else {
            let reason = "the name of a step begins with its number, such as 010-create.yaml".to_owned();
            return Err(Error::Invalid { path, reason });
        };
        files.push((number, path));
    }
    // Files with the same number keep the order of their names.
    files.sort_by_key(|(number, _)| *number);
    if files.is_empty() {
        return Err(Error::Invalid { path: directory.to_owned(), reason: "it contains no steps".to_owned() });
    }
    files.iter().map(|(_, path)| Step::open(path)).collect()
}

/// Returns the files of a directory in the order of their names, without hidden ones.
fn sorted_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |source| Error::Read { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_hidden && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

#[cfg(unix)]
fn is_executable(path: &Path) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;

    let metadata = fs::metadata(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    Ok(metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> Result<bool> {
    Ok(path.extension().is_some_and(|extension| extension == "exe"))
}

#[cfg(test)]
mod tests;
