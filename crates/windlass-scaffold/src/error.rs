//! What goes wrong.

use std::{io, path::PathBuf};

/// Why a command did nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that Kubernetes, or cargo, would not take.
    #[error("{what} {name:?}: expected {expected}")]
    Name {
        /// Of what.
        what: &'static str,
        /// As it was given.
        name: String,
        /// What would do.
        expected: &'static str,
    },
    /// The folder holds a project already.
    #[error("{}: the project {project} is initialised already; --force writes its files anew", path.display())]
    Initialised {
        /// The PROJECT file.
        path: PathBuf,
        /// Its name.
        project: String,
    },
    /// There is no project here.
    #[error("{}: there is no such file; `windlass init --domain …` makes a project", .0.display())]
    NoProject(PathBuf),
    /// The PROJECT file is not one that windlass writes.
    #[error("reading {}", path.display())]
    Project {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is asked for is there.
    #[error("{0}: there already; --force writes its files anew")]
    Exists(String),
    /// What is asked for needs something else first.
    #[error("{what}: {needs}")]
    Needs {
        /// What is asked for.
        what: String,
        /// What it needs.
        needs: String,
    },
    /// Files that would be overwritten.
    #[error("these files are there already, and would be overwritten (--force does it): {}", names(.0))]
    InTheWay(Vec<PathBuf>),
    /// A file of Rust that is none.
    #[error("{}, line {line}: this is not Rust", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From 1 on.
        line: usize,
        /// The parser's words.
        source: syn::Error,
    },
    /// A file of YAML that is none.
    #[error("reading {}", path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file of TOML that is none.
    #[error("reading {}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// The parser's words.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A folder that is not Windlass' repository.
    #[error("{}: this is not the Cargo.toml of the crate windlass; --windlass-path names the folder of Windlass' repository, with crates/windlass in it", manifest.display())]
    NoWindlass {
        /// What was looked for.
        manifest: PathBuf,
    },
    /// There is no place in a file for what would be added.
    #[error("{}: there is no {missing}, where `{addition}` belongs; add it by hand where it fits", path.display())]
    NoPlace {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        missing: String,
        /// What would be added.
        addition: String,
    },
    /// A file cannot be read or written.
    #[error("{doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// A template is wrong: a bug of this crate.
    #[error("the template of {name}")]
    Template {
        /// Of which file.
        name: String,
        /// What is wrong with it.
        source: minijinja::Error,
    },
}

fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
