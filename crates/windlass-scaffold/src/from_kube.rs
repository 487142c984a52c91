//! `windlass migrate --from kube`: moves a project from kube-rs to Windlass.
//!
//! ```text
//! sources      the project's Rust files, parsed
//! names        resolves paths with the imports of their file
//! kinds        `#[derive(kube::CustomResource)]` → a struct with `#[derive(windlass::CustomResource)]`
//! attributes   `#[kube(…)]` → `#[resource(…)]`, `#[schemars(…)]` → `#[schema(…)]`
//! controllers  `Controller::new(…)….run(…)` → a manager with a controller
//! imports      `use kube::…`
//! manifest     the dependencies in Cargo.toml
//! leftovers    what remains, with its line and the next step
//! edits        replacements of byte ranges, which keep all other text
//! ```
//!
//! A construct is rewritten completely or not at all. What remains works beside the rewritten parts: the types are
//! resources of both libraries, and kube-rs clients stay. An exception are controllers: the `Action` of their reconcilers
//! is a type of one library, so all controllers of a project are rewritten, or none.

mod attributes;
mod controllers;
mod edits;
mod imports;
mod kinds;
mod leftovers;
mod manifest;
mod names;
mod sources;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::{Changes, Error, Overwrite, Windlass, format::as_formatted};
use edits::Edits;
use sources::Source;

/// The command `windlass migrate --from kube`.
#[derive(Clone, Debug, Default)]
#[must_use = "a command does nothing until it is planned"]
pub struct FromKube {
    windlass: Windlass,
}

/// The planned migration of a project.
#[derive(Debug)]
#[must_use = "nothing is written before `Changes::write`"]
pub struct Migration {
    /// The changes to the project.
    pub changes: Changes,
    /// The places that are left, ordered by file and line.
    pub left: Vec<Leftover>,
}

/// A place that the migration does not change, or that should be reviewed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// The file, relative to the project.
    pub path: PathBuf,
    /// The line before the migration, starting at 1.
    pub line: usize,
    /// The construct.
    pub construct: String,
    /// The next step.
    pub advice: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path.display(), self.line, self.construct, self.advice)
    }
}

/// The state that all steps share.
#[derive(Debug, Default)]
struct Steps {
    /// The kinds whose derive is rewritten.
    kinds: Vec<String>,
    /// `true` if schemas of schemars remain beside those of Windlass.
    keeps_schemars: bool,
    /// `true` if the controllers are rewritten.
    controllers: bool,
    left: Vec<Leftover>,
}

impl Steps {
    fn leave(&mut self, source: &Source, line: usize, construct: impl Into<String>, advice: impl Into<String>) {
        let (construct, advice) = (construct.into(), advice.into());
        self.left.push(Leftover { path: source.path.clone(), line, construct, advice });
    }
}

impl FromKube {
    /// Sets the source of Windlass in Cargo.toml.
    pub fn windlass(mut self, windlass: Windlass) -> Self {
        self.windlass = windlass;
        self
    }

    /// Computes the changes to the project in `folder`, which contains its Cargo.toml.
    pub fn plan(&self, folder: &Path) -> Result<Migration, Error> {
        let mut changes = Changes::of(folder, Overwrite::Force);
        let sources = sources::read(folder)?;
        let mut steps = Steps::default();
        let mut edits: Vec<Edits> = sources.iter().map(|_| Edits::default()).collect();
        kinds::rewrite(&sources, &mut edits, &mut steps);
        controllers::rewrite(&sources, &mut edits, &mut steps);
        let mut texts = Vec::new();
        for (source, edits) in sources.iter().zip(edits) {
            leftovers::find(source, &edits, &mut steps);
            let after = edits.apply(&source.text);
            texts.push(imports::rewritten(&source.path, &source.text, &after, &steps)?);
        }
        manifest::rewrite(&mut changes, &self.windlass, &texts, &mut steps)?;
        for (source, text) in sources.iter().zip(texts) {
            if text != source.text {
                changes.set(source.path.clone(), as_formatted(&source.text, text))?;
            }
        }
        steps.left.sort();
        steps.left.dedup();
        Ok(Migration { changes, left: steps.left })
    }
}
