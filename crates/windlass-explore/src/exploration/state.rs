//! The file of finished runs, from which an interrupted exploration continues.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Entry;
use crate::{
    error::{Error, Result},
    findings::Finding,
    plan::Plan,
};

const FILE: &str = "plans.jsonl";

/// A finished run with a fault or a mutation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finished {
    pub(super) plan: Plan,
    /// `true` if a run with the same plan had findings before.
    pub(super) is_replay: bool,
    /// `true` if the fault struck, or if the mutation was made.
    pub(super) is_reached: bool,
    /// The error of the server or of an admission webhook that rejected the mutation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rejected: Option<String>,
    pub(super) findings: Vec<Finding>,
    /// The event log; empty without findings.
    pub(super) timeline: Vec<Entry>,
}

/// The file. Each line is a finished run.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    file: File,
    scenario: String,
    /// The runs that earlier explorations have finished.
    pub(super) finished: Vec<Finished>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line<F> {
    /// The digest of the scenario.
    scenario: String,
    #[serde(flatten)]
    finished: F,
}

impl StateFile {
    /// Opens the file in a directory, with the finished runs of the scenario.
    pub(super) fn open(directory: &Path, scenario: &str) -> Result<Self> {
        fs::create_dir_all(directory).map_err(|source| error(directory, source))?;
        let path = directory.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(error(&path, source)),
        };
        // The last line is incomplete if the exploration was killed while it wrote. Its plan runs again.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line<Finished>>(line).ok());
        let finished = lines.filter(|line| line.scenario == scenario).map(|line| line.finished).collect();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.map_err(|source| error(&path, source))?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").map_err(|source| error(&path, source))?;
        }
        Ok(Self { path, file, scenario: scenario.to_owned(), finished })
    }

    /// Appends a finished run.
    pub(super) fn append(&mut self, finished: &Finished) -> Result<()> {
        let line = Line { scenario: self.scenario.clone(), finished };
        let mut line = serde_json::to_string(&line).expect("all keys of a finding are strings");
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|source| error(&self.path, source))
    }
}

fn error(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(plan: &str) -> Finished {
        Finished {
            plan: plan.parse().unwrap(),
            is_replay: false,
            is_reached: true,
            rejected: None,
            findings: vec![
                Finding::NotSettled { step: 1 },
                Finding::Number { object: "pods/a/b-*".parse().unwrap(), expected: 1..=2, found: 3 },
            ],
            timeline: Vec::new(),
        }
    }

    #[test]
    fn finished_runs_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("state");
        let mut file = StateFile::open(&directory, "abc").unwrap();
        assert!(file.finished.is_empty());
        let (one, other) = (finished("crash@1:create:pods/a/b"), finished("lag@1:create:pods/a/b"));
        file.append(&one).unwrap();
        // The process is killed while it writes a line.
        file.file.write_all(b"{\"scenario\":\"abc\",\"pl").unwrap();
        let mut file = StateFile::open(&directory, "abc").unwrap();
        assert_eq!(file.finished, std::slice::from_ref(&one));
        file.append(&other).unwrap();
        assert_eq!(StateFile::open(&directory, "abc").unwrap().finished, [one, other]);
        assert!(StateFile::open(&directory, "def").unwrap().finished.is_empty(), "the scenario has changed");
    }
}
